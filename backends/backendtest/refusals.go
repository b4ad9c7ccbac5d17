package backendtest

import (
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

// testRelations: paths over foreign keys, and what the database does with them.
func testRelations(t *testing.T, db *database) {
	db.create(t, book{}, author{})
	ctx := db.ctx
	ada, bob := author{Name: "Ada", Rank: 1}, author{Name: "Bob", Rank: 2}
	must(t, authors.Create(ctx, &ada))
	must(t, authors.Create(ctx, &bob))
	must(t, books.BulkCreate(ctx, []book{
		{Title: "A1", Price: "1.00", AuthorID: ada.ID}, {Title: "A2", Price: "2.00", AuthorID: ada.ID},
		{Title: "B1", Price: "3.00", AuthorID: bob.ID},
	}))
	titles := func(qs hare.QuerySet[book]) []string {
		t.Helper()
		rows, err := qs.All(ctx)
		must(t, err)
		list := make([]string, len(rows))
		for i, row := range rows {
			list[i] = row.Title
		}
		return list
	}
	equal(t, "by the author's name", []string{"A1", "A2"}, titles(books.Filter(query.Q("author__name", "Ada")).OrderBy("id")))
	equal(t, "by the author", []string{"B1"}, titles(books.Filter(query.Q("author", &bob)).OrderBy("id")))
	equal(t, "by the author's key", []string{"B1"}, titles(books.Filter(query.Q("author_id", bob.ID)).OrderBy("id")))
	equal(t, "excluded", []string{"A1", "A2"}, titles(books.Exclude(query.Q("author__rank__gt", 1)).OrderBy("id")))
	equal(t, "ordered", []string{"B1", "A2", "A1"}, titles(books.OrderBy("-author__rank", "-id")))
	changed, err := books.Filter(query.Q("author__name", "Ada")).Update(ctx, query.Set("price", "9.99"))
	must(t, err)
	equal(t, "updated over the relation", int64(2), changed)

	fails[*hare.IntegrityError](t, "an author who is not there", books.Create(ctx, &book{Title: "C", Price: "1", AuthorID: -1}))
	gone, err := authors.Filter(query.Q("name", "Ada")).Delete(ctx)
	must(t, err)
	equal(t, "cascaded rows are not counted", int64(1), gone)
	equal(t, "what is left", []string{"B1"}, titles(books))
}

// testRefusals: a wrong call is an error of its own kind before anything is sent.
func testRefusals(t *testing.T, db *database) {
	db.create(t, author{}, book{}, everything{})
	ctx := db.ctx

	t.Run("names", func(t *testing.T) {
		for what, qs := range map[string]hare.QuerySet[author]{
			"Filter": authors.Filter(query.Q("nam", "x")), "Exclude": authors.Exclude(query.Q("nam", "x")), "OrderBy": authors.OrderBy("-nam"),
			"an expression": authors.Filter(query.Q("name", query.F("nam"))),
		} {
			_, err := qs.All(ctx)
			got := failure[*hare.FieldError](t, what, err)
			equal(t, what, []string{"author", "nam", "name"}, []string{got.Model, got.Field, got.Nearest})
		}
		_, err := authors.Unfiltered().Update(ctx, query.Set("nam", "x"))
		fails[*hare.FieldError](t, "Set", err)
		_, err = authors.Filter(query.Q("name__contans", "x")).All(ctx)
		fails[*hare.FieldError](t, "a lookup", err)
		_, err = authors.Get(ctx, query.Q(`name" OR 1=1 --`, "x"))
		fails[*hare.FieldError](t, "SQL in a name", err)
		_, err = books.Filter(query.Q("author__nam", "x")).Count(ctx)
		got := failure[*hare.FieldError](t, "a related name", err)
		equal(t, "model", "author", got.Model)
	})

	t.Run("the first mistake wins and every terminal method returns it", func(t *testing.T) {
		qs := authors.Filter(query.Q("first", 1)).OrderBy("second").Limit(-1)
		row := author{Name: "x"}
		for what, err := range map[string]error{
			"All": second(qs.All(ctx)), "Get": second(qs.Get(ctx)), "First": second(qs.First(ctx)), "Last": second(qs.Last(ctx)),
			"Count": second(qs.Count(ctx)), "Exists": second(qs.Exists(ctx)), "Create": qs.Create(ctx, &row), "Save": qs.Save(ctx, &row),
			"BulkCreate": qs.BulkCreate(ctx, []author{row}), "Update": second(qs.Update(ctx, query.Set("rank", 1))),
			"Delete": second(qs.Delete(ctx)), "DeleteObject": qs.DeleteObject(ctx, &row), "Refresh": qs.Refresh(ctx, &row),
		} {
			equal(t, what, "first", failure[*hare.FieldError](t, what, err).Field)
		}
		for _, err := range qs.Iterate(ctx) {
			fails[*hare.FieldError](t, "Iterate", err)
		}
	})

	t.Run("calls", func(t *testing.T) {
		for what, err := range map[string]error{
			"a negative limit":      second(authors.Limit(-1).All(ctx)),
			"a negative offset":     second(authors.Offset(-1).All(ctx)),
			"filtering a slice":     second(authors.Limit(1).Filter(query.Q("rank", 1)).All(ctx)),
			"ordering a slice":      second(authors.Limit(1).OrderBy("rank").All(ctx)),
			"an odd Q":              second(authors.Filter(query.Q("rank")).All(ctx)),
			"an order of a number":  second(authors.OrderBy(5).All(ctx)),
			"assigning the key":     second(authors.Unfiltered().Update(ctx, query.Set("id", 5))),
			"assigning twice":       second(authors.Unfiltered().Update(ctx, query.Set("rank", 5), query.Set("rank", 6))),
			"assigning nothing":     second(authors.Unfiltered().Update(ctx)),
			"no client":             second(authors.Using(nil).All(ctx)),
			"not made by Objects":   second(hare.QuerySet[author]{}.All(ctx)),
			"filter of no queryset": second(hare.QuerySet[author]{}.Filter(query.Q("rank", 1)).All(ctx)),
		} {
			fails[*hare.QueryError](t, what, err)
		}
		_, err := authors.UsingAlias("nowhere").All(ctx)
		fails[*hare.ConfigurationError](t, "an unknown alias", err)
	})

	t.Run("values are refused by every way of writing and reading alike", func(t *testing.T) {
		good := everything{Amount: "0"}
		must(t, everythings.Create(ctx, &good))
		bad := map[string]struct {
			column string
			value  any
			set    func(*everything)
		}{
			"too long":        {"short", "123456", func(e *everything) { e.Short = "123456" }},
			"a NUL byte":      {"text", "a\x00b", func(e *everything) { e.Text = "a\x00b" }},
			"not UTF-8":       {"text", "\xff", func(e *everything) { e.Text = "\xff" }},
			"too many digits": {"amount", "1.12345678901", func(e *everything) { e.Amount = "1.12345678901" }},
			"not a number":    {"amount", "ten", func(e *everything) { e.Amount = "ten" }},
			"beyond int64":    {"quad", uint64(1 << 63), func(e *everything) { e.Quad = 1 << 63 }},
			"out of range":    {"at", time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC), func(e *everything) { e.At = time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC) }},
		}
		for what, tt := range bad {
			row := good
			tt.set(&row)
			unsaved := row
			unsaved.ID = 0
			for way, err := range map[string]error{
				"Create": everythings.Create(ctx, &unsaved), "Save": everythings.Save(ctx, &row),
				"BulkCreate": everythings.BulkCreate(ctx, []everything{unsaved, unsaved}),
				"Update":     second(everythings.Unfiltered().Update(ctx, query.Set(tt.column, tt.value))),
				"Filter":     second(everythings.Filter(query.Q(tt.column, tt.value)).All(ctx)),
			} {
				got := failure[*hare.ValidationError](t, what+": "+way, err)
				equal(t, "column", tt.column, got.Column)
			}
		}
		_, err := everythings.Unfiltered().Update(ctx, query.Set("small", 40000))
		fails[*hare.ValidationError](t, "too large for its column", err)
		_, err = everythings.Unfiltered().Update(ctx, query.Set("text", nil))
		fails[*hare.ValidationError](t, "nil into a column that is not NULL", err)
		_, err = everythings.Unfiltered().Update(ctx, query.Set("large", 5.7))
		fails[*hare.ValidationError](t, "a fraction", err)
	})
}

