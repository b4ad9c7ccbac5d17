package leases_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

// A renewal that waits behind a transaction which leaves the row as it is, for longer than the lease lasts, finds it expired.
// One conditional UPDATE does not: PostgreSQL does not look at its WHERE clause again.
//
// Lease field case 17.
func TestRenewalAfterAWait(t *testing.T) {
	t.Parallel()
	const naive = `UPDATE public.hare_leases SET renewed_at = clock_timestamp(), expires_at = clock_timestamp() + interval '1 minute'
		WHERE name = 'job' AND token = 7 AND expires_at > clock_timestamp()`
	for name, test := range map[string]struct {
		renew    func(p *place, term *leases.Term) error
		extended bool
	}{
		"naive": {func(p *place, _ *leases.Term) error {
			_, err := p.client().Exec(p.Context(), naive)
			return err
		}, true},
		"ours": {func(_ *place, term *leases.Term) error { return leases.Renew(term) }, false},
		"several at once": {func(p *place, term *leases.Term) error {
			other := p.plant(p.session(), p.lease(p.client(), "other", long), "other", time.Minute)
			return leases.Renew(term, other)
		}, false},
	} {
		for what, end := range map[string]string{"rolled back": "ROLLBACK", "committed": "COMMIT"} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				inTime(t, func(rest time.Duration) bool {
					return renewalAfterAWait(newPlace(t), rest, test.renew, end, test.extended)
				})
			})
		}
	}
}

// renewalAfterAWait says whether the renewal began to wait before the expiry.
func renewalAfterAWait(p *place, rest time.Duration, renew func(p *place, term *leases.Term) error, end string, extended bool) bool {
	p.table()
	watch, blocker := p.session(), p.session()
	term := p.plant(watch, p.lease(p.client(), "job", long), "job", rest)
	p.do(blocker, "BEGIN", "SELECT FROM public.hare_leases WHERE name = 'job' FOR UPDATE")
	renewed := background(func() error { return renew(p, term) })
	if !p.waitsAlive(watch, renewed) {
		p.do(blocker, "ROLLBACK")
		<-renewed
		return false
	}
	p.lapse(watch, "job")
	p.do(blocker, end)
	if err := <-renewed; err != nil {
		p.Fatal(err)
	}
	if got := !p.expired(watch, "job"); got != extended {
		p.Errorf("an expired lease was extended: %t, want %t", got, extended)
	}
	if lost := term.Err() != nil; lost == extended {
		p.Errorf("the term is over: %v", term.Err())
	}
	return true
}

// waitsAlive waits until something waits for a lock or has ended, and says whether it waits and began to before the lease
// "job" expires.
func (p *place) waitsAlive(watch *pgx.Conn, done <-chan error) bool {
	p.Helper()
	waits := false
	p.eventually("a wait for a lock", func() bool {
		waits = get[int](p, watch, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
		return waits || len(done) > 0
	})
	return waits && !p.expired(watch, "job")
}

// A fence that waits for the row's lock for longer than the lease lasts finds it expired, too. A condition beside the lock
// does not.
func TestFenceAfterAWait(t *testing.T) {
	t.Parallel()
	for name, passes := range map[string]bool{"naive": true, "ours": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTime(t, func(rest time.Duration) bool { return fenceAfterAWait(newPlace(t), rest, passes) })
		})
	}
}

// fenceAfterAWait says whether the fence began to wait before the expiry.
func fenceAfterAWait(p *place, rest time.Duration, naive bool) bool {
	p.table()
	watch, blocker := p.session(), p.session()
	p.do(watch, "CREATE TABLE note (token bigint)")
	conns, client := p.connect(p.url)
	term := p.plant(watch, p.lease(client, "job", long), "job", rest)
	p.do(blocker, "BEGIN", "SELECT FROM public.hare_leases WHERE name = 'job' FOR UPDATE")
	var found int64
	done := background(func() error {
		return transactions.Atomic(within(p.T, conns), func(ctx context.Context) (err error) {
			if naive {
				found, err = scan[int64](ctx, client, `SELECT token FROM public.hare_leases WHERE name = 'job' AND token = 7 AND expires_at > clock_timestamp() FOR KEY SHARE`)
			} else {
				err = term.Fence(ctx)
			}
			if err != nil {
				return err
			}
			_, err = client.Exec(ctx, "INSERT INTO note VALUES (7)")
			return err
		})
	})
	if !p.waitsAlive(watch, done) {
		p.do(blocker, "ROLLBACK")
		<-done
		return false
	}
	p.lapse(watch, "job")
	p.do(blocker, "ROLLBACK")
	err := <-done
	if naive != (err == nil) {
		p.Errorf("the fence: %v", err)
	}
	if naive && found != 7 {
		p.Errorf("the naive fence found %d", found)
	}
	if !naive {
		as[*leases.LeaseLostError](p.T, err)
	}
	if n := get[int](p, watch, "SELECT count(*) FROM note"); (n == 1) != naive {
		p.Errorf("%d notes", n)
	}
	return true
}

// An acquisition that waits for the row's lock gives a term that lasts from when it got the lock.
func TestAcquisitionAfterAWait(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.table()
	watch, blocker := p.session(), p.session()
	l := p.lease(p.client(), "job", long)
	p.do(watch, "INSERT INTO public.hare_leases VALUES ('job', 'nobody', 3, 'epoch', 'epoch', 'epoch')")
	p.do(blocker, "BEGIN", "SELECT FROM public.hare_leases WHERE name = 'job' FOR UPDATE")
	acquired := background(func() error { return second(l.TryAcquire(t.Context())) })
	p.waits(watch, 1)
	before := get[time.Time](p, watch, "SELECT clock_timestamp()")
	p.do(blocker, "ROLLBACK")
	if err := <-acquired; err != nil {
		t.Fatal(err)
	}
	if got := get[time.Time](p, watch, "SELECT acquired_at FROM public.hare_leases"); got.Before(before) {
		t.Errorf("acquired at %v, before the lock was free at %v", got, before)
	}
	if rest := get[time.Duration](p, watch, "SELECT expires_at - renewed_at FROM public.hare_leases"); rest != long.TTL {
		t.Errorf("the term lasts %v", rest)
	}
}

// Nobody has a lock for longer than LockTimeout in vain, and whoever waits in vain is told for whom.
//
// Lease field case 18.
func TestBlocked(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.table()
	blocker := p.session()
	p.do(blocker, "SET application_name = 'stands in the way'",
		"INSERT INTO public.hare_leases VALUES ('job', 'nobody', 3, 'epoch', 'epoch', 'epoch')",
		"BEGIN", "SELECT FROM public.hare_leases WHERE name = 'job' FOR UPDATE")
	client := p.client()
	opts := quick()
	opts.LockTimeout = 2 * time.Second
	l := p.lease(client, "job", opts)
	for what, try := range map[string]func() error{
		"acquisition": func() error { return second(l.TryAcquire(t.Context())) },
		"force": func() error {
			_, err := leases.ForceRelease(t.Context(), client, "job", 3)
			return err
		},
	} {
		blocked := as[*leases.BlockedError](t, try())
		if len(blocked.By) != 1 || !strings.Contains(blocked.By[0], "stands in the way") {
			t.Errorf("%s: blocked by %q", what, blocked.By)
		}
		if refused := as[*hare.TimeoutError](t, blocked); refused.SQLState != "55P03" {
			t.Errorf("%s: %v", what, refused)
		}
	}
	p.do(blocker, "ROLLBACK")
	if term := p.acquire(l); term.Token() != 4 {
		t.Errorf("token %d", term.Token())
	}
}
