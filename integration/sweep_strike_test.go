package integration

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

// strike is how one call of many is hit, and what becomes of those after it.
type strike struct {
	name    string
	after   bool // it has run, and its answer is lost
	twice   bool // so is the next
	gone    bool // so is every later one, before it runs: the network does not come back
	cancels bool // nothing is lost, and the caller's context is cancelled

	act func(e faults.Event) error // what happens to the call instead of being lost
}

var (
	lostBefore      = strike{name: "before it ran"}
	lostAfter       = strike{name: "after it ran", after: true}
	twiceBefore     = strike{name: "before it ran, and the next", twice: true}
	twiceAfter      = strike{name: "after it ran, and the next", after: true, twice: true}
	goneBefore      = strike{name: "before it ran, and all later ones", gone: true}
	goneAfter       = strike{name: "after it ran, and all later ones", after: true, gone: true}
	cancelledBefore = strike{name: "by cancelling before it ran", cancels: true}
	cancelledAfter  = strike{name: "by cancelling after it ran", after: true, cancels: true}
)

// armed is a strike that waits for its call.
type armed struct {
	strike
	i      int64
	counts func(context.Context) bool
	calls  atomic.Int64
	hit    atomic.Pointer[faults.Event] // the call that was hit
}

// never is the number of a call that never comes.
const never = math.MaxInt64

// everything counts every call of a plan.
func everything(context.Context) bool { return true }

// arm makes the plan strike the i-th call of those that count.
func (k strike) arm(plan *faults.Plan, i int64, counts func(context.Context) bool) *armed {
	a := &armed{strike: k, i: i, counts: counts}
	if k.after {
		plan.Set(a.refuse, a.meet)
	} else {
		plan.Set(a.meet, nil)
	}
	return a
}

// meet lets a call pass, or strikes it.
func (a *armed) meet(ctx context.Context, e faults.Event) error {
	if !a.counts(ctx) {
		return nil
	}
	n := a.calls.Add(1)
	switch {
	case n == a.i:
		a.hit.Store(&e)
		if a.act != nil {
			return a.act(e)
		}
		return faults.ErrInjected
	case n == a.i+1 && a.twice, n > a.i && a.gone:
		return faults.ErrInjected
	}
	return nil
}

// refuse lets no call run after the one that was hit, where the network does not come back.
func (a *armed) refuse(ctx context.Context, _ faults.Event) error {
	if a.gone && a.hit.Load() != nil && a.counts(ctx) {
		return faults.ErrInjected
	}
	return nil
}

// String describes the strike, for messages.
func (a *armed) String() string {
	hit := a.hit.Load()
	if hit == nil {
		return "no call hit"
	}
	return fmt.Sprintf("call %d (%s) hit %s", a.i, describe(*hit), a.name)
}

// describe is a call in a few words.
func describe(e faults.Event) string {
	sql := strings.Join(strings.Fields(e.SQL), " ")
	return fmt.Sprintf("%s, %s %s", e.Alias, e.Op, sql[:min(len(sql), 60)])
}

// phases bounds the phases whose work is tried again until they end. 0 is for calls that a busy machine must not keep from
// their end.
func phases(limit time.Duration) transactions.Option {
	const patient = 30 * time.Second
	if limit == 0 {
		limit = patient
	}
	return transactions.PhaseTimeouts(transactions.Phases{Prepare: patient, Decide: limit, Deliver: limit, Rollback: limit})
}

// Warnings about what is done to the calls stay out of the tests' output.
var (
	silent         = transactions.Logger(slog.New(slog.DiscardHandler))
	silentRecovery = transactions.RecoverLogger(slog.New(slog.DiscardHandler))
)
