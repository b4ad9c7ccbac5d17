package compile

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/hare-go/hare/query"
)

// hostile are names as they may come from a program's users. No model has them.
var hostile = []string{
	"", " ", "_", "__", "___", "____", "-", "--", "*", "?", "$1", "\x00", "\xff", "title\x00", "title ", " title", "TITLE", "títle", "ｔｉｔｌｅ",
	`"`, `""`, `title"`, `"title"`, `title" = "title`, `title"; DROP TABLE "book"; --`, "title'; DROP TABLE book; --", "title/**/", "title)",
	"1=1", "title OR 1=1", "t0.title", "t1", `t0"."title`, "book.title", "pg_sleep(10)", "\u202etitle", "titl\u0065\u0301", "😀",
	"__title", "title__", "title____exact", "author____name", "author__", "__author__name", "author__name__", "pk__pk", "exact", "exact__exact",
	`author__name"`, `author"__name`, "author__name__icontains__", `author__name__exact"`, "author__name; --",
	strings.Repeat("x", 1<<20), strings.Repeat("_", 1<<20), strings.Repeat("author__boss__", 1<<16), strings.Repeat("boss__", 1000) + "name",
}

// TestHostileNames: a name that is no model's is an error, whatever is in it and wherever it is given, and renders nothing.
func TestHostileNames(t *testing.T) {
	book := table[Book](t)
	kept := held(&targets)
	for _, name := range hostile {
		for what, err := range map[string]error{
			"filter":     second(Where(book, []query.Predicate{query.Q(name, "x")}, false)),
			"exclude":    second(Where(book, []query.Predicate{query.Q(name, nil)}, true)),
			"lookup":     second(Where(book, []query.Predicate{query.Q("title__"+name, "x")}, false)),
			"order":      second(OrderBy(book, []any{name})),
			"descending": second(OrderBy(book, []any{"-" + name})),
			"assignment": second(Assignments(book, []query.Assignment{query.Set(name, "x")})),
			"expression": second(Where(book, []query.Predicate{query.Q("title", query.F(name))}, false)),
			"arithmetic": second(Assignments(book, []query.Assignment{query.Set("pages", query.F(name).Add(1))})),
		} {
			if what == "lookup" && name == "exact" {
				continue // the one that exists
			}
			if refusalOf(err) == (refusal{}) {
				t.Errorf("%s %.60q: %v", what, name, err)
			}
		}
	}
	if now := held(&targets); now > kept+1 {
		t.Errorf("%d paths are kept that lead nowhere", now-kept)
	}
}

func second[T any](_ T, err error) error { return err }

// TestHostileValues: no value leaves a trace in the text.
func TestHostileValues(t *testing.T) {
	book := table[Book](t)
	harmless, _, err := arraysCompiler().Update(context.Background(), &Query{
		Table: book, Where: []*Node{where(t, book, query.Q("title__icontains", "x", "subtitle__in", []string{"x"}))},
		Limit: Unlimited, Offset: Unlimited,
	}, set(t, book, query.Set("title", "x")), noon)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`"`, "'", "?", "??", "$1", "$2::text", `\`, "'; DROP TABLE book; --", "%", "_", "😀", strings.Repeat("'", 1<<16)} {
		q := All(book)
		q.Where = []*Node{where(t, book, query.Q("title__icontains", text, "subtitle__in", []string{text, text}))}
		got, _, err := arraysCompiler().Update(context.Background(), &q, set(t, book, query.Set("title", text)), noon)
		if err != nil {
			t.Fatal(err)
		}
		if got != harmless {
			t.Errorf("%.20q makes another text: %s", text, got.SQL)
		}
	}
}

// TestNamesAreQuoted: a name is one delimited identifier, whatever is in it.
func TestNamesAreQuoted(t *testing.T) {
	identifier := regexp.MustCompile(`(?s)^"([^"]|"")*"$`)
	for _, name := range append([]string{"select", "Order", "a b", "a?b", "a$1"}, hostile...) {
		quoted := quote(name)
		if !identifier.MatchString(quoted) {
			t.Errorf("%.60q becomes %.60s", name, quoted)
		}
		if back := strings.ReplaceAll(quoted[1:len(quoted)-1], `""`, `"`); back != name {
			t.Errorf("%.60q comes back as %.60q", name, back)
		}
	}
}
