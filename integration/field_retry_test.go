package integration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

// A call whose end is not a definite abort is never run again, however much its error looks like a wish for that: what it
// wrote is there once.
//
// Field case 29. W11.
func TestFieldOnlyADefiniteAbortIsRunAgain(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	if err := f.distributed(func(*hare.Distributed) error { return nil }); err != nil { // first use
		t.Fatal(err)
	}
	again := errors.Join(&hare.RetryableError{}, faults.ErrInjected)
	failing := func(match func(e faults.Event) bool) faults.Fault {
		return func(_ context.Context, e faults.Event) error {
			if match(e) {
				return again
			}
			return nil
		}
	}
	lost := func(e faults.Event) bool {
		return e.Alias == "c" && isDecision(e) && strings.Contains(e.SQL, "'commit'")
	}
	unreachable := func(e faults.Event) bool { return lost(e) || e.Alias == "c" && e.Op == "dial" }
	late := func(e faults.Event) bool { return e.Alias == "b" && (isCommitPrepared(e) || e.Op == "dial") }
	for _, test := range []struct {
		name          string
		before, after func(e faults.Event) bool
		decide        time.Duration // which passes in vain where nobody knows
		outcome       transactions.Outcome
		kept          int64
	}{
		{"the decision's answer is lost", nil, lost, time.Minute, transactions.Committed, 1},
		{"nobody knows, and it ran", nil, unreachable, time.Second, transactions.Ambiguous, 1},
		{"nobody knows, and it never ran", unreachable, nil, time.Second, transactions.Ambiguous, 0},
		{"b is not told", late, nil, time.Minute, transactions.PartiallyCommitted, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer f.clear()
			var before, after faults.Fault
			if test.before != nil {
				before = failing(test.before)
			}
			if test.after != nil {
				after = failing(test.after)
			}
			f.plan.Set(before, after)
			runs := 0
			err := f.distributed(func(d *hare.Distributed) error { runs++; return writeAll(d) }, transactions.Retries(5),
				transactions.PhaseTimeouts(transactions.Phases{Decide: test.decide, Deliver: time.Second}))
			wantOutcome(t, err, test.outcome)
			if runs != 1 {
				t.Errorf("%d runs, want one", runs)
			}
			f.plan.Set(nil, nil)
			f.recover(transactions.Finish())
			f.wantCounts(test.kept, test.kept, test.kept)
			f.wantNothingPrepared()
		})
	}
}

// A goroutine of the function does not let go of a database. That is known before anything is sent to end the
// transaction, so it is a rollback, and no doubt about a COMMIT.
//
// W17.
func TestFieldBusySiblingIsNoDoubt(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=2")
	for _, alias := range everybody {
		t.Run(alias, func(t *testing.T) {
			late := make(chan error, 1)
			const sleeping = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_sleep(300)%' AND pid <> pg_backend_pid()"
			err := f.distributed(func(d *hare.Distributed) error {
				if err := writeAll(d); err != nil {
					return err
				}
				go func() {
					_, err := d.Client(alias).Exec(d.Context(), "INSERT INTO note (text) SELECT 'late' FROM pg_sleep(300)")
					late <- err
				}()
				f.eventually("the goroutine is at work", func() bool { return f.count(alias, "SELECT count(*) "+sleeping) > 0 })
				return nil
			}, transactions.Wait(100*time.Millisecond))
			wantOutcome(t, err, transactions.RolledBack)
			if e := as[*hare.TransactionError](t, err); e.Alias != alias || !strings.Contains(e.Error(), "still at work") {
				t.Errorf("got %v, want %s to be at work", err, alias)
			}
			f.exec(alias, "SELECT pg_cancel_backend(pid) "+sleeping)
			<-late
			f.wantNothingLeft()
			f.wantUsable()
			f.clear()
		})
	}
}
