package integration

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

// standstill is a state in which a call over a coordinator and two participants has something prepared, and goes no
// further: to a recovery it is dead.
type standstill struct {
	name string
	once func(e faults.Event) bool // what has run by then, besides all that comes before
	at   func(e faults.Event) bool // what does not run
	kept bool                      // what recovery must come to
}

func on(alias, sql string) func(e faults.Event) bool {
	return func(e faults.Event) bool { return e.Alias == alias && strings.Contains(e.SQL, sql) }
}

// standstills are all such states.
var standstills = []standstill{
	{"one is prepared", on("a", "PREPARE TRANSACTION"), on("b", "PREPARE TRANSACTION"), false},
	{"both are prepared", nil, isDecision, false},
	{"it is decided", nil, isCommitPrepared, true},
	{"one is committed", on("a", "COMMIT PREPARED"), on("b", "COMMIT PREPARED"), true},
}

// sleeper is a call that stands still, and wakes up again.
type sleeper struct {
	standstill
	plan  *faults.Plan
	conns *hare.Connections
	text  string
	wake  chan struct{}
	ended chan error
	told  *end
}

func (s *sweep) sleepers() []*sleeper {
	s.Helper()
	var all []*sleeper
	for _, state := range standstills {
		l := &sleeper{standstill: state, plan: &faults.Plan{}}
		var err error
		if l.conns, err = connectThrough(s.Context(), l.plan, s.subjectURLs()); err != nil {
			s.Fatal(err)
		}
		s.Cleanup(l.conns.Close)
		all = append(all, l)
	}
	return all
}

// sleep runs the call until it stands still.
func (l *sleeper) sleep(s *sweep) {
	s.Helper()
	l.text, l.wake, l.ended = s.next(), make(chan struct{}), make(chan error, 1)
	ran, asleep := make(chan struct{}), make(chan struct{})
	if l.once == nil {
		close(ran)
	}
	var falling sync.Once
	l.plan.Set(func(ctx context.Context, e faults.Event) error {
		if l.at(e) {
			select {
			case <-ran:
			case <-ctx.Done():
				return nil
			}
			falling.Do(func() { close(asleep) })
			<-l.wake
		}
		return nil
	}, func(_ context.Context, e faults.Event) error {
		if l.once != nil && l.once(e) {
			close(ran)
		}
		return nil
	})
	go func() {
		l.ended <- transactions.Distributed(hare.WithConnections(s.Context(), l.conns), coordinator, s.participants(),
			func(d *hare.Distributed) error { return s.write(d, l.text) }, silent, phases(0))
	}()
	select {
	case <-asleep:
	case err := <-l.ended:
		s.Fatalf("%s: the call has ended: %v", l.name, err)
	}
}

// Each call of a recovery is hit, while there is something of each kind to recover. The recovery claims no success that
// is none, and the next one, which is not disturbed, brings everything to its end. A call that was taken for dead, and was
// not, learns what has become of it.
func TestFailEveryCallOfRecovery(t *testing.T) {
	t.Parallel()
	for _, k := range []strike{lostBefore, lostAfter, goneBefore} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := newSweep(t, 2)
			sleepers := s.sleepers()
			s.every([]strike{k}, func(k strike, i int64) *armed {
				for _, l := range sleepers {
					l.sleep(s)
				}
				a := k.arm(s.plan, i, everything)
				report, err := transactions.Recover(s.ctx, coordinator, transactions.OlderThan(0), transactions.Finish(), silentRecovery)
				s.plan.Set(nil, nil)
				at := a.String()
				done := err == nil && report.Clean()
				if left := s.look("").prepared; done && (len(left) > 0 || s.openDecisions() > 0) {
					s.Errorf("%s: recovery claims to be done, with %q prepared and %d decisions open: %+v", at, left, s.openDecisions(), report)
				}
				if i == never && !done {
					s.Errorf("%s: recovery: %+v, %v", at, report, err)
				}
				if report := s.finishing(); !report.Clean() {
					s.Errorf("%s: the next recovery: %+v", at, report)
				}
				for _, l := range sleepers {
					if kept := s.verify(at+", "+l.name, l.text, nil); kept != l.kept {
						s.Errorf("%s: %s: kept: %t, want %t", at, l.name, kept, l.kept)
					}
				}
				at += ", and all go on"
				for _, l := range sleepers {
					close(l.wake)
					l.told = endOf(<-l.ended)
				}
				for _, l := range sleepers {
					s.compareAtOnce(at, l.told, s.look(l.text))
				}
				s.settle(at)
				for _, l := range sleepers {
					s.verify(at+", "+l.name, l.text, l.told)
				}
				return a
			})
		})
	}
}
