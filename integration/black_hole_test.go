package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/transactions"
)

// slack is how much longer than its own limits something may take on a busy machine.
const slack = 8 * time.Second

// failFrom makes the network to an alias fail from the first call there on whose SQL has a part, before that call is sent.
// calls tells how many there were from then on.
func (f *trio) failFrom(alias, part string, fail func(*proxy.Proxy)) (calls func() int) {
	f.Helper()
	p := f.through(alias)[alias]
	var mu sync.Mutex
	n := 0
	f.plan.Set(func(_ context.Context, e faults.Event) error {
		mu.Lock()
		defer mu.Unlock()
		if e.Alias != alias || n == 0 && !strings.Contains(e.SQL, part) {
			return nil
		}
		if n == 0 {
			fail(p)
		}
		n++
		return nil
	}, nil)
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// A participant that swallows everything, from the beginning or from some step on, costs its own time limit once and no
// more; the other one is finished.
//
// Field case 41. W19.
func TestFieldBlackHoleInRecovery(t *testing.T) {
	t.Parallel()
	const limit = 3 * time.Second // long enough for what does answer
	for _, test := range []struct {
		name  string
		from  string // the call to a that is the first to be swallowed
		aDone bool   // a was told before the crash, so that recovery only verifies it
	}{
		{"from the beginning", "", false},
		{"when it is asked what it is", "pg_control_system", false},
		{"when it is asked what is prepared", "pg_prepared_xacts", false},
		{"when it is told", "COMMIT PREPARED", false},
		{"when it is verified", "pg_xact_status", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			f.crash(isCommitPrepared)
			if test.aDone {
				f.exec("a", fmt.Sprintf("COMMIT PREPARED '%s'", f.prepared("a")[0]))
			}
			direct := f.urls["a"]
			calls := f.failFrom("a", test.from, (*proxy.Proxy).Swallow)
			start := time.Now()
			report := f.recover(transactions.Finish(), transactions.ParticipantTimeout(limit))
			wantQuick(t, start, limit+slack)
			if n := calls(); n != 1 {
				t.Errorf("recovery waited for a %d times, want once", n)
			}
			if e := entryOf(t, report, "b"); e.State != transactions.StateDone || report.Resolved != 0 {
				t.Errorf("recovery: %+v, want b done and the decision open", report)
			}
			if report.Clean() {
				t.Error("recovery calls that clean")
			}
			f.plan.Set(nil, nil)
			f.urls["a"] = direct
			f.reconnect()
			if report := f.recover(transactions.Finish()); !report.Clean() || report.Resolved != 1 {
				t.Errorf("recovery afterwards: %+v", report)
			}
			f.wantCounts(1, 1, 1)
			f.wantNothingPrepared()
		})
	}
}

// A coordinator that swallows everything ends recovery with an error within the limit, and the participants stay as they
// are.
func TestBlackHoleOfTheCoordinatorInRecovery(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	for name, test := range map[string]struct {
		from    string
		crashed func(e faults.Event) bool
		notes   int64
	}{
		"from the beginning":         {"", isCommitPrepared, 1},
		"when it is asked for a row": {"SELECT xid, outcome", isCommitPrepared, 1},
		"when it is told an abort":   {"'abort'", isDecision, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			f.crash(test.crashed)
			direct := f.urls["c"]
			f.failFrom("c", test.from, (*proxy.Proxy).Swallow)
			start := time.Now()
			report, err := transactions.Recover(f.ctx, coordinator, transactions.OlderThan(0), transactions.Finish(), transactions.ParticipantTimeout(limit))
			wantQuick(t, start, 3*limit+slack) // two abort rows, and the clean-up
			if err == nil && report.Clean() {
				t.Errorf("recovery calls that clean: %+v", report)
			}
			f.plan.Set(nil, nil)
			for _, alias := range participants {
				if n := len(f.prepared(alias)); n != 1 {
					t.Errorf("%d transactions are prepared in %s, want the one", n, alias)
				}
			}
			f.urls["c"] = direct
			f.reconnect()
			if report := f.recover(transactions.Finish()); !report.Clean() || len(report.Entries) != 2 {
				t.Errorf("recovery afterwards: %+v", report)
			}
			f.wantCounts(test.notes, test.notes, test.notes)
			f.wantNothingPrepared()
		})
	}
}

