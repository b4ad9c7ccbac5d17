package compile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/query"

	"github.com/hare-go/hare/internal/schema"
)

var hostileNames = []string{
	`id" = 1; DROP TABLE "author"; --`, `name' OR '1'='1`, "name) OR (1=1", "name; DELETE FROM author", "name--", "name/*",
	"name\x00", "\"", `""`, "?", "??", "$1", "t0.name", `t0"."name`, "author.name", "name ", " name", "NAME", "name\n", "*", "1",
	"name__exact; --", "name__exact__exact", "boss__name; --", "boss__", "__name", "__", "boss____name", "名前", "\xff",
}

// TestHostileNames: a name is one of the model's or it is refused, wherever it stands, and nothing is rendered.
func TestHostileNames(t *testing.T) {
	author := table[Author](t)
	for _, name := range hostileNames {
		_, filter := Where(author, []query.Predicate{query.Q(name, 1)}, false)
		_, expression := Where(author, []query.Predicate{query.Q("rank", query.F(name).Add(1))}, false)
		_, order := OrderBy(author, []any{name})
		_, set := Assignments(author, []query.Assignment{query.Set(name, 1)})
		_, value := Assignments(author, []query.Assignment{query.Set("rank", query.F(name))})
		for where, err := range map[string]error{
			"a filter": filter, "an expression": expression, "an order": order, "an assignment": set, "its value": value,
		} {
			if r := refusalOf(err); r.Model != "Author" || r.Column != "" {
				t.Errorf("%q as the name in %s: %v", name, where, err)
			}
		}
	}
}

// TestHostileValues: a value never touches the text.
func TestHostileValues(t *testing.T) {
	author := table[Author](t)
	for _, lookup := range []string{"", "__not", "__gt", "__contains", "__iexact", "__in"} {
		texts := map[string]bool{}
		for _, value := range []string{"x", `x"; DROP TABLE "author"; --`, `' OR '1'='1`, "?", "$1", "%", `\`} {
			q := All(author)
			q.Where = []*Node{where(t, author, query.Q("name"+lookup, operand(lookup, value)))}
			changes := set(t, author, query.Set("name", value))
			s, args, err := arraysCompiler().Update(&q, changes, noon)
			if err != nil || len(args) != 2 {
				t.Fatalf("%d arguments: %v", len(args), err)
			}
			texts[s.SQL] = true
		}
		if len(texts) != 1 {
			t.Errorf("%q: the values make %d texts", lookup, len(texts))
		}
	}
}

func operand(lookup, value string) any {
	if lookup == "__in" {
		return []string{value}
	}
	return value
}

// TestNamesAreQuoted: names that no model can have, as the schema refuses them, would still stay names. A question mark
// is a placeholder to squirrel, a dollar to the database.
func TestNamesAreQuoted(t *testing.T) {
	t.Parallel()
	odd := *table[Author](t)
	odd.Name = `a"b?c$1??`
	odd.Columns = nil
	for _, c := range table[Author](t).Columns {
		renamed := *c
		renamed.Table, renamed.Name = &odd, `"?`+c.Name+`$2`
		odd.Columns = append(odd.Columns, &renamed)
	}
	odd.PK = odd.Columns[:1]
	q := All(&odd)
	q.Where = []*Node{leafValue(newPlace(nil, odd.Columns[1]), opEqual, "x")}
	q.Order, q.Limit = PrimaryKeyOrder(&odd), 3
	some := Columns(odd.Columns[1], odd.Columns[3])

	c := arraysCompiler()
	got := []string{}
	keep := func(s Statement, _ []any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, s.SQL)
	}
	keep(c.Count(&q))
	keep(c.Delete(&q))
	keep(c.Update(&q, []Assignment{{column: odd.Columns[3], value: int64(1)}}, noon))
	row := func(s Statement, err error) { t.Helper(); keep(s, nil, err) }
	row(c.Insert(&odd, some, Columns(odd.PK...)))
	row(c.UpdateRow(&odd, some, ColumnSet{}))
	row(c.DeleteRow(&odd))
	rows, _, err := c.InsertRows(&odd, some, ColumnSet{})
	row(rows, err)

	want := []string{
		`SELECT count(*) FROM (SELECT 1 FROM {T} WHERE {name} = $1 LIMIT $2) AS "rows"`,
		`DELETE FROM {T} WHERE {id} IN (SELECT {id} FROM {T} WHERE {name} = $1 ORDER BY {id} LIMIT $2)`,
		`UPDATE {T} SET {rank} = $1 WHERE {id} IN (SELECT {id} FROM {T} WHERE {name} = $2 ORDER BY {id} LIMIT $3)`,
		`INSERT INTO {T} ({name},{rank}) VALUES ($1,$2) RETURNING {id}`,
		`UPDATE {T} SET {name} = $1, {rank} = $2 WHERE {id} = $3`,
		`DELETE FROM {T} WHERE {id} = $1`,
		`INSERT INTO {T} ({name},{rank}) SELECT * FROM unnest($1::text[], $2::int4[])`,
	}
	names := strings.NewReplacer("{T}", `"a""b?c$1??"`, "{id}", quoteOdd("id"), "{name}", quoteOdd("name"), "{rank}", quoteOdd("rank"))
	for i := range want {
		want[i] = names.Replace(want[i])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func quoteOdd(name string) string { return `"""?` + name + `$2"` }

// TestWideTables: a set of columns holds any number of them.
func TestWideTables(t *testing.T) {
	wide := &schema.Table{Model: "Wide", Name: "wide"}
	for i := range 300 {
		wide.Columns = append(wide.Columns, &schema.Column{Table: wide, Index: i})
	}
	var s ColumnSet
	for _, i := range []int{299, 0, 63, 64, 127, 128, 64} {
		s = s.With(wide.Columns[i])
	}
	got := []int{}
	for c := range s.In(wide) {
		got = append(got, c.Index)
	}
	if diff := cmp.Diff([]int{0, 63, 64, 127, 128, 299}, got); diff != "" || s.Len() != 6 {
		t.Errorf("%d columns (-want +got):\n%s", s.Len(), diff)
	}
	other := Columns(wide.Columns[0], wide.Columns[63], wide.Columns[64], wide.Columns[127], wide.Columns[128], wide.Columns[299])
	if s != other {
		t.Error("the same columns in another order are another set")
	}
	if string(s.appendKey(nil)) == string(s.With(wide.Columns[298]).appendKey(nil)) {
		t.Error("two sets have one key")
	}
}
