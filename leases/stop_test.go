package leases_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/hare-go/hare/leases"
)

// What is told of terms comes in pairs: nothing of a candidate that never held, and one end of each term, whether it is
// stopped, or lost first.
//
// Lease field case 12.
func TestStartsAndEnds(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	client := p.client()
	leaderOpts, leaderSees := counted(long)
	leader := p.lease(client, "job", leaderOpts)
	term := p.acquire(leader)

	followerOpts, followerSees := counted(long)
	follower := p.lease(p.client(), "job", followerOpts)
	waiting := background(func() error { return second(follower.Acquire(t.Context())) })
	p.held(p.lease(client, "job", followerOpts))
	if err := follower.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-waiting; !errors.Is(err, leases.ErrStopped) {
		t.Errorf("Acquire of a candidate that was stopped: %v", err)
	}
	followerSees.want(t, 0, 0, 0)

	leaderSees.want(t, 1, 0, 0)
	for range 2 {
		if err := leader.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		leaderSees.want(t, 1, 1, 0)
	}
	if err := term.Release(); err != nil {
		t.Error(err)
	}
	leaderSees.want(t, 1, 1, 0)
}

// A term that is lost and then stopped ends once.
//
// Lease field case 12.
func TestLoseThenStop(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	client := p.client()
	opts, sees := counted(long)
	l := p.lease(client, "job", opts)
	term := p.acquire(l)
	if _, err := leases.ForceRelease(t.Context(), client, "job", term.Token()); err != nil {
		t.Fatal(err)
	}
	if err := leases.Renew(term); err != nil {
		t.Fatal(err)
	}
	as[*leases.LeaseLostError](t, term.Err())
	if err := errors.Join(l.Stop(t.Context()), term.Release()); err != nil {
		t.Error(err)
	}
	sees.want(t, 1, 0, 1)
}

// After Stop nothing is renewed and nothing can be begun.
func TestNothingAfterStop(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	watch := p.session()
	opts, sees := counted(quick())
	l := p.lease(p.client(), "job", opts)
	p.acquire(l)
	if err := l.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	row := p.row(watch, "job")
	if !p.expired(watch, "job") {
		t.Error("the lease is held")
	}
	for what, err := range map[string]error{
		"TryAcquire": second(l.TryAcquire(t.Context())),
		"Acquire":    second(l.Acquire(t.Context())),
		"Run":        l.Run(t.Context(), nil),
	} {
		if !errors.Is(err, leases.ErrStopped) {
			t.Errorf("%s: %v", what, err)
		}
	}
	time.Sleep(10 * quick().Interval) // many renewals' time
	if now := p.row(watch, "job"); now != row {
		t.Errorf("the row was %s and is %s", row, now)
	}
	sees.want(t, 1, 1, 0)
}

// Stop waits for an acquisition that is under way, whose term does not begin.
func TestStopDuringAnAcquisition(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.table()
	watch, blocker := p.session(), p.session()
	opts, sees := counted(long)
	l := p.lease(p.client(), "job", opts)
	p.do(watch, "INSERT INTO public.hare_leases VALUES ('job', 'nobody', 3, 'epoch', 'epoch', 'epoch')")
	p.do(blocker, "BEGIN", "SELECT FROM public.hare_leases WHERE name = 'job' FOR UPDATE")
	acquired := background(func() error { return second(l.TryAcquire(t.Context())) })
	p.waits(watch, 1)
	stopped := background(func() error { return l.Stop(t.Context()) })
	pending(t, "Stop", stopped)
	p.do(blocker, "ROLLBACK")
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := <-acquired; !errors.Is(err, leases.ErrStopped) {
		t.Errorf("the acquisition: %v", err)
	}
	if !p.expired(watch, "job") {
		t.Error("the lease is held")
	}
	sees.want(t, 0, 0, 0)
}

