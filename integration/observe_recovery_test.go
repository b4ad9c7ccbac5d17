package integration

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/transactions"
)

// recover is one pass of recovery at age 0.
func (s *stage) recover(opts ...transactions.RecoverOption) (transactions.Report, error) {
	return transactions.Recover(s.ctx, s.alias(coordinator), append([]transactions.RecoverOption{transactions.OlderThan(0), unheard}, opts...)...)
}

// wantPasses compares the passes by result, and what lies below the test's own span besides the calls.
func (s *stage) wantPasses(want map[string]float64, tree string) {
	s.Helper()
	if diff := cmp.Diff(want, s.metric("hare.recovery.passes", "hare.coordinator", coordinator)); diff != "" {
		s.Errorf("passes (-want +got):\n%s", diff)
	}
	var passes []string
	for _, span := range children(s.root.SpanContext()) {
		if span.Name() == "hare.recovery" {
			passes = append(passes, s.tree(span.SpanContext()))
		}
	}
	if got := strings.Join(passes, ", "); got != tree {
		s.Errorf("below the passes are %q, want %q", got, tree)
	}
}

// wantGauges compares what is left after the last pass.
func (s *stage) wantGauges(unresolved, needed, failed, mixed, unreachable float64) {
	s.Helper()
	got := s.metric("hare.recovery.unfinished", "hare.coordinator", coordinator)
	got["unresolved"] = s.metric("hare.distributed.unresolved", "hare.coordinator", coordinator)[""]
	for _, value := range s.metric("hare.recovery.unreachable", "hare.coordinator", coordinator) {
		got["unreachable"] += value
	}
	want := map[string]float64{"unresolved": unresolved, "state=needed": needed, "state=failed": failed, "state=mixed": mixed, "unreachable": unreachable}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("what is left (-want +got):\n%s", diff)
	}
}

// Recovery is seen in the log, in the trace and in the metrics; what it finishes has the xid of the call that left it.
//
// W32.
func TestRecoveryIsSeen(t *testing.T) {
	t.Parallel()
	s := newTrio(t, "").stage(t)
	xid := ""
	partial := func() {
		t.Helper()
		s.plan.Set(always(s.alias("b"), "COMMIT PREPARED", "dial"), nil)
		err := s.distributed(s.ctx, func(d *hare.Distributed) error {
			xid = d.XID()
			return write(d, "x", s.aliases(everybody...)...)
		}, transactions.PhaseTimeouts(transactions.Phases{Deliver: 2e9}))
		wantOutcome(t, err, transactions.PartiallyCommitted)
		s.plan.Set(nil, nil)
	}
	pass := func(opts ...transactions.RecoverOption) {
		t.Helper()
		if _, err := s.recover(opts...); err != nil {
			t.Fatal(err)
		}
	}
	partial()
	began := time.Now().Add(-time.Second)
	pass() // a report
	s.wantPasses(map[string]float64{"result=left": 1}, "")
	s.wantGauges(1, 1, 0, 0, 0)
	pass(transactions.OlderThan(time.Hour)) // it is left to its call, and nobody's concern
	s.wantPasses(map[string]float64{"result=left": 1, "result=clean": 1}, "")
	s.wantGauges(0, 0, 0, 0, 0)

	s.plan.Set(always(s.alias("b"), "", "dial"), nil)
	pass(transactions.Finish())
	s.wantPasses(map[string]float64{"result=left": 2, "result=clean": 1}, "")
	s.wantGauges(1, 0, 1, 0, 1)
	if got, there := s.metric("hare.prepared.slots.usage", "hare.database", "b")["coordinator=c"]; there {
		t.Errorf("%v slots are in use in a database that does not answer", got)
	}

	s.plan.Set(always(s.alias("c"), "", "dial"), nil)
	if _, err := s.recover(); err == nil {
		t.Error("a pass without the coordinator succeeds")
	}
	s.plan.Set(nil, nil)
	s.wantPasses(map[string]float64{"result=left": 2, "result=failed": 1, "result=clean": 1}, "")
	s.wantGauges(1, 0, 1, 0, 1)

	var log lines
	pass(transactions.Finish(), transactions.RecoverLogger(slog.New(slog.NewTextHandler(&log, nil))))
	s.wantPasses(map[string]float64{"result=left": 2, "result=failed": 1, "result=clean": 2}, ", hare.recovery.finish")
	s.wantGauges(0, 0, 0, 0, 0)
	if log.count("xid="+xid) != 1 || log.count("msg=\"distributed recovery: finished\"") != 1 || log.count("coordinator="+s.alias("c")) != 1 {
		t.Errorf("the log of recovery is:\n%s", &log)
	}
	for _, pass := range children(s.root.SpanContext()) {
		for _, span := range children(pass.SpanContext()) {
			if span.Name() != "hare.recovery.finish" {
				continue
			}
			for key, want := range map[string]string{"hare.xid": xid, "hare.participant": s.alias("b"), "hare.gid": xid + ":" + s.alias("b"), "hare.action": "commit", "hare.state": "done"} {
				if got, _ := attributeOf(span, key); got != want {
					t.Errorf("the span's %s is %q, want %q", key, got, want)
				}
			}
		}
	}

	partial()
	s.exec("b", "ROLLBACK PREPARED '"+xid+":"+s.alias("b")+"'")
	pass(transactions.Finish())
	s.wantGauges(1, 0, 0, 1, 0)
	pass(transactions.Finish(), transactions.Forget(xid))
	s.wantGauges(1, 0, 0, 1, 0) // until the next pass over all
	s.recoverInBackground()
	s.wantGauges(0, 0, 0, 0, 0)
	s.wantPasses(s.metric("hare.recovery.passes", "hare.coordinator", coordinator), ", hare.recovery.finish") // and no more spans

	want := map[string]float64{"action=commit state=failed": 1, "action=commit state=done": 1, "action=none state=mixed": 1, "action=none state=forgotten": 1}
	if diff := cmp.Diff(want, s.metric("hare.recovery.actions", "hare.coordinator", coordinator)); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	last := s.metric("hare.recovery.last_success.time", "hare.coordinator", coordinator)[""]
	if last < float64(began.Unix()) || last > float64(time.Now().Unix()+1) {
		t.Errorf("the last pass was at %f, and the test began at %d", last, began.Unix())
	}
}

