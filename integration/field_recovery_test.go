package integration

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

func isDelivery(e faults.Event) bool { return strings.HasPrefix(e.SQL, "COMMIT PREPARED") }

// entryOf is the entry of an alias.
func entryOf(t *testing.T, report transactions.Report, alias string) transactions.Entry {
	t.Helper()
	for _, e := range report.Entries {
		if e.Alias == alias {
			return e
		}
	}
	t.Fatalf("no entry of %s in %+v", alias, report)
	return transactions.Entry{}
}

// Field 22, W34: a role that does not own what is prepared cannot finish it. Its entry says who can, the others are
// finished, the decision stays open until the owner comes.
func TestFieldRecoveryByAnotherRole(t *testing.T) {
	t.Parallel()
	for name, crashed := range map[string]struct {
		at    func(e faults.Event) bool
		notes int64
	}{"to commit": {isDelivery, 1}, "to roll back": {isDecision, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			f.crash(crashed.at)
			owner := f.urls["a"]
			_, f.urls["a"] = f.role("a")
			f.reconnect()
			for range 2 {
				report := f.recover(transactions.Finish())
				e := entryOf(t, report, "a")
				if e.State != transactions.StateFailed || e.Owner == "" || !strings.Contains(e.Reason, `"`+e.Owner+`"`) || report.Clean() || report.Resolved != 0 {
					t.Errorf("by another role: %+v", report)
				}
				if refusal := as[*hare.DatabaseError](t, e.Err); refusal.SQLState != "42501" {
					t.Errorf("by another role: %v", refusal)
				}
			}
			f.wantCounts(crashed.notes, 0, crashed.notes)
			f.urls["a"] = owner
			f.reconnect()
			if report := f.recover(transactions.Finish()); !report.Clean() {
				t.Errorf("by the owner: %+v", report)
			}
			f.wantCounts(crashed.notes, crashed.notes, crashed.notes)
			f.wantNothingPrepared()
		})
	}
}

// Field 37: the databases are on one server, whose list of prepared transactions is one. Field 39 and 44, W4: a second
// coordinator goes by the same alias and shares the participants; neither touches what is the other's.
func TestFieldTwoCoordinatorsOnOneServer(t *testing.T) {
	t.Parallel()
	urls := neighbours(t, 4)
	first := trioOf(t, urls[0], urls[1], urls[2])
	second := trioOf(t, urls[3], urls[1], urls[2])
	first.crash(isDelivery)
	second.crash(isDecision)
	report := first.recover(transactions.Finish())
	if diff := cmp.Diff([]string{"a", "b"}, aliasesOf(report.Entries)); diff != "" || !report.Clean() || report.Resolved != 1 {
		t.Errorf("the first: %+v\n%s", report, diff)
	}
	first.wantCounts(1, 1, 1)
	if len(second.prepared("a")) != 1 || len(second.prepared("b")) != 1 {
		t.Error("the first has touched what is the second's")
	}
	report = second.recover(transactions.Finish())
	if diff := cmp.Diff([]string{"a", "b"}, aliasesOf(report.Entries)); diff != "" || !report.Clean() {
		t.Errorf("the second: %+v\n%s", report, diff)
	}
	second.wantCounts(0, 1, 1)
	first.wantNothingPrepared()
	first.wantUsable()
	second.wantUsable()
}

// Field 40, W33: a participant is gone from the configuration. The decision stays open and says what is missing.
func TestFieldParticipantNotConfigured(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.crash(isDelivery)
	b := f.urls["b"]
	delete(f.urls, "b")
	f.reconnect()
	for run := range 2 {
		report := f.recover(transactions.Finish())
		e := entryOf(t, report, "b")
		if e.State != transactions.StateFailed || !strings.Contains(e.Reason, "no configured connection") || report.Resolved != 0 || report.Clean() {
			t.Errorf("run %d without b: %+v", run, report)
		}
	}
	if n := f.decisions("resolved_at IS NULL AND outcome = 'commit'"); n != 1 {
		t.Errorf("%d open decisions, want the one", n)
	}
	f.urls["renamed"] = b // the database counts, not its alias
	f.reconnect()
	report := f.recover(transactions.Finish())
	if e := entryOf(t, report, "renamed"); e.State != transactions.StateDone || report.Resolved != 1 || !report.Clean() {
		t.Errorf("with b under another alias: %+v", report)
	}
	delete(f.urls, "renamed")
	f.urls["b"] = b
	f.reconnect()
	f.wantCounts(1, 1, 1)
	f.wantNothingPrepared()
}

