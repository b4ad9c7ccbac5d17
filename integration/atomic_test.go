package integration

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

func create(ctx context.Context, text string) error { return Notes.Create(ctx, &Note{Text: text}) }

func isCommit(e faults.Event) bool { return e.Op == "control" && e.SQL == "COMMIT" }

// A COMMIT whose answer is lost has an error of its own, whether it ran or not, and is never run again.
//
// Field case 29. W35.
func TestCommitWithUnknownOutcome(t *testing.T) {
	for name, ran := range map[string]bool{"never ran": false, "ran": true} {
		t.Run(name, func(t *testing.T) {
			f := newTrio(t, "")
			lost := func(_ context.Context, e faults.Event) error {
				if isCommit(e) {
					return faults.ErrInjected
				}
				return nil
			}
			if ran {
				f.plan.Set(nil, lost)
			} else {
				f.plan.Set(lost, nil)
			}
			runs, hooks := 0, 0
			hook := func(context.Context) error { hooks++; return nil }
			err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
				runs++
				if err := transactions.OnCommit(ctx, hook); err != nil {
					return err
				}
				if err := transactions.OnRollback(ctx, hook); err != nil {
					return err
				}
				return create(ctx, "x")
			}, transactions.Retries(5))
			unknown := as[*transactions.CommitUnknownError](t, err)
			if unknown.Alias != "c" || !errors.Is(err, faults.ErrInjected) {
				t.Errorf("got %+v", unknown)
			}
			wantOutcome(t, err, transactions.Ambiguous)
			if runs != 1 || hooks != 0 {
				t.Errorf("%d runs, %d hooks; want one run and no hook", runs, hooks)
			}
			f.plan.Set(nil, nil)
			n := int64(0)
			if ran {
				n = 1
			}
			f.wantCounts(n, 0, 0)
			f.wantUsable()
		})
	}
}

// A hook that fails with an error that looks retryable does not make a committed transaction run again.
//
// W11.
func TestHookErrorIsNoReasonToRetry(t *testing.T) {
	f := newTrio(t, "")
	runs := 0
	err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
		runs++
		if err := transactions.OnCommit(ctx, func(context.Context) error { return &hare.RetryableError{} }); err != nil {
			return err
		}
		return create(ctx, "x")
	}, transactions.Retries(5))
	if hook := as[*transactions.HookError](t, err); !hook.Committed || runs != 1 {
		t.Errorf("%+v after %d runs", hook, runs)
	}
	wantOutcome(t, err, transactions.Committed)
	f.wantCounts(1, 0, 0)
}

func TestRetriesOnSerializationFailure(t *testing.T) {
	f := newTrio(t, "")
	for _, text := range []string{"one", "two"} {
		if err := create(f.ctx, text); err != nil {
			t.Fatal(err)
		}
	}
	// Write skew: each reads both rows and deletes its own if both are there. Serially one of them finds one missing.
	var mu sync.Mutex
	runs := 0
	both := sync.WaitGroup{}
	both.Add(2)
	errs := make(chan error, 2)
	for _, own := range []string{"one", "two"} {
		first := true
		go func() {
			errs <- transactions.Atomic(f.ctx, func(ctx context.Context) error {
				mu.Lock()
				runs++
				mu.Unlock()
				n, err := Notes.Count(ctx)
				if err != nil {
					return err
				}
				if first {
					first = false
					both.Done()
					both.Wait()
				}
				if n < 2 {
					return nil
				}
				_, err = Notes.Filter(noteWith(own)).Delete(ctx)
				return err
			}, transactions.Isolation(transactions.Serializable), transactions.Retries(3))
		}()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if runs != 3 {
		t.Errorf("%d runs, want three: one of them twice", runs)
	}
	f.wantCounts(1, 0, 0)
}

func TestRetriesAreExhausted(t *testing.T) {
	f := newTrio(t, "")
	for _, test := range []struct {
		err  error
		want int
	}{{&hare.RetryableError{}, 3}, {errStop, 1}} {
		runs := 0
		err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
			runs++
			return test.err
		}, transactions.Retries(2))
		if err != test.err || runs != test.want {
			t.Errorf("%v after %d runs, want %d", err, runs, test.want)
		}
	}
	runs := 0
	err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
		return transactions.Atomic(ctx, func(context.Context) error { runs++; return &hare.RetryableError{} }, transactions.Retries(5))
	})
	if runs != 1 || transactions.OutcomeOf(err) != transactions.RolledBack {
		t.Errorf("nested: %d runs, %v; want one", runs, err)
	}
}

func TestRejectedCommit(t *testing.T) {
	f := newTrio(t, "")
	f.exec("c", "ALTER TABLE note ADD CONSTRAINT once UNIQUE (text) DEFERRABLE INITIALLY DEFERRED")
	rolledBack := false
	err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
		if err := transactions.OnRollback(ctx, func(context.Context) error { rolledBack = true; return nil }); err != nil {
			return err
		}
		if err := create(ctx, "x"); err != nil {
			return err
		}
		return create(ctx, "x")
	})
	if e := as[*hare.IntegrityError](t, err); e.Constraint != "once" || !rolledBack {
		t.Errorf("got %+v, rollback hook %v", e, rolledBack)
	}
	wantOutcome(t, err, transactions.RolledBack)
	f.wantCounts(0, 0, 0)
	f.wantUsable()
}

