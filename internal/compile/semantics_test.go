package compile

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/query"

	_ "github.com/hare-go/hare/backends/sqlite" // the database that says what the statements mean

	"github.com/hare-go/hare/internal/schema"
)

// rule is a predicate and what it means, in Go. A predicate that says nothing has no meaning.
type rule struct {
	p     query.Predicate
	keeps func(a *Author) bool
}

// rules makes random rules on Author.
type rules struct{ *rand.Rand }

func (r rules) rule(depth int) rule {
	if depth == 0 {
		return r.lookup()
	}
	switch r.IntN(6) {
	case 0, 1:
		parts, meanings := r.parts(depth)
		if len(meanings) == 0 {
			return rule{p: query.And(parts...)}
		}
		return rule{query.And(parts...), func(a *Author) bool {
			return !slices.ContainsFunc(meanings, func(keeps func(*Author) bool) bool { return !keeps(a) })
		}}
	case 2, 3:
		parts, meanings := r.parts(depth)
		if len(meanings) == 0 && len(parts) > 0 {
			return rule{p: query.Or(parts...)}
		}
		return rule{query.Or(parts...), func(a *Author) bool {
			return slices.ContainsFunc(meanings, func(keeps func(*Author) bool) bool { return keeps(a) })
		}}
	case 4:
		part := r.rule(depth - 1)
		return rule{query.Not(part.p), not(part.keeps)}
	}
	return r.lookup()
}

func (r rules) parts(depth int) (parts []query.Predicate, meanings []func(a *Author) bool) {
	for range r.IntN(4) {
		part := r.rule(depth - 1)
		parts = append(parts, part.p)
		if part.keeps != nil {
			meanings = append(meanings, part.keeps)
		}
	}
	return parts, meanings
}

func not(keeps func(a *Author) bool) func(a *Author) bool {
	if keeps == nil {
		return nil
	}
	return func(a *Author) bool { return !keeps(a) }
}

// attribute is what a path reads; nil is NULL.
type attribute[T any] struct {
	path string
	get  func(a *Author) *T
}

