package compile

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/query"

	"github.com/hare-go/hare/internal/schema"
)

// refusal is what an error says, apart from its words. Each kind of error sets its own fields.
type refusal struct {
	Model   string // of a NameError or a ValueError
	Name    string // NameError
	Nearest string // NameError
	Column  string // ValueError
	Usage   bool
}

func refusalOf(err error) (r refusal) {
	var name *schema.NameError
	var value *schema.ValueError
	var use *UsageError
	switch {
	case errors.As(err, &name):
		r.Model, r.Name, r.Nearest = name.Model, name.Name, name.Nearest
	case errors.As(err, &value):
		r.Model, r.Column = value.Model, value.Column
	case errors.As(err, &use):
		r.Usage = true
	}
	return r
}

func wrongName(model, name, nearest string) refusal {
	return refusal{Model: model, Name: name, Nearest: nearest}
}
func wrongValue(model, column string) refusal { return refusal{Model: model, Column: column} }

var misuse = refusal{Usage: true}

func TestWhereRefuses(t *testing.T) {
	secret := "swordfish"
	book := func(column string) refusal { return wrongValue("Book", column) }
	for _, tt := range []struct {
		name string
		p    query.Predicate
		want refusal
	}{
		{"an unknown column", query.Q("titel", "x"), wrongName("Book", "titel", "title")},
		{"an unknown column far from any", query.Q("zzzzzzzz", "x"), wrongName("Book", "zzzzzzzz", "")},
		{"no name", query.Q("", "x"), wrongName("Book", "", "")},
		{"an unknown relation", query.Q("auther__name", "x"), wrongName("Book", "auther", "author")},
		{"an unknown column of a relation", query.Q("author__nam", "x"), wrongName("Author", "nam", "name")},
		{"an unknown column further on", query.Q("author__boss__rnak", 1), wrongName("Author", "rnak", "rank")},
		{"an unknown lookup", query.Q("title__icontain", "x"), wrongName("Book", "title__icontain", "title__icontains")},
		{"a lookup in capitals", query.Q("title__EXACT", "x"), wrongName("Book", "title__EXACT", "title__exact")},
		{"two lookups", query.Q("pages__gt__lt", 1), wrongName("Book", "pages__gt__lt", "")},
		{"a path that ends in the separator", query.Q("title__", "x"), wrongName("Book", "title__", "")},
		{"a column as a relation", query.Q("author_id__name", "x"), wrongName("Book", "author_id__name", "")},
		{"a path too long", query.Q(strings.Repeat("author__", 100)+"name", "x"), misuse},
		{"too many relations", query.Q("author__"+strings.Repeat("boss__", maxSteps)+"name", "x"), misuse},

		{"a text for a number", query.Q("pages", secret), book("pages")},
		{"a fraction for a whole number", query.Q("pages__gt", 1.5), book("pages")},
		{"a number too large", query.Q("pages", 1<<40), book("pages")},
		{"a number for a text", query.Q("title", 7), book("title")},
		{"a float for a decimal", query.Q("price", 9.5), book("price")},
		{"an odd UUID", query.Q("code", secret), book("code")},
		{"a text for a time", query.Q("released_at__lt", secret), book("released_at")},
		{"a document", query.Q("data", map[string]any{"a": 1}), book("data")},
		{"a document in a list", query.Q("data__in", []any{nil}), book("data")},
		{"an order on a document", query.Q("data__gt", query.F("data")), book("data")},
		{"a text for a relation", query.Q("author", secret), book("author_id")},
		{"an instance of another model", query.Q("author", &Book{ID: 1}), book("author_id")},
		{"an instance without a key", query.Q("author", &Author{}), misuse},
		{"an instance without a key in a list", query.Q("author__in", []Author{{ID: 1}, {}}), misuse},

		{"nil is larger than nothing", query.Q("subtitle__gt", nil), book("subtitle")},
		{"a nil pointer is smaller than nothing", query.Q("pages__lte", (*int)(nil)), book("pages")},
		{"isnull of a word", query.Q("subtitle__isnull", "yes"), book("subtitle")},
		{"isnull of a number", query.Q("subtitle__isnull", 1), book("subtitle")},
		{"isnull of nil", query.Q("subtitle__isnull", nil), book("subtitle")},
		{"isnull of a list", query.Q("subtitle__isnull", []bool{true}), book("subtitle")},

		{"in a string", query.Q("title__in", secret), book("title")},
		{"in bytes", query.Q("cover__in", []byte("abc")), book("cover")},
		{"in a UUID", query.Q("code__in", [16]byte{1}), book("code")},
		{"in a number", query.Q("pages__in", 7), book("pages")},
		{"in nil", query.Q("pages__in", nil), book("pages")},
		{"in a pointer to a list", query.Q("pages__in", &[]int{1}), book("pages")},
		{"not in a map", query.Q("pages__not_in", map[int]bool{1: true}), book("pages")},
		{"a wrong element", query.Q("pages__in", []any{1, secret}), book("pages")},
		{"an expression as an element", query.Q("pages__in", []any{query.F("pages")}), book("pages")},

		{"a range of one", query.Q("pages__range", []int{1}), book("pages")},
		{"a range of three", query.Q("pages__range", []int{1, 2, 3}), book("pages")},
		{"a range of a string", query.Q("title__range", "ab"), book("title")},
		{"a range with a wrong end", query.Q("pages__range", []any{1, secret}), book("pages")},

		{"text lookup on a number", query.Q("pages__contains", "1"), book("pages")},
		{"text lookup on a decimal", query.Q("price__startswith", "1"), book("price")},
		{"text lookup of a number", query.Q("title__contains", 1), book("title")},
		{"text lookup of nil", query.Q("title__icontains", nil), book("title")},
		{"text lookup of bytes", query.Q("title__endswith", []byte("x")), book("title")},
		{"text lookup of an expression", query.Q("title__iexact", query.F("subtitle")), misuse},
		{"text lookup of a NUL byte", query.Q("title__contains", "a\x00"), book("title")},
		{"text lookup of no UTF-8", query.Q("title__contains", "\xff"), book("title")},

		{"an expression of another type", query.Q("pages", query.F("title")), book("pages")},
		{"an expression with an unknown name", query.Q("pages", query.F("paegs")), wrongName("Book", "paegs", "pages")},
		{"an expression with a lookup", query.Q("pages", query.F("pages__gt")), wrongName("Book", "gt", "")},
		{"arithmetic on texts", query.Q("title", query.F("title").Add(1)), book("title")},
		{"arithmetic with a text", query.Q("pages", query.F("pages").Add(secret)), book("pages")},
		{"arithmetic with an exponent", query.Q("price", query.F("price").Add("1e5")), book("price")},
		{"arithmetic with a bool", query.Q("pages", query.F("pages").Add(true)), book("pages")},
		{"arithmetic with nil", query.Q("pages", query.F("pages").Add(nil)), book("pages")},
		{"arithmetic with a duration", query.Q("pages", query.F("pages").Add(time.Second)), book("pages")},
		{"arithmetic on durations", query.Q("reading", query.F("reading").Add(1)), book("reading")},
		{"arithmetic with a number too large", query.Q("pages", query.F("pages").Add(uint64(1<<63))), book("pages")},
		{"a remainder of floats", query.Q("weight", query.F("weight").Mod(2)), book("weight")},
		{"no expression", query.Q("pages", query.Expr{}), book("pages")},
		{"half an expression", query.Q("pages", query.Expr{Op: query.OpAdd, Left: &query.Expr{Op: query.OpColumn, Path: "pages"}}), book("pages")},

		{"an odd number of arguments", query.Q("pages"), misuse},
		{"a path that is no string", query.Q("pages", 1, 2, 3), misuse},
		{"no predicate", nil, misuse},
		{"the negation of no predicate", query.Not(nil), misuse},
		{"a mistake deep inside", query.Or(query.Q("pages", 1), query.Not(query.And(query.Q("titel", "x")))), wrongName("Book", "titel", "title")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, exclude := range []bool{false, true} {
				n, err := Where(table[Book](t), []query.Predicate{tt.p}, exclude)
				if err == nil || n != nil {
					t.Fatalf("it is accepted: %v, %v", n, err)
				}
				if diff := cmp.Diff(tt.want, refusalOf(err)); diff != "" {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error quotes the value: %v", err)
				}
			}
		})
	}
}

