package compile

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
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
