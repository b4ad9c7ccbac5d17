package leases_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

func TestOneHolds(t *testing.T) {
	p := newPlace(t)
	watch, opts := p.session(), fleeting(6*time.Second)
	a, b := p.lease(p.client(), "job", opts), p.lease(p.client(), "job", opts)
	first := p.acquire(a)
	expiry := get[time.Time](p, watch, "SELECT acquired_at FROM public.hare_leases").Add(opts.TTL)
	held := p.held(b)
	if held.Token != first.Token() || held.Holder != first.Holder() || held.Remaining <= 0 {
		t.Errorf("%v, want the term %d of %s", held, first.Token(), first.Holder())
	}
	// Renewals keep it beyond the TTL.
	p.eventually("the first expiry passes", func() bool { return get[bool](p, watch, "SELECT $1 < clock_timestamp()", expiry) })
	p.held(b)
	if err := first.Err(); err != nil {
		t.Fatal(err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	next, err := p.try(b)
	if err != nil {
		t.Fatal(err)
	}
	if next.Token() <= first.Token() {
		t.Errorf("token %d after %d", next.Token(), first.Token())
	}
	if err := first.Err(); !errors.Is(err, leases.ErrReleased) {
		t.Errorf("Err of a released term: %v", err)
	}
}

func second(_ *leases.Term, err error) error { return err }

func TestFence(t *testing.T) {
	p := newPlace(t)
	conns, client := p.connect(p.url)
	p.exec(client, "CREATE TABLE note (token bigint)")
	a := p.lease(client, "job", quick())
	term := p.acquire(a)
	write := func(ctx context.Context) error {
		if err := term.Fence(ctx); err != nil {
			return err
		}
		_, err := client.Exec(ctx, "INSERT INTO note VALUES ($1)", term.Token())
		return err
	}
	ctx := within(t, conns)
	for _, level := range []transactions.IsolationLevel{transactions.ReadCommitted, transactions.RepeatableRead} {
		if err := transactions.Atomic(ctx, write, transactions.Isolation(level)); err != nil {
			t.Fatal(level, err)
		}
	}
	as[*hare.QueryError](t, term.Fence(ctx))
	if _, err := leases.ForceRelease(ctx, client, "job", term.Token()); err != nil {
		t.Fatal(err)
	}
	as[*leases.LeaseLostError](t, transactions.Atomic(ctx, write))
	as[*leases.LeaseLostError](t, term.Err())
}

func TestRun(t *testing.T) {
	p := newPlace(t)
	client := p.client()
	l := p.lease(client, "job", quick())
	runs := 0
	errDone := errors.New("done")
	err := l.Run(t.Context(), func(ctx context.Context, term *leases.Term) error {
		if runs++; runs == 2 {
			return errDone
		}
		if _, err := leases.ForceRelease(ctx, client, "job", term.Token()); err != nil {
			return err
		}
		<-ctx.Done()
		as[*leases.LeaseLostError](t, context.Cause(ctx))
		return nil
	})
	if !errors.Is(err, errDone) || runs != 2 {
		t.Errorf("Run: %v after %d runs", err, runs)
	}
	if info := p.one(client); info.Held() {
		t.Errorf("%+v is held after Run", info)
	}
}

func TestUnsupported(t *testing.T) {
	conns, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"main": "sqlite::memory:"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conns.Close()
	client, err := conns.Client("main")
	if err != nil {
		t.Fatal(err)
	}
	l := leases.New(client, "job", leases.Options{})
	as[*features.UnsupportedError](t, second(l.TryAcquire(t.Context())))
	as[*features.UnsupportedError](t, l.Run(t.Context(), nil))
}
