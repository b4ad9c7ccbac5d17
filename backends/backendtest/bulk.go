package backendtest

import (
	"fmt"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

// testBulk: BulkCreate writes all or nothing and fills everything in.
func testBulk(t *testing.T, db *database) {
	db.create(t, author{}, ticket{})
	ctx := db.ctx
	many := func(prefix string, n int) []author {
		rows := make([]author, n)
		for i := range rows {
			rows[i] = author{Name: fmt.Sprintf("%s%04d", prefix, i), Rank: int64(i)}
		}
		return rows
	}

	for _, tt := range []struct {
		name string
		rows int
		opts []hare.BulkOption
	}{
		{"none", 0, nil},
		{"one", 1, nil},
		{"one statement", 100, nil},
		{"batches", 25, []hare.BulkOption{hare.BatchSize(10)}},
		{"batches of one", 3, []hare.BulkOption{hare.BatchSize(1)}},
		{"beyond the parameters", 20000, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rows := many(tt.name, tt.rows)
			must(t, authors.BulkCreate(ctx, rows, tt.opts...))
			stored, err := authors.Filter(query.Q("name__startswith", tt.name+"0")).OrderBy("name").All(ctx)
			must(t, err)
			if tt.rows < 10000 {
				equal(t, "each object has the key of its row", append([]author{}, rows...), stored)
			}
			n, err := authors.Filter(query.Q("name__in", names(rows))).Count(ctx)
			must(t, err)
			equal(t, "rows", int64(tt.rows), n)
		})
	}

	t.Run("own and generated keys together", func(t *testing.T) {
		rows := many("mixed", 6)
		rows[1].ID, rows[4].ID = 900001, 900004
		must(t, authors.BulkCreate(ctx, rows))
		stored, err := authors.Filter(query.Q("name__startswith", "mixed")).OrderBy("name").All(ctx)
		must(t, err)
		equal(t, "rows", rows, stored)
	})

	t.Run("defaults", func(t *testing.T) {
		rows := []ticket{{Subject: "a"}, {Subject: "b", Priority: to[int64](1)}, {Subject: "c", Channel: to("mail")}, {Subject: "d"}}
		must(t, tickets.BulkCreate(ctx, rows))
		stored, err := tickets.OrderBy("subject").All(ctx)
		must(t, err)
		equal(t, "rows", rows, stored)
		equal(t, "priorities", []int64{3, 1, 3, 3}, []int64{*rows[0].Priority, *rows[1].Priority, *rows[2].Priority, *rows[3].Priority})
		for _, row := range rows {
			if !row.CreatedAt.Equal(rows[0].CreatedAt) || !row.UpdatedAt.Equal(rows[0].CreatedAt) {
				t.Error("the rows of one call have different times")
			}
		}
	})

	for name, opts := range map[string][]hare.BulkOption{
		"a failure in one statement": nil,
		"a failure in a late batch":  {hare.BatchSize(3)},
	} {
		t.Run(name, func(t *testing.T) {
			rows := many(name, 10)
			rows[9].Name = rows[0].Name
			before := append([]author{}, rows...)
			fails[*hare.IntegrityError](t, "two rows with one name", authors.BulkCreate(ctx, rows, opts...))
			equal(t, "the objects are unchanged", before, rows)
			n, err := authors.Filter(query.Q("name__startswith", name)).Count(ctx)
			must(t, err)
			equal(t, "rows", int64(0), n)
		})
	}

	t.Run("refused", func(t *testing.T) {
		rows := []author{{Name: "fine"}, {Name: "a name that is much longer than the forty characters that there are"}}
		got := failure[*hare.ValidationError](t, "too long", authors.BulkCreate(ctx, rows))
		equal(t, "where", []string{"author", "Name", "name"}, []string{got.Model, got.Field, got.Column})
		fails[*hare.QueryError](t, "an empty batch", authors.BulkCreate(ctx, many("x", 3), hare.BatchSize(0)))
		n, err := authors.Filter(query.Q("name", "fine")).Count(ctx)
		must(t, err)
		equal(t, "rows", int64(0), n)
	})
}

func names(rows []author) []string {
	list := make([]string, len(rows))
	for i, row := range rows {
		list[i] = row.Name
	}
	return list
}

