package integration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

// A fence in a distributed transaction holds for as long as its participant is prepared: renewals go on, and the next term
// does not begin, even after the expiry, until recovery has finished it. Whoever waits is told for what.
func TestLeaseFenceInADistributedTransaction(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	opts := briefly
	opts.TTL = time.Minute // it does not lapse
	l := leases.New(f.client("a"), "job", opts)
	term, err := l.Acquire(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Stop(context.Background()) }()
	f.plan.Set(always("a", "COMMIT PREPARED", ""), nil)
	err = f.distributed(func(d *hare.Distributed) error {
		return errors.Join(term.Fence(d.Context()), writeAll(d))
	})
	wantOutcome(t, err, transactions.PartiallyCommitted)
	gids := f.prepared("a")
	if len(gids) != 1 {
		t.Fatalf("prepared: %q", gids)
	}
	renewedAt := func() string { return f.text("a", "SELECT renewed_at::text FROM public.hare_leases") }
	last := renewedAt()
	f.eventually("a renewal beside what is prepared", func() bool { return renewedAt() != last })
	if err := errors.Join(term.Err(), term.Release()); err != nil {
		t.Fatal(err)
	}

	other := f.connect(f.urls)
	client, err := other.Client("a")
	if err != nil {
		t.Fatal(err)
	}
	next := leases.New(client, "job", briefly)
	defer func() { _ = next.Stop(context.Background()) }()
	var blocked *leases.BlockedError
	f.eventually("an acquisition is blocked", func() bool {
		_, err := next.TryAcquire(f.ctx)
		if err == nil {
			t.Fatal("the lease was acquired beside what is prepared")
		}
		return errors.As(err, &blocked)
	})
	if by := strings.Join(blocked.By, "; "); !strings.Contains(by, "prepared transaction "+gids[0]) {
		t.Errorf("blocked by %q, want %s", by, gids[0])
	}
	acquired := make(chan error, 1)
	go func() {
		_, err := next.Acquire(f.ctx)
		acquired <- err
	}()
	f.plan.Set(nil, nil)
	f.recover(transactions.Finish())
	if err := <-acquired; err != nil {
		t.Error(err)
	}
	f.eventually("all is committed", func() bool { return f.counts() == [3]int64{1, 1, 1} })
	// The term is over, in a distributed transaction as in any other.
	err = f.distributed(func(d *hare.Distributed) error { return errors.Join(writeAll(d), term.Fence(d.Context())) })
	as[*leases.LeaseLostError](t, err)
	f.wantCounts(1, 1, 1)
}

// After Stop and the end of the connections nothing is at work any more, nor is anything open on the server, also where the
// network had swallowed everything.
func TestLeaseLeavesNothing(t *testing.T) { // beside no other test, whose goroutines would count
	for _, hole := range []bool{false, true} {
		before := leaseGoroutines()
		f := newLeasing(t)
		f.trio.conns.Close() // its keeper works as well, until then
		var list []*leases.Lease
		for _, name := range []string{"job", "other", "third"} {
			l := f.lease(f.holder, name, briefly)
			f.acquire(l)
			list = append(list, l)
		}
		waits := leases.New(f.holder, "job", briefly)
		waiting := make(chan error, 1)
		go func() {
			_, err := waits.Acquire(f.ctx)
			waiting <- err
		}()
		if hole {
			f.proxy.Swallow()
		}
		var err error
		for _, l := range list {
			err = errors.Join(err, l.Stop(f.ctx))
		}
		if (err != nil) != hole {
			t.Errorf("Stop: %v", err)
		}
		err = waits.Stop(f.ctx)
		<-waiting // it has led after the others, or not: either is right
		if err != nil && !hole {
			t.Errorf("Stop: %v", err)
		}
		start := time.Now()
		f.conns.Close()
		wantQuick(t, start, 5*time.Second+slack)
		deadline := time.Now().Add(20 * time.Second)
		for leaseGoroutines() > before && time.Now().Before(deadline) {
			time.Sleep(20 * time.Millisecond)
		}
		if after := leaseGoroutines(); after > before {
			t.Errorf("hole %t: %d goroutines, %d before:\n%s", hole, after, before, stacks())
		}
		f.proxy.Close()
	}
}

func leaseGoroutines() int {
	n := 0
	for _, stack := range strings.Split(stacks(), "\n\n") {
		if strings.Contains(stack, "hare-go/hare/leases") || strings.Contains(stack, "hare-go/hare/backends") || strings.Contains(stack, "jackc/pgx") {
			n++
		}
	}
	return n
}
