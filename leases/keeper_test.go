package leases_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/leases"
)

// observed is a client whose calls a plan sees.
func (p *place) observed() (*faults.Plan, *hare.Client) {
	p.Helper()
	plan := &faults.Plan{}
	_, client := p.connect(plan.URL(plan.Scheme("postgres"), p.url))
	return plan, client
}

// many acquires n leases of a client, on one computer.
func (p *place) many(client *hare.Client, n int, opts leases.Options, computer *clocks) []*leases.Term {
	p.Helper()
	terms := make([]*leases.Term, n)
	var all sync.WaitGroup
	for i := range n {
		l := p.lease(client, fmt.Sprintf("job %03d", i), opts)
		computer.of(l)
		all.Go(func() {
			var err error
			if terms[i], err = l.Acquire(p.Context()); err != nil {
				p.Error(err)
			}
		})
	}
	all.Wait()
	if p.Failed() {
		p.FailNow()
	}
	return terms
}

func renewals(plan *faults.Plan) (found []string) {
	for _, e := range plan.Events() {
		if strings.Contains(e.SQL, "WITH renewed") {
			found = append(found, e.SQL)
		}
	}
	return found
}

// A process with a hundred leases renews them all in one message, and has four connections for them at the most.
func TestManyLeases(t *testing.T) {
	t.Parallel()
	const n = 100
	p := newPlace(t)
	p.table()
	plan, client := p.observed()
	most := 0
	ctx, cancel := context.WithCancel(t.Context())
	counting := background(func() error {
		for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
			most = max(most, plan.Held())
		}
		return nil
	})
	var computer clocks
	opts := long
	opts.TTL, opts.Interval = time.Hour, 20*time.Minute
	opts.Margin = 400 * time.Millisecond // so that the clocks are looked at often
	terms := p.many(client, n, opts, &computer)
	plan.Reset()
	const rounds = 4
	for round := range rounds {
		computer.wall.Add(int64(opts.Interval)) // all are due
		p.eventually("a round of renewals", func() bool {
			return strings.Count(strings.Join(renewals(plan), ""), "interval '3600000 ") >= n*(round+1)
		})
	}
	sent := renewals(plan)
	if len(sent) > 2*rounds { // the clock may go on in the middle of a look at the terms
		t.Errorf("%d messages for %d rounds", len(sent), rounds)
	}
	for _, term := range terms {
		// Once to lock the row, and once to update it.
		if got := strings.Count(strings.Join(sent, ""), "'"+term.Holder()+"'"); got != 2*rounds {
			t.Errorf("%s is named %d times in %d rounds", term.Holder(), got, rounds)
		}
	}
	for _, term := range terms {
		if err := term.Err(); err != nil {
			t.Error(err)
		}
	}
	cancel()
	if err := <-counting; err != nil {
		t.Error(err)
	}
	if most < 1 || most > 4 {
		t.Errorf("%d connections, want 1 to 4", most)
	}
}

// One row that somebody else has locked costs its own lease, and no other one.
func TestOneOfManyIsLocked(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.table()
	blocker := p.session()
	told := &heard{}
	opts, sees := counted(unhurried(told, 20*time.Second))
	terms := p.many(p.client(), 10, opts, &clocks{})
	p.do(blocker, "BEGIN", "SELECT FROM public.hare_leases WHERE name = 'job 004' FOR UPDATE")
	<-terms[4].Done()
	as[*leases.LeaseLostError](t, terms[4].Err())
	if n := told.failed.Load(); n != 1 {
		t.Errorf("%d leases had trouble, want one", n)
	}
	p.do(blocker, "ROLLBACK")
	p.do(blocker, "DELETE FROM public.hare_leases WHERE name = 'job 007'")
	<-terms[7].Done()
	for i, term := range terms {
		if err := term.Err(); (err != nil) != (i == 4 || i == 7) {
			t.Errorf("lease %d: %v", i, err)
		}
	}
	p.eventually("OnEnd", func() bool { return sees.lost.Load() == 2 })
	sees.want(t, 10, 0, 2)
	if n := told.failed.Load(); n != 1 {
		t.Errorf("%d leases had trouble, want one", n)
	}
}

// A healthy holder behind a slow network keeps its term.
//
// Lease field case 2.
func TestSlowNetwork(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	plan, client := p.observed()
	plan.Set(func(context.Context, faults.Event) error { time.Sleep(50 * time.Millisecond); return nil }, nil)
	opts, sees := counted(fleeting(6 * time.Second)) // the renewals take longer
	opts.Interval = 100 * time.Millisecond
	term := p.acquire(p.lease(client, "job", opts))
	plan.Reset()
	p.eventually("50 renewals", func() bool { return len(renewals(plan)) >= 50 || term.Err() != nil })
	if err := term.Err(); err != nil {
		t.Error(err)
	}
	if info := p.one(p.client()); info.Token != term.Token() {
		t.Errorf("token %d, want %d", info.Token, term.Token())
	}
	sees.want(t, 1, 0, 0)
}