func TestSwallowedError(t *testing.T) {
	f := newTrio(t, "")
	err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
		if err := create(ctx, "x"); err != nil {
			return err
		}
		_, _ = f.client("c").Exec(ctx, "SELECT 1/0")
		return nil
	})
	var cause *hare.DatabaseError
	as[*hare.TransactionError](t, err)
	if !errors.As(err, &cause) || cause.SQLState != "22012" {
		t.Errorf("got %v, want the swallowed error as cause", err)
	}
	f.wantCounts(0, 0, 0)
	// In a nested block the same does no harm, also when the statement fails before it ran and is the block's first.
	for _, sql := range []string{"SELECT 1/0", "SELECT * FROM nowhere", "SELEC", "SELECT 1/$1::int"} {
		err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
			if err := create(ctx, "x"); err != nil {
				return err
			}
			inner := transactions.Atomic(ctx, func(ctx context.Context) error {
				args := []any{}
				if strings.Contains(sql, "$1") {
					args = append(args, 0)
				}
				_, err := f.client("c").Exec(ctx, sql, args...)
				return err
			})
			if inner == nil {
				t.Errorf("%q did not fail", sql)
			}
			return create(ctx, "y")
		})
		if err != nil {
			t.Errorf("after a failed block with %q: %v", sql, err)
		}
	}
	f.wantCounts(8, 0, 0)
}

func TestCancelledBeforeCommit(t *testing.T) {
	f := newTrio(t, "")
	ctx, cancel := context.WithCancel(f.ctx)
	err := transactions.Atomic(ctx, func(ctx context.Context) error {
		if err := create(ctx, "x"); err != nil {
			return err
		}
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the cancellation", err)
	}
	f.wantCounts(0, 0, 0)
	f.wantUsable()
}

func TestLostConnection(t *testing.T) {
	f := newTrio(t, "&max_size=1")
	for _, swallowed := range []bool{true, false} {
		rolledBack := false
		err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
			if err := transactions.OnRollback(ctx, func(context.Context) error { rolledBack = true; return nil }); err != nil {
				return err
			}
			if err := create(ctx, "x"); err != nil {
				return err
			}
			_, err := f.client("c").Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
			if swallowed {
				return nil
			}
			return err
		})
		if err == nil || !rolledBack {
			t.Errorf("swallowed %v: got %v, rollback hook %v", swallowed, err, rolledBack)
		}
		wantOutcome(t, err, transactions.RolledBack)
		f.wantCounts(0, 0, 0)
	}
	f.wantUsable()
}

func TestHooks(t *testing.T) {
	f := newTrio(t, "")
	var ran []string
	hook := func(name string) func(context.Context) error {
		return func(context.Context) error { ran = append(ran, name); return nil }
	}
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	must(transactions.OnCommit(f.ctx, hook("outside")))
	as[*hare.QueryError](t, transactions.OnRollback(f.ctx, hook("never")))
	must(transactions.Atomic(f.ctx, func(ctx context.Context) error {
		must(transactions.OnCommit(ctx, hook("1")))
		must(transactions.OnRollback(ctx, hook("never: committed")))
		must(transactions.Atomic(ctx, func(ctx context.Context) error {
			must(transactions.OnRollback(ctx, hook("never: released and committed")))
			return transactions.OnCommit(ctx, hook("2 released"))
		}))
		if err := transactions.Atomic(ctx, func(ctx context.Context) error {
			must(transactions.OnCommit(ctx, hook("never: rolled back")))
			must(transactions.OnRollback(ctx, hook("inner rollback")))
			return errStop
		}); err != errStop {
			t.Errorf("got %v", err)
		}
		return transactions.OnCommit(ctx, func(ctx context.Context) error {
			ran = append(ran, "3")
			return create(ctx, "from a hook")
		})
	}))
	want := []string{"outside", "inner rollback", "1", "2 released", "3"}
	if diff := cmp.Diff(want, ran); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	f.wantCounts(1, 0, 0)

	var kept context.Context
	must(transactions.Atomic(f.ctx, func(ctx context.Context) error { kept = ctx; return nil }))
	ran = nil
	must(transactions.OnCommit(kept, hook("after the end: at once")))
	as[*hare.QueryError](t, transactions.OnRollback(kept, hook("never")))
	if len(ran) != 1 {
		t.Errorf("hooks after the end: %q", ran)
	}

	failures := errors.New("another")
	err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
		for _, err := range []error{errStop, nil, failures} {
			must(transactions.OnCommit(ctx, func(context.Context) error { return err }))
		}
		return nil
	})
	if !errors.Is(err, errStop) || !errors.Is(err, failures) {
		t.Errorf("got %v, want both failures", err)
	}
}
