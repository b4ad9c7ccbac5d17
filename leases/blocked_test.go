package leases_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

// TestBlockedRowsDisturbNobody: rows that stay locked keep neither the renewals nor the acquisitions of other leases of the
// process from getting through, also where those have much less time.
func TestBlockedRowsDisturbNobody(t *testing.T) {
	t.Parallel()
	const blocked = 8
	p := newPlace(t)
	conns, client := p.connect(p.url)
	slow, fast := quick(), fleeting(8*time.Second) // the slow ones wait for a lock for much longer than the fast one lasts
	for i := range blocked {
		term := p.acquire(p.lease(client, fmt.Sprint("free", i), slow))
		if err := term.Release(); err != nil {
			t.Fatal(err)
		}
		p.acquire(p.lease(client, fmt.Sprint("held", i), slow))
	}
	good := p.acquire(p.lease(client, "good", fast))
	ctx, end := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	defer wait.Wait()
	defer end()
	err := transactions.Atomic(within(t, conns), func(inside context.Context) error {
		p.lockAllBut(inside, client, "good")
		for i := range blocked {
			candidate := p.lease(client, fmt.Sprint("free", i), slow)
			wait.Go(func() { _, _ = candidate.Acquire(ctx) })
		}
		select {
		case <-good.Done():
			return good.Err()
		case <-time.After(2 * fast.TTL): // the held ones are renewed meanwhile, too
		}
		return nil
	})
	if err != nil {
		t.Errorf("the lease whose row nobody locked: %v", err)
	}
}

// lockAllBut locks the rows of all leases but one.
func (p *place) lockAllBut(ctx context.Context, c *hare.Client, but string) {
	p.Helper()
	if _, err := c.Exec(ctx, "SELECT FROM public.hare_leases WHERE name <> $1 FOR UPDATE", but); err != nil {
		p.Fatal(err)
	}
}

// TestBlockedByAnotherRole: what a role may not know of the session that blocks it keeps it from telling which one that is.
func TestBlockedByAnotherRole(t *testing.T) {
	p := newPlace(t)
	conns, client := p.connect(p.url)
	// ForceRelease waits for 4 s, and the fenced transaction may be idle for longer.
	term := p.acquire(p.lease(client, "job", long))
	u, err := url.Parse(servers.Direct(p.url)) // a pooler of the fixture gives everybody the same role
	if err != nil {
		t.Fatal("the server's address is no URL")
	}
	role := "hare_test_" + strings.ToLower(rand.Text()[:12])
	p.exec(client, "CREATE ROLE "+role+" LOGIN PASSWORD 'secret'")
	t.Cleanup(func() { _, _ = client.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	p.exec(client, "GRANT SELECT, INSERT, UPDATE ON public.hare_leases TO "+role)
	u.User = url.UserPassword(role, "secret")
	_, other := p.connect(u.String())
	err = transactions.Atomic(within(t, conns), func(ctx context.Context) error {
		if err := term.Fence(ctx); err != nil {
			return err
		}
		_, err := leases.ForceRelease(t.Context(), other, "job", term.Token())
		blocked := as[*leases.BlockedError](t, err)
		if len(blocked.By) != 1 || !strings.HasPrefix(blocked.By[0], "server process ") {
			t.Errorf("blocked by %q, want one server process", blocked.By)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
