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

	t.Run("built in a loop", func(t *testing.T) { testLoops(ctx, t) })

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

// testLoops: what is built in a loop is answered up to the bounds, and refused beyond them before anything is sent.
func testLoops(ctx context.Context, t *testing.T) {
	t.Helper()
	grown := func(n int) query.Predicate {
		p := query.Q("n", 10)
		for i := 1; i < n; i++ {
			p = query.Or(p, query.Q("n", 10+3*i))
		}
		return p
	}
	n, err := nums.Filter(grown(5000)).Count(ctx)
	must(t, err)
	equal(t, "5000 alternatives", int64(30), n)
	negations, sum := query.Q("n", 10), query.F("n")
	for range 448 {
		negations = query.Not(negations)
	}
	for range 150 {
		sum = sum.Add(1)
	}
	n, err = nums.Filter(negations).Filter(query.Q("n__lt", sum)).Count(ctx)
	must(t, err)
	equal(t, "as deep as can be", int64(1), n)
	for name, p := range map[string]query.Predicate{
		"too many arguments": grown(70_000), "too many terms": grown(200_000), "too deep": query.Not(query.Not(query.Not(negations))),
		"too much arithmetic": query.Q("n", sum.Add(1)),
	} {
		_, err := nums.Filter(p).Count(ctx)
		fails[*hare.QueryError](t, name, err)
	}
	_, err = nums.Filter(grown(5000), query.Q("n", query.F("m").Div(0))).Count(ctx)
	refused := failure[*hare.DatabaseError](t, "a division by zero", err)
	if len(refused.Error()) > 1500 || len(refused.SQL) < 50_000 {
		t.Errorf("the error has %d bytes, and its SQL %d", len(refused.Error()), len(refused.SQL))
	}
}