// hole passes connections to a server on until it swallows everything: nothing is refused, and nothing answers.
type hole struct {
	url   string
	mu    sync.Mutex
	black bool
}

func newHole(t *testing.T, databaseURL string, black bool) *hole {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	h := &hole{black: black, url: with(t, databaseURL, func(u *url.URL) { u.Host = listener.Addr().String() })}
	server := host(t, databaseURL)
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				near.Close()
				continue
			}
			go h.pass(near, far)
			go h.pass(far, near)
		}
	}()
	return h
}

func (h *hole) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	chunk := make([]byte, 64<<10)
	for {
		n, err := from.Read(chunk)
		if err != nil {
			return
		}
		if h.isBlack() {
			continue
		}
		if _, err := to.Write(chunk[:n]); err != nil {
			return
		}
	}
}

func (h *hole) isBlack() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.black
}

func (h *hole) swallow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.black = true
}

// Field 41, W19: a participant that swallows everything, from the beginning or from some step on, costs its own time and
// no more; the other one is finished.
func TestFieldBlackHoleInRecovery(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		when  func(e faults.Event) bool // nil: from the beginning
		aDone bool                      // a was told before the crash, so that recovery only verifies it
	}{
		{"from the beginning", nil, false},
		{"when it is asked what is prepared", func(e faults.Event) bool { return e.Alias == "a" && strings.Contains(e.SQL, "pg_prepared_xacts") }, false},
		{"when it is told", func(e faults.Event) bool { return e.Alias == "a" && isDelivery(e) }, false},
		{"when it is verified", func(e faults.Event) bool { return e.Alias == "b" && isDelivery(e) }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			f.crash(isDelivery)
			if test.aDone {
				f.exec("a", fmt.Sprintf("COMMIT PREPARED '%s'", f.prepared("a")[0]))
			}
			direct := f.urls["a"]
			h := newHole(t, direct, test.when == nil)
			f.urls["a"] = h.url
			f.reconnect()
			f.plan.Set(func(_ context.Context, e faults.Event) error {
				if test.when != nil && test.when(e) {
					h.swallow()
				}
				return nil
			}, nil)
			start := time.Now()
			report := f.recover(transactions.Finish(), transactions.ParticipantTimeout(2*time.Second))
			wantQuick(t, start, 20*time.Second)
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

// Field 41 and 14, W13: a live call whose participant swallows everything ends within its phases, and says what it knows.
func TestFieldBlackHoleInACall(t *testing.T) {
	t.Parallel()
	short := transactions.PhaseTimeouts(transactions.Phases{Prepare: 2 * time.Second, Decide: 2 * time.Second, Deliver: 2 * time.Second, Rollback: time.Second})
	for _, test := range []struct {
		name, alias string
		part        string
		check       func(t *testing.T, f *trio, err error)
	}{
		{"preparing", "a", "PREPARE TRANSACTION", func(t *testing.T, f *trio, err error) {
			wantOutcome(t, err, transactions.RolledBack)
			if e := as[*transactions.RollbackPendingError](t, err); len(e.Pending) != 1 || e.Pending[0].Alias != "a" {
				t.Errorf("pending is %+v, want a", e.Pending)
			}
		}},
		{"deciding", "c", "INSERT INTO public.hare_distributed_decisions", func(t *testing.T, f *trio, err error) {
			wantOutcome(t, err, transactions.Ambiguous)
			as[*transactions.CommitAmbiguousError](t, err)
		}},
		{"delivering", "b", "COMMIT PREPARED", func(t *testing.T, f *trio, err error) {
			wantOutcome(t, err, transactions.PartiallyCommitted)
			if e := as[*transactions.PartiallyCommittedError](t, err); len(e.Pending) != 1 || e.Pending[0].Alias != "b" {
				t.Errorf("pending is %+v, want b", e.Pending)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			direct := f.urls[test.alias]
			h := newHole(t, direct, false)
			f.urls[test.alias] = h.url
			f.reconnect()
			f.plan.Set(func(_ context.Context, e faults.Event) error {
				if e.Alias == test.alias && strings.Contains(e.SQL, test.part) {
					h.swallow()
				}
				return nil
			}, nil)
			start := time.Now()
			err := f.distributed(writeAll, short)
			wantQuick(t, start, 20*time.Second)
			test.check(t, f, err)
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