func second[T any](_ T, err error) error { return err }

// testIntegrity: what the database itself refuses.
func testIntegrity(t *testing.T, db *database) {
	db.create(t, author{}, book{})
	ctx := db.ctx
	row := author{Name: "one"}
	must(t, authors.Create(ctx, &row))
	for what, err := range map[string]error{
		"unique":      authors.Create(ctx, &author{Name: "one"}),
		"primary key": authors.Create(ctx, &author{ID: row.ID, Name: "two"}),
		"check":       authors.Create(ctx, &author{Name: "three", Rank: -1}),
		"foreign key": books.Create(ctx, &book{Title: "t", Price: "1", AuthorID: 12345}),
		"by update":   second(authors.Filter(query.Q("id", row.ID)).Update(ctx, query.Set("rank", -1))),
	} {
		got := failure[*hare.IntegrityError](t, what, err)
		if len(got.SQLState) != 5 || got.SQLState[:2] != "23" {
			t.Errorf("%s: the SQLSTATE is %q", what, got.SQLState)
		}
	}
	_, err := db.client.Exec(ctx, `INSERT INTO author (name, rank) VALUES (NULL, 1)`)
	got := failure[*hare.IntegrityError](t, "NULL into NOT NULL", err)
	equal(t, "column", "name", got.Column)
}