// testConflicts: BulkCreate of rows that are there already.
func testConflicts(t *testing.T, db *database) {
	db.create(t, author{}, pair{}, ticket{})
	ctx := db.ctx
	must(t, authors.BulkCreate(ctx, []author{{Name: "a", Rank: 1}, {Name: "b", Rank: 2}}))
	ranks := func(t *testing.T, want ...string) {
		t.Helper()
		rows, err := authors.OrderBy("name").All(ctx)
		must(t, err)
		var got []string
		for _, row := range rows {
			got = append(got, fmt.Sprint(row.Name, row.Rank))
		}
		equal(t, "names and ranks", want, got)
	}

	t.Run("ignored", func(t *testing.T) {
		must(t, authors.BulkCreate(ctx, []author{{Name: "a", Rank: 7}, {Name: "c", Rank: 3}, {Name: "c", Rank: 8}}, hare.IgnoreConflicts()))
		ranks(t, "a1", "b2", "c3")
		must(t, authors.BulkCreate(ctx, []author{{Name: "b", Rank: 7}}, hare.IgnoreConflicts(), hare.OnConflict("name")))
		fails[*hare.IntegrityError](t, "another constraint", authors.BulkCreate(ctx, []author{{ID: 1000, Name: "d"}, {ID: 1000, Name: "e"}},
			hare.IgnoreConflicts(), hare.OnConflict("name")))
		ranks(t, "a1", "b2", "c3")
	})

	t.Run("updated", func(t *testing.T) {
		before, err := authors.Get(ctx, query.Q("name", "a"))
		must(t, err)
		rows := []author{{Name: "a", Rank: 10, Age: to[int64](5)}, {Name: "d", Rank: 4}, {Name: "a", Rank: 11}}
		must(t, authors.BulkCreate(ctx, rows, hare.OnConflict("name"), hare.DoUpdate("rank")))
		ranks(t, "a11", "b2", "c3", "d4")
		after, err := authors.Get(ctx, query.Q("name", "a"))
		must(t, err)
		equal(t, "only the columns that are named", author{ID: before.ID, Name: "a", Rank: 11}, *after)
		equal(t, "keys", []int64{before.ID, before.ID}, []int64{rows[0].ID, rows[2].ID})
		if rows[1].ID == 0 {
			t.Error("the key of a new row is not filled in")
		}
	})

	t.Run("by a key of two columns", func(t *testing.T) {
		must(t, pairs.Create(ctx, &pair{1, "x", "old"}))
		must(t, pairs.BulkCreate(ctx, []pair{{1, "x", "new"}, {1, "y", "other"}}, hare.OnConflict("a", "b"), hare.DoUpdate("note")))
		rows, err := pairs.OrderBy("pk").All(ctx)
		must(t, err)
		equal(t, "notes", []string{"new", "other"}, notes(rows))
	})

	t.Run("the time of the last change follows", func(t *testing.T) {
		row := ticket{Subject: "old"}
		must(t, tickets.Create(ctx, &row))
		again := []ticket{{ID: row.ID, Subject: "new"}}
		must(t, tickets.BulkCreate(ctx, again, hare.OnConflict("id"), hare.DoUpdate("subject")))
		stored := ticket{ID: row.ID}
		must(t, tickets.Refresh(ctx, &stored))
		if stored.Subject != "new" || !stored.UpdatedAt.Equal(again[0].UpdatedAt) || !stored.CreatedAt.Equal(row.CreatedAt) {
			t.Errorf("the row is %+v after %+v", stored, row)
		}
	})

	t.Run("refused", func(t *testing.T) {
		rows := []author{{Name: "z"}}
		for what, opts := range map[string][]hare.BulkOption{
			"both":                    {hare.IgnoreConflicts(), hare.OnConflict("name"), hare.DoUpdate("rank")},
			"where without what":      {hare.OnConflict("name")},
			"what without where":      {hare.DoUpdate("rank")},
			"the key":                 {hare.OnConflict("name"), hare.DoUpdate("id")},
			"the constraint's column": {hare.OnConflict("name"), hare.DoUpdate("name")},
		} {
			fails[*hare.QueryError](t, what, authors.BulkCreate(ctx, rows, opts...))
		}
		fails[*hare.FieldError](t, "a wrong name", authors.BulkCreate(ctx, rows, hare.OnConflict("nam"), hare.DoUpdate("rank")))
		fails[*hare.DatabaseError](t, "no such constraint", authors.BulkCreate(ctx, rows, hare.OnConflict("age"), hare.DoUpdate("rank")))
	})
}