func TestWhereRefusesOnOtherModels(t *testing.T) {
	for _, tt := range []struct {
		name  string
		table *schema.Table
		p     query.Predicate
		want  refusal
	}{
		{"a key of several columns", table[Pair](t), query.Q("pk", 1), misuse},
		{"a relation of several columns", table[Child](t), query.Q("pair", 1), misuse},
		{"a key of several columns in an expression", table[Pair](t), query.Q("a", query.F("pk")), misuse},
		{"an order on arrays", table[Shelf](t), query.Q("labels__gt", []string{"a"}), wrongValue("Shelf", "labels")},
		{"an array in a list", table[Shelf](t), query.Q("labels__in", [][]string{{"a"}}), wrongValue("Shelf", "labels")},
		{"an array beside an array", table[Shelf](t), query.Q("labels", query.F("spares")), wrongValue("Shelf", "labels")},
		{"a key that is not there", keyless(t), query.Q("pk", 1), wrongName("Author", "pk", "")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Where(tt.table, []query.Predicate{tt.p}, false)
			if diff := cmp.Diff(tt.want, refusalOf(err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestNameErrorKnowsTheNames(t *testing.T) {
	_, err := Where(table[Author](t), []query.Predicate{query.Q("nmae", "x")}, false)
	want := &schema.NameError{
		Model: "Author", Name: "nmae", Nearest: "name", Known: []string{"active", "age", "boss", "boss_id", "id", "name", "rank"},
	}
	var got *schema.NameError
	if !errors.As(err, &got) {
		t.Fatalf("%T: %v", err, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOrderByRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		term any
		want refusal
	}{
		{"an unknown column", "titel", wrongName("Book", "titel", "title")},
		{"an unknown column, descending", "-titel", wrongName("Book", "titel", "title")},
		{"two signs", "--title", wrongName("Book", "-title", "title")},
		{"an unknown column of a relation", query.Desc("author__nmae"), wrongName("Author", "nmae", "name")},
		{"a lookup", "title__gt", wrongName("Book", "gt", "")},
		{"a lookup on a relation", "author__in", wrongName("Book", "in", "id")},
		{"SQL", `title"; DROP TABLE "book`, wrongName("Book", `title"; DROP TABLE "book`, "")},
		{"no name", query.Order{}, wrongName("Book", "", "")},
		{"something else", 7, misuse},
		{"nil", nil, misuse},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, err := OrderBy(table[Book](t), []any{"id", tt.term})
			if err == nil || o != nil {
				t.Fatalf("it is accepted: %v, %v", o, err)
			}
			if diff := cmp.Diff(tt.want, refusalOf(err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestAssignmentsRefuse(t *testing.T) {
	book, shelf := table[Book](t), table[Shelf](t)
	for _, tt := range []struct {
		name  string
		table *schema.Table
		set   []query.Assignment
		want  refusal
	}{
		{"an unknown column", book, []query.Assignment{query.Set("titel", "x")}, wrongName("Book", "titel", "title")},
		{"a lookup", book, []query.Assignment{query.Set("title__exact", "x")}, wrongName("Book", "exact", "")},
		{"the key", book, []query.Assignment{query.Set("id", 1)}, misuse},
		{"the key by its short name", book, []query.Assignment{query.Set("pk", 1)}, misuse},
		{"a part of a key", table[Pair](t), []query.Assignment{query.Set("a", 1)}, misuse},
		{"a key of several columns", table[Pair](t), []query.Assignment{query.Set("pk", 1)}, misuse},
		{"a column twice", book, []query.Assignment{query.Set("title", "x"), query.Set("title", "x")}, misuse},
		{"a column and its relation", book, []query.Assignment{query.Set("author_id", 1), query.Set("author", 2)}, misuse},
		{"a column of another model", book, []query.Assignment{query.Set("author__name", "x")}, misuse},
		{"NULL where there is none", book, []query.Assignment{query.Set("title", nil)}, wrongValue("Book", "title")},
		{"NULL as a constant", book, []query.Assignment{query.Set("title", query.Value(nil))}, wrongValue("Book", "title")},
		{"no instance where there must be one", book, []query.Assignment{query.Set("author", (*Author)(nil))}, wrongValue("Book", "author_id")},
		{"an instance without a key", book, []query.Assignment{query.Set("author", Author{})}, misuse},
		{"a wrong value", book, []query.Assignment{query.Set("pages", "many")}, wrongValue("Book", "pages")},
		{"a number too large", book, []query.Assignment{query.Set("pages", 1<<40)}, wrongValue("Book", "pages")},
		{"a predicate's path in an expression", book, []query.Assignment{query.Set("pages", query.F("pages__gt"))}, wrongName("Book", "gt", "")},
		{"a text from a number", book, []query.Assignment{query.Set("title", query.F("pages"))}, wrongValue("Book", "title")},
		{"a whole number from a decimal", book, []query.Assignment{query.Set("pages", query.F("price"))}, wrongValue("Book", "pages")},
		{"a whole number from a float", book, []query.Assignment{query.Set("pages", query.F("pages").Mul(1.5))}, wrongValue("Book", "pages")},
		{"another model's column in an expression", book, []query.Assignment{query.Set("pages", query.F("author__rank").Add(1))}, misuse},
		{"an array of another type", shelf, []query.Assignment{query.Set("labels", query.F("codes"))}, wrongValue("Shelf", "labels")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, err := Assignments(tt.table, tt.set)
			if err == nil || a != nil {
				t.Fatalf("it is accepted: %v, %v", a, err)
			}
			if diff := cmp.Diff(tt.want, refusalOf(err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestTooManyArguments: a statement that the database would refuse is refused before it is sent.
func TestTooManyArguments(t *testing.T) {
	c := plainerCompiler() // takes 100
	query100, query101 := All(table[Author](t)), All(table[Author](t))
	for i := range 101 {
		n := where(t, query100.Table, query.Q("rank__not", i))
		if query101.Where = append(query101.Where, n); i < 100 {
			query100.Where = append(query100.Where, n)
		}
	}
	if _, args, err := c.Count(context.Background(), &query100); err != nil || len(args) != 100 {
		t.Errorf("%d arguments: %v", len(args), err)
	}
	before := c.Renders()
	if _, _, err := c.Count(context.Background(), &query101); refusalOf(err) != misuse {
		t.Errorf("101 arguments: %v", err)
	}
	if c.Renders() != before {
		t.Error("a query that is refused is rendered")
	}
}

// TestListIsOneArgument: neither the text nor the number of arguments grows with a list.
func TestListIsOneArgument(t *testing.T) {
	c := arraysCompiler()
	var first Statement
	for _, n := range []int{0, 1, 2, 1000, 70000} {
		q := All(table[Author](t))
		q.Where = []*Node{where(t, q.Table, query.Q("rank__in", make([]int32, n)))}
		s, args, err := c.Select(context.Background(), &q)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			first = s
		}
		if s != first || len(args) != 1 || len(args[0].(backend.List).Values) != n {
			t.Errorf("%d elements: %d arguments in %s", n, len(args), s.SQL)
		}
	}
	if c.Renders() != 1 {
		t.Errorf("%d texts were rendered", c.Renders())
	}
}
