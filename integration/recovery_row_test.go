package integration

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

// A call decides, delivers and takes its row away while a recovery is between its look-up and the answer of its fence. The
// recovery touches nothing, and raises no alarm: nothing is left.
func TestRowGoneBehindTheFence(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	fencing, decided, fenced := make(chan struct{}), make(chan struct{}), make(chan struct{})
	isFence := func(e faults.Event) bool { return isDecision(e) && strings.Contains(e.SQL, "ON CONFLICT") }
	var raced, passed sync.Once // a fence for each prepared transaction
	wait := func(ctx context.Context, c chan struct{}) error {
		select {
		case <-c:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	before := func(ctx context.Context, e faults.Event) error {
		switch {
		case isFence(e):
			raced.Do(func() { close(fencing) })
			return wait(ctx, decided)
		case isDecision(e):
			return wait(ctx, fencing)
		case isCommitPrepared(e):
			return wait(ctx, fenced)
		}
		return nil
	}
	after := func(ctx context.Context, e faults.Event) error {
		switch {
		case isFence(e):
			passed.Do(func() { close(fenced) })
			for f.decisions("outcome = 'commit'") > 0 && ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
		case isDecision(e):
			close(decided)
		}
		return nil
	}
	isPrepared := func() bool { return len(f.prepared("a")) == 1 && len(f.prepared("b")) == 1 }
	f.plan.Set(before, after)
	ended := make(chan error)
	go func() {
		ended <- transactions.Distributed(f.ctx, coordinator, participants, writeAll,
			transactions.PhaseTimeouts(transactions.Phases{Prepare: time.Minute, Decide: time.Minute, Deliver: time.Minute}))
	}()
	for deadline := time.Now().Add(30 * time.Second); !isPrepared(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing was prepared")
		}
	}
	report := f.recover(transactions.Finish())
	if err := <-ended; err != nil {
		t.Errorf("the call: %v", err)
	}
	if !report.Clean() {
		t.Errorf("recovery raises an alarm: %+v", report)
	}
	f.wantCounts(1, 1, 1)
	f.wantNothingPrepared()
}

// The row of a forgotten transaction is never removed: a database that no connection led to may come back with it prepared.
func TestForgottenDecisionIsKept(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.crash(isCommitPrepared)
	xid := strings.TrimSuffix(f.prepared("b")[0], ":b")
	without := hare.WithConnections(t.Context(), f.connect(map[string]string{"c": f.urls["c"], "a": f.urls["a"]}))
	recoverWithout := func(opts ...transactions.RecoverOption) transactions.Report {
		t.Helper()
		report, err := transactions.Recover(without, coordinator, append(opts, transactions.Finish(), transactions.OlderThan(0))...)
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	recoverWithout()
	recoverWithout(transactions.Forget(xid))
	f.pass()
	if report := recoverWithout(); !report.Clean() || report.Purged != 0 {
		t.Errorf("forgotten: %+v", report)
	}
	if report := f.recover(transactions.Finish()); len(report.Entries) != 1 || !report.Clean() {
		t.Errorf("the database is back: %+v", report)
	}
	f.wantCounts(1, 1, 1)
	f.wantNothingPrepared()
}

// A row that cannot be read costs only itself.
func TestAnUnreadableDecision(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.crash(isCommitPrepared)
	unreadable := strings.TrimSuffix(f.prepared("b")[0], ":b")
	f.exec("c", "UPDATE public.hare_distributed_decisions SET participants = '{}'")
	f.crash(isDecision)
	report := f.recover(transactions.Finish())
	failed := 0
	for _, e := range report.Entries {
		if e.State == transactions.StateFailed && e.XID == unreadable && e.Err != nil {
			failed++
		}
	}
	if failed != 1 || report.Clean() || f.decisions("resolved_at IS NULL") != 1 {
		t.Errorf("recovery: %+v", report)
	}
	f.wantNothingPrepared()
	f.wantCounts(1, 1, 1)
}

// A row that another session holds, of a program that was stopped while it tidied up, costs recovery nothing: it finishes, and
// leaves the row to whoever comes next.
func TestRecoveryPassesByARowThatIsHeld(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.crash(isCommitPrepared)
	holding := func(recover func() transactions.Report) (report transactions.Report) {
		t.Helper()
		err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
			if _, err := f.client(coordinator).Exec(ctx, "SELECT FROM public.hare_distributed_decisions FOR UPDATE"); err != nil {
				return err
			}
			report = recover()
			return nil
		}, transactions.Using(coordinator))
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	patient := transactions.ParticipantTimeout(3 * time.Second)
	if report := holding(func() transactions.Report { return f.recover(transactions.Finish(), patient) }); !report.Clean() {
		t.Errorf("recovery beside who holds the row: %+v", report)
	}
	f.wantNothingPrepared()
	f.wantCounts(1, 1, 1)
	if n := f.decisions("resolved_at IS NULL"); n != 1 {
		t.Errorf("%d rows are still to be resolved, want the one that was held", n)
	}
	if f.recover(transactions.Finish()); f.decisions("resolved_at IS NULL") != 0 {
		t.Error("the next recovery does not resolve the row")
	}
	f.pass()
	if report := holding(func() transactions.Report { return f.recover(transactions.Finish(), patient) }); report.Purged != 0 {
		t.Errorf("purged %d rows that are held", report.Purged)
	}
	if report := f.recover(transactions.Finish()); report.Purged != 1 {
		t.Errorf("purged %d rows, want the one that was held", report.Purged)
	}
}
