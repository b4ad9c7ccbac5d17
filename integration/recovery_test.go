package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

// crash runs a distributed transaction that ends as if its process died before the call that matches: nothing of it
// answers any more, rolling back included.
func (f *trio) crash(match func(e faults.Event) bool) {
	f.Helper()
	f.crashing(writeAll, match)
}

// crashing is crash of a transaction with another callback.
func (f *trio) crashing(fn func(d *hare.Distributed) error, match func(e faults.Event) bool) {
	f.Helper()
	// Everything that is tried again fails until its phase is over, so the phases are short; a slow machine may need
	// longer than that for what goes well before the crash, and the transaction is then rolled back and run again.
	quick := transactions.PhaseTimeouts(transactions.Phases{Prepare: 10e9, Decide: 1e9, Deliver: 200e6, Rollback: 200e6})
	for range 5 {
		var mu sync.Mutex
		dead := false
		f.plan.Set(func(_ context.Context, e faults.Event) error {
			mu.Lock()
			defer mu.Unlock()
			if dead = dead || match(e); dead {
				return faults.ErrInjected
			}
			return nil
		}, nil)
		err := f.distributed(fn, quick)
		f.plan.Set(nil, nil)
		mu.Lock()
		crashed := dead && err != nil
		mu.Unlock()
		if crashed {
			return
		}
		wantOutcome(f.T, err, transactions.RolledBack)
		f.recover(transactions.Finish())
	}
	f.Fatal("the crash did not happen")
}

func isDecision(e faults.Event) bool {
	return strings.Contains(e.SQL, "INSERT INTO public.hare_distributed_decisions")
}

func TestRecoveryRollsBackWhatIsNotDecided(t *testing.T) {
	f := newTrio(t, "")
	f.crash(isDecision)
	report := f.recover()
	for _, e := range report.Entries {
		if e.Action != transactions.ActionRollback || e.State != transactions.StateNeeded || e.Owner == "" || e.Reason == "" {
			t.Errorf("report: %+v", e)
		}
	}
	if len(report.Entries) != 2 || report.Clean() {
		t.Errorf("report: %+v, want two to roll back", report)
	}
	if n := f.decisions("true"); n != 0 {
		t.Errorf("reporting wrote %d rows", n)
	}
	if report := f.recover(transactions.Finish()); !report.Clean() || len(report.Entries) != 2 {
		t.Errorf("finishing: %+v", report)
	}
	f.wantCounts(0, 0, 0)
	f.wantNothingPrepared()
	// The fence stays: the late decision of a process that was only paused must fail.
	if n := f.decisions("outcome = 'abort' AND resolved_at IS NOT NULL"); n != 1 {
		t.Errorf("%d abort rows, want one", n)
	}
	if report := f.recover(transactions.Finish()); !report.Clean() || len(report.Entries) != 0 {
		t.Errorf("finishing again: %+v", report)
	}
}

func TestRecoveryCommitsWhatIsDecided(t *testing.T) {
	f := newTrio(t, "")
	f.crash(isCommitPrepared)
	if report := f.recover(transactions.Finish()); !report.Clean() || len(report.Entries) != 2 || report.Resolved != 1 {
		t.Errorf("finishing: %+v", report)
	}
	f.wantCounts(1, 1, 1)
	f.wantNothingPrepared()
	if n := f.decisions("resolved_at IS NULL"); n != 0 {
		t.Errorf("%d decisions are unresolved", n)
	}
}

func TestRecoveryLeavesYoungOnesAlone(t *testing.T) {
	f := newTrio(t, "")
	f.crash(isDecision)
	report, err := transactions.Recover(f.ctx, coordinator, transactions.Finish())
	if err != nil || len(report.Entries) != 0 || report.Young != 2 {
		t.Errorf("at the default age: %+v, %v", report, err)
	}
	f.recover(transactions.Finish())
	f.wantNothingPrepared()
}

// A process is paused after its last PREPARE; recovery takes it for dead; it comes back and decides.
//
// Field case 31. W3.
func TestFenceAgainstALateDecision(t *testing.T) {
	f := newTrio(t, "")
	var once sync.Once
	f.plan.Set(func(_ context.Context, e faults.Event) error {
		if e.Alias == "c" && isDecision(e) && strings.Contains(e.SQL, "'commit'") {
			once.Do(func() {
				if report := f.recover(transactions.Finish()); len(report.Entries) != 2 || !report.Clean() {
					t.Errorf("recovery: %+v", report)
				}
			})
		}
		return nil
	}, nil)
	err := f.distributed(writeAll)
	wantOutcome(t, err, transactions.RolledBack)
	if e := as[*hare.TransactionError](t, err); !strings.Contains(e.Error(), "recovery") {
		t.Errorf("the error does not say who did it: %v", e)
	}
	f.wantCounts(0, 0, 0)
	f.wantNothingPrepared()
	f.wantUsable()
}