var (
	integers = []attribute[int64]{
		{"id", func(a *Author) *int64 { return &a.ID }},
		{"age", func(a *Author) *int64 { return a.Age }},
		{"rank", func(a *Author) *int64 { n := int64(a.Rank); return &n }},
		{"boss", func(a *Author) *int64 { return a.BossID }},
		{"boss__age", func(a *Author) *int64 { return through(a.Boss, func(b *Author) *int64 { return b.Age }) }},
		{"boss__boss_id", func(a *Author) *int64 { return through(a.Boss, func(b *Author) *int64 { return b.BossID }) }},
		{"boss__boss__pk", func(a *Author) *int64 {
			return through(a.Boss, func(b *Author) *int64 { return through(b.Boss, func(b *Author) *int64 { return &b.ID }) })
		}},
	}
	texts = []attribute[string]{
		{"name", func(a *Author) *string { return &a.Name }},
		{"boss__name", func(a *Author) *string { return through(a.Boss, func(b *Author) *string { return &b.Name }) }},
	}
	someTexts = []string{"", "a", "A", "ab", "aB", "%", "a_", `\`, "[a", "é"}
)

func through[T any](boss *Author, get func(b *Author) *T) *T {
	if boss == nil {
		return nil
	}
	return get(boss)
}

func (r rules) lookup() rule {
	integer := func() int64 { return r.Int64N(5) }
	switch r.IntN(4) {
	case 0:
		return r.textLookup(pickFrom(r.Rand, texts...))
	case 1:
		return lookupRule(r, pickFrom(r.Rand, texts...), texts, func() string { return pickFrom(r.Rand, someTexts...) })
	case 2:
		return r.arithmetic(pickFrom(r.Rand, integers...), pickFrom(r.Rand, integers...), integer())
	}
	return lookupRule(r, pickFrom(r.Rand, integers...), integers, integer)
}

func (r rules) textLookup(of attribute[string]) rule {
	kind := r.IntN(7)
	text := pickFrom(r.Rand, someTexts...)
	lookup := []string{"contains", "startswith", "endswith", "iexact", "icontains", "istartswith", "iendswith"}[kind]
	matches := []func(s, text string) bool{
		strings.Contains, strings.HasPrefix, strings.HasSuffix,
		func(s, text string) bool { return s == text }, strings.Contains, strings.HasPrefix, strings.HasSuffix,
	}[kind]
	return rule{query.Q(of.path+"__"+lookup, text), func(a *Author) bool {
		switch s := of.get(a); {
		case s == nil:
			return false
		case kind >= 3:
			return matches(strings.ToUpper(*s), strings.ToUpper(text))
		default:
			return matches(*s, text)
		}
	}}
}

func (r rules) arithmetic(of, other attribute[int64], n int64) rule {
	return rule{query.Q(of.path+"__lt", query.F(other.path).Mul(2).Sub(n)), func(a *Author) bool {
		x, y := of.get(a), other.get(a)
		return x != nil && y != nil && *x < *y*2-n
	}}
}

func lookupRule[T cmp.Ordered](r rules, of attribute[T], others []attribute[T], value func() T) rule {
	v, w := value(), value()
	other := pickFrom(r.Rand, others...)
	list, withNull := []any{v, w}[:r.IntN(3)], r.IntN(2) == 0
	holds := func(x *T) bool {
		if x == nil {
			return withNull
		}
		return slices.Contains(list, any(*x))
	}
	elements := slices.Clone(list)
	if withNull {
		elements = slices.Insert(elements, r.IntN(len(elements)+1), any(nil))
	}
	is := func(test func(x T) bool) func(x *T) bool {
		return func(x *T) bool { return x != nil && test(*x) }
	}
	kinds := []struct {
		lookup string
		value  any
		test   func(x *T) bool
	}{
		{"", v, is(func(x T) bool { return x == v })},
		{"", nil, func(x *T) bool { return x == nil }},
		{"__exact", &v, is(func(x T) bool { return x == v })},
		{"__not", v, func(x *T) bool { return x == nil || *x != v }},
		{"__not", nil, func(x *T) bool { return x != nil }},
		{"__gt", v, is(func(x T) bool { return x > v })},
		{"__gte", v, is(func(x T) bool { return x >= v })},
		{"__lt", v, is(func(x T) bool { return x < v })},
		{"__lte", v, is(func(x T) bool { return x <= v })},
		{"__range", []T{v, w}, is(func(x T) bool { return x >= v && x <= w })},
		{"__range", []any{nil, w}, is(func(x T) bool { return x <= w })},
		{"__range", []any{v, nil}, is(func(x T) bool { return x >= v })},
		{"__range", []any{nil, nil}, is(func(T) bool { return true })},
		{"__isnull", true, func(x *T) bool { return x == nil }},
		{"__isnull", false, func(x *T) bool { return x != nil }},
		{"__in", elements, holds},
		{"__not_in", elements, func(x *T) bool { return !holds(x) }},
	}
	if kind := r.IntN(len(kinds) + 3); kind < len(kinds) {
		k := kinds[kind]
		return rule{query.Q(of.path+k.lookup, k.value), func(a *Author) bool { return k.test(of.get(a)) }}
	}
	beside := []struct {
		lookup string
		test   func(x, y *T) bool
	}{
		{"", func(x, y *T) bool { return x != nil && y != nil && *x == *y }},
		{"__gte", func(x, y *T) bool { return x != nil && y != nil && *x >= *y }},
		{"__not", func(x, y *T) bool { return (x == nil) != (y == nil) || x != nil && *x != *y }},
	}[r.IntN(3)]
	return rule{query.Q(of.path+beside.lookup, query.F(other.path)), func(a *Author) bool { return beside.test(of.get(a), other.get(a)) }}
}

// world is a database with authors, who are in memory too.
type world struct {
	compiler *Compiler
	table    *schema.Table
	conn     backend.Conn
	authors  []*Author
}

func newWorld(t *testing.T, r *rand.Rand) *world {
	t.Helper()
	driver, ok := backend.Lookup("sqlite")
	if !ok {
		t.Fatal("the backend is not registered")
	}
	db, err := driver.Open(backend.Config{Alias: "main", URL: "sqlite::memory:"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	conn, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Release)
	w := &world{compiler: New(db.Dialect(), db.Features(), "main"), table: table[Author](t), conn: conn}
	ddl, err := Tables(db.Dialect(), db.Features(), "main", []*schema.Table{w.table})
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range ddl {
		w.exec(t, statement, nil)
	}
	insert, err := w.compiler.Insert(w.table, Columns(w.table.Columns...), ColumnSet{})
	if err != nil {
		t.Fatal(err)
	}
	for id := range int64(40) {
		a := &Author{ID: id, Name: pickFrom(r, someTexts...) + pickFrom(r, someTexts...), Rank: r.Int32N(5), Active: r.IntN(2) == 0}
		if r.IntN(3) > 0 {
			age := r.Int64N(5)
			a.Age = &age
		}
		if id > 0 && r.IntN(3) > 0 {
			a.Boss = pickFrom(r, w.authors...)
			a.BossID = &a.Boss.ID
		}
		w.authors = append(w.authors, a)
		var args []any
		for _, c := range w.table.Columns {
			value, err := c.Read(backend.Pointer(a))
			if err != nil {
				t.Fatal(err)
			}
			args = append(args, value)
		}
		w.exec(t, insert.SQL, args)
	}
	return w
}

func (w *world) exec(t *testing.T, sql string, args []any) int64 {
	t.Helper()
	n, err := w.conn.Exec(t.Context(), backend.Call{SQL: sql, Args: args})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// first reads the first column of every row.
func (w *world) first(t *testing.T, s Statement, args []any, err error) []int64 {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := w.conn.Query(t.Context(), backend.Call{SQL: s.SQL, Args: args})
	if err != nil {
		t.Fatalf("%s: %v", s.SQL, err)
	}
	found := []int64{}
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, values[0].(int64))
	}
	if err := rows.Close(); err != nil {
		t.Fatalf("%s: %v", s.SQL, err)
	}
	return found
}

// ask runs a statement of the compiler and gives the first column of its rows.
func (w *world) ask(t *testing.T, statement func(q *Query) (Statement, []any, error), q *Query) []int64 {
	t.Helper()
	s, args, err := statement(q)
	return w.first(t, s, args, err)
}

// TestPredicatesKeepWhatTheyMean compares random predicates, as a filter and as an exclude, with their meaning.
func TestPredicatesKeepWhatTheyMean(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	w := newWorld(t, r)
	kept := 0
	for i := range 2000 {
		made := rules{r}.rule(i % 4)
		for _, exclude := range []bool{false, true} {
			n, err := Where(w.table, []query.Predicate{made.p}, exclude)
			if err != nil {
				t.Fatal(err)
			}
			if (n == nil) != (made.keeps == nil) {
				t.Fatalf("a condition that says nothing: %v, and it must be %v", n == nil, made.keeps == nil)
			}
			want := []int64{}
			for _, a := range w.authors {
				if made.keeps == nil || made.keeps(a) != exclude {
					want = append(want, a.ID)
				}
			}
			q := All(w.table)
			q.Where, q.Order = []*Node{n}, PrimaryKeyOrder(w.table)
			s, args, err := w.compiler.Select(&q)
			if diff := gocmp.Diff(want, w.first(t, s, args, err)); diff != "" {
				t.Fatalf("%s\n%v\n(-want +got):\n%s", s.SQL, args, diff)
			}
			if diff := gocmp.Diff([]int64{int64(len(want))}, w.ask(t, w.compiler.Count, &q)); diff != "" {
				t.Fatalf("the count of %s (-want +got):\n%s", s.SQL, diff)
			}
			if exists := len(w.ask(t, w.compiler.Exists, &q)) == 1; exists != (len(want) > 0) {
				t.Fatalf("exists is %t with %d rows: %s", exists, len(want), s.SQL)
			}
			kept += len(want)
		}
	}
	if all := 2 * 2000 * len(w.authors); kept < all/4 || kept > all*3/4 {
		t.Errorf("the predicates keep %d of %d rows, which tests little", kept, all)
	}
}

// TestWritesTakeTheRowsOfTheQuery: an update and a delete of a queryset, sliced and ordered or not, change exactly the
// rows that it would return.
func TestWritesTakeTheRowsOfTheQuery(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	w := newWorld(t, r)
	changed := All(w.table)
	changed.Where, changed.Order = []*Node{where(t, w.table, query.Q("name", "changed"))}, PrimaryKeyOrder(w.table)
	present := All(w.table)
	for range 500 {
		q := All(w.table)
		q.Where = []*Node{where(t, w.table, rules{r}.rule(2).p)}
		q.Order = append(order(t, w.table, pickFrom(r, "boss__rank", "-boss__boss__name", "rank", "-age")), PrimaryKeyOrder(w.table)...)
		if r.IntN(3) > 0 {
			q.Limit = r.IntN(8)
		}
		if r.IntN(3) == 0 {
			q.Offset = r.IntN(8)
		}
		want := slices.Sorted(slices.Values(w.ask(t, w.compiler.Select, &q)))

		w.undone(t, func() {
			s, args, err := w.compiler.Update(&q, set(t, w.table, query.Set("name", "changed")), noon)
			if err != nil {
				t.Fatal(err)
			}
			if n := w.exec(t, s.SQL, args); n != int64(len(want)) {
				t.Errorf("%d rows are updated, and there are %d: %s", n, len(want), s.SQL)
			}
			if diff := gocmp.Diff(want, w.ask(t, w.compiler.Select, &changed)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", s.SQL, diff)
			}
		})
		w.undone(t, func() {
			w.exec(t, `UPDATE "author" SET "boss_id" = NULL WHERE "boss_id" = "id"`, nil)
			s, args, err := w.compiler.Delete(&q)
			if err != nil {
				t.Fatal(err)
			}
			w.exec(t, s.SQL, args)
			left := w.ask(t, w.compiler.Select, &present)
			for _, a := range w.authors {
				deleted := slices.Contains(want, a.ID)
				for boss := a.Boss; boss != nil && !deleted; boss = boss.Boss { // ON DELETE CASCADE
					deleted = slices.Contains(want, boss.ID)
				}
				if deleted == slices.Contains(left, a.ID) {
					t.Errorf("author %d deleted: %t, and must be %t: %s", a.ID, !deleted, deleted, s.SQL)
				}
			}
		})
	}
}

// undone runs do in a transaction that is rolled back.
func (w *world) undone(t *testing.T, do func()) {
	t.Helper()
	if _, err := w.conn.Control(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	do()
	if _, err := w.conn.Control(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
}
