package leases_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hare-go/hare/leases"
)

// A row into which somebody has written a time without end keeps nobody from looking at it and at the others, from waiting
// for it, or from ending its term.
func TestInfiniteTimes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.table()
	watch, client := p.session(), p.client()
	p.do(watch, "INSERT INTO public.hare_leases VALUES ('a', 'x', 7, '-infinity', 'infinity', 'infinity'), ('b', 'x', 7, now(), now(), '-infinity')")
	list, err := leases.List(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || !list[0].Held() || list[0].Remaining < 90*365*24*time.Hour || list[0].Expires.Year() != 9999 || list[1].Held() {
		t.Errorf("%+v", list)
	}
	a := p.lease(client, "a", quick())
	p.held(a)
	if holder, err := leases.ForceRelease(t.Context(), client, "a", 7); err != nil || holder != "x" {
		t.Fatal(holder, err)
	}
	_, first := p.try(a)
	_, other := p.try(p.lease(client, "b", quick()))
	if err := errors.Join(first, other); err != nil {
		t.Fatal(err)
	}
}
