package leases_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/leases"
)

// TestLeaseWaitsForTheStandby: an acquisition and a renewal that wait for a synchronous standby are given up by their client and go
// on waiting on the server: nobody sees them before the standby has them, and a failover loses nothing that anybody was told.
//
// Fault D1.
func TestLeaseWaitsForTheStandby(t *testing.T) {
	ctx := t.Context()
	start := func(o servers.Options) *servers.Server {
		t.Helper()
		s, err := servers.Start(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	primary := start(servers.Options{Name: "primary", Volatile: true})
	url, err := primary.CreateDatabase(ctx, "leases")
	if err != nil {
		t.Fatal(err)
	}
	standby := start(servers.Options{Name: "standby", StandbyOf: primary, Volatile: true})
	if err := errors.Join(standby.Follow(ctx, primary), primary.WaitFor(ctx, standby)); err != nil {
		t.Fatal(err)
	}
	p := &place{T: t, url: url}
	opts := long
	opts.StallTimeout, opts.StatementTimeout, opts.LockTimeout = 2*time.Second, time.Second, time.Second/2
	opts.Logger = quiet
	client := p.client()
	term := p.acquire(p.lease(client, "held", opts))
	free := p.lease(client, "free", opts)
	if err := p.acquire(free).Release(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	conn := observe(t, url)
	before := rowsOf(t, conn)
	if _, err := free.TryAcquire(ctx); err == nil {
		t.Error("a lease was acquired that no standby knows of")
	}
	if err := leases.Renew(term); err == nil {
		t.Error("a lease was renewed that no standby knows of")
	}
	time.Sleep(3 * time.Second) // for whatever would end them
	if n, err := primary.Waiting(ctx); err != nil || n < 2 {
		t.Errorf("%d sessions wait for the standby, want both: %v", n, err)
	}
	if after := rowsOf(t, conn); after != before {
		t.Errorf("without the standby others see\n%s\nand saw before\n%s", after, before)
	}
	if err := standby.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	p.eventually("the commits go on", func() bool { return rowsOf(t, conn) != before })
}
