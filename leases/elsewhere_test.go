package leases_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

// TestLedElsewhere: behind a pooler that leads to another database for a while, where the row is there, too, as in a copy, and
// free, nothing is believed: no renewal, no acquisition, no fence, no release; and nothing is changed there. A program that
// waits for the lease goes on waiting.
//
// Fault D6.
func TestLedElsewhere(t *testing.T) {
	p := newPlace(t)
	home, away := servers.Direct(p.url), servers.Direct(servers.Database(t))
	pooler := servers.PoolerFor(t, servers.PoolerOptions{URL: home})
	conns, client := p.connect(pooler.URL(home))
	opts := long
	opts.Logger = quiet
	l, other := p.lease(client, "job", opts), p.lease(client, "another", opts)
	term := p.acquire(l)
	if err := p.acquire(other).Release(); err != nil {
		t.Fatal(err)
	}
	there := observe(t, away)
	if _, err := there.Exec(t.Context(), leases.CreateTable); err != nil {
		t.Fatal(err)
	}
	const row = "INSERT INTO public.hare_leases VALUES ($1, $2, $3, now(), now(), now() + interval '1 hour')"
	for name, holder := range map[string]string{"job": l.Holder(), "another": other.Holder()} {
		if _, err := there.Exec(t.Context(), row, name, holder, term.Token()); err != nil {
			t.Fatal(err)
		}
	}
	before := rowsOf(t, there)
	lead := func(to string) {
		t.Helper()
		u, err := url.Parse(home)
		if err != nil {
			t.Fatal(err)
		}
		if err := pooler.Lead(t.Context(), strings.TrimPrefix(u.Path, "/"), to); err != nil {
			t.Fatal(err)
		}
	}

	lead(away)
	ctx := within(t, conns)
	_, acquired := p.try(other)
	_, free := p.try(p.lease(client, "a third", opts))
	for what, err := range map[string]error{
		"a renewal":                leases.Renew(term),
		"an acquisition":           acquired,
		"one that nobody had":      free,
		"a release":                leases.Pretend(l, term.Token()).Release(),
		"a fence":                  transactions.Atomic(ctx, func(ctx context.Context) error { return term.Fence(ctx) }),
		"a release of another one": second2(leases.ForceRelease(t.Context(), client, "job", term.Token())),
	} {
		if elsewhere := new(leases.ElsewhereError); !errors.As(err, &elsewhere) {
			t.Errorf("%s in another database: %v", what, err)
		}
	}
	if after := rowsOf(t, there); after != before {
		t.Errorf("the other database has\n%s\nand had\n%s", after, before)
	}
	if err := term.Err(); err != nil {
		t.Errorf("the term is over before its time: %v", err)
	}

	waited := make(chan error, 1)
	go func() {
		_, err := other.Acquire(t.Context())
		waited <- err
	}()
	lead(home)
	if err := <-waited; err != nil {
		t.Errorf("who waited for the lease meanwhile: %v", err)
	}
	if err := errors.Join(leases.Renew(term), transactions.Atomic(ctx, func(ctx context.Context) error { return term.Fence(ctx) }), term.Release()); err != nil {
		t.Errorf("at home again: %v", err)
	}
}

// observe is a connection that has nothing to do with hare.
func observe(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// rowsOf are all leases of a database.
func rowsOf(t *testing.T, conn *pgx.Conn) (text string) {
	t.Helper()
	err := conn.QueryRow(t.Context(), "SELECT coalesce(string_agg(l::text, E'\\n' ORDER BY name), '') FROM public.hare_leases l").Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
