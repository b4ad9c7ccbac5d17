package backendtest

import (
	"fmt"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

// badge has a key that hare makes up and a name of its own.
type badge struct {
	ID   [16]byte
	Name string `hare:"unique"`
	Hits int
}

var badges = hare.Objects[badge]()

// testBulkOrder: of two objects for one row the later wins, or with IgnoreConflicts the earlier, even where the statement
// of the one has other columns than that of the other.
func testBulkOrder(t *testing.T, db *database) {
	db.create(t, author{}, ticket{}, badge{})
	ctx := db.ctx
	stored := func(t *testing.T, name string) author {
		t.Helper()
		got, err := authors.Get(ctx, query.Q("name", name))
		must(t, err)
		return *got
	}

	t.Run("the last is written", func(t *testing.T) {
		for i, rows := range [][]author{
			{{Name: "u0"}, {ID: 7_000_501, Name: "x0", Rank: 1}, {Name: "x0", Rank: 2}},
			{{ID: 7_000_502, Name: "u1"}, {Name: "x1", Rank: 1}, {ID: 7_000_503, Name: "x1", Rank: 2}},
			{{Name: "x2", Rank: 5}, {ID: 7_000_504, Name: "x2", Rank: 1}, {Name: "y2"}, {Name: "x2", Rank: 2}},
			{{Name: "x3", Rank: 5}, {Name: "x3", Rank: 3}, {ID: 7_000_505, Name: "x3", Rank: 2}},
		} {
			must(t, authors.BulkCreate(ctx, rows, hare.OnConflict("name"), hare.DoUpdate("rank")))
			got := stored(t, fmt.Sprint("x", i))
			equal(t, "rank", int64(2), got.Rank)
		}
	})

	t.Run("the first is written", func(t *testing.T) {
		for i, rows := range [][]author{
			{{Name: "v0"}, {ID: 7_000_601, Name: "z0", Rank: 1}, {Name: "z0", Rank: 2}},
			{{ID: 7_000_602, Name: "v1"}, {Name: "z1", Rank: 1}, {ID: 7_000_603, Name: "z1", Rank: 2}},
		} {
			must(t, authors.BulkCreate(ctx, rows, hare.IgnoreConflicts()))
			got := stored(t, fmt.Sprint("z", i))
			equal(t, "rank", int64(1), got.Rank)
		}
	})

	t.Run("with and without a default", func(t *testing.T) {
		id := [16]byte{9}
		rows := []ticket{{Subject: "other", ID: [16]byte{8}}, {ID: id, Subject: "first", Channel: to("mail")}, {ID: id, Subject: "second"}}
		must(t, tickets.BulkCreate(ctx, rows, hare.OnConflict("id"), hare.DoUpdate("subject")))
		got, err := tickets.Get(ctx, query.Q("id", id))
		must(t, err)
		equal(t, "subject", "second", got.Subject)
	})

	t.Run("the key of the row that was there", func(t *testing.T) {
		first := badge{Name: "a", Hits: 1}
		must(t, badges.Create(ctx, &first))
		rows := []badge{{Name: "b"}, {Name: "a", Hits: 2}, {ID: [16]byte{5}, Name: "a", Hits: 3}, {Name: "b", Hits: 4}}
		must(t, badges.BulkCreate(ctx, rows, hare.OnConflict("name"), hare.DoUpdate("hits")))
		stored, err := badges.OrderBy("name").All(ctx)
		must(t, err)
		equal(t, "rows", []badge{{first.ID, "a", 3}, {rows[0].ID, "b", 4}}, stored)
		equal(t, "keys", []any{first.ID, first.ID, rows[0].ID}, []any{rows[1].ID, rows[2].ID, rows[3].ID})
	})

	t.Run("many of two forms", func(t *testing.T) {
		rows := make([]author, 4000)
		for i := range rows {
			rows[i] = author{Name: fmt.Sprint("many", i), Rank: int64(i)}
			if i%2 == 0 {
				rows[i].ID = int64(8_000_000 + i)
			}
		}
		must(t, authors.BulkCreate(ctx, rows, hare.OnConflict("name"), hare.DoUpdate("rank")))
		n, err := authors.Filter(query.Q("name__startswith", "many")).Count(ctx)
		must(t, err)
		equal(t, "rows", int64(len(rows)), n)
		for i, row := range rows {
			if row.ID == 0 {
				t.Fatalf("object %d has no key", i)
			}
		}
	})

	t.Run("batches", func(t *testing.T) {
		rows := make([]author, 1000)
		for i := range rows {
			rows[i] = author{Name: fmt.Sprintf("batch%04d", i), Rank: int64(i)}
		}
		must(t, authors.BulkCreate(ctx, rows, hare.BatchSize(100)))
		got, err := authors.Filter(query.Q("name__startswith", "batch")).OrderBy("name").All(ctx)
		must(t, err)
		equal(t, "rows", rows, got)
		again := make([]author, 250)
		for i := range again {
			again[i] = author{Name: fmt.Sprintf("batch%04d", i%100), Rank: int64(i)}
		}
		must(t, authors.BulkCreate(ctx, again, hare.BatchSize(40), hare.OnConflict("name"), hare.DoUpdate("rank")))
		for i, row := range again {
			equal(t, "key", rows[i%100].ID, row.ID)
		}
		got, err = authors.Filter(query.Q("name__startswith", "batch")).OrderBy("name").Limit(100).All(ctx)
		must(t, err)
		for i, row := range got {
			want := int64(i + 200)
			if i >= 50 {
				want = int64(i + 100)
			}
			equal(t, row.Name, want, row.Rank)
		}
	})
}
