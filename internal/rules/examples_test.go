package rules

import (
	"go/ast"
	"path"
	"strings"
)

// shadowedContext finds functions of transactions, in what users copy, with which a write can leave the transaction unseen: each
// works with the transaction's ctx, by the name of the one outside.
func shadowedContext(f *file) (found []string) {
	if !f.in("examples") && !f.in("integration/chaos") && !strings.HasPrefix(path.Base(f.path), "example") {
		return nil
	}
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncLit:
			if handle := handleOf(n); handle != "" && !beginsWithContextOf(n, handle) {
				found = append(found, f.at(n, "the function does not begin with ctx := %s.Context()", handle))
			}
		case *ast.CallExpr:
			if called, ok := n.Fun.(*ast.SelectorExpr); ok && isName(called.X, "transactions") && called.Sel.Name == "Atomic" && len(n.Args) > 1 {
				fn, ok := n.Args[1].(*ast.FuncLit)
				if ok && len(fn.Type.Params.List[0].Names) == 1 && fn.Type.Params.List[0].Names[0].Name != "ctx" {
					found = append(found, f.at(fn, "the function's ctx does not shadow the one outside"))
				}
			}
		}
		return true
	})
	return found
}

// handleOf is the name of a function's one parameter where that is a *hare.Distributed, else empty.
func handleOf(fn *ast.FuncLit) string {
	parameters := fn.Type.Params.List
	if len(parameters) != 1 || len(parameters[0].Names) != 1 {
		return ""
	}
	pointer, ok := parameters[0].Type.(*ast.StarExpr)
	if !ok {
		return ""
	}
	if t, ok := pointer.X.(*ast.SelectorExpr); !ok || !isName(t.X, "hare") || t.Sel.Name != "Distributed" {
		return ""
	}
	return parameters[0].Names[0].Name
}

func beginsWithContextOf(fn *ast.FuncLit, handle string) bool {
	if len(fn.Body.List) == 0 {
		return false
	}
	assign, ok := fn.Body.List[0].(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 1 || len(assign.Rhs) != 1 || !isName(assign.Lhs[0], "ctx") {
		return false
	}
	call, ok := assign.Rhs[0].(*ast.CallExpr)
	if !ok {
		return false
	}
	called, ok := call.Fun.(*ast.SelectorExpr)
	return ok && isName(called.X, handle) && called.Sel.Name == "Context"
}

func isName(e ast.Expr, name string) bool {
	ident, ok := e.(*ast.Ident)
	return ok && ident.Name == name
}
