package leases

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
)

// Lease is a candidate for one lease. It holds at most one term at a time. It is safe for concurrent use.
type Lease struct {
	client *hare.Client
	keeper *keeper
	name   string
	holder string
	opts   Options
	wrong  error // what every call returns
	clock  func() instant

	turn     chan struct{} // holds an entry while an acquisition is under way
	stopping context.Context
	stop     context.CancelCauseFunc

	mu      sync.Mutex
	term    *Term         // the present one, or nil
	working chan struct{} // closed when the function of Run has returned; nil where none runs
}

// New makes a candidate for the lease of a name on the client's database. It sends nothing. The table of leases is made by
// the first acquisition, if the role may.
//
// The database must be a PostgreSQL: elsewhere every call returns a [*features.UnsupportedError]. Options that do not
// fit, a wrong name, or a client that is bound to a transaction are a [*hare.QueryError] of every call.
func New(c *hare.Client, name string, opts Options) *Lease {
	l := &Lease{client: c, name: name, opts: opts.filled(), clock: readClocks, turn: make(chan struct{}, 1)}
	l.holder = unique(l.opts.Holder)
	l.stopping, l.stop = context.WithCancelCause(context.Background())
	l.wrong = errors.Join(checkClient(c), checkName(name), l.opts.check())
	if l.wrong == nil {
		l.keeper = keeperOf(c)
	}
	return l
}

// checkClient refuses a client whose database cannot have leases.
func checkClient(c *hare.Client) error {
	switch {
	case c == nil:
		return wrong("it takes a client, and got nil")
	case c.Database() == nil:
		return wrong("the client has no database: it is a zero value, or of an alias that takes no part in a transaction; take one of hare.Connections")
	case c.InTransaction():
		return wrong("the client of %q is bound to a transaction: take one of hare.Connections", c.Alias())
	}
	err := features.Require(c.Alias(), c.Features(), features.SelectForKeyShare, features.SelectForNoKeyUpdate, features.TransactionTimeouts)
	var unsupported *features.UnsupportedError
	if errors.As(err, &unsupported) {
		unsupported.Detail = "leases are rows of a PostgreSQL database; what runs on one machine needs none"
	}
	return err
}

// Run waits for the lease and runs fn while it holds it:
//
//   - When fn returns by itself, the term is released, and Run returns what fn returned. A panic of fn goes on afterwards.
//   - When the term is lost, the ctx of fn is cancelled, with a [*LeaseLostError] as its cause, and once fn has returned
//     Run waits for the lease again. So fn may run several times, here and elsewhere.
//   - When ctx ends, or [Lease.Stop] is called, the ctx of fn is cancelled, too. The term is renewed until fn has returned,
//     and then released; Run returns what fn returned, or nil where fn was not running.
//
// Renewals go on while fn runs, and stop with it. Errors of the database while it waits are logged and tried again; those
// of configuration are returned.
func (l *Lease) Run(ctx context.Context, fn func(ctx context.Context, t *Term) error) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	if fn == nil {
		return wrong("Run takes a function, and got nil")
	}
	for {
		t, err := l.Acquire(ctx)
		switch stopped := ctx.Err() != nil || l.stopping.Err() != nil; {
		case t == nil && stopped:
			return nil
		case t == nil:
			return err
		}
		err = l.work(ctx, t, fn)
		if lost := t.Err(); !errors.Is(lost, ErrReleased) {
			if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, lost) {
				l.log(slog.LevelWarn, "lease: the function of a term that was lost returned an error", t.token, err)
			}
			continue
		}
		return err
	}
}

