package compile

import (
	"context"
	"testing"
	"time"

	"github.com/hare-go/hare/query"

	"github.com/hare-go/hare/internal/schema"
)

// repeated are queries as programs send them again and again, with the most allocations that the key, the arguments
// and the look-up may cost.
func repeated(tb testing.TB) map[string]struct {
	run  func(c *Compiler) error
	most float64
} {
	type repeat = struct {
		run  func(c *Compiler) error
		most float64
	}
	author, book := table[Author](tb), table[Book](tb)
	selects := func(t *schema.Table, parts ...query.Predicate) func(c *Compiler) error {
		q := All(t)
		q.Where = []*Node{where(tb, t, parts...)}
		return func(c *Compiler) error {
			_, _, err := c.Select(context.Background(), &q)
			return err
		}
	}
	everything := All(author)
	sliced := All(book)
	sliced.Where = []*Node{where(tb, book, query.Q("pages__gt", 300, "author__name__in", []string{"Ann", "Bob"}))}
	sliced.Order, sliced.Limit, sliced.Offset = order(tb, book, "-author__rank", "title"), 1000, 20000
	changes := set(tb, author, query.Set("rank", query.F("rank").Sub(1)))
	columns, key := Columns(author.Columns[1:]...), Columns(author.PK...)
	return map[string]repeat{
		"everything":           {func(c *Compiler) error { _, _, err := c.Select(context.Background(), &everything); return err }, 0},
		"one condition":        {selects(author, query.Q("id", 7)), 1},
		"one text lookup":      {selects(author, query.Q("name__contains", "x")), 5},
		"a list":               {selects(author, query.Q("id__in", []int{1, 2, 3})), 1},
		"a relation":           {selects(book, query.Q("author__boss__name", "Ann")), 1},
		"conditions and slice": {func(c *Compiler) error { _, _, err := c.Select(context.Background(), &sliced); return err }, 3},
		"count":                {func(c *Compiler) error { _, _, err := c.Count(context.Background(), &everything); return err }, 0},
		"update": {func(c *Compiler) error {
			_, _, err := c.Update(context.Background(), &everything, changes, time.Time{})
			return err
		}, 1},
		"insert":      {func(c *Compiler) error { _, err := c.Insert(author, columns, key); return err }, 0},
		"insert rows": {func(c *Compiler) error { _, _, err := c.InsertRows(author, columns, key); return err }, 0},
		"update row":  {func(c *Compiler) error { _, err := c.UpdateRow(author, columns, ColumnSet{}); return err }, 0},
		"select row":  {func(c *Compiler) error { _, err := c.SelectRow(author); return err }, 0},
	}
}

// TestAllocations: a repeated query costs next to nothing, and none of it is squirrel or reflection.
func TestAllocations(t *testing.T) {
	c := arraysCompiler()
	for name, repeat := range repeated(t) {
		if err := repeat.run(c); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := testing.AllocsPerRun(100, func() { _ = repeat.run(c) }); got > repeat.most {
			t.Errorf("%s: %v allocations, and %v are the most", name, got, repeat.most)
		}
	}
}

// TestBuildingAllocations: a filter that is built for each query stays cheap, its path in the cache.
func TestBuildingAllocations(t *testing.T) {
	author, c := table[Author](t), arraysCompiler()
	id := int64(70000)
	build := func() {
		n, err := Where(author, []query.Predicate{query.Q("id", id)}, false)
		if err != nil {
			t.Fatal(err)
		}
		q := All(author)
		q.Where = append(q.Where, n)
		if _, _, err := c.Select(context.Background(), &q); err != nil {
			t.Fatal(err)
		}
	}
	build()
	const most = 7 // the predicate 3, the node 1, the query 2, the arguments 1
	if got := testing.AllocsPerRun(100, build); got > most {
		t.Errorf("%v allocations, and %d are the most", got, most)
	}
}

func BenchmarkRepeated(b *testing.B) {
	c := arraysCompiler()
	for name, repeat := range repeated(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := repeat.run(c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkParallel: callers on several processors do not wait for one another.
func BenchmarkParallel(b *testing.B) {
	c, run := arraysCompiler(), repeated(b)["one condition"].run
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := run(c); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkRender(b *testing.B) {
	run := repeated(b)["one condition"].run
	for b.Loop() {
		if err := run(New(arrays{}, arraysFeatures, "main")); err != nil {
			b.Fatal(err)
		}
	}
}
