package backendtest

import (
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

// testExpressions: values that the database computes.
func testExpressions(t *testing.T, db *database) {
	db.create(t, num{}, book{}, author{})
	ctx := db.ctx
	n, m := query.F("n"), query.F("m")
	for _, tt := range []struct {
		name string
		expr query.Expr
		want int64 // for n = 17, m = -5
	}{
		{"add", n.Add(1), 18},
		{"sub", n.Sub(20), -3},
		{"mul", n.Mul(m), -85},
		{"div is cut towards zero", m.Div(2), -2},
		{"mod has the sign of the left side", m.Mod(3), -2},
		{"nested", n.Add(m).Mul(2).Sub(1), 23},
		{"value on the left", query.Value(100).Sub(n), 83},
		{"another column", m, -5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			row := num{N: 17, M: to[int64](-5)}
			must(t, nums.Create(ctx, &row))
			changed, err := nums.Filter(query.Q("id", row.ID)).Update(ctx, query.Set("n", tt.expr))
			must(t, err)
			equal(t, "rows", int64(1), changed)
			must(t, nums.Refresh(ctx, &row))
			equal(t, "n", tt.want, row.N)
		})
	}

	t.Run("all from the row as it was", func(t *testing.T) {
		row := num{N: 1, M: to[int64](2)}
		must(t, nums.Create(ctx, &row))
		_, err := nums.Filter(query.Q("id", row.ID)).Update(ctx, query.Set("n", m), query.Set("m", n))
		must(t, err)
		must(t, nums.Refresh(ctx, &row))
		equal(t, "swapped", []int64{2, 1}, []int64{row.N, *row.M})
	})

	t.Run("decimals", func(t *testing.T) {
		who := author{Name: "who"}
		must(t, authors.Create(ctx, &who))
		row := book{Title: "x", Price: "0.10", AuthorID: who.ID}
		must(t, books.Create(ctx, &row))
		_, err := books.Filter(query.Q("id", row.ID)).Update(ctx, query.Set("price", query.F("price").Add("0.20")))
		must(t, err)
		must(t, books.Refresh(ctx, &row))
		equal(t, "price", "0.30", row.Price)
		found, err := books.Filter(query.Q("price", query.Value("0.10").Add("0.20"))).Exists(ctx)
		must(t, err)
		equal(t, "compared", true, found)
	})
}

// testUpdates: Update and Delete of querysets.
func testUpdates(t *testing.T, db *database) {
	db.create(t, num{}, ticket{})
	ctx := db.ctx
	reset := func(t *testing.T) {
		t.Helper()
		_, err := nums.Unfiltered().Delete(ctx)
		must(t, err)
		must(t, nums.BulkCreate(ctx, numbers()))
	}

	t.Run("count", func(t *testing.T) {
		reset(t)
		changed, err := nums.Filter(query.Q("n__gte", 70)).Update(ctx, query.Set("m", 80))
		must(t, err)
		equal(t, "rows", int64(10), changed)
		changed, err = nums.Filter(query.Q("m", 80)).Update(ctx, query.Set("n", 0), query.Set("m", nil))
		must(t, err)
		equal(t, "rows", int64(10), changed)
		found, err := nums.Filter(query.Q("n", 0, "m", nil)).Count(ctx)
		must(t, err)
		equal(t, "zero values and NULL are written", int64(10), found)
		changed, err = nums.Filter(query.Q("n", -1)).Update(ctx, query.Set("m", 1))
		must(t, err)
		equal(t, "no rows", int64(0), changed)
	})

	t.Run("a slice", func(t *testing.T) {
		reset(t)
		changed, err := nums.OrderBy("-n").Offset(1).Limit(2).Update(ctx, query.Set("m", -1))
		must(t, err)
		equal(t, "updated", int64(2), changed)
		rows, err := nums.Filter(query.Q("m", -1)).OrderBy("n").All(ctx)
		must(t, err)
		equal(t, "which", []int64{91, 94}, values(rows))
		gone, err := nums.OrderBy("n").Limit(3).Delete(ctx)
		must(t, err)
		equal(t, "deleted", int64(3), gone)
		first, err := nums.OrderBy("n").First(ctx)
		must(t, err)
		equal(t, "the first that is left", int64(19), first.N)
		gone, err = nums.Limit(0).Delete(ctx)
		must(t, err)
		equal(t, "of an empty slice", int64(0), gone)
	})

	t.Run("everything only on request", func(t *testing.T) {
		reset(t)
		_, err := nums.Update(ctx, query.Set("m", 1))
		fails[*hare.QueryError](t, "Update", err)
		_, err = nums.Delete(ctx)
		fails[*hare.QueryError](t, "Delete", err)
		_, err = nums.Filter().Delete(ctx)
		fails[*hare.QueryError](t, "Delete with an empty filter", err)
		_, err = nums.Filter(query.And()).Delete(ctx)
		fails[*hare.QueryError](t, "Delete with a filter that says nothing", err)
		count, err := nums.Count(ctx)
		must(t, err)
		equal(t, "rows", int64(30), count)
		changed, err := nums.Unfiltered().Update(ctx, query.Set("m", 1))
		must(t, err)
		equal(t, "updated", int64(30), changed)
		gone, err := nums.Unfiltered().Delete(ctx)
		must(t, err)
		equal(t, "deleted", int64(30), gone)
	})

	t.Run("the time of the last change follows", func(t *testing.T) {
		row := ticket{Subject: "old"}
		must(t, tickets.Create(ctx, &row))
		time.Sleep(2 * time.Millisecond)
		_, err := tickets.Filter(query.Q("id", row.ID)).Update(ctx, query.Set("subject", "new"))
		must(t, err)
		after := row
		must(t, tickets.Refresh(ctx, &after))
		if !after.UpdatedAt.After(row.UpdatedAt) || !after.CreatedAt.Equal(row.CreatedAt) {
			t.Errorf("created %v, %v; updated %v, %v", row.CreatedAt, after.CreatedAt, row.UpdatedAt, after.UpdatedAt)
		}
		long := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
		_, err = tickets.Filter(query.Q("id", row.ID)).Update(ctx, query.Set("updated_at", long))
		must(t, err)
		must(t, tickets.Refresh(ctx, &after))
		equal(t, "unless it is set", long, after.UpdatedAt)
	})
}
