package leases_test

import (
	"errors"
	"runtime"
	"strconv"
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

// However many leases there are, each is seen once, in order, and in little memory; a loop may end early.
//
// Fault S10.
func TestAllLeasesInLittleMemory(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.table()
	watch, client := p.session(), p.client()
	const rows = 100_000
	p.do(watch, "INSERT INTO public.hare_leases SELECT 'job ' || i, 'the holder ' || i, i, now(), now(), now() FROM generate_series(1, 100000) i")
	largest := heapPeak(func(look func()) {
		seen, last := 0, ""
		for info, err := range leases.All(t.Context(), client) {
			if err != nil {
				t.Fatal(err)
			}
			if seen++; info.Name == last || info.Holder != "the holder "+strconv.FormatInt(info.Token, 10) {
				t.Fatalf("%+v after %q", info, last)
			}
			if last = info.Name; seen%5000 == 0 {
				look()
			}
		}
		if seen != rows {
			t.Errorf("%d leases of %d", seen, rows)
		}
	})
	if largest > 16<<20 { // all of them take more than 30 MB
		t.Errorf("the heap has grown by %d bytes", largest)
	}
	for _, err := range leases.All(t.Context(), client) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	list, err := leases.List(t.Context(), client)
	if err != nil || len(list) != rows {
		t.Error(len(list), err)
	}
}

// heapPeak runs a function that looks now and then, and gives how far the heap in use had grown at one of these looks.
func heapPeak(run func(look func())) uint64 {
	var m runtime.MemStats
	live := func() uint64 {
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, peak := live(), uint64(0)
	run(func() {
		if now := live(); now > before {
			peak = max(peak, now-before)
		}
	})
	return peak
}
