package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

// deed is a distributed transaction to be swept.
type deed struct {
	name         string
	participants []int // numbers of them
	ways         []strike
	setUp        func(s *sweep)
	do           func(s *sweep, d *hare.Distributed, text string) error
	ends         transactions.Outcome // when nothing is in its way
}

func (s *sweep) write(d *hare.Distributed, text string) error { return write(d, text, s.writers...) }

func (s *sweep) nothing() {}

// refuse makes a database refuse the notes of the rounds when they are to be prepared or committed.
func (s *sweep) refuse(alias string) {
	s.atCommit(alias, "IF NEW.text LIKE 'round %' THEN RAISE EXCEPTION 'refused'; END IF;")
}

var (
	everyWay = []strike{lostBefore, lostAfter, goneBefore, goneAfter, cancelledBefore, cancelledAfter}
	someWays = []strike{lostBefore, lostAfter, goneBefore, cancelledAfter}
)

var deeds = []deed{
	{"all write", []int{1, 2, 3}, everyWay, (*sweep).nothing, (*sweep).write, transactions.Committed},
	{"two faults", []int{2}, []strike{twiceBefore, twiceAfter}, (*sweep).nothing, (*sweep).write, transactions.Committed},
	{"the function fails", []int{2}, someWays, (*sweep).nothing, func(s *sweep, d *hare.Distributed, text string) error {
		return errors.Join(s.write(d, text), errStop)
	}, transactions.RolledBack},
	{"a participant refuses", []int{2}, someWays, func(s *sweep) { s.refuse(s.last()) }, (*sweep).write, transactions.RolledBack},
	{"the coordinator refuses", []int{2}, someWays, func(s *sweep) { s.refuse(coordinator) }, (*sweep).write, transactions.RolledBack},
	// The last participant only reads; if there are three, the one before it does nothing.
	{"idle participants", []int{1, 3}, someWays, func(s *sweep) { s.writers = s.databases[:min(2, len(s.databases)-1)] }, func(s *sweep, d *hare.Distributed, text string) error {
		_, err := Notes.Using(d.Client(s.last())).Count(d.Context())
		return errors.Join(err, s.write(d, text))
	}, transactions.Committed},
}

// Each call of a distributed transaction is hit in each way, one after the other, in pools of one connection.
//
// Field case 14. Field case 25. Field case 35. Field case 49. Field case 50. W1. W5. W12. W14. W17. W18.
func TestFailEveryCall(t *testing.T) {
	t.Parallel()
	for _, deed := range deeds {
		for _, n := range deed.participants {
			t.Run(fmt.Sprintf("%s, %d participants", deed.name, n), func(t *testing.T) {
				t.Parallel()
				s := newSweep(t, n)
				deed.setUp(s)
				subject := s.connect(s.subjectURLs())
				s.wantWhole("first use", subject)
				s.every(deed.ways, func(k strike, i int64) *armed { return s.round(deed, k, i, subject) })
			})
		}
	}
}

// every hits each call in each way. round runs with the i-th call hit; what comes before it is not disturbed, so that
// there are as many to hit as without any.
func (s *sweep) every(ways []strike, round func(k strike, i int64) *armed) {
	s.Helper()
	for _, k := range ways {
		calls := round(k, never).calls.Load()
		for i := int64(1); i <= calls && !s.Failed(); i++ {
			if round(k, i).hit.Load() == nil {
				s.Errorf("%s: there was no call %d", k.name, i)
			}
		}
		s.Logf("%d calls, each hit %s", calls, k.name)
	}
}

// mark is in the context of a round's calls, and not in that of what hare does in the background for an earlier one.
type mark struct{}

func marked(ctx context.Context) bool { return ctx.Value(mark{}) != nil }

// shortest is the time of the phases whose work is tried again until they end, when it can only fail.
const shortest = 100 * time.Millisecond

// round runs the transaction with its i-th call hit, and checks what has come of it.
func (s *sweep) round(of deed, k strike, i int64, subject *hare.Connections) *armed {
	s.Helper()
	limit := time.Duration(0)
	if k.gone {
		limit = shortest
	}
	for ; ; limit *= 2 {
		text := s.next()
		ctx, cancel := context.WithCancel(context.WithValue(hare.WithConnections(s.Context(), subject), mark{}, true))
		if k.cancels {
			k.act = func(faults.Event) error { cancel(); return nil }
		}
		a := k.arm(s.plan, i, marked)
		err := transactions.Distributed(ctx, coordinator, s.participants(), func(d *hare.Distributed) error { return of.do(s, d, text) }, silent, phases(limit))
		s.plan.Set(nil, nil)
		cancel()
		at := a.String()
		s.check(at, text, endOf(err))
		if !k.gone {
			s.wantEnded(at, of, i, err)
		}
		s.wantWhole(text, subject)
		// What is in order may take longer on a busy machine than the short phases allow.
		if !k.gone || a.hit.Load() != nil || limit > time.Minute {
			return a
		}
	}
}

// wantEnded makes sure that a fault is never so bad that recovery is needed while the servers can be reached: the call ends
// committed or rolled back. Where no participant waits a lost COMMIT is in doubt, as it is for Atomic.
func (s *sweep) wantEnded(at string, of deed, i int64, err error) {
	s.Helper()
	told := endOf(err)
	var unknown *transactions.CommitUnknownError
	alone := len(s.writers) == 1 && errors.As(err, &unknown)
	switch {
	case len(told.GIDs) > 0, told.Outcome != transactions.Committed && told.Outcome != transactions.RolledBack && !alone:
		s.Errorf("%s: left something to recovery: %v", at, err)
	case of.ends == transactions.RolledBack && told.Outcome != transactions.RolledBack, i == never && told.Outcome != of.ends:
		s.Errorf("%s: %v, want it %s", at, err, of.ends)
	}
}

// The same for the first call of a program on databases that have never seen one, and for what it does in the background
// after its end.
func TestFailEveryCallOfTheFirstUse(t *testing.T) {
	t.Parallel()
	s := newSweep(t, 2)
	s.every([]strike{lostBefore, lostAfter}, func(k strike, i int64) *armed {
		s.neverUsed()
		subject := s.connect(s.subjectURLs())
		text := s.next()
		a := k.arm(s.plan, i, everything)
		err := transactions.Distributed(hare.WithConnections(s.Context(), subject), coordinator, s.participants(),
			func(d *hare.Distributed) error { return s.write(d, text) }, silent, phases(0))
		subject.Close() // waits for what is done in the background
		s.plan.Set(nil, nil)
		s.check(a.String(), text, endOf(err))
		s.wantEnded(a.String(), deeds[0], i, err)
		s.await(a.String()+": the end of all sessions", func() bool { return s.sessions("true") == 0 })
		return a
	})
}

// neverUsed makes the coordinator's database as it was before its first distributed transaction.
func (s *sweep) neverUsed() {
	s.Helper()
	s.exec(coordinator, "DROP TABLE IF EXISTS public.hare_distributed_decisions, public.hare_distributed_coordinator")
}
