package leases_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

// clocks are a computer's two clocks, which a test may move.
type clocks struct{ monotonic, wall atomic.Int64 }

func (c *clocks) of(l *leases.Lease) {
	leases.SetClocks(l, func() (time.Duration, time.Duration) {
		return time.Duration(c.monotonic.Load()), time.Duration(c.wall.Load())
	})
}

// A computer that was suspended has a monotonic clock that stood still, and a wall clock that went on. The term is over when
// it goes on, and a fence says so without asking the server.
func TestSuspended(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	conns, client := p.connect(p.url)
	lost := make(chan error, 2)
	opts := long
	opts.OnEnd = func(_ *leases.Term, err error) { lost <- err }
	l := p.lease(client, "job", opts)
	var computer clocks
	computer.of(l)
	term := p.acquire(l)
	if err := term.Err(); err != nil {
		t.Fatal(err)
	}
	computer.wall.Add(int64(long.TTL)) // the monotonic clock goes on as if nothing had been
	as[*leases.LeaseLostError](t, transactions.Atomic(within(t, conns), term.Fence))
	as[*leases.LeaseLostError](t, <-lost)
	<-term.Done()

	// Nobody has to call: the keeper finds out by itself.
	again := p.acquire(l)
	if again.Token() <= term.Token() {
		t.Errorf("token %d after %d", again.Token(), term.Token())
	}
	computer.wall.Add(int64(long.TTL))
	select {
	case <-again.Done():
		as[*leases.LeaseLostError](t, <-lost)
	case <-time.After(long.TTL / 2):
		t.Error("the suspension is not noticed")
	}
}

// An answer to an acquisition that comes after the time for which it could be trusted begins no term, and the lease is given
// back.
func TestLateAnswerIsNoTerm(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	watch := p.session()
	plan, client := p.observed()
	opts, sees := counted(long)
	l := p.lease(client, "job", opts)
	var computer clocks
	computer.of(l)
	var late atomic.Int32
	plan.Set(nil, func(_ context.Context, e faults.Event) error {
		if strings.Contains(e.SQL, "SET holder") && late.Add(1) == 1 {
			computer.wall.Add(int64(long.TTL)) // it took that long
		}
		return nil
	})
	as[*leases.LeaseLostError](t, second(l.TryAcquire(t.Context())))
	if !p.expired(watch, "job") {
		t.Error("the lease is held")
	}
	sees.want(t, 0, 0, 0)
	if term := p.acquire(l); term.Token() != 2 {
		t.Errorf("token %d", term.Token())
	}
	sees.want(t, 1, 0, 0)
}

// A wall clock that is set back, or forward by less than the trust window, ends nothing, and the term is renewed as before;
// nor does a monotonic clock that stands still for a while.
func TestWallClockIsSetBack(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	watch := p.session()
	l := p.lease(p.client(), "job", quick())
	var computer clocks
	computer.of(l)
	term := p.acquire(l)
	renewed := func() time.Time { return get[time.Time](p, watch, "SELECT renewed_at FROM public.hare_leases") }
	for _, by := range []time.Duration{-time.Hour, -24 * time.Hour, quick().TTL / 3, -time.Minute} {
		computer.wall.Add(int64(by))
		last := renewed()
		p.eventually("a renewal after the clock was set", func() bool { return renewed().After(last) })
	}
	if err := term.Err(); err != nil {
		t.Error(err)
	}
}

// The clocks of clients, and the time zones of their sessions, do not count: there is one holder at a time, and it has the
// lease for as long as the database says. Nor does the candidate's own TTL.
//
// Lease field case 10. Lease field case 15.
func TestClocksOfClients(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	watch := p.session()
	for _, zone := range []string{"Asia/Tokyo", "America/Los_Angeles"} {
		p.do(watch, "SET TimeZone = '"+zone+"'")
		name := zone
		holder := p.lease(p.client(), name, long)
		term := p.acquire(holder)
		var others []*leases.Lease
		for _, by := range []time.Duration{-3 * time.Minute, 3 * time.Minute, 24 * time.Hour} {
			other := p.lease(p.client(), name, fleeting(3*time.Second))
			var computer clocks
			computer.wall.Store(int64(by))
			computer.monotonic.Store(int64(by))
			computer.of(other)
			others = append(others, other)
		}
		for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) { // longer than the others' TTL
			for _, other := range others {
				p.held(other)
			}
		}
		if err := term.Err(); err != nil {
			t.Error(err)
		}
		if rest := get[time.Duration](p, watch, "SELECT expires_at - renewed_at FROM public.hare_leases WHERE name = $1", name); rest != long.TTL {
			t.Errorf("the term lasts %v", rest)
		}
		if ahead := get[bool](p, watch, "SELECT renewed_at > clock_timestamp() FROM public.hare_leases WHERE name = $1", name); ahead {
			t.Error("renewed in the future")
		}
		if err := term.Release(); err != nil {
			t.Fatal(err)
		}
		for _, other := range others { // each in turn may lead, whatever its clocks say
			if err := p.acquire(other).Release(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// No statement carries a time, except the epoch and lengths of time ($4 of the fence is one; $5 and $6 say where it is), nor reads one that a wait may make stale: now() is
// when the transaction began.
//
// Lease field case 15.
func TestNoTimeOfTheClient(t *testing.T) {
	p := newPlace(t)
	l := leases.New(p.client(), "job", quick())
	sql := strings.Join(leases.AllSQL(leases.Pretend(l, 1), leases.Pretend(l, 2)), ";\n")
	stamp := regexp.MustCompile(`(?i)\d{2,4}-\d\d-\d\d|\d\d:\d\d|\bnow\(\)|current_timestamp|localtime|transaction_timestamp|statement_timestamp|to_timestamp|\$[7-9]`)
	if found := stamp.FindAllString(sql, -1); len(found) > 0 {
		t.Errorf("a time in the SQL: %q", found)
	}
	if !strings.Contains(sql, "clock_timestamp()") {
		t.Error("no clock at all")
	}
}

// Roles and databases may change defaults that would spoil the statements; the names of leases and holders may be anything
// printable.
func TestOddSettings(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	watch := p.session()
	name := get[string](p, watch, "SELECT current_database()")
	for _, setting := range []string{"standard_conforming_strings = off", "backslash_quote = on", "TimeZone = 'Asia/Kathmandu'", "DateStyle = 'SQL, DMY'", "IntervalStyle = sql_standard",
		"default_transaction_isolation = serializable", "default_transaction_read_only = on", "synchronous_commit = off", "search_path = nowhere", "escape_string_warning = off"} {
		p.do(watch, `SET default_transaction_read_only = off`, `ALTER DATABASE "`+name+`" SET `+setting)
	}
	client := p.client()
	for _, odd := range []string{`it's`, `back\slash\'`, `"quoted"`, `naïve ☃ 𝄞`, `$1 -- ; DROP`, `{json:["`, " "} {
		opts := quick()
		opts.Holder = odd
		l := p.lease(client, odd, opts)
		term := p.acquire(l)
		if err := leases.Renew(term); err != nil {
			t.Fatalf("%s: %v", odd, err)
		}
		if err := term.Err(); err != nil {
			t.Errorf("%s: %v", odd, err)
		}
		held := p.held(p.lease(client, odd, quick()))
		if held.Holder != term.Holder() || !strings.HasPrefix(held.Holder, odd) {
			t.Errorf("held by %q, want %q", held.Holder, term.Holder())
		}
		if err := term.Release(); err != nil || !errors.Is(term.Err(), leases.ErrReleased) {
			t.Errorf("%s: %v, %v", odd, err, term.Err())
		}
	}
}
