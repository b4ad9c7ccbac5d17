package backendtest

import (
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

// testCompositeKeys: a key of two columns works wherever a key of one does.
func testCompositeKeys(t *testing.T, db *database) {
	db.create(t, pair{})
	ctx := db.ctx
	rows := []pair{{2, "a", "2a"}, {1, "b", "1b"}, {1, "a", "1a"}, {0, "", "zero"}}
	must(t, pairs.BulkCreate(ctx, rows))

	t.Run("order", func(t *testing.T) {
		for order, want := range map[string][]string{"pk": {"zero", "1a", "1b", "2a"}, "-pk": {"2a", "1b", "1a", "zero"}} {
			got, err := pairs.OrderBy(order).All(ctx)
			must(t, err)
			equal(t, order, want, notes(got))
		}
		first, err := pairs.First(ctx)
		must(t, err)
		last, err := pairs.Last(ctx)
		must(t, err)
		equal(t, "First and Last", []string{"zero", "2a"}, []string{first.Note, last.Note})
	})

	t.Run("one row", func(t *testing.T) {
		row := pair{1, "b", "changed"}
		must(t, pairs.Save(ctx, &row))
		got, err := pairs.Get(ctx, query.Q("a", 1, "b", "b"))
		must(t, err)
		equal(t, "saved", &row, got)
		zero := pair{Note: "still zero"}
		must(t, pairs.Save(ctx, &zero)) // a key of zero values is a key
		n, err := pairs.Count(ctx)
		must(t, err)
		equal(t, "rows", int64(4), n)
		fresh := pair{3, "x", "new"}
		must(t, pairs.Save(ctx, &fresh))
		must(t, pairs.DeleteObject(ctx, &fresh))
		isMissing(t, "Refresh", pairs.Refresh(ctx, &fresh))
		fails[*hare.IntegrityError](t, "the same key twice", pairs.Create(ctx, &pair{A: 1, B: "b"}))
	})

	t.Run("a slice", func(t *testing.T) {
		changed, err := pairs.OrderBy("-pk").Limit(2).Update(ctx, query.Set("note", "top"))
		must(t, err)
		equal(t, "updated", int64(2), changed)
		got, err := pairs.OrderBy("pk").All(ctx)
		must(t, err)
		equal(t, "which", []string{"still zero", "1a", "top", "top"}, notes(got))
		gone, err := pairs.OrderBy("pk").Limit(1).Delete(ctx)
		must(t, err)
		equal(t, "deleted", int64(1), gone)
	})
}

func notes(rows []pair) []string {
	list := make([]string, len(rows))
	for i, row := range rows {
		list[i] = row.Note
	}
	return list
}
