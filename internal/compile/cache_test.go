package compile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/hare-go/hare/query"

	"github.com/hare-go/hare/internal/schema"
)

// held is how many values the cache keeps.
func held[V any](c *cache[V]) (n int) {
	for i := range c.sets {
		for j := range c.sets[i].entries {
			if c.sets[i].entries[j].Load() != nil {
				n++
			}
		}
	}
	return n
}

// TestRepeatedQueriesRenderNothing: once every shape has been seen, no statement is rendered again.
func TestRepeatedQueriesRenderNothing(t *testing.T) {
	c := arraysCompiler()
	all := statements()
	rendered := func() uint64 {
		before := c.Renders()
		for _, s := range all {
			if _, _, err := s.make(t, c); err != nil && refusalOf(err) != misuse {
				t.Fatalf("%s: %v", s.name, err)
			}
		}
		return c.Renders() - before
	}
	if first := rendered(); first == 0 || first > uint64(len(all)) {
		t.Errorf("%d statements were rendered for %d cases", first, len(all))
	}
	refused := uint64(0)
	for _, s := range all {
		before := c.Renders()
		if _, _, err := s.make(t, c); err != nil {
			refused += c.Renders() - before // a statement that cannot be has no text to keep
		}
	}
	if again := rendered(); again != refused {
		t.Errorf("%d statements were rendered again, and only %d had to be", again, refused)
	}
}

// TestCacheStaysBounded: ten thousand shapes leave the cache within its bounds, and it still works.
func TestCacheStaysBounded(t *testing.T) {
	c := arraysCompiler()
	author := table[Author](t)
	conditions := make([]*Node, 14)
	for i := range conditions {
		conditions[i] = where(t, author, query.Q([]string{"rank__gt", "rank__lt"}[i%2], i))
	}
	// Every number from 1 on chooses conditions by its digits, each shape once.
	for shape := 1; shape <= 10_000; shape++ {
		q := All(author)
		for bit, at := 0, shape; at > 0; bit, at = bit+1, at>>1 {
			q.Where = append(q.Where, conditions[at&1])
		}
		if _, _, err := c.Count(context.Background(), &q); err != nil {
			t.Fatal(err)
		}
	}
	if c.Renders() < 10_000 {
		t.Errorf("%d texts were rendered for 10000 shapes", c.Renders())
	}
	if n := held(&c.cache); n == 0 || n > cacheSets*cacheWays {
		t.Errorf("the cache holds %d texts", n)
	}
	q := All(author)
	for range 3 {
		before := c.Renders()
		for range 2 {
			if _, _, err := c.Select(context.Background(), &q); err != nil {
				t.Fatal(err)
			}
		}
		if c.Renders() > before+1 {
			t.Error("a shape is rendered twice in a row")
		}
	}
}

// TestUsedShapesStay: shapes that come once do not drive out those that are in use.
func TestUsedShapesStay(t *testing.T) {
	var c cache[int]
	author := table[Author](t)
	hot := func(i int) []byte { return fmt.Appendf(nil, "hot %d", i) }
	for i := range 100 {
		c.put(author, hot(i), i)
	}
	lost := 0
	for i := range 20_000 {
		c.put(author, fmt.Appendf(nil, "once %d", i), -1)
		at := i % 100
		if v, ok := c.get(author, hot(at)); !ok {
			lost++
			c.put(author, hot(at), at)
		} else if v != at {
			t.Fatalf("the value of %d is %d", at, v)
		}
	}
	if lost > 1000 {
		t.Errorf("%d of 20000 look-ups of what is in use found nothing", lost)
	}
}

func TestLongKeysAreNotKept(t *testing.T) {
	c := arraysCompiler()
	author := table[Author](t)
	q := All(author)
	for range maxKey {
		q.Where = append(q.Where, where(t, author, query.Q("age", nil)))
	}
	for range 2 {
		if _, _, err := c.Count(context.Background(), &q); err != nil {
			t.Fatal(err)
		}
	}
	if c.Renders() != 2 || held(&c.cache) != 0 {
		t.Errorf("%d texts were rendered, and %d are kept", c.Renders(), held(&c.cache))
	}
}

// TestTablesDoNotShareShapes: the same shape of two tables is two texts.
func TestTablesDoNotShareShapes(t *testing.T) {
	c := arraysCompiler()
	texts := map[string]bool{}
	for _, table := range []*schema.Table{table[Author](t), table[Book](t), table[Pair](t), keyless(t)} {
		q := All(table)
		s, _, err := c.Exists(context.Background(), &q)
		if err != nil {
			t.Fatal(err)
		}
		texts[s.SQL] = true
	}
	if len(texts) != 3 || c.Renders() != 4 { // the one without a key is a table of the same name
		t.Errorf("%d texts of %d shapes", len(texts), c.Renders())
	}
}

// TestOnlyRightPathsAreKept: names that may come from anybody leave nothing behind.
func TestOnlyRightPathsAreKept(t *testing.T) {
	type Lonely struct {
		ID   int64
		Name string
	}
	lonely := table[Lonely](t)
	kept := func(path string) bool {
		_, ok := targets.get(lonely, []byte(path))
		return ok
	}
	for i := range 10_000 {
		path := fmt.Sprintf("name__%d", i)
		if _, err := Where(lonely, []query.Predicate{query.Q(path, "x")}, false); err == nil || kept(path) {
			t.Fatalf("%s is accepted, or kept", path)
		}
	}
	where(t, lonely, query.Q("name__exact", "x"))
	if !kept("name__exact") || kept("name__exac") {
		t.Error("the right path is not kept, or a wrong one is")
	}
	if n := held(&targets); n > cacheSets*cacheWays {
		t.Errorf("%d paths are kept", n)
	}
}

// TestConcurrentUse: many goroutines share a compiler and queries, and together have more shapes than there is room for.
func TestConcurrentUse(t *testing.T) {
	type run = func(c *Compiler) (Statement, []any, error)
	book := table[Book](t)
	r := rand.New(rand.NewPCG(5, 6))
	runs := func() []run {
		list := make([]run, 400)
		for i := range list {
			random := randomQuery{shape: randomShape(r), values: r}
			list[i] = random.statement(t, book)
		}
		return list
	}
	c, shared := arraysCompiler(), runs()
	var group sync.WaitGroup
	for range 8 {
		own := runs()
		group.Go(func() {
			for i := range own {
				for _, run := range []run{shared[i], own[i]} {
					got, args, err := run(c)
					if err != nil {
						t.Error(err)
						return
					}
					want, _, err := run(New(arrays{}, arraysFeatures, "main"))
					if err != nil || got != want || highestPlaceholder(got.SQL) != len(args) {
						t.Errorf("%d arguments, %v:\n%s\n%s", len(args), err, got.SQL, want.SQL)
						return
					}
				}
			}
		})
	}
	group.Wait()
	if n := held(&c.cache); n > cacheSets*cacheWays {
		t.Errorf("the cache holds %d texts", n)
	}
}