// Recovery lists what is prepared, and the decision lands before it looks: it must follow the decision.
//
// Field case 31. W3.
func TestDecisionLandsWhileRecoveryLooks(t *testing.T) {
	f := newTrio(t, "")
	listed, decided := make(chan struct{}), make(chan struct{})
	var recovering, calling sync.Once
	f.plan.Set(func(_ context.Context, e faults.Event) error {
		if e.Alias == "c" && isDecision(e) && strings.Contains(e.SQL, "'commit'") {
			calling.Do(func() { <-listed })
		}
		if e.Alias == "c" && e.Op == "query" && strings.Contains(e.SQL, "participants::text") {
			recovering.Do(func() { close(listed); <-decided })
		}
		return nil
	}, func(_ context.Context, e faults.Event) error {
		if e.Alias == "c" && isDecision(e) && strings.Contains(e.SQL, "'commit'") {
			close(decided)
		}
		return nil
	})
	result := make(chan error, 1)
	reports := make(chan transactions.Report, 1)
	go func() { result <- f.distributed(writeAll) }()
	go func() {
		for len(f.prepared("a"))+len(f.prepared("b")) < 2 {
			time.Sleep(time.Millisecond)
		}
		reports <- f.recover(transactions.Finish())
	}()
	if err := <-result; err != nil {
		t.Error(err)
	}
	if report := <-reports; !report.Clean() {
		t.Errorf("recovery: %+v", report)
	}
	f.wantCounts(1, 1, 1)
	f.wantNothingPrepared()
}

// Two recoveries at work all the time, at age 0, beside live calls: no false alarm, and nothing mixed.
//
// Field case 32. W20.
func TestRecoverersBesideLiveCalls(t *testing.T) {
	f := newTrio(t, "")
	if err := f.distributed(writeAll); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				report, err := transactions.Recover(f.ctx, coordinator, transactions.OlderThan(0), transactions.Finish())
				if err != nil || !report.Clean() {
					t.Errorf("recovery: %+v, %v", report, err)
				}
			}
		})
	}
	committed := int64(1)
	for range 50 {
		switch err := f.distributed(writeAll); transactions.OutcomeOf(err) {
		case transactions.Committed:
			committed++
		case transactions.RolledBack: // recovery was faster than the decision
		default:
			t.Errorf("got %v", err)
		}
	}
	close(stop)
	wait.Wait()
	f.wantCounts(committed, committed, committed)
	f.wantNothingPrepared()
}

// Somebody rolls a participant back whose decision is to commit: that is reported until an operator forgets it.
//
// Field case 36.
func TestRolledBackByHandIsMixed(t *testing.T) {
	f := newTrio(t, "")
	f.crash(isCommitPrepared)
	f.exec("b", fmt.Sprintf("ROLLBACK PREPARED '%s'", f.prepared("b")[0]))
	for range 2 { // it is reported until an operator forgets it
		report := f.recover(transactions.Finish())
		mixed := 0
		for _, e := range report.Entries {
			if e.State == transactions.StateMixed && e.Alias == "b" {
				mixed++
			}
		}
		if mixed != 1 || report.Clean() || report.Resolved != 0 {
			t.Errorf("recovery: %+v, want b mixed", report)
		}
	}
	f.wantCounts(1, 1, 0)
}

// Rows that were resolved longer ago than the retention are removed, and no others.
//
// W31.
func TestOldRowsArePurged(t *testing.T) {
	f := newTrio(t, "")
	f.crash(isDecision)
	f.recover(transactions.Finish())
	if report := f.recover(transactions.Finish(), transactions.Retention(time.Hour)); report.Purged != 0 {
		t.Errorf("purged %d rows that are not old", report.Purged)
	}
	f.pass()
	if report := f.recover(transactions.Finish()); report.Purged != 1 {
		t.Errorf("purged %d rows, want the abort row", report.Purged)
	}
}

// A decision is taken away by its call, or kept as resolved.
//
// Field case 42. W31.
func TestDecisionsAreTakenAway(t *testing.T) {
	f := newTrio(t, "")
	for range 5 {
		if err := f.distributed(writeAll); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.distributed(writeAll, transactions.KeepDecision()); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		kept, all := f.decisions("resolved_at IS NOT NULL"), f.decisions("true")
		if kept == 1 && all == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d rows, %d of them kept; want one, kept", all, kept)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
