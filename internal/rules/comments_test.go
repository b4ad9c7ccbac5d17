package rules

import (
	"fmt"
	"go/ast"
)

// comments finds exported names without a comment: functions, methods of exported types and of interfaces, types,
// constants and variables. A comment on a group of constants or variables speaks for all of them.
func comments(f *file) (found []string) {
	if f.isTest() {
		return nil
	}
	report := func(node ast.Node, name string) {
		found = append(found, f.at(node, "%s has no comment", name))
	}
	for _, declaration := range f.syntax.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil {
				report(d, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				for _, name := range undocumented(d, spec) {
					report(spec, name)
				}
			}
		}
	}
	return found
}

// undocumented are the exported names of a specification that have no comment.
func undocumented(d *ast.GenDecl, spec ast.Spec) (names []string) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return nil
		}
		if s.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
			names = append(names, s.Name.Name)
		}
		if contract, ok := s.Type.(*ast.InterfaceType); ok {
			for _, method := range contract.Methods.List {
				if len(method.Names) == 1 && method.Names[0].IsExported() && method.Doc == nil && method.Comment == nil {
					names = append(names, s.Name.Name+"."+method.Names[0].Name)
				}
			}
		}
	case *ast.ValueSpec:
		if d.Doc != nil || s.Doc != nil || s.Comment != nil {
			return nil
		}
		for _, name := range s.Names {
			if name.IsExported() {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// exportedReceiver says whether a function is none of a type that nobody outside sees.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	for t := d.Recv.List[0].Type; ; {
		switch receiver := t.(type) {
		case *ast.StarExpr:
			t = receiver.X
		case *ast.IndexExpr:
			t = receiver.X
		case *ast.IndexListExpr:
			t = receiver.X
		case *ast.Ident:
			return receiver.IsExported()
		default:
			return true
		}
	}
}

// packageComments finds packages without a comment and packages with several.
func packageComments(files []*file) (found []string) {
	comments := map[string]int{}
	for _, f := range files {
		if f.isTest() {
			continue
		}
		if _, known := comments[f.folder()]; !known {
			comments[f.folder()] = 0
		}
		if f.syntax.Doc != nil {
			comments[f.folder()]++
		}
	}
	for _, f := range files {
		number, unreported := comments[f.folder()]
		delete(comments, f.folder())
		if unreported && number != 1 {
			found = append(found, fmt.Sprintf("%s: the package has %d comments", f.folder(), number))
		}
	}
	return found
}