// When the ctx of Run ends, or the lease is stopped, the next candidate need not wait for the TTL.
//
// Lease field case 14.
func TestHandOver(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, end := range map[string]func(cancel func(), l *leases.Lease) error{
		"ctx cancelled": func(cancel func(), _ *leases.Lease) error { cancel(); return nil },
		"ctx cancelled, then stopped": func(cancel func(), l *leases.Lease) error {
			cancel()
			return l.Stop(t.Context())
		},
		"stopped": func(_ func(), l *leases.Lease) error { return l.Stop(t.Context()) },
	} {
		opts := leases.Options{TTL: time.Hour, Poll: 100 * time.Millisecond, LockTimeout: 20 * time.Second, StatementTimeout: 21 * time.Second, StallTimeout: 22 * time.Second, Logger: quiet}
		a, b := p.lease(p.client(), name, opts), p.lease(p.client(), name, opts)
		ctx, cancel := context.WithCancel(t.Context())
		began := make(chan *leases.Term, 1)
		ran := background(func() error {
			return a.Run(ctx, func(ctx context.Context, term *leases.Term) error {
				began <- term
				<-ctx.Done()
				return nil
			})
		})
		first := <-began
		next := background(func() error { return second(b.Acquire(t.Context())) })
		if err := end(cancel, a); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := <-ran; err != nil {
			t.Errorf("%s: Run: %v", name, err)
		}
		if err := first.Err(); !errors.Is(err, leases.ErrReleased) {
			t.Errorf("%s: the term: %v", name, err)
		}
		select {
		case err := <-next:
			if err != nil {
				t.Errorf("%s: the next: %v", name, err)
			}
		case <-time.After(opts.TTL / 100):
			t.Errorf("%s: the next waits", name)
		}
		cancel()
	}
}

// However the function of Run ends, its term is released before Run returns.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	client := p.client()
	errStop := errors.New("stop")
	for name, fn := range map[string]func(l *leases.Lease) func(ctx context.Context, term *leases.Term) error{
		"panic": func(*leases.Lease) func(context.Context, *leases.Term) error {
			return func(context.Context, *leases.Term) error { panic(errStop) }
		},
		"Goexit": func(*leases.Lease) func(context.Context, *leases.Term) error {
			return func(context.Context, *leases.Term) error { runtime.Goexit(); return nil }
		},
		"error": func(*leases.Lease) func(context.Context, *leases.Term) error {
			return func(context.Context, *leases.Term) error { return errStop }
		},
		"release": func(*leases.Lease) func(context.Context, *leases.Term) error {
			return func(_ context.Context, term *leases.Term) error { return errors.Join(term.Release(), errStop) }
		},
		"stop inside": func(l *leases.Lease) func(context.Context, *leases.Term) error {
			return func(ctx context.Context, _ *leases.Term) error {
				if err := l.Stop(ctx); err != nil {
					t.Errorf("Stop inside: %v", err)
				}
				<-ctx.Done()
				if cause := context.Cause(ctx); !errors.Is(cause, leases.ErrStopped) {
					t.Errorf("the ctx after Stop inside: %v", cause)
				}
				return errStop
			}
		},
	} {
		opts, sees := counted(long)
		l := p.lease(client, name, opts)
		ended := make(chan error, 1)
		go func() {
			err := errors.New("Goexit")
			defer func() {
				if r := recover(); r != nil {
					err, _ = r.(error)
				}
				ended <- err
			}()
			err = l.Run(t.Context(), fn(l))
		}()
		if err := <-ended; !errors.Is(err, errStop) && name != "Goexit" {
			t.Errorf("%s: Run: %v", name, err)
		}
		sees.want(t, 1, 1, 0)
		if err := p.acquire(p.lease(client, name, long)).Release(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A term lives longer than the ctx that it was acquired with.
func TestTermOutlivesItsContext(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	watch := p.session()
	ctx, cancel := context.WithCancel(t.Context())
	l := p.lease(p.client(), "job", quick())
	term, err := l.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	row := p.row(watch, "job")
	p.eventually("a renewal", func() bool { return p.row(watch, "job") != row })
	if err := term.Err(); err != nil {
		t.Error(err)
	}
	inside, end := term.Context(ctx)
	defer end()
	if !errors.Is(context.Cause(inside), context.Canceled) {
		t.Errorf("the ctx of a term in one that is cancelled: %v", context.Cause(inside))
	}
	if _, err := p.lease(p.client(), "other", quick()).Acquire(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("an acquisition with a ctx that is cancelled: %v", err)
	}
}
