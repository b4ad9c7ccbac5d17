package rules

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rules are the rules that look at one file, by the name of their test.
var rules = map[string]func(*file) []string{
	"imports":        imports,
	"comments":       comments,
	"length":         length,
	"package name":   packageName,
	"session locks":  sessionLocks,
	"database names": databaseNames,
	"message texts":  messageTexts,
	"shadowed ctx":   shadowedContext,
}

// Nobody decides by what an error says, for one: servers speak other languages.
//
// W22.
func TestRepository(t *testing.T) {
	files := repository(t)
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			for _, f := range files {
				for _, violation := range rule(f) {
					t.Error(violation)
				}
			}
		})
	}
	t.Run("package comments", func(t *testing.T) {
		for _, violation := range packageComments(files) {
			t.Error(violation)
		}
	})
}

// TestRulesSee shows that each rule finds what it is for, and nothing else.
func TestRulesSee(t *testing.T) {
	tests := []struct {
		rule, name, path, source string
		want                     []string
	}{
		{"imports", "the allowed", "internal/compile/x.go",
			`package x; import ("fmt"; "github.com/Masterminds/squirrel"; "github.com/hare-go/hare/query")`, nil},
		{"imports", "upwards", "query/x.go", `package x; import "github.com/hare-go/hare/hare"`,
			[]string{"query/x.go:1: query may not import hare"}},
		{"imports", "a package below an allowed one", "transactions/x.go",
			`package x; import "github.com/hare-go/hare/hare/other"`,
			[]string{"transactions/x.go:1: transactions may not import hare/other"}},
		{"imports", "squirrel elsewhere", "hare/x.go", `package x; import "github.com/Masterminds/squirrel"`,
			[]string{"hare/x.go:1: hare may not import github.com/Masterminds/squirrel"}},
		{"imports", "squirrel in a test", "hare/x_test.go", `package x; import "github.com/Masterminds/squirrel"`,
			[]string{"hare/x_test.go:1: only internal/compile imports squirrel"}},
		{"imports", "pgx elsewhere", "hare/x.go", `package x; import "github.com/jackc/pgx/v5/pgconn"`,
			[]string{"hare/x.go:1: hare may not import github.com/jackc/pgx/v5/pgconn"}},
		{"imports", "pgx in its backend", "backends/postgres/x.go", `package x; import "github.com/jackc/pgx/v5/pgconn"`, nil},
		{"imports", "pgx in a test", "hare/x_test.go", `package x; import "github.com/jackc/pgx/v5"`, nil},
		{"imports", "a folder nobody knows", "other/x.go", `package x; import "github.com/hare-go/hare/hare"`,
			[]string{"other/x.go:1: other may not import hare"}},

		{"comments", "none", "x/x.go", "package x\nfunc F() {}\ntype T int\nfunc (t *T) M() {}\nvar V, w int\nconst C = 1",
			[]string{"x/x.go:2: F has no comment", "x/x.go:3: T has no comment", "x/x.go:4: M has no comment",
				"x/x.go:5: V has no comment", "x/x.go:6: C has no comment"}},
		{"comments", "a generic type and an interface", "x/x.go",
			"package x\n// T is.\ntype T[A any] int\nfunc (t T[A]) M() {}\n// I is.\ntype I interface { N() }",
			[]string{"x/x.go:4: M has no comment", "x/x.go:6: I.N has no comment"}},
		{"comments", "a group of types needs one each", "x/x.go", "package x\n// All.\ntype (\nA int\n// B is.\nB int\n)",
			[]string{"x/x.go:4: A has no comment"}},
		{"comments", "there, or needless", "x/x.go",
			"package x\n// All.\nconst (\nA = 1\nB = 2\n)\nvar (\nC = 1 // C is.\n)\nfunc f() {}\ntype t int\nfunc (t) M() {}", nil},
		{"comments", "a test", "x/x_test.go", "package x\nfunc F() {}", nil},

		{"length", "400 lines", "x/x.go", "package x" + strings.Repeat("\n", 400), nil},
		{"length", "401 lines", "x/x.go", "package x" + strings.Repeat("\n", 401),
			[]string{"x/x.go:1: 401 lines, more than 400"}},
		{"length", "a test", "x/x_test.go", "package x" + strings.Repeat("\n", 401), nil},

		{"package name", "util", "util/x.go", "package util", []string{"util/x.go:1: a package name that says nothing: util"}},
		{"package name", "a noun", "leases/x.go", "package leases_test", nil},

		{"session locks", "two", "x/x.go", "package x\nvar a = `SELECT pg_try_advisory_lock(1)`\nvar b = \"PG_ADVISORY_LOCK_SHARED (1)\"",
			[]string{"x/x.go:2: an advisory lock of a session", "x/x.go:3: an advisory lock of a session"}},
		{"session locks", "their ends", "x/x.go", "package x\nvar a = `SELECT pg_advisory_unlock(1)`\nvar b = `SELECT pg_advisory_unlock_all()`\nvar c = `SELECT pg_advisory_unlock_shared(1)`",
			[]string{"x/x.go:2: an advisory lock of a session", "x/x.go:3: an advisory lock of a session", "x/x.go:4: an advisory lock of a session"}},
		{"session locks", "of a transaction, in a comment, and in an integration test", "x/x.go",
			"package x // pg_advisory_lock(1)\nvar a = `SELECT pg_advisory_xact_lock(1), pg_try_advisory_xact_lock(1)`", nil},
		{"session locks", "a test", "x/x_test.go", "package x; var a = `SELECT pg_advisory_lock(1)`", nil},

		{"database names", "a comparison of the field", "x/x.go", "package x\nvar a = f.Backend == b",
			[]string{"x/x.go:2: a decision by a database's name"}},
		{"database names", "a comparison with a name", "backends/backendtest/x.go", "package x\nvar a = \"sqlite\" != b",
			[]string{"backends/backendtest/x.go:2: a decision by a database's name"}},
		{"database names", "switches", "x/x.go", "package x\nfunc f() {\nswitch f.Backend {\n}\nswitch a {\ncase \"x\", \"PostgreSQL\":\n}\n}",
			[]string{"x/x.go:3: a decision by a database's name", "x/x.go:6: a decision by a database's name"}},
		{"database names", "an assertion", "x/x_test.go", "package x\nvar a = b.Backend == \"sqlite\"", nil},
		{"database names", "a backend knows its name", "backends/sqlite/x.go", "package x\nvar a = b == \"sqlite\"", nil},
		{"message texts", "of an error, and of a server's answer", "x/x.go",
			"package x\nvar a = strings.Contains(err.Error(), \"x\")\nvar b = strings.HasPrefix(strings.ToLower(e.Message), y)\nvar c = e.Message == \"x\"",
			[]string{"x/x.go:2: a decision by the text of an error", "x/x.go:3: a decision by the text of an error", "x/x.go:4: a decision by the text of an error"}},
		{"message texts", "in a test, in the suite of the backends, of the one language of SQLite, and empty", "x/x.go",
			"package x\nvar a = e.Message == \"\" || strings.Contains(sql, \"x\")\nvar b = e.Message + err.Error()", nil},
		{"message texts", "SQLite's", "backends/sqlite/x.go", "package x\nvar a = e.Message == \"x\"", nil},

		{"shadowed ctx", "in an example", "examples/x/x.go", "package x\nvar a = func(d *hare.Distributed) error {\nreturn nil\n}\nvar b = transactions.Atomic(ctx, func(tx context.Context) error { return nil })",
			[]string{"examples/x/x.go:2: the function does not begin with ctx := d.Context()", "examples/x/x.go:5: the function's ctx does not shadow the one outside"}},
		{"shadowed ctx", "as it should be", "x/example_test.go", "package x\nvar a = func(handle *hare.Distributed) error {\nctx := handle.Context() // so\nreturn nil\n}\nvar b = transactions.Atomic(ctx, func(ctx context.Context) error { return nil })\nvar c = transactions.Atomic(ctx, func(context.Context) error { return nil })", nil},
		{"shadowed ctx", "elsewhere", "x/x.go", "package x\nvar a = func(d *hare.Distributed) error {\nreturn nil\n}", nil},
		{"database names", "a name in a message", "x/x.go", "package x\nvar a = \"sqlite\" + f.Backend", nil},
	}
	for _, test := range tests {
		t.Run(test.rule+"/"+test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, rules[test.rule](parse(t, test.path, test.source))); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPackageCommentsAreCounted(t *testing.T) {
	files := []*file{
		parse(t, "none/x.go", "package x"),
		parse(t, "one/x.go", "// Package x is.\npackage x"),
		parse(t, "one/y.go", "package x"),
		parse(t, "two/x.go", "// Package x is.\npackage x"),
		parse(t, "two/y.go", "// Package x is.\npackage x"),
		parse(t, "tests/x_test.go", "package x"),
	}
	want := []string{"none: the package has 0 comments", "two: the package has 2 comments"}
	if diff := cmp.Diff(want, packageComments(files)); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}
