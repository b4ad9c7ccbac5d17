package backendtest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

// testNames: a name that is no name of the model's is refused wherever a name may stand, before anything is sent.
func testNames(t *testing.T, db *database) {
	db.create(t, author{}, book{}, pair{})
	// Whatever were sent would fail with context.Canceled.
	ctx, cancel := context.WithCancel(db.ctx)
	cancel()
	row := author{ID: 1, Name: "x"}
	for _, name := range []string{
		"nam", "Name", "NAME", "name ", " name", "", "_", "__", "name__", "__name", "name____exact", "--name", "-", "na\x00me", "\xff", "имя",
		`name"`, `"name"`, `name" = "name`, "name; DROP TABLE author", "name--", "name/*", "1", "$1", "name'", "author.name", "t0.name", "*", "count(*)",
		"rowid", "oid", "ctid", "xmin", "tableoid", strings.Repeat("a", 600), strings.Repeat("name__", 100), "(SELECT 1)", "name,id", "name DESC",
		"name NULLS LAST", "random()", "?", "pk__pk", "id__id", "name\n", "TableName", "name__exact__exact",
	} {
		for where, err := range map[string]error{
			"Filter":       second(authors.Filter(query.Q(name, 1)).All(ctx)),
			"a lookup":     second(authors.Filter(query.Q("name__"+name, "x")).All(ctx)),
			"Exclude":      second(authors.Exclude(query.Q(name, 1)).Count(ctx)),
			"Get":          second(authors.Get(ctx, query.Q(name, 1))),
			"F":            second(authors.Filter(query.Q("name", query.F(name))).Exists(ctx)),
			"arithmetic":   second(authors.Filter(query.Q("rank", query.F(name).Add(1))).Exists(ctx)),
			"OrderBy":      second(authors.OrderBy(query.Asc(name)).First(ctx)),
			"Set":          second(authors.Unfiltered().Update(ctx, query.Set(name, 1))),
			"Set to F":     second(authors.Unfiltered().Update(ctx, query.Set("rank", query.F(name)))),
			"UpdateFields": authors.Save(ctx, &row, hare.UpdateFields(name)),
			"OnConflict":   authors.BulkCreate(ctx, []author{row}, hare.OnConflict(name), hare.DoUpdate("rank")),
			"DoUpdate":     authors.BulkCreate(ctx, []author{row}, hare.OnConflict("name"), hare.DoUpdate(name)),
			"a relation":   second(books.Filter(query.Q("author__"+name, 1)).All(ctx)),
		} {
			var field *hare.FieldError
			var call *hare.QueryError
			if !errors.As(err, &field) && !errors.As(err, &call) {
				t.Errorf("%s takes the name %.40q: %v", where, name, err)
			}
			if field != nil && field.Model == "" {
				t.Errorf("%s: the error does not name the model: %v", where, err)
			}
		}
	}

	for wrong, near := range map[string]string{"naem": "name", "Rank": "rank", "agee": "age", "ids": "id"} {
		got := failure[*hare.FieldError](t, wrong, second(authors.Filter(query.Q(wrong, 1)).All(ctx)))
		equal(t, "nearest to "+wrong, near, got.Nearest)
	}
	got := failure[*hare.FieldError](t, "a lookup", second(authors.Filter(query.Q("name__icontain", "x")).All(ctx)))
	equal(t, "nearest lookup", "name__icontains", got.Nearest)
	got = failure[*hare.FieldError](t, "a relation", second(books.Filter(query.Q("autor__name", "x")).All(ctx)))
	equal(t, "nearest relation", []string{"book", "author"}, []string{got.Model, got.Nearest})
	fails[*hare.QueryError](t, "a key of two columns as one value", second(pairs.Filter(query.Q("pk", 1)).All(ctx)))
	fails[*hare.QueryError](t, "a related column", second(books.Unfiltered().Update(ctx, query.Set("author__name", "x"))))
	fails[*hare.QueryError](t, "a value of a related column", second(books.Unfiltered().Update(ctx, query.Set("title", query.F("author__name")))))
	fails[*hare.QueryError](t, "an unsaved author", second(books.Filter(query.Q("author", &author{Name: "x"})).All(ctx)))
	fails[*hare.QueryError](t, "an unsaved author, set", second(books.Unfiltered().Update(ctx, query.Set("author", &author{Name: "x"}))))
	fails[*hare.ValidationError](t, "another model", second(books.Filter(query.Q("author", &book{ID: 1})).All(ctx)))
}

// testMessages: no error of hare's own quotes a value, and what a constraint refuses is not quoted either.
func testMessages(t *testing.T, db *database) {
	db.create(t, author{}, book{}, everything{}, task{})
	ctx := db.ctx
	const private = "k4tz3nf0rm"
	must(t, authors.Create(ctx, &author{Name: private}))
	good := everything{Amount: "0"}
	must(t, everythings.Create(ctx, &good))
	row := good
	row.Short = private
	bad := good
	bad.Raw = json.RawMessage(`{"` + private)
	for what, err := range map[string]error{
		"a text that is too long":     everythings.Save(ctx, &row),
		"in a list":                   second(everythings.Filter(query.Q("short__in", []string{private})).All(ctx)),
		"no number":                   second(everythings.Filter(query.Q("large", private)).All(ctx)),
		"no number in a list":         second(everythings.Filter(query.Q("large__in", []string{private})).All(ctx)),
		"no decimal":                  second(everythings.Filter(query.Q("amount", private)).All(ctx)),
		"no UUID":                     second(everythings.Filter(query.Q("key", private)).All(ctx)),
		"no time":                     second(everythings.Filter(query.Q("at", private)).All(ctx)),
		"no bool":                     second(everythings.Unfiltered().Update(ctx, query.Set("flag", private))),
		"no range":                    second(everythings.Filter(query.Q("large__range", private)).All(ctx)),
		"no isnull":                   second(everythings.Filter(query.Q("text__isnull", private)).All(ctx)),
		"arithmetic":                  second(everythings.Unfiltered().Update(ctx, query.Set("large", query.F("large").Add(private)))),
		"no document":                 everythings.Save(ctx, &bad),
		"no choice":                   tasks.Create(ctx, &task{State: private, Urgency: 1}),
		"a unique constraint":         authors.Create(ctx, &author{Name: private}),
		"a unique constraint in bulk": authors.BulkCreate(ctx, []author{{Name: private}, {Name: private}}),
		"a unique constraint, set":    second(authors.Filter(query.Q("name", private)).Update(ctx, query.Set("rank", -1))),
		"not the only one":            second(authors.Get(ctx, query.Q("name", private+"x"))),
		"a context that has ended": func() error {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			return second(authors.Filter(query.Q("name", private)).All(ended))
		}(),
		"a statement of one's own": second(db.client.Exec(ctx, "INSERT INTO author (name, rank) VALUES ($1, 1)", private)),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
			continue
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(e.Error(), private) {
				t.Errorf("%s: the message has the value: %v (%T)", what, e, e)
				break
			}
		}
	}
}
