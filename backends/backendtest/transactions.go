package backendtest

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
	"github.com/hare-go/hare/transactions"
)

var errWanted = errors.New("the block says no")

// testTransactions: Atomic, its savepoints and its hooks.
func testTransactions(t *testing.T, db *database) {
	db.create(t, author{}, num{})
	add := func(t *testing.T, ctx context.Context, name string) {
		t.Helper()
		must(t, authors.Create(ctx, &author{Name: name}))
	}
	left := func(t *testing.T, want ...string) {
		t.Helper()
		rows, err := authors.OrderBy("id").All(db.ctx)
		must(t, err)
		equal(t, "names", append([]string{}, want...), names(rows))
		_, err = authors.Unfiltered().Delete(db.ctx)
		must(t, err)
	}

	t.Run("commit", func(t *testing.T) {
		must(t, transactions.Atomic(db.ctx, func(ctx context.Context) error {
			add(t, ctx, "a")
			n, err := authors.Count(ctx)
			must(t, err)
			equal(t, "rows that the block sees", int64(1), n)
			n, err = authors.Count(db.ctx)
			must(t, err)
			equal(t, "rows that others see", int64(0), n)
			return nil
		}))
		left(t, "a")
	})

	t.Run("rollback", func(t *testing.T) {
		err := transactions.Atomic(db.ctx, func(ctx context.Context) error {
			add(t, ctx, "a")
			return errWanted
		})
		equal(t, "the block's own error", errWanted, err, sameError)
		left(t)
	})

	t.Run("panic and Goexit", func(t *testing.T) {
		func() {
			defer func() { equal(t, "the panic goes on", any("boom"), recover()) }()
			_ = transactions.Atomic(db.ctx, func(ctx context.Context) error { add(t, ctx, "a"); panic("boom") })
		}()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = transactions.Atomic(db.ctx, func(ctx context.Context) error {
				_ = authors.Create(ctx, &author{Name: "b"})
				runtime.Goexit()
				return nil
			})
		}()
		<-ended
		left(t)
	})

	t.Run("nested", func(t *testing.T) {
		Require(t, db.client, features.Savepoints)
		must(t, transactions.Atomic(db.ctx, func(ctx context.Context) error {
			add(t, ctx, "outer")
			err := transactions.Atomic(ctx, func(ctx context.Context) error {
				add(t, ctx, "undone")
				must(t, transactions.Atomic(ctx, func(ctx context.Context) error { add(t, ctx, "undone too"); return nil }))
				return errWanted
			})
			equal(t, "error of the inner block", errWanted, err, sameError)
			err = transactions.Atomic(ctx, func(ctx context.Context) error {
				add(t, ctx, "twin")
				return authors.Create(ctx, &author{Name: "twin"})
			})
			fails[*hare.IntegrityError](t, "a refused statement in the inner block", err)
			must(t, transactions.Atomic(ctx, func(ctx context.Context) error { add(t, ctx, "inner"); return nil }))
			add(t, ctx, "end")
			return nil
		}))
		left(t, "outer", "inner", "end")
	})

	t.Run("a swallowed error", func(t *testing.T) {
		err := transactions.Atomic(db.ctx, func(ctx context.Context) error {
			add(t, ctx, "twin")
			fails[*hare.IntegrityError](t, "a second one", authors.Create(ctx, &author{Name: "twin"}))
			return nil
		})
		if db.client.Features().Has(features.AbortsOnError) {
			fails[*hare.TransactionError](t, "the end of an aborted transaction", err)
			left(t)
			return
		}
		must(t, err)
		left(t, "twin")
	})

	t.Run("bulk in batches inside a transaction", func(t *testing.T) {
		Require(t, db.client, features.Savepoints)
		must(t, transactions.Atomic(db.ctx, func(ctx context.Context) error {
			add(t, ctx, "a")
			rows := []author{{Name: "b"}, {Name: "c"}, {Name: "a"}}
			fails[*hare.IntegrityError](t, "the third", authors.BulkCreate(ctx, rows, hare.BatchSize(1)))
			rows[2].Name = "d"
			return authors.BulkCreate(ctx, rows, hare.BatchSize(1))
		}))
		left(t, "a", "b", "c", "d")
	})

	t.Run("CreateTables inside a transaction", func(t *testing.T) {
		Require(t, db.client, features.Savepoints, features.RollbackDDL)
		err := transactions.Atomic(db.ctx, func(ctx context.Context) error {
			must(t, hare.CreateTables(ctx, db.client, orphan{}))
			must(t, hare.Objects[orphan]().Create(ctx, &orphan{}))
			return errWanted
		})
		equal(t, "error", errWanted, err, sameError)
		_, err = hare.Objects[orphan]().Count(db.ctx)
		fails[*hare.DatabaseError](t, "the table afterwards", err)
	})

	t.Run("rows that are still read", func(t *testing.T) {
		must(t, nums.BulkCreate(db.ctx, numbers()))
		must(t, transactions.Atomic(db.ctx, func(ctx context.Context) error {
			for _, err := range nums.Iterate(ctx) {
				must(t, err)
				fails[*hare.TransactionError](t, "a statement in the loop", second(nums.Count(ctx)))
				break
			}
			n, err := nums.Filter(query.Q("n__gt", 20)).Count(ctx)
			equal(t, "after the loop", int64(26), n)
			return err
		}))
	})

	t.Run("read-only", func(t *testing.T) {
		Require(t, db.client, features.ReadOnlyTransactions)
		err := transactions.Atomic(db.ctx, func(ctx context.Context) error {
			_, err := authors.Count(ctx)
			must(t, err)
			return authors.Create(ctx, &author{Name: "a"})
		}, transactions.ReadOnly())
		fails[*hare.ReadOnlyError](t, "a write", err)
		add(t, db.ctx, "b")
		left(t, "b")
	})

	t.Run("hooks", func(t *testing.T) {
		var ran []string
		note := func(text string) func(context.Context) error {
			return func(ctx context.Context) error {
				n, err := authors.Count(ctx) // a hook is outside the transaction and may query
				ran = append(ran, text)
				if n != 1 && text == "commit" {
					t.Errorf("the hook sees %d rows", n)
				}
				return err
			}
		}
		must(t, transactions.Atomic(db.ctx, func(ctx context.Context) error {
			add(t, ctx, "a")
			must(t, transactions.OnCommit(ctx, note("commit")))
			return transactions.OnRollback(ctx, note("never"))
		}))
		left(t, "a")
		_ = transactions.Atomic(db.ctx, func(ctx context.Context) error {
			add(t, ctx, "a")
			must(t, transactions.OnCommit(ctx, note("never")))
			must(t, transactions.OnRollback(ctx, note("rollback")))
			return errWanted
		})
		equal(t, "hooks", []string{"commit", "rollback"}, ran)
		left(t)
	})

	t.Run("a transaction that has ended takes nothing", func(t *testing.T) {
		var inside context.Context
		must(t, transactions.Atomic(db.ctx, func(ctx context.Context) error { inside = ctx; return nil }))
		fails[*hare.TransactionError](t, "a late statement", authors.Create(inside, &author{Name: "late"}))
		left(t)
	})
}
