package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/leases"
)

// A renewal that gets no answer, whether or not it was carried out, leaves the row unlocked, and the next one is accepted.
//
// Lease field case 4. Lease field case 18.
func TestLeaseRenewalWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]proxy.Fault{
		"lost":             {Do: proxy.Swallow},
		"answer lost":      {Do: proxy.Swallow, Answer: true},
		"connection reset": {Do: proxy.Cut},
		"reset afterwards": {Do: proxy.Cut, Answer: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newLeasing(t)
			term := f.acquire(f.lease(f.holder, "job", briefly))
			fault.Statement = "WITH renewed"
			armed := f.proxy.Arm(fault)
			f.wait("the fault", armed.Struck())
			f.wantUnlocked()
			f.renewed()
			if err := term.Err(); err != nil {
				t.Error(err)
			}
			if token := f.count("c", "SELECT token FROM public.hare_leases"); token != term.Token() {
				t.Errorf("token %d, want %d", token, term.Token())
			}
		})
	}
}

// A server process that works on for a client that has given up, and holds the row, is ended by another connection, which
// finds it by its name. This one does not heed that it is cancelled, nor do time-outs concern what is done at a commit.
//
// Lease field case 18.
func TestLeaseAbandonedProcessIsEnded(t *testing.T) {
	t.Parallel()
	f := newLeasing(t)
	f.exec("c", "CREATE TABLE stall ()")
	f.exec("c", "INSERT INTO stall DEFAULT VALUES")
	f.exec("c", `CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		FOR i IN 1..600 LOOP
			EXIT WHEN NOT EXISTS (SELECT FROM public.stall);
			BEGIN PERFORM pg_sleep(1); EXCEPTION WHEN query_canceled THEN NULL; END;
		END LOOP; RETURN NULL; END $$`)
	opts := briefly
	opts.TTL = time.Minute
	term := f.acquire(f.lease(f.holder, "job", opts))
	f.exec("c", "CREATE CONSTRAINT TRIGGER stall AFTER UPDATE ON public.hare_leases DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION stall()")
	const working = "SELECT coalesce(min(pid), 0)::bigint FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'hare_lease:%' AND wait_event = 'PgSleep'"
	var first int64
	f.eventually("a renewal stalls", func() bool { first = f.count("c", working); return first != 0 })
	f.eventually("its process is ended", func() bool {
		return f.count("c", fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid = %d", first)) == 0
	})
	f.exec("c", "DELETE FROM stall")
	f.renewed()
	if err := term.Err(); err != nil {
		t.Error(err)
	}
}

// An acquisition whose answer is lost holds the row for nobody else. The same lease gets it when it tries again, with a
// higher token.
func TestLeaseAcquisitionWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	f := newLeasing(t)
	opts := briefly
	opts.TTL, opts.StallTimeout, opts.StatementTimeout, opts.LockTimeout = time.Minute, 8*time.Second, 7*time.Second, 6*time.Second // it does not lapse
	started := 0
	opts.OnStart = func(*leases.Term) { started++ }
	l := f.lease(f.holder, "job", opts)
	f.proxy.Arm(proxy.Fault{Statement: "SET holder", Do: proxy.Swallow, Answer: true})
	start := time.Now()
	if err := f.refused(l); errors.Is(err, leases.ErrStopped) {
		t.Error(err)
	}
	wantQuick(t, start, 3*opts.StallTimeout+slack)
	f.wantUnlocked()
	held := f.held(f.lease(f.client("c"), "job", opts))
	if held.Token != 1 || started != 0 {
		t.Errorf("%v, %d starts", held, started)
	}
	term, err := l.TryAcquire(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if term.Token() != 2 || term.Holder() != held.Holder {
		t.Errorf("term %d of %s after %v", term.Token(), term.Holder(), held)
	}
}

// Messages that arrive late, when the client has long given up, change nothing: an acquisition does not take a lease that had
// another term meanwhile, and a renewal does not extend one that was stopped.
func TestLeaseMessagesThatComeLate(t *testing.T) {
	t.Parallel()
	t.Run("acquisition", func(t *testing.T) {
		t.Parallel()
		f := newLeasing(t)
		l := f.lease(f.holder, "job", briefly)
		late := f.proxy.Arm(proxy.Fault{Statement: "SET holder", Do: proxy.Hold})
		_ = f.refused(l)
		if err := f.acquire(f.lease(f.client("c"), "job", briefly)).Release(); err != nil {
			t.Fatal(err)
		}
		row := f.row()
		late.Release()
		f.wait("the late message", late.Passed())
		f.arrived()
		if now := f.row(); now != row {
			t.Errorf("the row was %s and is %s", row, now)
		}
	})
	t.Run("renewal", func(t *testing.T) {
		t.Parallel()
		f := newLeasing(t)
		l := f.lease(f.holder, "job", briefly)
		term := f.acquire(l)
		late := f.proxy.Arm(proxy.Fault{Statement: "WITH renewed", Do: proxy.Hold})
		f.wait("the renewal", late.Struck())
		if err := l.Stop(f.ctx); err != nil {
			t.Error(err)
		}
		if err := term.Err(); !errors.Is(err, leases.ErrReleased) {
			t.Error(err)
		}
		row := f.row()
		if left := f.left(); left > 0 {
			t.Errorf("the lease is held for another %v after Stop", left)
		}
		late.Release()
		f.wait("the late message", late.Passed())
		f.arrived()
		if now := f.row(); now != row {
			t.Errorf("the row was %s and is %s", row, now)
		}
	})
}

// arrived waits until the server has done what it got from clients that are gone: their sessions have ended.
func (f *leasing) arrived() {
	f.Helper()
	f.conns.Close()
	f.eventually("the holder's sessions end", func() bool {
		return f.count("c", "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND (application_name = 'holder' OR application_name LIKE 'hare_lease:%')") == 0
	})
}

// A network that swallows everything, without a word, ends the trust before the row expires, and Run's function with it. Once
// it is whole again Run goes on, with a higher token.
//
// Lease field case 3. Lease field case 7.
func TestLeaseInABlackHole(t *testing.T) {
	t.Parallel()
	f := newLeasing(t)
	opts := briefly
	lost := make(chan error, 10)
	opts.OnEnd = func(_ *leases.Term, err error) { lost <- err }
	l := f.lease(f.holder, "job", opts)
	ctx, cancel := context.WithCancel(f.ctx)
	term, inside, done := f.begun(ctx, l)
	f.proxy.Swallow()
	f.wait("the end of the ctx", inside.Done())
	if left := f.left(); left <= 0 {
		t.Errorf("the ctx ended %v after the expiry", -left)
	}
	as[*leases.LeaseLostError](t, context.Cause(inside))
	as[*leases.LeaseLostError](t, term.Err())
	as[*leases.LeaseLostError](t, <-lost)
	f.proxy.Heal()
	f.eventually("a term after that", func() bool {
		return f.count("c", "SELECT count(*) FROM public.hare_leases WHERE token > 1 AND expires_at > clock_timestamp()") == 1
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := <-lost; err != nil {
		t.Errorf("the second term: %v", err)
	}
	if len(lost) > 0 {
		t.Errorf("an end too many: %v", <-lost)
	}
}

// Stop in a black hole takes no longer than it says, or than its ctx lasts, and the row expires by itself.
//
// Lease field case 11.
func TestLeaseStopInABlackHole(t *testing.T) {
	t.Parallel()
	for _, patience := range []time.Duration{0, 100 * time.Millisecond} {
		t.Run(fmt.Sprint(patience), func(t *testing.T) {
			t.Parallel()
			f := newLeasing(t)
			l := f.lease(f.holder, "job", briefly)
			term := f.acquire(l)
			f.proxy.Swallow()
			ctx, bound := f.ctx, 3*briefly.StallTimeout
			if patience > 0 {
				var cancel func()
				ctx, cancel = context.WithTimeout(ctx, patience)
				defer cancel()
				bound = patience
			}
			start := time.Now()
			err := l.Stop(ctx)
			wantQuick(t, start, bound+slack)
			if err == nil || patience > 0 && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Stop: %v", err)
			}
			if !errors.Is(term.Err(), leases.ErrReleased) {
				t.Errorf("the term: %v", term.Err())
			}
			next := f.acquire(f.lease(f.client("c"), "job", briefly))
			if next.Token() != 2 {
				t.Errorf("token %d", next.Token())
			}
		})
	}
}

// A candidate whose network is gone goes on when it is back.
func TestLeaseCandidateInABlackHole(t *testing.T) {
	t.Parallel()
	for name, breaks := range map[string]func(*proxy.Proxy){"swallowed": (*proxy.Proxy).Swallow, "refused": (*proxy.Proxy).Refuse, "stalled": (*proxy.Proxy).Stall} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newLeasing(t)
			l := f.lease(f.holder, "job", briefly)
			breaks(f.proxy)
			_ = f.refused(l)
			acquired := make(chan *leases.Term)
			go func() {
				term, err := l.Acquire(f.ctx)
				if err != nil {
					t.Error(err)
				}
				acquired <- term
			}()
			f.proxy.Heal()
			if term := <-acquired; term != nil && term.Err() != nil {
				t.Error(term.Err())
			}
		})
	}
}
