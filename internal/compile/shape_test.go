package compile

import (
	"context"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/query"
)

// FuzzShapeReuse: a query whose text is in the cache gets the text and the arguments that a compiler with an empty cache
// would have made, whatever the values of the query that put it there.
func FuzzShapeReuse(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		f.Add([]byte(randomShape(r)), r.Uint64(), r.Uint64())
	}
	book := table[Book](f)
	f.Fuzz(func(t *testing.T, shape []byte, first, second uint64) {
		for name, compiler := range map[string]func() *Compiler{"arrays": arraysCompiler, "plainer": plainerCompiler} {
			used := compiler()
			query1 := randomQuery{shape: shape, values: rand.New(rand.NewPCG(first, 0))}
			query2 := randomQuery{shape: shape, values: rand.New(rand.NewPCG(second, 0))}
			s1, _, err1 := query1.statement(t, book)(used)
			renders := used.Renders()
			run := query2.statement(t, book)
			s2, args, err2 := run(used)
			if err1 != nil || err2 != nil {
				// Too many arguments, or operations that the values do not change.
				if refusalOf(err1) != misuse || refusalOf(err2) != misuse {
					t.Fatalf("%s: %v, then %v", name, err1, err2)
				}
				continue
			}
			if s1 != s2 {
				t.Errorf("%s: other values make another text:\n%s\n%s", name, s1.SQL, s2.SQL)
			}
			if used.Renders() != renders {
				t.Errorf("%s: the shape is rendered again: %s", name, s2.SQL)
			}
			fresh, want, err := run(compiler())
			if err != nil {
				t.Fatal(err)
			}
			if fresh != s2 {
				t.Errorf("%s: the text in the cache is another:\n%s\n%s", name, s2.SQL, fresh.SQL)
			}
			if diff := cmp.Diff(want, args); diff != "" {
				t.Errorf("%s: %s: the arguments differ (-fresh +reused):\n%s", name, s2.SQL, diff)
			}
			if n := highestPlaceholder(s2.SQL); n != len(args) {
				t.Errorf("%s: %d arguments for %d placeholders: %s", name, len(args), n, s2.SQL)
			}
		}
	})
}

var placeholders = regexp.MustCompile(`\$(\d+)`)

func highestPlaceholder(sql string) (highest int) {
	for _, found := range placeholders.FindAllStringSubmatch(sql, -1) {
		n, _ := strconv.Atoi(found[1])
		highest = max(highest, n)
	}
	return highest
}

// TestKeyIdentifiesText: queries of one key have one text, on every dialect. The compiler with a cache of its own for
// every query tells what the text must be; the one that all of them share, what the key found.
func TestKeyIdentifiesText(t *testing.T) {
	book := table[Book](t)
	r := rand.New(rand.NewPCG(3, 4))
	shared := arraysCompiler()
	texts := map[string]bool{}
	for range 10_000 {
		shape := randomShape(r)
		shape = shape[:min(len(shape), 1+r.IntN(40))] // short ones come again
		random := randomQuery{shape: shape, values: r}
		run := random.statement(t, book)
		fresh, _, err := run(New(arrays{}, arraysFeatures, "main"))
		if err != nil {
			t.Fatal(err)
		}
		found, _, err := run(shared)
		if err != nil {
			t.Fatal(err)
		}
		if fresh != found {
			t.Fatalf("the key found\n%s\nfor\n%s", found.SQL, fresh.SQL)
		}
		texts[fresh.SQL] = true
	}
	if len(texts) < 1000 {
		t.Errorf("no more than %d texts were tried", len(texts))
	}
}

// TestNearShapes: queries that differ by little are shapes of their own, and each finds its own text again.
func TestNearShapes(t *testing.T) {
	book := table[Book](t)
	filtered := func(p query.Predicate) Query {
		q := All(book)
		q.Where = []*Node{where(t, book, p)}
		return q
	}
	ordered := func(terms ...any) Query {
		q := All(book)
		q.Order = order(t, book, terms...)
		return q
	}
	price := query.F("price")
	two, one := filtered(query.Q("pages", 1)), filtered(query.Q("pages", 1))
	two.Where = append(two.Where, two.Where[0])
	limited, skipped := All(book), All(book)
	limited.Limit, skipped.Offset = 1, 1
	near := []Query{
		All(book), limited, skipped, one, two,
		filtered(query.Q("pages__not", 1)), filtered(query.Q("pages", nil)), filtered(query.Q("pages__not", nil)),
		filtered(query.Q("id", 1)), filtered(query.Q("author", 1)), filtered(query.Q("author__pk", 1)),
		filtered(query.Q("author__boss", 1)), filtered(query.Q("author__boss__id", 1)),
		filtered(query.Q("pages__in", []int{1})), filtered(query.Q("pages__in", []any{1, nil})),
		filtered(query.Q("pages__not_in", []int{1})), filtered(query.Q("pages__not_in", []any{1, nil})),
		filtered(query.Q("title__contains", "x")), filtered(query.Q("title__icontains", "x")),
		filtered(query.Q("price", price.Add(1))), filtered(query.Q("price", price.Add("1"))), filtered(query.Q("price", price.Add(1.5))),
		filtered(query.Q("price", price.Sub(1))), filtered(query.Q("price", query.Value(1).Sub(price))),
		filtered(query.Q("price", price.Sub(1).Sub(2))), filtered(query.Q("price", price.Sub(query.Value(1).Sub(2)))),
		filtered(query.And(query.Q("pages", 1), query.Or(query.Q("pages", 1), query.Q("id", 1)))),
		filtered(query.Or(query.And(query.Q("pages", 1), query.Q("pages", 1)), query.Q("id", 1))),
		filtered(query.Not(query.And(query.Q("pages", 1), query.Q("id", 1)))),
		filtered(query.And(query.Not(query.Q("pages", 1)), query.Q("id", 1))),
		ordered("pages"), ordered("-pages"), ordered(query.Asc("pages").NullsFirst()), ordered(query.Asc("pages").NullsLast()),
		ordered("pages", "id"), ordered("author__name"), ordered("author"),
	}
	c := arraysCompiler()
	texts := map[string]bool{}
	for range 2 {
		for i := range near {
			fresh, _, err := arraysCompiler().Select(context.Background(), &near[i])
			if err != nil {
				t.Fatal(err)
			}
			found, _, err := c.Select(context.Background(), &near[i])
			if err != nil {
				t.Fatal(err)
			}
			if found != fresh {
				t.Errorf("query %d found\n%s\nand its own is\n%s", i, found.SQL, fresh.SQL)
			}
			texts[fresh.SQL] = true
		}
	}
	if len(texts) != len(near) || c.Renders() != uint64(len(near)) {
		t.Errorf("%d queries have %d texts, and %d were rendered", len(near), len(texts), c.Renders())
	}
}
