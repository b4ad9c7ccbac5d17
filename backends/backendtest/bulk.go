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
		got := fails[*hare.ValidationError](t, "too long", authors.BulkCreate(ctx, rows))
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