// recoverInBackground runs a recoverer for at least five passes.
func (s *stage) recoverInBackground() {
	s.Helper()
	clean := func() float64 {
		return s.metric("hare.recovery.passes", "hare.coordinator", coordinator)["result=clean"]
	}
	before := clean()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- transactions.RunRecoverer(ctx, s.alias(coordinator), transactions.Interval(10*time.Millisecond), transactions.OlderThan(0), unheard)
	}()
	s.eventually("five passes", func() bool { return clean() >= before+5 })
	cancel()
	if err := <-done; err != nil {
		s.Error(err)
	}
}

// The gauges say what the server says: a prepared transaction that nobody finishes keeps VACUUM from its work.
//
// Field case 47. W32.
func TestGaugesAreTheTruth(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	s := f.stage(t)
	f.crash(isDecision) // makes the tables, and leaves something in a and b
	f.prepareByHand("a", "somebody_else")
	for range 20 {
		f.exec("a", "SELECT pg_current_xact_id()")
	}
	gauge := func(name string) float64 {
		return s.metric("hare.prepared."+name, "hare.database", "a")["coordinator=c"]
	}
	// Others prepare on this server, too, so that what it says may change during a pass.
	s.eventually("the gauges are what the server says", func() bool {
		used, xacts, age := f.preparedOnServer("a")
		if _, err := s.recover(); err != nil {
			t.Fatal(err)
		}
		usedNow, xactsNow, ageNow := f.preparedOnServer("a")
		between := func(least float64, name string, most float64) bool {
			return least <= gauge(name) && gauge(name) <= most
		}
		return used == usedNow && between(used, "slots.usage", used) && between(xacts, "oldest.xact_age", xactsNow) && between(age-1, "oldest.age", ageNow)
	})
	if used, xacts := gauge("slots.usage"), gauge("oldest.xact_age"); used < 2 || xacts < 20 {
		t.Errorf("%v slots, %v transactions", used, xacts)
	}
	if got, want := gauge("slots.limit"), f.count("a", "SELECT current_setting('max_prepared_transactions')::int8"); got != float64(want) {
		t.Errorf("%v slots in all, want %d", got, want)
	}
	s.wantGauges(0, 2, 0, 0, 0)
}

// preparedOnServer is what the server of an alias says: how much is prepared on it, and how many transactions and seconds the
// oldest is old.
func (f *trio) preparedOnServer(alias string) (used, xacts, age float64) {
	f.Helper()
	text := f.text(alias, `SELECT concat_ws(' ', count(*), max(age(transaction)), extract(epoch FROM clock_timestamp() - min(prepared))) FROM pg_prepared_xacts`)
	if _, err := fmt.Sscan(text, &used, &xacts, &age); err != nil {
		f.Fatalf("%q: %v", text, err)
	}
	return used, xacts, age
}
