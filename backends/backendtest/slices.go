package backendtest

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
	"github.com/hare-go/hare/transactions"
)

// testSlices: a limit and an offset mean the same to every terminal method, and only a filter or a true slice says which
// rows to write.
func testSlices(t *testing.T, db *database) {
	db.create(t, num{})
	ctx := db.ctx
	must(t, nums.BulkCreate(ctx, numbers()))
	sorted := nums.OrderBy("n")

	t.Run("read", func(t *testing.T) {
		for _, tt := range []struct {
			name  string
			qs    hare.QuerySet[num]
			first int64 // 0: no row
			count int64
		}{
			{"limit", sorted.Limit(2), 10, 2},
			{"limit 0", sorted.Limit(0), 0, 0},
			{"offset", sorted.Offset(2), 16, 28},
			{"offset 0", sorted.Offset(0), 10, 30},
			{"the last row", sorted.Offset(29).Limit(5), 97, 1},
			{"past the end", sorted.Offset(30), 0, 0},
			{"past the end, with a limit", sorted.Offset(30).Limit(1), 0, 0},
			{"enormous", sorted.Limit(math.MaxInt).Offset(1), 13, 29},
			{"both enormous", sorted.Limit(math.MaxInt).Offset(math.MaxInt), 0, 0},
			{"filtered", sorted.Filter(query.Q("n__gt", 50)).Offset(1).Limit(3), 55, 3},
			{"excluded", sorted.Exclude(query.Q("m", nil)).Limit(3), 13, 3},
			{"filtered and empty", sorted.Filter(query.Q("n__gt", 1000)).Limit(3), 0, 0},
		} {
			n, err := tt.qs.Count(ctx)
			must(t, err)
			equal(t, tt.name+": Count", tt.count, n)
			exists, err := tt.qs.Exists(ctx)
			must(t, err)
			equal(t, tt.name+": Exists", tt.first != 0, exists)
			rows, err := tt.qs.All(ctx)
			must(t, err)
			equal(t, tt.name+": All", int(tt.count), len(rows))
			streamed := 0
			for _, err := range tt.qs.Iterate(ctx) {
				must(t, err)
				streamed++
			}
			equal(t, tt.name+": Iterate", int(tt.count), streamed)
			first, err := tt.qs.First(ctx)
			if tt.first == 0 {
				isMissing(t, tt.name+": First", err)
				_, err = tt.qs.Get(ctx)
				isMissing(t, tt.name+": Get", err)
				continue
			}
			must(t, err)
			equal(t, tt.name+": First", tt.first, first.N)
			if _, err := tt.qs.Get(ctx); tt.count > 1 && !errors.Is(err, hare.ErrMultipleObjects) || tt.count == 1 && err != nil {
				t.Errorf("%s: Get: %v", tt.name, err)
			}
		}
		fails[*hare.QueryError](t, "Get with a filter of a slice", second(nums.Limit(1).Get(ctx, query.Q("n", 10))))
		fails[*hare.QueryError](t, "Exclude of a slice", second(nums.Offset(1).Exclude(query.Q("n", 10)).All(ctx)))
		fails[*hare.QueryError](t, "Last of a slice", second(nums.Offset(1).Last(ctx)))
	})

	t.Run("a queryset does not change", func(t *testing.T) {
		base := nums.Filter(query.Q("n__gt", 20)).OrderBy("n")
		for _, derived := range []hare.QuerySet[num]{
			base.Filter(query.Q("n__lt", 30)), base.Exclude(query.Q("n__lt", 90)), base.OrderBy("-n"), base.Limit(1), base.Offset(5), base.Unfiltered(),
		} {
			_, err := derived.All(ctx)
			must(t, err)
		}
		left, right := base.Filter(query.Q("n__lt", 30)), base.Filter(query.Q("n__gt", 90))
		n, err := left.Count(ctx)
		must(t, err)
		m, err := right.Count(ctx)
		must(t, err)
		rows, err := base.All(ctx)
		must(t, err)
		equal(t, "counts", []int64{3, 3, 26, 22}, []int64{n, m, int64(len(rows)), rows[0].N})
	})

	t.Run("a slice that leaves nothing out is no filter", func(t *testing.T) {
		for what, qs := range map[string]hare.QuerySet[num]{
			"nothing": nums, "an order": sorted, "offset 0": nums.Offset(0), "an empty filter": nums.Filter(query.And()).Offset(0),
			"an empty exclude": nums.Exclude(), "a double negation of nothing": nums.Filter(query.Not(query.Not(query.And()))),
		} {
			_, err := qs.Update(ctx, query.Set("m", 0))
			fails[*hare.QueryError](t, "Update: "+what, err)
			_, err = qs.Delete(ctx)
			fails[*hare.QueryError](t, "Delete: "+what, err)
		}
		n, err := nums.Count(ctx)
		must(t, err)
		equal(t, "rows", int64(30), n)
		n, err = nums.Filter(query.Or()).Delete(ctx)
		must(t, err)
		equal(t, "a filter that nothing passes", int64(0), n)
	})

	t.Run("refused by what comes after", func(t *testing.T) {
		_, err := nums.Filter(query.Q("n", 10)).Update(ctx, query.Set("id", 1))
		fails[*hare.QueryError](t, "the key", err)
		_, err = nums.Filter(query.Q("n", 10)).Update(ctx, query.Assignment{})
		fails[*hare.FieldError](t, "an empty assignment", err)
		_, err = nums.Filter(query.Q("n", 10)).Update(ctx, query.Set("n__gt", 1))
		fails[*hare.FieldError](t, "a lookup", err)
		_, err = nums.Filter(nil).All(ctx)
		fails[*hare.QueryError](t, "a nil predicate", err)
		_, err = nums.Filter(query.Not(nil)).All(ctx)
		fails[*hare.QueryError](t, "the negation of nil", err)
		_, err = nums.Filter(query.Q(5, 6)).All(ctx)
		fails[*hare.QueryError](t, "a path that is no text", err)
	})
}

