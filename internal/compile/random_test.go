package compile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hare-go/hare/query"

	"github.com/hare-go/hare/internal/schema"
)

// choices says what a random query looks like: each choice takes a byte, and without bytes the first thing is chosen, so
// that every tree ends.
type choices []byte

func (c *choices) of(n int) int {
	if len(*c) == 0 {
		return 0
	}
	chosen := int((*c)[0]) % n
	*c = (*c)[1:]
	return chosen
}

func pick[T any](c *choices, from ...T) T { return from[c.of(len(from))] }

// randomQuery makes queries on Book. What the choices say is the shape; what comes from values must make no difference
// to it.
type randomQuery struct {
	shape  choices
	values *rand.Rand
}

// randomColumn is a path, the lookups that go with it and its values.
type randomColumn struct {
	path    string
	lookups []string
	value   func(r *rand.Rand) any
	beside  []string // columns that it can be compared with
}

var (
	equalityLookups = []string{"", "__exact", "__not", "__in", "__not_in", "__isnull"}
	orderLookups    = append([]string{"__gt", "__gte", "__lt", "__lte", "__range"}, equalityLookups...)
	textLookups     = append([]string{"__contains", "__startswith", "__endswith", "__iexact", "__icontains", "__istartswith", "__iendswith"}, orderLookups...)

	randomInt     = func(r *rand.Rand) any { return r.IntN(1000) }
	randomText    = func(r *rand.Rand) any { return pickFrom(r, "", "a", `50%_off\`, "it's", "?", "$1", "naïve") }
	randomDecimal = func(r *rand.Rand) any { return fmt.Sprintf("%d.%02d", r.IntN(1000), r.IntN(100)) }

	numbers       = []string{"pages", "author__rank", "author__age", "price", "discount", "weight"}
	ownNumbers    = []string{"pages", "price", "discount", "weight"}
	randomColumns = []randomColumn{
		{"id", orderLookups, randomInt, numbers},
		{"pages", orderLookups, randomInt, numbers},
		{"title", textLookups, randomText, []string{"subtitle", "author__name"}},
		{"subtitle", textLookups, randomText, []string{"title"}},
		{"price", orderLookups, randomDecimal, numbers},
		{"discount", orderLookups, randomDecimal, numbers},
		{"weight", orderLookups, func(r *rand.Rand) any { return r.Float64() }, numbers},
		{"cover", equalityLookups, func(r *rand.Rand) any { return []byte{byte(r.IntN(256))} }, nil},
		{"code", orderLookups, func(r *rand.Rand) any { return [16]byte{byte(r.IntN(256))} }, nil},
		{"released_at", orderLookups, func(r *rand.Rand) any { return noon.Add(time.Duration(r.Int64N(1e15))) }, []string{"updated_at"}},
		{"reading", orderLookups, func(r *rand.Rand) any { return time.Duration(r.IntN(1e9)) * time.Microsecond }, nil},
		{"author", equalityLookups, func(r *rand.Rand) any { return &Author{ID: 1 + r.Int64N(100)} }, nil},
		{"author__name", textLookups, randomText, []string{"title"}},
		{"author__active", equalityLookups, func(r *rand.Rand) any { return r.IntN(2) == 0 }, nil},
		{"author__boss", equalityLookups, randomInt, []string{"id"}},
		{"author__boss__rank", orderLookups, randomInt, numbers},
		{"pk", orderLookups, randomInt, nil},
	}
)

func pickFrom[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func (q *randomQuery) predicate(depth int) query.Predicate {
	if depth > 0 {
		switch q.shape.of(8) {
		case 1, 2:
			return query.And(q.predicates(depth - 1)...)
		case 3, 4:
			return query.Or(q.predicates(depth - 1)...)
		case 5:
			return query.Not(q.predicate(depth - 1))
		}
	}
	c := pick(&q.shape, randomColumns...)
	lookup := pick(&q.shape, c.lookups...)
	return query.Q(c.path+lookup, q.operand(c, lookup))
}

func (q *randomQuery) predicates(depth int) []query.Predicate {
	parts := make([]query.Predicate, q.shape.of(4))
	for i := range parts {
		parts[i] = q.predicate(depth)
	}
	return parts
}

func (q *randomQuery) operand(c randomColumn, lookup string) any {
	switch lookup {
	case "__isnull":
		return q.shape.of(2) == 0
	case "__in", "__not_in":
		list := make([]any, q.values.IntN(5))
		for i := range list {
			list[i] = c.value(q.values)
		}
		if q.shape.of(3) == 1 {
			list = append(list, nil)
			q.values.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		}
		return list
	case "__range":
		ends := []any{q.operand(c, "__gte"), q.operand(c, "__lte")}
		if open := q.shape.of(4); open > 1 {
			ends[open-2] = nil
		}
		return ends
	case "", "__exact", "__not":
		if q.shape.of(5) == 1 {
			return nil
		}
	case "__gt", "__gte", "__lt", "__lte":
	default:
		return c.value(q.values)
	}
	if len(c.beside) > 0 && q.shape.of(3) == 1 {
		e := query.F(pick(&q.shape, c.beside...))
		if slices.Contains(numbers, c.beside[0]) {
			return q.arithmetic(e, numbers)
		}
		return e
	}
	return c.value(q.values)
}

func (q *randomQuery) arithmetic(e query.Expr, columns []string) query.Expr {
	for {
		var with any
		switch q.shape.of(4) {
		case 0:
			return e
		case 1:
			with = 1 + q.values.IntN(100)
		case 2:
			with = fmt.Sprintf("%d.5", q.values.IntN(100))
		case 3:
			with = query.F(pick(&q.shape, columns...))
		}
		e = pick(&q.shape, e.Add, e.Sub, e.Mul, e.Div)(with)
		if q.shape.of(4) == 1 {
			e = query.Value(1 + q.values.IntN(9)).Sub(e)
		}
	}
}

// statement is a random statement, ready to run on any compiler.
func (q *randomQuery) statement(tb testing.TB, t *schema.Table) func(c *Compiler) (Statement, []any, error) {
	tb.Helper()
	from := All(t)
	for range 1 + q.shape.of(3) {
		n, err := Where(t, q.predicates(3), q.shape.of(3) == 1)
		if err != nil {
			tb.Fatal(err)
		}
		from.Where = append(from.Where, n)
	}
	terms := make([]any, q.shape.of(3))
	for i := range terms {
		o := query.Order{Path: pick(&q.shape, randomColumns...).path}
		o.Descending, o.Nulls = q.shape.of(2) == 1, query.Nulls(q.shape.of(3))
		terms[i] = o
	}
	from.Order = order(tb, t, terms...)
	if q.shape.of(3) == 1 {
		from.Limit = q.values.IntN(1000)
	}
	if q.shape.of(3) == 1 {
		from.Offset = q.values.IntN(1000)
	}
	var assignments []query.Assignment
	for _, a := range []query.Assignment{
		query.Set("title", randomText(q.values)), query.Set("pages", query.F("pages").Add(q.values.IntN(9))),
		query.Set("price", q.arithmetic(query.F("price"), ownNumbers)), query.Set("subtitle", nil), query.Set("updated_at", noon),
	} {
		if q.shape.of(2) == 1 {
			assignments = append(assignments, a)
		}
	}
	changes := append(set(tb, t, assignments...), set(tb, t, query.Set("weight", q.values.Float64()))...)
	return pick(&q.shape,
		func(c *Compiler) (Statement, []any, error) { return c.Select(context.Background(), &from) },
		func(c *Compiler) (Statement, []any, error) { return c.Count(context.Background(), &from) },
		func(c *Compiler) (Statement, []any, error) { return c.Exists(context.Background(), &from) },
		func(c *Compiler) (Statement, []any, error) {
			return c.Update(context.Background(), &from, changes, noon)
		},
		func(c *Compiler) (Statement, []any, error) { return c.Delete(context.Background(), &from) },
	)
}

// randomShape is as many choices as a query can use, as a rule.
func randomShape(r *rand.Rand) choices {
	shape := make(choices, 20+r.IntN(200))
	for i := range shape {
		shape[i] = byte(r.IntN(256))
	}
	return shape
}
