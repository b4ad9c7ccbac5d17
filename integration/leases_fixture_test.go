package integration

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/leases"
)

// leasing is a database with leases in it: a holder comes to it through a proxy, everybody else directly.
type leasing struct {
	*trio
	proxy  *proxy.Proxy
	conns  *hare.Connections // the holder's
	holder *hare.Client
}

func newLeasing(t *testing.T) *leasing {
	t.Helper()
	f := &leasing{trio: newDatabases(t, "", []string{"c"})}
	if err := f.acquire(f.lease(f.client("c"), "makes the table", briefly)).Release(); err != nil {
		t.Fatal(err)
	}
	f.exec("c", "DELETE FROM public.hare_leases")
	f.proxy = newProxy(t, f.urls["c"])
	f.conns, f.holder = f.opened(f.proxy.URL() + "&application_name=holder")
	return f
}

// opened opens connections of their own.
func (f *leasing) opened(url string) (*hare.Connections, *hare.Client) {
	f.Helper()
	conns, err := hare.Open(f.ctx, hare.Config{Connections: map[string]string{"main": url}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(conns.Close)
	client, err := conns.Client("main")
	if err != nil {
		f.Fatal(err)
	}
	return conns, client
}

// briefly are options with a long trust window, whose end is long before the expiry.
var briefly = leases.Options{TTL: 12 * time.Second, Margin: 4 * time.Second, Interval: time.Second, Poll: 200 * time.Millisecond,
	LockTimeout: 1500 * time.Millisecond, StatementTimeout: 3 * time.Second, IdleTimeout: 2 * time.Second,
	StallTimeout: 4 * time.Second, Logger: slog.New(slog.DiscardHandler)}

// lease is a candidate that is stopped at the end of the test.
func (f *leasing) lease(c *hare.Client, name string, opts leases.Options) *leases.Lease {
	f.Helper()
	l := leases.New(c, name, opts)
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = l.Stop(ctx) // its network may be gone
	})
	return l
}

func (f *leasing) acquire(l *leases.Lease) *leases.Term {
	f.Helper()
	term, err := l.Acquire(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	return term
}

// refused is the error of an acquisition that must fail.
func (f *leasing) refused(l *leases.Lease) error {
	f.Helper()
	term, err := l.TryAcquire(f.ctx)
	if err == nil {
		f.Fatalf("term %d was acquired", term.Token())
	}
	return err
}

// held is how an acquisition is refused because somebody else holds the lease. It is tried again for as long as a busy
// machine is too slow for an answer.
func (f *leasing) held(l *leases.Lease) (held *leases.HeldError) {
	f.Helper()
	f.eventually("an answer to an acquisition", func() bool { return errors.As(f.refused(l), &held) })
	return held
}

// row is all that the row of the lease "job" says.
func (f *leasing) row() string {
	f.Helper()
	return f.text("c", "SELECT coalesce((SELECT l::text FROM public.hare_leases l WHERE name = 'job'), 'none')")
}

// renewed waits for a renewal that comes from now on.
func (f *leasing) renewed() {
	f.Helper()
	row := f.row()
	f.eventually("a renewal", func() bool { return f.row() != row })
}

// left is how long the lease is held, by the database's clock.
func (f *leasing) left() time.Duration {
	f.Helper()
	return time.Duration(f.count("c", "SELECT (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint FROM public.hare_leases WHERE name = 'job'")) * time.Millisecond
}

// wantUnlocked makes sure that nobody has the row locked.
func (f *leasing) wantUnlocked() {
	f.Helper()
	if n := f.count("c", "SELECT count(*) FROM (SELECT FROM public.hare_leases WHERE name = 'job' FOR UPDATE SKIP LOCKED) AS free"); n != 1 {
		f.Error("the row is locked")
	}
}

// begun runs a lease, and gives the term and the ctx of its function, which ends with that ctx.
func (f *leasing) begun(ctx context.Context, l *leases.Lease) (*leases.Term, context.Context, <-chan error) {
	f.Helper()
	type start struct {
		term *leases.Term
		ctx  context.Context
	}
	starts, done := make(chan start, 10), make(chan error, 1)
	go func() {
		done <- l.Run(ctx, func(ctx context.Context, term *leases.Term) error {
			starts <- start{term, ctx}
			<-ctx.Done()
			return nil
		})
	}()
	select {
	case s := <-starts:
		return s.term, s.ctx, done
	case err := <-done:
		f.Fatalf("Run: %v", err)
		return nil, nil, nil
	}
}
