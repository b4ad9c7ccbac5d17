package sqlite

import (
	"fmt"
	"math"
	"testing"

	"github.com/hare-go/hare/hare/backend"
)

// folds are the text comparisons that ignore case.
var folds = map[backend.TextMatch]backend.TextMatch{
	backend.MatchContains: backend.MatchContainsFold, backend.MatchStartsWith: backend.MatchStartsWithFold, backend.MatchEndsWith: backend.MatchEndsWithFold,
}

func TestMatch(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE t (s TEXT)")
	matches := func(match backend.TextMatch, text, look string) bool {
		t.Helper()
		exec(t, c, "DELETE FROM t")
		exec(t, c, "INSERT INTO t VALUES ($1)", text)
		d := dialect{}
		return value(t, c, "SELECT count(*) FROM t WHERE "+d.Match(match, `"s"`, "$1"), d.Pattern(match, look)) == int64(1)
	}
	const contains, starts, ends = backend.MatchContains, backend.MatchStartsWith, backend.MatchEndsWith
	for _, tt := range []struct {
		match      backend.TextMatch
		text, look string
		want, fold bool
	}{
		{contains, "abc", "b", true, true},
		{contains, "abc", "B", false, true},
		{contains, "abc", "", true, true},
		{contains, "", "", true, true},
		{contains, "", "a", false, false},
		{contains, "100%", "0%", true, true},
		{contains, "100 percent", "0%", false, false},
		{contains, "a_b", "a_", true, true},
		{contains, "axb", "a_", false, false},
		{contains, `a\b`, `\b`, true, true},
		{contains, "a*b?[c]", "*b?[", true, true},
		{contains, "Grüße aus Köln", "ÜSSE", false, false},
		{contains, "Grüße aus Köln", "ÜßE", false, true},
		{contains, "Grüße aus Köln", "köl", false, true},
		{contains, "ΟΔΟΣ", "οδος", false, true},
		{contains, "ΟΔΟΣ", "οδοσ", false, true},
		{contains, "世界🐇", "界🐇", true, true},
		{contains, "ДА", "да", false, true},
		{starts, "abc", "ab", true, true},
		{starts, "abc", "AB", false, true},
		{starts, "abc", "bc", false, false},
		{starts, "abc", "", true, true},
		{starts, "abc", "abc", true, true},
		{starts, "abc", "abcd", false, false},
		{starts, "%abc", "%", true, true},
		{starts, "abc", "%", false, false},
		{starts, "Über", "ü", false, true},
		{ends, "abc", "bc", true, true},
		{ends, "abc", "BC", false, true},
		{ends, "abc", "ab", false, false},
		{ends, "abc", "", true, true},
		{ends, "", "", true, true},
		{ends, "abc", "abc", true, true},
		{ends, "abc", "xabc", false, false},
		{ends, "abc", "xyabc", false, false},
		{ends, "aab", "ab", true, true},
		{ends, "abc_", "_", true, true},
		{ends, "abc", "_", false, false},
		{ends, "Menü", "Ü", false, true},
	} {
		if got := matches(tt.match, tt.text, tt.look); got != tt.want {
			t.Errorf("%d: %q with %q is %v, want %v", tt.match, tt.text, tt.look, got, tt.want)
		}
		if got := matches(folds[tt.match], tt.text, tt.look); got != tt.fold {
			t.Errorf("%d: %q with %q is %v, want %v", folds[tt.match], tt.text, tt.look, got, tt.fold)
		}
	}
	for _, tt := range []struct {
		text, look string
		want       bool
	}{{"Abc", "aBC", true}, {"abc", "ab", false}, {"100%", "100_", false}, {"ÄÖÜß", "äöüß", true}, {"straße", "STRASSE", false}, {"", "", true}} {
		if got := matches(backend.MatchExactFold, tt.text, tt.look); got != tt.want {
			t.Errorf("%q and %q are equal: %v, want %v", tt.text, tt.look, got, tt.want)
		}
	}
	exec(t, c, "UPDATE t SET s = NULL")
	for match := backend.MatchContains; match <= backend.MatchEndsWithFold; match++ {
		equal(t, "NULL", any(nil), value(t, c, "SELECT "+dialect{}.Match(match, "s", "$1")+" FROM t", "a"))
	}
}