// testIterating: rows that are taken one by one, inside a transaction and outside.
func testIterating(t *testing.T, db *database) {
	db.create(t, num{})
	ctx := db.ctx
	many := make([]num, 3000)
	for i := range many {
		many[i].N = int64(i)
	}
	must(t, nums.BulkCreate(ctx, many))
	errStop := errors.New("stop")

	t.Run("early break in a transaction", func(t *testing.T) {
		must(t, transactions.Atomic(ctx, func(ctx context.Context) error {
			for range 20 {
				for row, err := range nums.OrderBy("n").Iterate(ctx) {
					if err != nil {
						return err
					}
					if row.N == 3 {
						break
					}
				}
			}
			_, err := nums.Filter(query.Q("n", 0)).Update(ctx, query.Set("m", 1))
			return err
		}))
		n, err := nums.Filter(query.Q("m", 1)).Count(ctx)
		must(t, err)
		equal(t, "written after the loops", int64(1), n)
	})

	t.Run("an error out of the loop rolls back", func(t *testing.T) {
		err := transactions.Atomic(ctx, func(ctx context.Context) error {
			if _, err := nums.Filter(query.Q("n", 1)).Update(ctx, query.Set("m", 2)); err != nil {
				return err
			}
			for _, err := range nums.Iterate(ctx) {
				if err != nil {
					return err
				}
				return errStop
			}
			return nil
		})
		if !errors.Is(err, errStop) {
			t.Errorf("got %v", err)
		}
		n, err := nums.Filter(query.Q("m", 2)).Count(ctx)
		must(t, err)
		equal(t, "rows", int64(0), n)
	})

	t.Run("a second statement in the loop of a transaction", func(t *testing.T) {
		var inner error
		seen := 0
		must(t, transactions.Atomic(ctx, func(ctx context.Context) error {
			for _, err := range nums.OrderBy("n").Iterate(ctx) {
				if err != nil {
					return err
				}
				if seen++; seen == 2 {
					_, inner = nums.Count(ctx)
				}
			}
			return nil
		}))
		fails[*hare.TransactionError](t, "the statement", inner)
		equal(t, "the loop goes on", len(many), seen)
	})

	t.Run("writing in the loop outside a transaction", func(t *testing.T) {
		seen := 0
		for row, err := range nums.Filter(query.Q("n__lt", 50)).OrderBy("n").Iterate(ctx) {
			must(t, err)
			seen++
			n, err := nums.Filter(query.Q("id", row.ID)).Update(ctx, query.Set("m", 7))
			must(t, err)
			equal(t, "updated", int64(1), n)
		}
		equal(t, "rows", 50, seen)
	})

	t.Run("a cancelled context ends the loop with an error", func(t *testing.T) {
		limited, cancel := context.WithCancel(ctx)
		defer cancel()
		seen, failed := 0, error(nil)
		for row, err := range nums.OrderBy("n").Iterate(limited) {
			if err != nil {
				if failed = err; row != nil {
					t.Error("an error comes with a row")
				}
				continue
			}
			if seen++; seen == 5 {
				cancel()
				time.Sleep(20 * time.Millisecond)
			}
		}
		if failed == nil && seen < len(many) {
			t.Errorf("the loop ended after %d of %d rows, without an error", seen, len(many))
		}
		if failed != nil && !errors.Is(failed, context.Canceled) {
			t.Errorf("got %v, want context.Canceled in it", failed)
		}
		n, err := nums.Count(ctx)
		must(t, err)
		equal(t, "rows", int64(len(many)), n)
	})

	t.Run("twice", func(t *testing.T) {
		Require(t, db.client, features.Streaming)
		sequence := nums.Filter(query.Q("n__lt", 5)).Iterate(ctx)
		for range 2 {
			seen := 0
			for _, err := range sequence {
				must(t, err)
				seen++
			}
			equal(t, "rows", 5, seen)
		}
	})
}
