package rules

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// length finds files that are too long to be about one thing.
func length(f *file) []string {
	const most = 400
	if lines := strings.Count(f.source, "\n"); lines > most && !f.isTest() {
		return []string{f.at(f.syntax.Name, "%d lines, more than %d", lines, most)}
	}
	return nil
}

// packageName finds names that say nothing.
func packageName(f *file) []string {
	name := strings.TrimSuffix(f.syntax.Name.Name, "_test")
	if slices.Contains([]string{"util", "utils", "common", "base", "types", "helper", "helpers", "misc", "shared"}, name) {
		return []string{f.at(f.syntax.Name, "a package name that says nothing: %s", name)}
	}
	return nil
}

var sessionLock = regexp.MustCompile(`(?i)\bpg_(try_)?advisory_(un)?lock(_shared|_all)?\s*\(`)

// sessionLocks finds SQL with advisory locks of a session: behind a pooler the session is somebody else's a moment
// later, and the lock with it, and what unlocks it has no effect. Those of a transaction (pg_advisory_xact_lock) are right.
func sessionLocks(f *file) (found []string) {
	if f.isTest() {
		return nil // a test may hold one to stand in somebody's way, or to see that it is let go
	}
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		if text, ok := stringLiteral(node); ok && sessionLock.MatchString(text) {
			found = append(found, f.at(node, "an advisory lock of a session"))
		}
		return true
	})
	return found
}

// databaseNames finds decisions by a database's name, where the code should ask for a feature: comparisons and switches
// on a field Backend, or with a name. Backends know their names, and tests may assert them.
func databaseNames(f *file) (found []string) {
	if f.isTest() || f.in("backends") && !f.in("backends/backendtest") {
		return nil
	}
	names := []string{"postgres", "postgresql", "sqlite", "sqlite3", "clickhouse", "mysql", "mariadb", "oracle"}
	suspect := func(expressions ...ast.Expr) bool {
		return slices.ContainsFunc(expressions, func(e ast.Expr) bool {
			if selector, ok := e.(*ast.SelectorExpr); ok && selector.Sel.Name == "Backend" {
				return true
			}
			text, ok := stringLiteral(e)
			return ok && slices.Contains(names, strings.ToLower(text))
		})
	}
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && suspect(n.X, n.Y) {
				found = append(found, f.at(n, "a decision by a database's name"))
			}
		case *ast.SwitchStmt:
			if n.Tag != nil && suspect(n.Tag) {
				found = append(found, f.at(n, "a decision by a database's name"))
			}
		case *ast.CaseClause:
			if suspect(n.List...) {
				found = append(found, f.at(n, "a decision by a database's name"))
			}
		}
		return true
	})
	return found
}

// messageTexts finds decisions by what an error says: servers say it in other languages and, from release to release, in
// other words. SQLite has one language and too few codes.
func messageTexts(f *file) (found []string) {
	if f.isTest() || f.in("backends/sqlite") || f.in("backends/backendtest") {
		return nil
	}
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CallExpr:
			if function, ok := n.Fun.(*ast.SelectorExpr); ok && slices.ContainsFunc(n.Args, isMessage) {
				if pkg, ok := function.X.(*ast.Ident); ok && pkg.Name == "strings" && !strings.HasPrefix(function.Sel.Name, "To") {
					found = append(found, f.at(n, "a decision by the text of an error"))
				}
			}
		case *ast.BinaryExpr:
			text, literal := stringLiteral(n.Y)
			if (n.Op == token.EQL || n.Op == token.NEQ) && isMessage(n.X) && (!literal || text != "") {
				found = append(found, f.at(n, "a decision by the text of an error"))
			}
		}
		return true
	})
	return found
}

// isMessage says whether an expression is what an error says, folded or not.
func isMessage(e ast.Expr) bool {
	switch n := e.(type) {
	case *ast.SelectorExpr:
		return n.Sel.Name == "Message"
	case *ast.CallExpr:
		if function, ok := n.Fun.(*ast.SelectorExpr); ok && function.Sel.Name == "Error" && len(n.Args) == 0 {
			return true
		}
		return slices.ContainsFunc(n.Args, isMessage)
	}
	return false
}

// stringLiteral is the text of a literal.
func stringLiteral(node ast.Node) (string, bool) {
	literal, ok := node.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}
