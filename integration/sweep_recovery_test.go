package integration

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

// death is where a call of coordinator c and participants a and b ends, as if its process had died.
type death struct {
	name  string
	once  func(e faults.Event) bool // it lives until this has run, if there is such a thing
	at    func(e faults.Event) bool // and dies before this runs
	told  transactions.Outcome
	kept  bool // what recovery must come to
	after transactions.Phases
}

func on(alias, sql string) func(e faults.Event) bool {
	return func(e faults.Event) bool { return e.Alias == alias && strings.Contains(e.SQL, sql) }
}

// soon bounds what can only fail after the death.
const soon = 30 * time.Millisecond

// deaths are all states in which something is prepared and its call is dead.
var deaths = []death{
	{"one is prepared", on("a", "PREPARE TRANSACTION"), on("b", "PREPARE TRANSACTION"),
		transactions.RolledBack, false, transactions.Phases{Rollback: soon}},
	{"both are prepared", nil, isDecision,
		transactions.Ambiguous, false, transactions.Phases{Decide: soon}},
	{"it is decided", nil, isDelivery,
		transactions.PartiallyCommitted, true, transactions.Phases{Deliver: soon}},
	{"one is committed", on("a", "COMMIT PREPARED"), on("b", "COMMIT PREPARED"),
		transactions.PartiallyCommitted, true, transactions.Phases{Deliver: 10 * soon}},
}

// arm makes everything fail from the death on.
func (d death) arm(plan *faults.Plan) {
	var dead atomic.Bool
	lives := make(chan struct{})
	var once sync.Once
	if d.once == nil {
		close(lives)
	}
	plan.Set(func(ctx context.Context, e faults.Event) error {
		if !dead.Load() && d.at(e) {
			select {
			case <-lives:
			case <-ctx.Done():
			}
			dead.Store(true)
		}
		if dead.Load() {
			return faults.ErrInjected
		}
		return nil
	}, func(_ context.Context, e faults.Event) error {
		if d.once != nil && d.once(e) {
			once.Do(func() { close(lives) })
		}
		return nil
	})
}

// mortal is a call that dies again and again, with connections of its own.
type mortal struct {
	death
	plan  *faults.Plan
	conns *hare.Connections
}

func (s *sweep) mortals() []*mortal {
	s.Helper()
	var all []*mortal
	for _, d := range deaths {
		m := &mortal{death: d, plan: &faults.Plan{}}
		var err error
		if m.conns, err = connectThrough(s.Context(), m.plan, s.subjectURLs()); err != nil {
			s.Fatal(err)
		}
		s.Cleanup(m.conns.Close)
		all = append(all, m)
	}
	return all
}

// die runs a call that writes a text and dies.
func (s *sweep) die(m *mortal, text string) {
	m.arm(m.plan)
	err := transactions.Distributed(hare.WithConnections(s.Context(), m.conns), coordinator, s.participants(),
		func(d *hare.Distributed) error { return s.write(d, text) }, transactions.PhaseTimeouts(m.after), silent)
	m.plan.Set(nil, nil)
	if got := transactions.OutcomeOf(err); got != m.told {
		s.Errorf("%s: told %v, want it %s", m.name, err, m.told)
	}
}

// Each call of a recovery is hit, while there is something of each kind to recover. The recovery claims no success that
// is none, and the next one, which is not disturbed, brings everything to its end.
func TestFailEveryCallOfRecovery(t *testing.T) {
	t.Parallel()
	for _, k := range []strike{lostBefore, lostAfter, goneBefore} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := newSweep(t, 2)
			mortals := s.mortals()
			s.every([]strike{k}, func(k strike, i int64) *armed {
				texts := make([]string, len(mortals))
				var wait sync.WaitGroup
				for j, m := range mortals {
					texts[j] = s.next()
					wait.Go(func() { s.die(m, texts[j]) })
				}
				wait.Wait()

				a := k.arm(s.plan, i, everything)
				report, err := transactions.Recover(s.ctx, coordinator, transactions.OlderThan(0), transactions.Finish())
				s.plan.Set(nil, nil)
				at := a.String()
				done := err == nil && report.Clean()
				if left := len(s.look("").prepared); done && (left > 0 || s.openDecisions() > 0) {
					s.Errorf("%s: recovery claims to be done, with %d transactions prepared and %d decisions open: %+v", at, left, s.openDecisions(), report)
				}
				if i == never && !done {
					s.Errorf("%s: recovery: %+v, %v", at, report, err)
				}

				s.settle(at)
				for j, m := range mortals {
					if kept := s.verify(at+", "+m.name, texts[j], nil); kept != m.kept {
						s.Errorf("%s: %s: kept: %t, want %t", at, m.name, kept, m.kept)
					}
				}
				return a
			})
		})
	}
}
