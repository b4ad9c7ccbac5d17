package leases_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
)

// A renewal is for the holder and the token that the row has, and for no others: it leaves the row as it is, byte for byte.
//
// Lease field case 1.
func TestRenewalOfAnotherTerm(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	watch := p.session()
	a, b := p.lease(p.client(), "job", long), p.lease(p.client(), "job", long)
	term := p.acquire(a)
	row := p.row(watch, "job")
	for what, other := range map[string]*leases.Term{
		"another holder with the holder's token": leases.Pretend(b, term.Token()),
		"another holder with its own token":      leases.Pretend(b, term.Token()+1),
		"the holder with an old token":           leases.Pretend(a, term.Token()-1),
		"the holder with a token to come":        leases.Pretend(a, term.Token()+1),
	} {
		if err := leases.Renew(other); err != nil {
			t.Fatal(err)
		}
		as[*leases.LeaseLostError](t, other.Err())
		if err := leases.Pretend(b, other.Token()).Release(); err != nil {
			t.Fatal(err)
		}
		if now := p.row(watch, "job"); now != row {
			t.Errorf("%s: the row was %s and is %s", what, row, now)
		}
	}
	if err := term.Err(); err != nil {
		t.Error(err)
	}
}

// A row that vanishes is a loss, and nobody but an acquisition makes it again. It then begins anew, which is why nobody should
// delete it.
//
// Lease field case 6.
func TestRowVanishes(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{"DELETE FROM public.hare_leases", "TRUNCATE public.hare_leases"} {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			watch := p.session()
			opts, ends := counted(quick())
			term := p.acquire(p.lease(p.client(), "job", opts))
			p.do(watch, sql)
			<-term.Done()
			as[*leases.LeaseLostError](t, term.Err())
			p.eventually("OnEnd", func() bool { return ends.lost.Load() == 1 })
			if err := term.Release(); err != nil {
				t.Error(err)
			}
			if n := get[int](p, watch, "SELECT count(*) FROM public.hare_leases"); n != 0 {
				t.Errorf("%d rows", n)
			}
			ends.want(t, 1, 0, 1)
		})
	}
}

// Renewals that come late, after others have had the lease and let it lapse, do not take it back.
//
// Lease field case 6.
func TestLateRenewalAfterOthers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.table()
	watch := p.session()
	a, b := p.lease(p.client(), "job", long), p.lease(p.client(), "job", long)
	first := p.plant(watch, a, "job", time.Millisecond)
	p.lapse(watch, "job")
	if err := p.acquire(b).Release(); err != nil {
		t.Fatal(err)
	}
	row := p.row(watch, "job")
	if err := leases.Renew(first); err != nil {
		t.Fatal(err)
	}
	as[*leases.LeaseLostError](t, first.Err())
	if now := p.row(watch, "job"); now != row {
		t.Errorf("the row was %s and is %s", row, now)
	}
}

// Of many that acquire a lease at once for the first time, in a database without the table, exactly one gets it, and the
// others are told that it is held.
//
// Lease field case 22.
func TestFirstAcquisitions(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	watch := p.session()
	clients := make([]*hare.Client, 8) // as many processes, with four candidates each
	for i := range clients {
		clients[i] = p.client()
	}
	for round := range 50 {
		var winners atomic.Int32
		var all sync.WaitGroup
		start := make(chan struct{})
		candidates := make([]*leases.Lease, 32)
		for i := range candidates {
			candidates[i] = leases.New(clients[i%len(clients)], "job", long)
			all.Go(func() {
				<-start
				_, err := candidates[i].TryAcquire(t.Context())
				var held *leases.HeldError
				switch {
				case err == nil:
					winners.Add(1)
				case !errors.As(err, &held):
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		close(start)
		all.Wait()
		if n := winners.Load(); n != 1 {
			t.Errorf("round %d: %d winners", round, n)
		}
		if row := get[string](p, watch, "SELECT token || ' of ' || count(*) OVER () FROM public.hare_leases"); row != "1 of 1" {
			t.Errorf("round %d: token %s", round, row)
		}
		for _, l := range candidates {
			if err := l.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		p.do(watch, "DROP TABLE public.hare_leases")
	}
}

// Every term has a higher token than the one before, whoever held it and however it ended.
func TestTokensGoUp(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	watch := p.session()
	client := p.client()
	a, b := p.lease(client, "job", long), p.lease(p.client(), "job", long)
	last := int64(0)
	for i, l := range []*leases.Lease{a, a, b, a, b, b} {
		term := p.acquire(l)
		if term.Token() <= last {
			t.Errorf("token %d after %d", term.Token(), last)
		}
		last = term.Token()
		switch i % 3 {
		case 0:
			if err := term.Release(); err != nil {
				t.Fatal(err)
			}
		case 1:
			if _, err := leases.ForceRelease(t.Context(), client, "job", last); err != nil {
				t.Fatal(err)
			}
			if err := leases.Renew(term); err != nil {
				t.Fatal(err)
			}
			as[*leases.LeaseLostError](t, term.Err())
		default:
			p.do(watch, "UPDATE public.hare_leases SET expires_at = clock_timestamp()")
			if err := leases.Renew(term); err != nil {
				t.Fatal(err)
			}
			as[*leases.LeaseLostError](t, term.Err())
		}
	}
}

// What is left of an earlier term, its release first of all, does not end a later one.
func TestLateReleaseOfAnEarlierTerm(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	client, watch := p.client(), p.session()
	a, b := p.lease(client, "job", long), p.lease(p.client(), "job", long)
	first := p.acquire(a)
	if _, err := leases.ForceRelease(t.Context(), client, "job", first.Token()); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*leases.Lease{b, a} { // by another holder, and by the same
		if err := leases.Renew(first); err != nil {
			t.Fatal(err)
		}
		next := p.acquire(l)
		row := p.row(watch, "job")
		// One that knows that it is over sends nothing, one that does not names its token.
		for _, late := range []*leases.Term{first, leases.Pretend(a, first.Token())} {
			if err := late.Release(); err != nil {
				t.Fatal(err)
			}
		}
		if now := p.row(watch, "job"); now != row || next.Err() != nil {
			t.Errorf("the row was %s and is %s: %v", row, now, next.Err())
		}
		var wrong *hare.QueryError
		if _, err := leases.ForceRelease(t.Context(), client, "job", first.Token()); !errors.As(err, &wrong) {
			t.Errorf("the end of an earlier term: %v", err)
		}
		if err := next.Release(); err != nil {
			t.Fatal(err)
		}
	}
}

// counts counts what a lease tells of its terms.
type counts struct{ started, released, lost atomic.Int32 }

// counted are options that count.
func counted(opts leases.Options) (leases.Options, *counts) {
	c := &counts{}
	opts.OnStart = func(*leases.Term) { c.started.Add(1) }
	opts.OnEnd = func(_ *leases.Term, err error) {
		if err == nil {
			c.released.Add(1)
		} else {
			c.lost.Add(1)
		}
	}
	return opts, c
}

func (c *counts) want(t *testing.T, started, released, lost int32) {
	t.Helper()
	got := fmt.Sprint(c.started.Load(), c.released.Load(), c.lost.Load())
	if want := fmt.Sprint(started, released, lost); got != want {
		t.Errorf("terms started, released, lost: %s, want %s", got, want)
	}
}