// What recovery writes in the end has the same limit: a coordinator that swallows it holds nobody up.
func TestBlackHoleWhenRecoveryIsDone(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	for name, from := range map[string]string{"when it is told that all is done": "SET resolved_at = clock_timestamp()", "when it is told to forget": "'infinity'"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			f.crash(isCommitPrepared)
			xid := strings.TrimSuffix(f.prepared("b")[0], ":b")
			opts := []transactions.RecoverOption{transactions.OlderThan(0), transactions.Finish(), transactions.ParticipantTimeout(limit)}
			if strings.Contains(from, "infinity") {
				f.exec("b", fmt.Sprintf("ROLLBACK PREPARED '%s'", f.prepared("b")[0]))
				f.recover(transactions.Finish())
				opts = append(opts, transactions.Forget(xid))
			}
			calls := f.failFrom("c", from, (*proxy.Proxy).Swallow)
			ctx, cancel := context.WithTimeout(f.ctx, 30*time.Second)
			defer cancel()
			start := time.Now()
			if _, err := transactions.Recover(ctx, coordinator, opts...); err == nil {
				t.Error("recovery took the silence for an answer")
			}
			wantQuick(t, start, 2*limit+slack)
			if calls() == 0 {
				t.Error("the network did not fail")
			}
			f.plan.Set(nil, nil)
		})
	}
}

// A live call whose database swallows everything, or cannot be reached any more, ends within its phases, and says what it
// knows: a message that could not even be sent has no effect.
//
// Field case 14. Field case 41. W13.
func TestFieldBlackHoleInACall(t *testing.T) {
	t.Parallel()
	swallows, refuses := (*proxy.Proxy).Swallow, (*proxy.Proxy).Refuse
	aborts := func(t *testing.T, err error) { as[*transactions.AbortError](t, err) }
	isPending := func(t *testing.T, err error) {
		wantPending(t, as[*transactions.PartiallyCommittedError](t, err).Pending, "b")
	}
	for _, test := range []struct {
		name, alias, from string
		fail              func(*proxy.Proxy)
		phases            transactions.Phases
		check             func(t *testing.T, err error)
	}{
		{"preparing, swallowed", "a", "PREPARE TRANSACTION", swallows, transactions.Phases{Prepare: time.Second, Rollback: time.Second}, func(t *testing.T, err error) {
			wantPending(t, as[*transactions.RollbackPendingError](t, err).Pending, "a")
		}},
		{"preparing, refused", "a", "PREPARE TRANSACTION", refuses, transactions.Phases{}, aborts},
		{"deciding, swallowed", "c", decisionSQL, swallows, transactions.Phases{Decide: time.Second}, func(t *testing.T, err error) {
			as[*transactions.CommitAmbiguousError](t, err)
		}},
		{"deciding, refused", "c", decisionSQL, refuses, transactions.Phases{}, aborts},
		{"delivering, swallowed", "b", "COMMIT PREPARED", swallows, transactions.Phases{Deliver: time.Second}, isPending},
		{"delivering, refused", "b", "COMMIT PREPARED", refuses, transactions.Phases{Deliver: time.Second}, isPending},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			direct := f.urls[test.alias]
			calls := f.failFrom(test.alias, test.from, test.fail)
			start := time.Now()
			err := transactions.Distributed(f.ctx, coordinator, participants, writeAll, transactions.PhaseTimeouts(test.phases))
			wantQuick(t, start, 2*time.Second+slack)
			if calls() == 0 {
				t.Error("the network did not fail")
			}
			test.check(t, err)
			f.plan.Set(nil, nil)
			f.urls[test.alias] = direct
			f.reconnect()
			if report := f.recover(transactions.Finish()); !report.Clean() {
				t.Errorf("recovery: %+v", report)
			}
			if counts := f.counts(); counts[0] != counts[1] || counts[0] != counts[2] {
				t.Errorf("notes in c, a, b: %v, want all or none", counts)
			}
			f.wantNothingPrepared()
		})
	}
}

// A network that is down for less than a phase leaves nothing to recovery, and costs no more than what was not decided.
func TestNetworkHealsInTime(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, alias, from string
		want              transactions.Outcome
	}{
		{"preparing", "a", "PREPARE TRANSACTION", transactions.RolledBack},
		{"deciding", "c", decisionSQL, transactions.RolledBack},
		{"delivering", "b", "COMMIT PREPARED", transactions.Committed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "&max_size=1")
			healed := make(chan struct{})
			f.failFrom(test.alias, test.from, func(p *proxy.Proxy) {
				p.Refuse()
				time.AfterFunc(200*time.Millisecond, func() { p.Heal(); close(healed) })
			})
			err := transactions.Distributed(f.ctx, coordinator, participants, writeAll)
			f.plan.Set(nil, nil)
			wantOutcome(t, err, test.want)
			f.wait("the network heals", healed)
			f.wantNothingPrepared()
			f.wantSettled("all", err).wantWhole(test.name, f.conns)
		})
	}
}

// wantPending looks for an alias. On a busy machine others may be late as well.
func wantPending(t *testing.T, pending []transactions.ParticipantState, alias string) {
	t.Helper()
	if !slices.ContainsFunc(pending, func(p transactions.ParticipantState) bool { return p.Alias == alias && p.GID != "" }) {
		t.Errorf("pending is %+v, want %s among them", pending, alias)
	}
}