// work runs fn for a term, and releases the term if it was not lost.
func (l *Lease) work(ctx context.Context, t *Term, fn func(ctx context.Context, t *Term) error) error {
	working := make(chan struct{})
	l.mu.Lock()
	l.working = working
	stopped := l.stopping.Err() != nil
	l.mu.Unlock()
	defer func() { // also after a panic, or runtime.Goexit
		_ = t.Release() // it is logged, and the row expires by itself
		l.mu.Lock()
		if l.working == working { // not that of another Run, which has acquired the lease after this term was lost
			l.working = nil
		}
		l.mu.Unlock()
		close(working)
	}()
	if stopped { // Stop may have released the term already
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	defer context.AfterFunc(l.stopping, func() { cancel(ErrStopped) })()
	inside, end := t.Context(context.WithValue(ctx, workKey{l}, true))
	defer end()
	return fn(inside, t)
}

// workKey is where the ctx of Run's function says so, for each lease, because functions of several may be nested.
type workKey struct{ lease *Lease }

// Acquire waits for the lease and begins a term, until ctx ends or [Lease.Stop] is called. It looks every
// [Options].Poll. The caller must Release the term, or Stop the lease; the end of ctx does not end the term.
func (l *Lease) Acquire(ctx context.Context) (*Term, error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	told := false
	for {
		t, err := l.TryAcquire(ctx)
		if err == nil || !transient(err) {
			return t, err
		}
		var held *HeldError
		if errors.As(err, &held) {
			told = false
		} else if !told && ctx.Err() == nil {
			told = true
			l.log(slog.LevelWarn, "lease: an acquisition failed and is tried again", 0, err)
		}
		pause := l.opts.Poll*3/4 + rand.N(l.opts.Poll/2+1)
		if held != nil {
			pause = min(pause, held.Remaining+rand.N(l.opts.Poll/4+1))
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			continue
		case <-ctx.Done():
			err = fmt.Errorf("lease %q was not acquired: %w; the last answer: %w", l.name, context.Cause(ctx), err)
		case <-l.stopping.Done():
			err = ErrStopped
		}
		timer.Stop()
		return nil, err
	}
}

// transient reports whether an error may pass by itself, so that a candidate goes on: the lease is held or locked, the
// server is away, full or slow. Rights, tables, a schema public that is not there, and names that the database cannot store
// are a matter of configuration (SQLSTATE classes 42, 3F and 22).
func transient(err error) bool {
	var (
		held    *HeldError
		blocked *BlockedError
		late    *LeaseLostError
		astray  *ElsewhereError
		refused *hare.DatabaseError
	)
	if errors.As(err, &astray) {
		return true
	}
	if errors.As(err, &refused) {
		class := refused.SQLState[:min(2, len(refused.SQLState))]
		return !errors.Is(err, backend.ErrClosed) && class != "42" && class != "3F" && class != "22"
	}
	return errors.As(err, &held) || errors.As(err, &blocked) || errors.As(err, &late)
}

// TryAcquire begins a term if the lease is free, and returns a [*HeldError] if somebody else holds it, after one small read.
// The caller must Release the term, or Stop the lease; the end of ctx does not end the term.
//
// Other errors: a [*BlockedError] when the row stays locked; a [*LeaseLostError] when the answer came too late to be
// trusted; a [*hare.QueryError] while this Lease holds a term; [ErrStopped]; what the database said. After an error
// nothing is held, except that an acquisition whose answer was lost may leave the row taken until it expires, or until this
// Lease tries again.
func (l *Lease) TryAcquire(ctx context.Context) (*Term, error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-l.stopping.Done():
		return nil, ErrStopped
	}
	t, err := l.attempt(ctx)
	<-l.turn
	if err != nil {
		return nil, err
	}
	l.log(slog.LevelInfo, "lease: acquired", t.token, nil)
	returned := false
	defer func() {
		close(t.began)
		if !returned {
			_ = t.Release() // it is logged
		}
	}()
	if l.opts.OnStart != nil {
		l.opts.OnStart(t)
	}
	returned = true
	return t, nil
}

// Stop ends all that the lease does, and lets others have it: acquisitions give up, the ctx of Run's function is cancelled,
// the term is released once that function has returned, and nothing is begun or renewed any more. It may be called more
// than once.
//
// It takes up to three times [Options].StallTimeout, besides Run's function and OnEnd. When ctx ends before, Stop returns
// its error: the term is then over, and its row is released in the background or, while the function goes on, expires by
// itself. Inside that function, Stop with its ctx returns at once: the term is released when the function has returned.
func (l *Lease) Stop(ctx context.Context) error {
	if err := l.made(ctx); err != nil {
		return err
	}
	l.stop(ErrStopped)
	if ctx.Value(workKey{l}) != nil {
		return nil
	}
	done := make(chan error, 1)
	go func() {
		l.turn <- struct{}{} // an acquisition under way may still begin a term
		l.mu.Lock()
		t, working := l.term, l.working
		l.mu.Unlock()
		<-l.turn
		switch {
		case working != nil:
			<-working
			done <- nil
		case t != nil:
			done <- t.Release()
		default:
			done <- nil
		}
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	l.mu.Lock()
	t, working := l.term, l.working
	l.mu.Unlock()
	if t != nil && working != nil {
		t.lose("the lease was stopped, and its function went on", nil)
	}
	return context.Cause(ctx)
}

// usable refuses a lease that takes no part.
func (l *Lease) usable(ctx context.Context) error {
	if err := l.made(ctx); err != nil {
		return err
	}
	return context.Cause(l.stopping)
}

// made refuses a lease that cannot work, and a ctx that is nil.
func (l *Lease) made(ctx context.Context) error {
	switch {
	case l == nil || l.stopping == nil:
		return wrong("it is nil or a zero value: New makes one")
	case l.wrong != nil:
		return l.wrong
	}
	return checkContext(ctx)
}

func checkContext(ctx context.Context) error {
	if ctx == nil {
		return wrong("the ctx is nil")
	}
	return nil
}

// vacate forgets a term and ends it, in one: whoever sees its end can acquire the lease again at once.
func (l *Lease) vacate(t *Term, end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term == t {
		l.term = nil
	}
	end()
}

func (l *Lease) log(level slog.Level, message string, token int64, err error) {
	attrs := []slog.Attr{slog.String("lease", l.name), slog.String("connection", l.client.Alias()), slog.String("holder", l.holder)}
	if token != 0 {
		attrs = append(attrs, slog.Int64("token", token))
	}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	l.opts.Logger.LogAttrs(context.Background(), level, message, attrs...)
}