func TestIntegers(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	const low, high = int64(math.MinInt64), int64(math.MaxInt64)
	for _, tt := range []struct {
		left  int64
		op    string
		right int64
		kind  backend.Kind
		want  any // or an SQLSTATE
	}{
		{2, "+", 3, backend.KindInt64, int64(5)}, {2, "-", 3, backend.KindInt64, int64(-1)}, {2, "*", -3, backend.KindInt64, int64(-6)},
		{7, "/", 2, backend.KindInt64, int64(3)}, {-7, "/", 2, backend.KindInt64, int64(-3)}, {7, "/", -2, backend.KindInt64, int64(-3)},
		{7, "%", 2, backend.KindInt64, int64(1)}, {-7, "%", 2, backend.KindInt64, int64(-1)}, {7, "%", -2, backend.KindInt64, int64(1)},
		{7, "/", 0, backend.KindInt64, "22012"}, {7, "%", 0, backend.KindInt64, "22012"},
		{high, "+", 1, backend.KindInt64, "22003"}, {low, "+", -1, backend.KindInt64, "22003"}, {high, "+", 0, backend.KindInt64, high}, {low, "+", high, backend.KindInt64, int64(-1)},
		{low, "-", 1, backend.KindInt64, "22003"}, {0, "-", low, backend.KindInt64, "22003"}, {-1, "-", low, backend.KindInt64, high}, {low, "-", 0, backend.KindInt64, low},
		{high, "*", 2, backend.KindInt64, "22003"}, {low, "*", -1, backend.KindInt64, "22003"}, {-1, "*", low, backend.KindInt64, "22003"}, {low, "*", 1, backend.KindInt64, low},
		{low, "*", 0, backend.KindInt64, int64(0)}, {1 << 32, "*", 1 << 31, backend.KindInt64, "22003"}, {1 << 32, "*", -(1 << 31), backend.KindInt64, low},
		{low, "/", -1, backend.KindInt64, "22003"}, {low, "%", -1, backend.KindInt64, int64(0)},
		{32767, "+", 1, backend.KindInt16, "22003"}, {32767, "+", 0, backend.KindInt16, int64(32767)}, {-32768, "-", 1, backend.KindInt16, "22003"},
		{math.MaxInt32, "+", 1, backend.KindInt32, "22003"}, {math.MaxInt32, "+", 1, backend.KindInt64, int64(math.MaxInt32 + 1)},
	} {
		sql := "SELECT " + dialect{}.Compute(tt.op, backend.ColumnType{Kind: tt.kind}, "$1", "$2")
		name := fmt.Sprint(tt.left, tt.op, tt.right, " of kind ", tt.kind)
		rows, err := c.Query(t.Context(), backend.Call{SQL: sql, Args: []any{tt.left, tt.right}})
		if state, ok := tt.want.(string); ok {
			t.Run(name, func(t *testing.T) { failed(t, err, backend.ClassOther, state) })
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		equal(t, name, [][]any{{tt.want}}, drain(t, rows))
	}
}

func TestFloats(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	for _, tt := range []struct {
		left  any
		op    string
		right any
		want  any // or an SQLSTATE
	}{
		{1.5, "+", 2.0, 3.5}, {1.5, "-", int64(2), -0.5}, {1.5, "*", backend.Decimal("2.00"), 3.0}, {int64(7), "/", 2.0, 3.5}, {7.5, "%", 2.0, 1.5},
		{1.0, "/", 0.0, "22012"}, {1.0, "%", 0.0, "22012"}, {math.MaxFloat64, "*", 2.0, "22003"}, {1e-300, "*", 1e-300, "22003"}, {1e-300, "/", 1e300, "22003"},
		{math.Inf(1), "+", 1.0, math.Inf(1)}, {math.Inf(1), "-", math.Inf(1), "22003"}, {0.0, "*", 5.0, 0.0}, {nil, "+", 1.0, nil}, {1.0, "+", nil, nil},
	} {
		sql := "SELECT " + dialect{}.Compute(tt.op, backend.ColumnType{Kind: backend.KindFloat}, "$1", "$2")
		rows, err := c.Query(t.Context(), backend.Call{SQL: sql, Args: []any{tt.left, tt.right}})
		if state, ok := tt.want.(string); ok {
			t.Run(fmt.Sprint(tt.left, tt.op, tt.right), func(t *testing.T) { failed(t, err, backend.ClassOther, state) })
			continue
		}
		if err != nil {
			t.Errorf("%v %s %v: %v", tt.left, tt.op, tt.right, err)
			continue
		}
		equal(t, fmt.Sprint(tt.left, tt.op, tt.right), [][]any{{tt.want}}, drain(t, rows))
	}
}

// TestComputeInAnUpdate: arithmetic in a statement that writes fails as a whole, and rolls nothing else back.
func TestComputeInAnUpdate(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE t (n SMALLINT)")
	exec(t, c, "INSERT INTO t VALUES (1), (32767)")
	control(t, c, "BEGIN IMMEDIATE")
	set := "UPDATE t SET n = " + dialect{}.Compute("+", backend.ColumnType{Kind: backend.KindInt16}, "n", "$1")
	_, err := c.Exec(t.Context(), backend.Call{SQL: set, Args: []any{int64(1)}})
	failed(t, err, backend.ClassOther, "22003")
	equal(t, "written", int64(2), exec(t, c, set, int64(-1)))
	control(t, c, "COMMIT")
	equal(t, "rows", [][]any{{int64(0)}, {int64(32766)}}, table(t, c, "SELECT n FROM t ORDER BY n"))
	// The error of one call is not that of the next.
	_, err = c.Exec(t.Context(), backend.Call{SQL: "SELEC"})
	failed(t, err, backend.ClassOther, "42601")
}

func TestGeneratedKey(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	clause, inline := dialect{}.GeneratedKey(backend.ColumnType{Kind: backend.KindInt64})
	equal(t, "inline", true, inline)
	exec(t, c, "CREATE TABLE t (id "+clause+", a INT)")
	equal(t, "first", any(int64(1)), value(t, c, "INSERT INTO t (a) VALUES (1) RETURNING id"))
	exec(t, c, "DELETE FROM t")
	equal(t, "never again", any(int64(2)), value(t, c, "INSERT INTO t (a) VALUES (1) RETURNING id"))
	equal(t, "default values", any(int64(3)), value(t, c, "INSERT INTO t DEFAULT VALUES RETURNING id"))
}

func TestLimit(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE t (a); INSERT INTO t VALUES (1), (2), (3)")
	d := dialect{}
	equal(t, "none", "", d.Limit("", ""))
	equal(t, "limit", [][]any{{int64(1)}}, table(t, c, "SELECT a FROM t ORDER BY a "+d.Limit("$1", ""), int64(1)))
	equal(t, "offset", [][]any{{int64(3)}}, table(t, c, "SELECT a FROM t ORDER BY a "+d.Limit("", "$1"), int64(2)))
	equal(t, "both", [][]any{{int64(2)}}, table(t, c, "SELECT a FROM t ORDER BY a "+d.Limit("$1", "$2"), int64(1), int64(1)))
}

func TestFragments(t *testing.T) {
	d := dialect{}
	equal(t, "argument", "$1", d.Argument(backend.ColumnType{Kind: backend.KindInt64}, "$1"))
	equal(t, "schema lock", "", d.SchemaLock())
	if _, ok := d.Rows([]backend.ColumnType{{Kind: backend.KindInt64}}, []string{"$1"}); ok {
		t.Error("Rows has a form, want none")
	}
	equal(t, "begin", []string{"BEGIN IMMEDIATE"}, d.Begin(backend.TxOptions{Isolation: "serializable", StatementTimeoutMS: 5}))
	equal(t, "begin read-only", []string{"PRAGMA busy_timeout=2147483647", "BEGIN", "PRAGMA query_only=ON"},
		d.Begin(backend.TxOptions{ReadOnly: true, LockTimeoutMS: math.MaxInt64}))
}
