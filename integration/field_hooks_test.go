package integration

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/transactions"
)

// How often the hooks of each database run, for each end of a call, and after what.
//
// Field case 30. W24.
func TestFieldHooksOfEachOutcome(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	if err := f.distributed(func(*hare.Distributed) error { return nil }); err != nil { // first use
		t.Fatal(err)
	}
	committed := map[string]int{"commit c": 1, "commit a": 1, "commit b": 1}
	rolledBack := map[string]int{"rollback c": 1, "rollback a": 1, "rollback b": 1}
	for _, test := range []struct {
		name    string
		setUp   func(f *trio)
		end     error
		outcome transactions.Outcome
		want    map[string]int
		opts    []transactions.Option
	}{
		{"success", func(*trio) {}, nil, transactions.Committed, committed, nil},
		{"the function fails", func(*trio) {}, errStop, transactions.RolledBack, rolledBack, nil},
		{"a PREPARE is refused", func(f *trio) { f.atCommit("b", "RAISE EXCEPTION 'no';") }, nil, transactions.RolledBack, rolledBack, nil},
		{"the answer to a PREPARE is lost", func(f *trio) { f.plan.Set(nil, failOn(1, "a", contains("PREPARE TRANSACTION"))) }, nil, transactions.RolledBack, rolledBack, nil},
		{"the decision is refused", func(f *trio) { f.atCommit("c", "RAISE EXCEPTION 'no';") }, nil, transactions.RolledBack, rolledBack, nil},
		{"the answer to the decision is lost", func(f *trio) { f.plan.Set(nil, failOn(1, "c", contains("INSERT INTO public."))) }, nil, transactions.Committed, committed, nil},
		{"the decision is lost", func(f *trio) { f.plan.Set(failOn(1, "c", contains("INSERT INTO public.")), nil) }, nil, transactions.RolledBack, rolledBack, nil},
		{"nobody knows", func(f *trio) { f.plan.Set(nil, always("c", "INSERT INTO public.", "dial")) }, nil, transactions.Ambiguous, map[string]int{}, nil},
		{"b is not told", func(f *trio) { f.plan.Set(always("b", "COMMIT PREPARED", "dial"), nil) }, nil, transactions.PartiallyCommitted,
			map[string]int{"commit c": 1, "commit a": 1}, nil},
		{"an attempt is run again", func(f *trio) {
			f.exec("b", "CREATE SEQUENCE attempts")
			f.atCommit("b", "IF nextval('attempts') = 1 THEN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END IF;")
		}, nil, transactions.Committed,
			map[string]int{"commit c": 1, "commit a": 1, "commit b": 1, "rollback c": 1, "rollback a": 1, "rollback b": 1}, []transactions.Option{transactions.Retries(2)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer f.clear()
			test.setUp(f)
			var patience time.Duration // enough, except where no answer ever comes
			if test.outcome == transactions.Ambiguous || test.outcome == transactions.PartiallyCommitted {
				patience = 2 * time.Second
			}
			ran := map[string]int{}
			err := f.distributed(func(d *hare.Distributed) error {
				if err := f.counting(d, ran); err != nil {
					return err
				}
				if err := writeAll(d); err != nil {
					return err
				}
				return test.end
			}, append([]transactions.Option{phases(patience)}, test.opts...)...)
			wantOutcome(t, err, test.outcome)
			if diff := cmp.Diff(test.want, ran); diff != "" {
				t.Errorf("hooks after %v (-want +got):\n%s", err, diff)
			}
			f.plan.Set(nil, nil)
			f.recover(transactions.Finish())
			f.wantNothingPrepared()
			if diff := cmp.Diff(test.want, ran); diff != "" {
				t.Errorf("hooks after recovery (-want +got):\n%s", diff)
			}
		})
	}
}

// counting registers a hook of each kind for each database, which counts itself.
func (f *trio) counting(d *hare.Distributed, ran map[string]int) error {
	for _, alias := range everybody {
		commit := func(context.Context) error { ran["commit "+alias]++; return nil }
		rollback := func(context.Context) error { ran["rollback "+alias]++; return nil }
		if err := errors.Join(transactions.OnCommit(d.Context(), commit, transactions.Using(alias)),
			transactions.OnRollback(d.Context(), rollback, transactions.Using(alias))); err != nil {
			return err
		}
	}
	return nil
}

// A hook that panics, or ends its goroutine, changes nothing of the transaction: the others run, the pools of one connection are whole.
func TestFieldHooksThatDoNotReturn(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=1&pool_acquire_timeout=3s")
	for name, leave := range map[string]func(){"panic": func() { panic(errStop) }, "goexit": runtime.Goexit} {
		for _, commits := range []bool{true, false} {
			ran := map[string]int{}
			var panicked any
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { panicked = recover() }()
				_ = f.distributed(func(d *hare.Distributed) error {
					hook := func(context.Context) error { leave(); return nil }
					if err := errors.Join(transactions.OnCommit(d.Context(), hook), transactions.OnRollback(d.Context(), hook), f.counting(d, ran), writeAll(d)); err != nil || commits {
						return err
					}
					return errStop
				})
				t.Errorf("%s in a hook: the call returned", name)
			}()
			<-done
			if name == "panic" && panicked != errStop {
				t.Errorf("recovered %v, want the hook's panic", panicked)
			}
			want := map[string]int{"rollback c": 1, "rollback a": 1, "rollback b": 1}
			if commits {
				want = map[string]int{"commit c": 1, "commit a": 1, "commit b": 1}
				f.wantCounts(1, 1, 1)
			} else {
				f.wantCounts(0, 0, 0)
			}
			if diff := cmp.Diff(want, ran); diff != "" {
				t.Errorf("%s: the other hooks (-want +got):\n%s", name, diff)
			}
			f.wantNothingPrepared()
			f.wantUsable()
			f.clear()
		}
	}
}

// What a hook returns is no reason to run the call again, neither after a commit nor after a rollback.
//
// Field case 29. W11.
func TestFieldHookErrorsAreNotRetried(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	for _, end := range []error{nil, errStop} {
		runs := 0
		err := f.distributed(func(d *hare.Distributed) error {
			runs++
			hook := func(context.Context) error { return &hare.RetryableError{} }
			if err := errors.Join(transactions.OnCommit(d.Context(), hook), transactions.OnRollback(d.Context(), hook), writeAll(d)); err != nil {
				return err
			}
			return end
		}, transactions.Retries(2))
		as[*transactions.HookError](t, err)
		if runs != 1 || !errors.Is(err, end) && end != nil {
			t.Errorf("%d runs, %v; want one, and %v", runs, err, end)
		}
	}
	f.wantCounts(1, 1, 1)
}
