package backendtest

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
	"github.com/hare-go/hare/transactions"
)

// testLimits: large queries are answered, or refused as what they are.
func testLimits(t *testing.T, db *database) {
	db.create(t, num{})
	ctx := db.ctx
	must(t, nums.BulkCreate(ctx, numbers()))

	t.Run("many alternatives", func(t *testing.T) {
		for _, parts := range []int{2, 500, 3000} {
			var list, others []query.Predicate
			for i := range parts {
				list = append(list, query.Q("n", 10+3*i))
				others = append(others, query.Q("n__not", -i))
			}
			n, err := nums.Filter(query.Or(list...)).Count(ctx)
			must(t, err)
			equal(t, fmt.Sprint(parts, " alternatives"), int64(min(parts, 30)), n)
			n, err = nums.Filter(query.And(others...)).Count(ctx)
			must(t, err)
			equal(t, fmt.Sprint(parts, " conditions"), int64(30), n)
			qs := nums
			for _, p := range others {
				qs = qs.Filter(p)
			}
			n, err = qs.Count(ctx)
			must(t, err)
			equal(t, fmt.Sprint(parts, " filters"), int64(30), n)
			n, err = qs.Exclude(query.Or(list...)).Update(ctx, query.Set("m", 1))
			must(t, err)
			equal(t, fmt.Sprint(parts, " filters of an update"), int64(30-min(parts, 30)), n)
		}
	})

	t.Run("deep", func(t *testing.T) {
		p, e := query.Q("n", 10), query.F("n")
		for range 100 {
			p, e = query.Not(query.Not(p)), e.Add(1)
		}
		n, err := nums.Filter(p).Count(ctx)
		must(t, err)
		equal(t, "negations", int64(1), n)
		n, err = nums.Filter(query.Q("n", e.Sub(100))).Count(ctx)
		must(t, err)
		equal(t, "sums", int64(30), n)
	})

	t.Run("rows after their transaction", func(t *testing.T) {
		Require(t, db.client, features.Transactions, features.Streaming)
		var sequence iter.Seq2[*num, error]
		must(t, transactions.Atomic(ctx, func(ctx context.Context) error {
			sequence = nums.Iterate(ctx)
			return nil
		}))
		seen := 0
		for _, err := range sequence {
			fails[*hare.TransactionError](t, "a late loop", err)
			seen++
		}
		equal(t, "errors", 1, seen)
	})

	t.Run("own keys and generated ones", func(t *testing.T) {
		own := num{ID: 500, N: 1}
		must(t, nums.Create(ctx, &own))
		for i := range 3 {
			row := num{N: int64(i)}
			must(t, nums.Create(ctx, &row))
			if row.ID == own.ID || row.ID <= 0 {
				t.Errorf("the key %d was generated", row.ID)
			}
		}
		negative := num{ID: -5, N: 77}
		must(t, nums.Create(ctx, &negative))
		must(t, nums.Refresh(ctx, &negative))
		equal(t, "a negative key", int64(77), negative.N)
	})
}
