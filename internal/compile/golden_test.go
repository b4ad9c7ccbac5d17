package compile

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/query"

	"github.com/hare-go/hare/internal/schema"
)

var update = flag.Bool("update", false, "write testdata/*.golden anew")

var noon = time.Date(2024, 5, 17, 12, 0, 0, 123456789, time.UTC)

// statement is a case of the golden files: what a compiler makes.
type statement struct {
	name string
	make func(tb testing.TB, c *Compiler) (Statement, []any, error)
}

func TestGolden(t *testing.T) {
	for name, compiler := range map[string]func() *Compiler{"arrays": arraysCompiler, "plainer": plainerCompiler} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			for _, s := range statements() {
				fmt.Fprintf(&text, "# %s\n", s.name)
				made, args, err := s.make(t, compiler())
				if err != nil {
					fmt.Fprintf(&text, "error: %v\n\n", err)
					continue
				}
				fmt.Fprintf(&text, "%s\n", made.SQL)
				for i, arg := range args {
					fmt.Fprintf(&text, "  $%d = %s\n", i+1, show(arg))
				}
				text.WriteByte('\n')
			}
			path := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text.String()); diff != "" {
				t.Errorf("the statements differ from %s (-want +got):\n%s", path, diff)
			}
		})
	}
}

func statements() []statement {
	all := selects()
	all = append(all, conditions()...)
	all = append(all, writes()...)
	return append(all, rowStatements()...)
}

// reads is a case that selects with a query.
func reads[T any](name string, build func(tb testing.TB, t *schema.Table, q *Query)) statement {
	return statement{name, func(tb testing.TB, c *Compiler) (Statement, []any, error) {
		q := All(table[T](tb))
		build(tb, q.Table, &q)
		return c.Select(context.Background(), &q)
	}}
}

// answers is reads for another statement than a select.
func answers[T any](name string, run func(c *Compiler, ctx context.Context, q *Query) (Statement, []any, error),
	build func(tb testing.TB, t *schema.Table, q *Query)) statement {
	return statement{name, func(tb testing.TB, c *Compiler) (Statement, []any, error) {
		q := All(table[T](tb))
		build(tb, q.Table, &q)
		return run(c, context.Background(), &q)
	}}
}

func everything(testing.TB, *schema.Table, *Query) {}

func slice(limit, offset int) func(testing.TB, *schema.Table, *Query) {
	return func(_ testing.TB, _ *schema.Table, q *Query) { q.Limit, q.Offset = limit, offset }
}

func selects() []statement {
	busy := func(tb testing.TB, t *schema.Table, q *Query) {
		q.Where = []*Node{where(tb, t, query.Q("rank__gt", 3))}
		q.Order = order(tb, t, "-rank", "name")
		q.Limit, q.Offset = 10, 20
	}
	return []statement{
		reads[Author]("select everything", everything),
		reads[Author]("select ordered and sliced", busy),
		reads[Author]("select with a limit", slice(5, Unlimited)),
		reads[Author]("select with an offset", slice(Unlimited, 5)),
		reads[Author]("select no row", slice(0, 0)),
		reads[Author]("select with two conditions and one that says nothing", func(tb testing.TB, t *schema.Table, q *Query) {
			q.Where = []*Node{where(tb, t, query.Q("name", "Ann")), where(tb, t), where(tb, t, query.Q("active", true))}
		}),
		reads[Author]("order with the places of NULL", func(tb testing.TB, t *schema.Table, q *Query) {
			q.Order = order(tb, t, query.Asc("age").NullsFirst(), query.Desc("rank").NullsLast(), query.Desc("name"))
		}),
		reads[Author]("order reversed", func(tb testing.TB, t *schema.Table, q *Query) {
			q.Order = Reverse(order(tb, t, query.Asc("age").NullsFirst(), query.Desc("rank").NullsLast(), "-name", "active"))
		}),
		reads[Book]("order over relations", func(tb testing.TB, t *schema.Table, q *Query) {
			q.Order = order(tb, t, "author__boss__name", "-author__name", "author")
		}),
		reads[Pair]("order by a key of several columns", func(tb testing.TB, t *schema.Table, q *Query) {
			q.Order = order(tb, t, "-pk")
		}),
		reads[Pair]("primary key order", func(_ testing.TB, t *schema.Table, q *Query) { q.Order = PrimaryKeyOrder(t) }),
		reads[Child]("order by a relation of several columns", func(tb testing.TB, t *schema.Table, q *Query) {
			q.Order = order(tb, t, "pair", "pair__note")
		}),
		answers[Author]("count everything", (*Compiler).Count, everything),
		answers[Author]("count ordered and sliced", (*Compiler).Count, busy),
		answers[Book]("count over a relation", (*Compiler).Count, func(tb testing.TB, t *schema.Table, q *Query) {
			q.Where, q.Limit = []*Node{where(tb, t, query.Q("author__name", "Ann"))}, 3
		}),
		answers[Author]("exists", (*Compiler).Exists, everything),
		answers[Author]("exists ordered and sliced", (*Compiler).Exists, busy),
		answers[Author]("exists in no row", (*Compiler).Exists, slice(0, Unlimited)),
		answers[Author]("exists after an offset", (*Compiler).Exists, slice(Unlimited, 7)),
		{"negative limit", func(tb testing.TB, c *Compiler) (Statement, []any, error) {
			return c.Select(context.Background(), &Query{Table: table[Author](tb), Limit: -10, Offset: Unlimited})
		}},
	}
}

