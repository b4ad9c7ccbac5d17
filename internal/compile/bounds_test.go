package compile

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/hare-go/hare/query"

	"github.com/hare-go/hare/internal/schema"
)

// loops build conditions as programs do in a loop: each gives the one for n turns.
var loops = map[string]func(n int) []query.Predicate{
	"or":              loop(func(p query.Predicate, i int) query.Predicate { return query.Or(p, query.Q("pages", i)) }),
	"and":             loop(func(p query.Predicate, i int) query.Predicate { return query.And(p, query.Q("pages__not", i)) }),
	"or to the right": loop(func(p query.Predicate, i int) query.Predicate { return query.Or(query.Q("pages", i), p) }),
	"several each": loop(func(p query.Predicate, i int) query.Predicate {
		return query.Or(p, query.Q("pages", i), query.Q("id", i))
	}),
	"groups of one": loop(func(p query.Predicate, i int) query.Predicate {
		return query.Or(query.And(query.Or(p)), query.Q("pages", i))
	}),
	"with nothing": loop(func(p query.Predicate, i int) query.Predicate {
		return query.And(query.And(), p, query.Q("pages__not", i))
	}),
	"one list": func(n int) (list []query.Predicate) {
		for i := range n {
			list = append(list, query.Q("pages__not", i))
		}
		return list
	},
}

func loop(step func(p query.Predicate, i int) query.Predicate) func(n int) []query.Predicate {
	return func(n int) []query.Predicate {
		p := query.Q("pages", -1)
		for i := range n {
			p = step(p, i)
		}
		return []query.Predicate{p}
	}
}

// TestLoopsAreLinear: a condition that grows in a loop costs what its terms cost, built and compiled: twice the terms, twice
// the memory. It is as shallow as a list, whichever way it grew.
//
// Fault S9.
func TestLoopsAreLinear(t *testing.T) {
	book := table[Book](t)
	filters := func(n int) {
		q := All(book)
		for _, p := range loops["one list"](n) {
			var err error
			if q.Where, err = And(q.Table, q.Where, where(t, book, p)); err != nil {
				t.Fatal(err)
			}
		}
		compiled(t, &q)
	}
	costs := map[string]func(n int){"filter after filter": filters}
	for name, build := range loops {
		costs[name] = func(n int) {
			q := All(book)
			q.Where = []*Node{where(t, book, build(n)...)}
			if depth := q.Where[0].depth; depth > 100 {
				t.Errorf("%s: %d turns are %d levels deep", name, n, depth)
			}
			compiled(t, &q)
		}
	}
	for name, cost := range costs {
		cost(10)
		if small, large := allocated(func() { cost(4000) }), allocated(func() { cost(8000) }); large > 3*small {
			t.Errorf("%s: 4000 turns take %d bytes, 8000 take %d", name, small, large)
		}
	}
}

func compiled(t *testing.T, q *Query) {
	t.Helper()
	f := arraysFeatures
	f.MaxBindParameters = 0
	if _, _, err := New(arrays{}, f, "main").Select(t.Context(), q); err != nil {
		t.Fatal(err)
	}
}

func allocated(run func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestBounds: what is larger than any database takes is refused as it is built, with the limit and the way out. Some of
// these are small for the program that builds them and endless for whoever goes over them.
//
// Fault S9.
func TestBounds(t *testing.T) {
	book := table[Book](t)
	filter := func(parts ...query.Predicate) error { return second(Where(book, parts, false)) }
	endless := &query.Group{Connector: query.AnyOf}
	endless.Parts = []query.Predicate{endless}
	wide := &query.Group{Parts: []query.Predicate{query.Q("pages", 1), endless}}
	doubled, sum := query.Or(query.Q("pages", 1), query.Q("id", 1)), query.F("pages")
	for range 60 {
		doubled, sum = query.Or(doubled, doubled), sum.Add(sum)
	}
	deep, mixed, long := query.Q("pages", 1), query.Q("pages", 1), query.F("pages")
	for i := range 1_000_000 {
		deep, long = query.Not(deep), long.Add(1)
		mixed = query.Or(query.And(mixed, query.Q("id", i)), query.Q("id", i))
	}
	terms := make([]any, maxTerms+1)
	for i := range terms {
		terms[i] = "-pages"
	}
	for name, test := range map[string]struct {
		err   error
		names string
	}{
		"a million terms":             {filter(loops["or"](1_000_000)...), `"in"`},
		"a long list":                 {filter(loops["one list"](maxParts + 1)...), `"in"`},
		"doubled":                     {filter(doubled), `"in"`},
		"a group that holds itself":   {filter(endless), `"in"`},
		"another":                     {filter(wide), `"in"`},
		"negations":                   {filter(deep), "levels"},
		"alternating":                 {filter(mixed), "levels"},
		"arithmetic in a condition":   {filter(query.Q("pages", long)), "levels"},
		"arithmetic in an assignment": {second(Assignments(book, []query.Assignment{query.Set("pages", long)})), "levels"},
		"doubled sums":                {second(Assignments(book, []query.Assignment{query.Set("pages", sum)})), `"in"`},
		"an order":                    {second(OrderBy(book, terms)), "terms"},
		"filters":                     {filters(t, book, maxParts/1000+1, 1000), `"in"`},
	} {
		if refusalOf(test.err) != misuse || !strings.Contains(test.err.Error(), test.names) || len(test.err.Error()) > 300 {
			t.Errorf("%s: %.400v", name, test.err)
		}
	}
}

// filters adds conditions of many terms one by one, and gives the first refusal.
func filters(t *testing.T, book *schema.Table, n, terms int) (err error) {
	var all []*Node
	one := where(t, book, loops["one list"](terms)...)
	for range n {
		if all, err = And(book, all, one); err != nil {
			return err
		}
	}
	return nil
}

// TestFiltersKeepTheirOrder: the conditions of many filters are put into groups, in the order in which they came.
func TestFiltersKeepTheirOrder(t *testing.T) {
	book := table[Book](t)
	q := All(book)
	for i := range 1000 {
		before := len(q.Where)
		grown, err := And(book, q.Where, where(t, book, query.Q("pages", i)))
		if err != nil {
			t.Fatal(err)
		}
		if len(q.Where) != before {
			t.Fatal("the query that another grew from has changed")
		}
		q.Where = grown
	}
	if len(q.Where) > 64 {
		t.Errorf("1000 filters are %d conditions side by side", len(q.Where))
	}
	_, args, err := New(arrays{}, arraysFeatures, "main").Select(t.Context(), &q)
	if err != nil {
		t.Fatal(err)
	}
	for i, arg := range args {
		if arg != int64(i) {
			t.Fatalf("argument %d is %v", i, arg)
		}
	}
}

// ending is a context that ends when it is asked for the nth time.
type ending struct {
	context.Context
	left *int
}

func (e ending) Err() error {
	if *e.left--; *e.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestCompilingObeysItsContext: a large statement is given up when its context ends while its text is made.
//
// Fault S9.
func TestCompilingObeysItsContext(t *testing.T) {
	book := table[Book](t)
	q := All(book)
	q.Where = []*Node{where(t, book, loops["or"](20_000)...)}
	for _, asked := range []int{0, 1, 5} {
		left := asked
		c := New(arrays{}, arraysFeatures, "main")
		_, _, err := c.Select(ending{t.Context(), &left}, &q)
		if !errors.Is(err, context.DeadlineExceeded) || left != -1 {
			t.Errorf("after %d questions: %v, %d left", asked, err, left)
		}
	}
}
