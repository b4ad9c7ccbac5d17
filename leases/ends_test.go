package leases_test

import (
	"context"
	"errors"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
)

// TestAcquireAfterDone: whoever sees the end of a term can have the same Lease acquire again.
func TestAcquireAfterDone(t *testing.T) {
	p := newPlace(t)
	l := p.lease(p.client(), "job", quick())
	for range 120 {
		term := p.acquire(l)
		go func() { _ = term.Release() }()
		for ended := false; !ended; { // without a sleep, to be there at the very instant
			select {
			case <-term.Done():
				ended = true
			default:
			}
		}
		next, err := p.try(l)
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Release(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStopOfTheOuterLease: Stop inside the function of Run returns at once also where another lease's function is between, and the term is
// released, not lost.
func TestStopOfTheOuterLease(t *testing.T) {
	p := newPlace(t)
	client := p.client()
	opts := quick()
	var ended error = errors.New("OnEnd was not called")
	opts.OnEnd = func(_ *leases.Term, err error) { ended = err }
	outer, inner := p.lease(client, "outer", opts), p.lease(client, "inner", quick())
	err := outer.Run(t.Context(), func(ctx context.Context, _ *leases.Term) error {
		return inner.Run(ctx, func(ctx context.Context, _ *leases.Term) error {
			return outer.Stop(ctx)
		})
	})
	if err != nil || ended != nil {
		t.Errorf("Run: %v; the term ended with %v", err, ended)
	}
}

// TestNoSchemaPublic: a candidate does not try for ever what only people can mend.
func TestNoSchemaPublic(t *testing.T) {
	p := newPlace(t)
	client := p.client()
	p.exec(client, "DROP SCHEMA public")
	_, err := p.lease(client, "job", quick()).Acquire(t.Context())
	if refused := as[*hare.DatabaseError](t, err); refused.SQLState != "3F000" {
		t.Errorf("got %v, want that there is no schema", err)
	}
}