func conditions() []statement {
	title := "Go"
	cases := []struct {
		name string
		p    query.Predicate
	}{
		{"exact", query.Q("title", "Go")},
		{"exact, named, by pointer", query.Q("title__exact", &title)},
		{"exact nil", query.Q("subtitle", nil)},
		{"exact nil pointer", query.Q("subtitle", (*string)(nil))},
		{"not", query.Q("subtitle__not", "x")},
		{"not nil", query.Q("subtitle__not", nil)},
		{"comparisons", query.Q("pages__gt", 1, "pages__gte", 2, "pages__lt", 3, "pages__lte", 4)},
		{"values of every kind", query.Q("price", "9.5", "weight", 1.5, "cover", []byte("x"), "code", [16]byte{1, 2},
			"released_at", noon, "reading", time.Minute)},
		{"isnull", query.Q("subtitle__isnull", true)},
		{"not isnull", query.Q("subtitle__isnull", false)},
		{"document nil", query.Q("data", nil)},
		{"in", query.Q("pages__in", []int{3, 1, 2})},
		{"in nothing", query.Q("pages__in", []int{})},
		{"in with nil", query.Q("subtitle__in", []any{"a", nil, "b"})},
		{"in with nil pointers", query.Q("subtitle__in", []*string{&title, nil})},
		{"in an array of keys", query.Q("code__in", [2][16]byte{{1}, {2}})},
		{"not_in", query.Q("subtitle__not_in", []string{"a"})},
		{"not_in with nil", query.Q("subtitle__not_in", []any{nil, "a"})},
		{"range", query.Q("pages__range", []int{1, 9})},
		{"range open below", query.Q("pages__range", []any{nil, 9})},
		{"range open above", query.Q("pages__range", [2]any{1, nil})},
		{"range open", query.Q("pages__range", []any{nil, nil})},
		{"range of expressions", query.Q("pages__range", []any{query.F("author__rank"), query.F("pages").Add(1)})},
		{"text lookups", query.Q("title__contains", `50%_off\`, "title__startswith", "a*", "title__endswith", "b?")},
		{"text lookups without case", query.Q("title__iexact", "A_b", "title__icontains", "b", "title__istartswith", "c",
			"title__iendswith", "d")},
		{"and", query.And(query.Q("title", "a"), query.Q("pages", 1))},
		{"or", query.Or(query.Q("title", "a"), query.Q("pages", 1))},
		{"or in and in or", query.Or(query.And(query.Q("title", "a"), query.Or(query.Q("pages", 1), query.Q("pages", 2))), query.Q("pages", 3))},
		{"not of one", query.Not(query.Q("subtitle", "a"))},
		{"not of several", query.Not(query.Q("subtitle", "a", "pages", 1))},
		{"not of not", query.Not(query.Not(query.Q("subtitle", "a")))},
		{"empty and", query.And()},
		{"not of an empty and", query.Not(query.And())},
		{"not of an empty Q", query.Not(query.Q())},
		{"empty and in or", query.Or(query.And(), query.Q("pages", 1))},
		{"empty or", query.Or()},
		{"not of an empty or", query.Not(query.Or())},
		{"or of an empty or", query.Or(query.Or(), query.Q("pages", 1))},
		{"column beside column", query.Q("subtitle", query.F("title"))},
		{"not column", query.Q("subtitle__not", query.F("title"))},
		{"arithmetic", query.Q("pages__gt", query.F("author__rank").Add(1).Mul(query.F("pages").Sub(2)).Mod(7))},
		{"decimal arithmetic", query.Q("price__lt", query.F("discount").Mul("1.5").Add(query.F("pages")))},
		{"float arithmetic", query.Q("price__lt", query.F("weight").Div(2))},
		{"constant as expression", query.Q("pages", query.Value(5), "subtitle", query.Value(nil))},
		{"constant arithmetic", query.Q("pages", query.Value(5).Add(6))},
		{"relation", query.Q("author", 7)},
		{"relation to an instance", query.Q("author", &Author{ID: 7})},
		{"relation in instances", query.Q("author__in", []Author{{ID: 7}, {ID: 8}})},
		{"relation isnull", query.Q("author__isnull", true)},
		{"over a relation", query.Q("author__name__icontains", "ann", "author__pk", 3, "author__boss", nil)},
		{"over two relations", query.Q("author__boss__name", "Zed", "author__name__in", []string{"Ann"}, "title", "x")},
		{"primary key", query.Q("pk__in", []int64{1, 2})},
	}
	var all []statement
	for _, c := range cases {
		all = append(all, answers[Book]("where "+c.name, (*Compiler).Count, func(tb testing.TB, t *schema.Table, q *Query) {
			q.Where = []*Node{where(tb, t, c.p)}
		}))
	}
	exclude := func(name string, parts ...query.Predicate) statement {
		return answers[Book]("exclude "+name, (*Compiler).Count, func(tb testing.TB, t *schema.Table, q *Query) {
			n, err := Where(t, parts, true)
			if err != nil {
				tb.Fatal(err)
			}
			q.Where = []*Node{n}
		})
	}
	return append(all,
		exclude("nothing"),
		exclude("an empty and", query.And()),
		exclude("one", query.Q("subtitle", "a")),
		exclude("several together", query.Q("subtitle", "a"), query.Q("author__name", "Ann")),
		answers[Shelf]("where arrays", (*Compiler).Count, func(tb testing.TB, t *schema.Table, q *Query) {
			q.Where = []*Node{where(tb, t, query.Q("labels", []string{"a"}, "spares__not", query.Value([]string{})))}
		}),
		answers[Child]("where over a relation of several columns", (*Compiler).Count, func(tb testing.TB, t *schema.Table, q *Query) {
			q.Where = []*Node{where(tb, t, query.Q("pair__note", "x"))}
		}),
	)
}

func updates[T any](name string, build func(tb testing.TB, t *schema.Table, q *Query), assignments ...query.Assignment) statement {
	return statement{"update " + name, func(tb testing.TB, c *Compiler) (Statement, []any, error) {
		q := All(table[T](tb))
		build(tb, q.Table, &q)
		return c.Update(context.Background(), &q, set(tb, q.Table, assignments...), noon)
	}}
}

func writes() []statement {
	long := func(tb testing.TB, t *schema.Table, q *Query) {
		q.Where = []*Node{where(tb, t, query.Q("pages__gt", 100))}
	}
	first := func(tb testing.TB, t *schema.Table, q *Query) {
		long(tb, t, q)
		q.Order, q.Limit = order(tb, t, "-pages"), 3
	}
	ordered := func(tb testing.TB, t *schema.Table, q *Query) { q.Order = order(tb, t, "author__name") }
	orderedSlice := func(tb testing.TB, t *schema.Table, q *Query) { q.Order, q.Offset = order(tb, t, "author__name"), 3 }
	related := func(tb testing.TB, t *schema.Table, q *Query) {
		q.Where = []*Node{where(tb, t, query.Q("author__name", "Ann"))}
	}
	pairs := func(tb testing.TB, t *schema.Table, q *Query) {
		q.Where, q.Limit = []*Node{where(tb, t, query.Q("a", 1))}, 2
	}
	title := query.Set("title", "x")
	return []statement{
		updates[Author]("everything", everything, query.Set("name", "x"), query.Set("age", nil), query.Set("active", false)),
		updates[Book]("what follows", long, title),
		updates[Book]("what follows, set by hand", long, query.Set("updated_at", noon.Add(time.Hour)), title),
		updates[Book]("a slice", first, title),
		updates[Book]("ordered only", ordered, title),
		updates[Book]("an ordered slice over a relation", orderedSlice, title),
		updates[Book]("over a relation", related, title),
		updates[Pair]("a slice by a key of several columns", pairs, query.Set("note", "x")),
		updates[Book]("a relation", everything, query.Set("author", &Author{ID: 9})),
		updates[Author]("a relation by key", everything, query.Set("boss", 9)),
		updates[Author]("expressions", everything, query.Set("rank", query.F("rank").Sub(1)), query.Set("age", query.F("rank"))),
		updates[Book]("decimals", everything, query.Set("price", query.F("price").Mul("1.10").Sub(1)),
			query.Set("discount", query.F("price")), query.Set("weight", query.F("price").Div(query.F("pages")))),
		updates[Book]("decimals of the same digits", everything, query.Set("price", query.F("price"))),
		updates[Shelf]("arrays", everything, query.Set("labels", query.F("spares")), query.Set("spares", []string{"a"})),
		answers[Author]("delete everything", (*Compiler).Delete, everything),
		answers[Book]("delete some", (*Compiler).Delete, long),
		answers[Book]("delete a slice", (*Compiler).Delete, first),
		answers[Book]("delete over a relation", (*Compiler).Delete, related),
		answers[Pair]("delete a slice by a key of several columns", (*Compiler).Delete, pairs),
		{"delete a slice without a key", func(tb testing.TB, c *Compiler) (Statement, []any, error) {
			return c.Delete(context.Background(), &Query{Table: keyless(tb), Limit: 3, Offset: Unlimited})
		}},
		{"update nothing", func(tb testing.TB, c *Compiler) (Statement, []any, error) {
			q := All(table[Author](tb))
			return c.Update(context.Background(), &q, nil, noon)
		}},
	}
}

func rowStatements() []statement {
	row := func(name string, make func(tb testing.TB, c *Compiler) (Statement, error)) statement {
		return statement{name, func(tb testing.TB, c *Compiler) (Statement, []any, error) {
			s, err := make(tb, c)
			return s, nil, err
		}}
	}
	columns := func(tb testing.TB, t *schema.Table, names ...string) ColumnSet {
		var s ColumnSet
		for _, name := range names {
			s = s.With(column(tb, t, name))
		}
		return s
	}
	insertRows := func(name string, t func(tb testing.TB) *schema.Table, names ...string) statement {
		return row(name, func(tb testing.TB, c *Compiler) (Statement, error) {
			s, rows, err := c.InsertRows(t(tb), columns(tb, t(tb), names...), columns(tb, t(tb), "id"))
			s.SQL = fmt.Sprintf("%s\n  rows: %t", s.SQL, rows)
			return s, err
		})
	}
	author := func(tb testing.TB) *schema.Table { return table[Author](tb) }
	shelf := func(tb testing.TB) *schema.Table { return table[Shelf](tb) }
	return []statement{
		row("insert", func(tb testing.TB, c *Compiler) (Statement, error) {
			return c.Insert(author(tb), columns(tb, author(tb), "rank", "name"), ColumnSet{})
		}),
		row("insert and give back", func(tb testing.TB, c *Compiler) (Statement, error) {
			return c.Insert(author(tb), columns(tb, author(tb), "name"), columns(tb, author(tb), "rank", "id"))
		}),
		row("insert defaults", func(tb testing.TB, c *Compiler) (Statement, error) {
			return c.Insert(author(tb), ColumnSet{}, columns(tb, author(tb), "id"))
		}),
		insertRows("insert rows", author, "name", "age", "active"),
		insertRows("insert rows of defaults", author),
		insertRows("insert rows with arrays", shelf, "labels"),
		row("update row", func(tb testing.TB, c *Compiler) (Statement, error) {
			return c.UpdateRow(author(tb), columns(tb, author(tb), "name", "rank"), ColumnSet{})
		}),
		row("update row of a key of several columns", func(tb testing.TB, c *Compiler) (Statement, error) {
			t := table[Pair](tb)
			return c.UpdateRow(t, columns(tb, t, "note"), columns(tb, t, "note", "a"))
		}),
		row("update row without a column", func(tb testing.TB, c *Compiler) (Statement, error) {
			return c.UpdateRow(author(tb), ColumnSet{}, ColumnSet{})
		}),
		row("delete row", func(tb testing.TB, c *Compiler) (Statement, error) { return c.DeleteRow(table[Pair](tb)) }),
		row("delete row without a key", func(tb testing.TB, c *Compiler) (Statement, error) { return c.DeleteRow(keyless(tb)) }),
		row("select row", func(tb testing.TB, c *Compiler) (Statement, error) { return c.SelectRow(author(tb)) }),
	}
}
