package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/query"
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

func TestOptionsReachTheServer(t *testing.T) {
	f := newTrio(t, "")
	show := func(ctx context.Context) (settings []string) {
		rows, err := f.client("c").Query(ctx, `SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only'),
			current_setting('statement_timeout'), current_setting('lock_timeout')`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			settings = make([]string, 4)
			if err := rows.Scan(&settings[0], &settings[1], &settings[2], &settings[3]); err != nil {
				t.Fatal(err)
			}
		}
		return settings
	}
	for _, test := range []struct {
		opts []transactions.Option
		want []string
	}{
		{nil, []string{"read committed", "off", "0", "0"}},
		{[]transactions.Option{transactions.Isolation(transactions.RepeatableRead)}, []string{"repeatable read", "off", "0", "0"}},
		{[]transactions.Option{transactions.ReadOnly(), transactions.Isolation(transactions.Serializable)}, []string{"serializable", "on", "0", "0"}},
		{[]transactions.Option{transactions.StatementTimeout(1500 * time.Millisecond)}, []string{"read committed", "off", "1500ms", "1500ms"}},
		{[]transactions.Option{transactions.StatementTimeout(2 * time.Second), transactions.LockTimeout(time.Second)}, []string{"read committed", "off", "2s", "1s"}},
	} {
		err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
			if diff := cmp.Diff(test.want, show(ctx)); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			return nil
		}, test.opts...)
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"read committed", "off", "0", "0"}, show(f.ctx)); diff != "" {
		t.Errorf("settings afterwards (-want +got):\n%s", diff)
	}
	err := transactions.Atomic(f.ctx, func(ctx context.Context) error { return create(ctx, "x") }, transactions.ReadOnly())
	as[*hare.ReadOnlyError](t, err)
	err = transactions.Atomic(f.ctx, func(ctx context.Context) error {
		_, err := f.client("c").Exec(ctx, "SELECT pg_sleep(10)")
		return err
	}, transactions.StatementTimeout(100*time.Millisecond))
	as[*hare.TimeoutError](t, err)
	f.wantUsable()
}

func TestOptionsOfNestedBlocks(t *testing.T) {
	f := newTrio(t, "")
	for _, test := range []struct {
		name         string
		outer, inner []transactions.Option
		ok           bool
	}{
		{"read-only in read-write", nil, []transactions.Option{transactions.ReadOnly()}, false},
		{"read-only in read-only", []transactions.Option{transactions.ReadOnly()}, []transactions.Option{transactions.ReadOnly()}, true},
		{"a time-out", nil, []transactions.Option{transactions.StatementTimeout(time.Second)}, false},
		{"an equal time-out", []transactions.Option{transactions.LockTimeout(time.Second)}, []transactions.Option{transactions.LockTimeout(time.Second)}, false},
		{"another level", nil, []transactions.Option{transactions.Isolation(transactions.Serializable)}, false},
		{"the same level", []transactions.Option{transactions.Isolation(transactions.Serializable)}, []transactions.Option{transactions.Isolation(transactions.Serializable)}, true},
	} {
		err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
			return transactions.Atomic(ctx, func(context.Context) error { return nil }, test.inner...)
		}, test.outer...)
		var refused *hare.QueryError
		if test.ok != (err == nil) || err != nil && !errors.As(err, &refused) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestSiblingsTakeTurns(t *testing.T) {
	f := newTrio(t, "")
	err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
		errs := make(chan error, 10)
		for i := range 10 {
			go func() {
				errs <- transactions.Atomic(ctx, func(ctx context.Context) error {
					if err := create(ctx, fmt.Sprint(i)); err != nil {
						return err
					}
					if err := create(ctx, fmt.Sprint(i, "again")); err != nil {
						return err
					}
					if i%2 == 0 {
						return errStop
					}
					return nil
				})
			}()
		}
		for range 10 {
			if err := <-errs; err != nil && err != errStop {
				return err
			}
		}
		return create(ctx, "outer")
	})
	if err != nil {
		t.Fatal(err)
	}
	f.wantCounts(11, 0, 0)
}

func TestStatementBehindAStuckSibling(t *testing.T) {
	f := newTrio(t, "")
	err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
		entered, leave, left := make(chan struct{}), make(chan struct{}), make(chan error)
		go func() {
			left <- transactions.Atomic(ctx, func(context.Context) error { close(entered); <-leave; return nil })
		}()
		<-entered
		as[*hare.TransactionError](t, create(ctx, "x"))
		close(leave)
		if err := <-left; err != nil {
			return err
		}
		return create(ctx, "y")
	}, transactions.Wait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	f.wantCounts(1, 0, 0)
}

func TestStatementsWhileRowsAreRead(t *testing.T) {
	f := newTrio(t, "")
	for range 3 {
		if err := create(f.ctx, "x"); err != nil {
			t.Fatal(err)
		}
	}
	err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
		rows, err := f.client("c").Query(ctx, "SELECT id FROM note")
		if err != nil {
			return err
		}
		defer rows.Close()
		rows.Next()
		start := time.Now()
		_, err = Notes.Count(ctx)
		as[*hare.TransactionError](t, err)
		if waited := time.Since(start); waited > 5*time.Second {
			t.Errorf("it was refused after %s, want at once", waited)
		}
		if err := rows.Close(); err != nil {
			return err
		}
		_, err = Notes.Count(ctx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
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

func TestTwoDatabasesAreAmbientAtOnce(t *testing.T) {
	f := newTrio(t, "")
	err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
		return transactions.Atomic(ctx, func(ctx context.Context) error {
			if err := create(ctx, "in c"); err != nil {
				return err
			}
			if err := Notes.UsingAlias("a").Create(ctx, &Note{Text: "in a"}); err != nil {
				return err
			}
			n, err := Notes.UsingAlias("b").Filter(query.Q("id__gt", 0)).Count(ctx)
			if n != 0 {
				t.Errorf("%d notes in b", n)
			}
			return err
		}, transactions.Using("a"))
	})
	if err != nil {
		t.Fatal(err)
	}
	f.wantCounts(1, 1, 0)
}
