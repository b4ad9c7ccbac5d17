package integration

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

// sweep runs a distributed transaction again and again, with a fault at its first call, at its second, and so on until a
// run is over before its fault comes. After each run, and a recovery without faults, all databases have its writes or none
// does, nothing is left prepared, and the error told the truth.
func (f *trio) sweep(chosen []string, arm func(i int64, cancel context.CancelFunc) (disarm func() (fired bool))) {
	f.Helper()
	databases := append([]string{coordinator}, chosen...)
	quick := transactions.PhaseTimeouts(transactions.Phases{Prepare: 2e9, Decide: 2e9, Deliver: 2e9, Rollback: 2e9})
	for i := int64(1); ; i++ {
		if i > 200 {
			f.Fatal("the sweep does not end")
		}
		text := fmt.Sprint("sweep ", i)
		ctx, cancel := context.WithCancel(f.ctx)
		disarm := arm(i, cancel)
		err := transactions.Distributed(ctx, coordinator, chosen, func(d *hare.Distributed) error { return write(d, text, databases...) }, quick)
		fired := disarm()
		cancel()
		told := transactions.OutcomeOf(err)
		if report := f.recover(transactions.Finish()); !report.Clean() {
			f.Errorf("fault %d: recovery: %+v", i, report)
		}
		kept := int64(0)
		for _, alias := range databases {
			n, err := Notes.UsingAlias(alias).Filter(noteWith(text)).Count(f.ctx)
			if err != nil {
				f.Fatal(err)
			}
			kept += n
			if _, err := Notes.UsingAlias(alias).Unfiltered().Delete(f.ctx); err != nil {
				f.Fatal(err)
			}
		}
		if kept != 0 && kept != int64(len(databases)) {
			f.Errorf("fault %d: %d of %d databases have the transaction (%v)", i, kept, len(databases), err)
		}
		committed := kept != 0
		switch told {
		case transactions.Committed, transactions.PartiallyCommitted:
			if !committed {
				f.Errorf("fault %d: told %s, and nothing is there: %v", i, told, err)
			}
		case transactions.RolledBack:
			if committed {
				f.Errorf("fault %d: told %s, and it is there: %v", i, told, err)
			}
		case transactions.Mixed:
			f.Errorf("fault %d: told %s: %v", i, told, err)
		}
		f.wantNothingPrepared()
		if !fired {
			if err != nil {
				f.Errorf("without a fault: %v", err)
			}
			f.Logf("%d participants: %d faults", len(chosen), i-1)
			return
		}
	}
}

// failing fails the i-th call, before it ran or after it ran.
func (f *trio) failing(after bool) func(int64, context.CancelFunc) func() bool {
	return func(i int64, _ context.CancelFunc) func() bool {
		var calls atomic.Int64
		fault := func(context.Context, faults.Event) error {
			if calls.Add(1) == i {
				return faults.ErrInjected
			}
			return nil
		}
		if after {
			f.plan.Set(nil, fault)
		} else {
			f.plan.Set(fault, nil)
		}
		return func() bool {
			f.plan.Set(nil, nil)
			return calls.Load() >= i
		}
	}
}

func TestFailEveryCall(t *testing.T) {
	for name, after := range map[string]bool{"before it ran": false, "after it ran": true} {
		for n := 1; n <= 2; n++ {
			t.Run(fmt.Sprintf("%s, %d participants", name, n), func(t *testing.T) {
				t.Parallel()
				f := newTrio(t, "&max_size=2")
				f.sweep(participants[:n], f.failing(after))
			})
		}
	}
}

func TestCancelAtEveryCall(t *testing.T) {
	for name, after := range map[string]bool{"before it ran": false, "after it ran": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "&max_size=2")
			f.sweep(participants, func(i int64, cancel context.CancelFunc) func() bool {
				var calls atomic.Int64
				fault := func(context.Context, faults.Event) error {
					if calls.Add(1) == i {
						cancel()
					}
					return nil
				}
				if after {
					f.plan.Set(nil, fault)
				} else {
					f.plan.Set(fault, nil)
				}
				return func() bool {
					f.plan.Set(nil, nil)
					return calls.Load() >= i
				}
			})
		})
	}
}
