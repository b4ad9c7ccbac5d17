package leases

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/session"
)

// Term is one time of holding a lease, from an acquisition to a release or a loss. It is safe for concurrent use.
type Term struct {
	lease *Lease
	token int64
	ctx   context.Context // ends with the term; its cause is what Err says
	end   context.CancelCauseFunc
	began chan struct{} // closed when OnStart has returned
	ended chan struct{} // closed when OnEnd has

	mu       sync.Mutex
	over     bool
	trusted  instant       // when the last renewal that succeeded was sent
	tried    instant       // when the last one was
	pause    time.Duration // from then to the next
	renewing chan struct{} // closed when the renewal under way has ended; nil where there is none
	failure  error         // of the last renewal, if it failed
}

func newTerm(l *Lease, token int64, start instant) *Term {
	t := &Term{lease: l, token: token, began: make(chan struct{}), ended: make(chan struct{}),
		trusted: start, tried: start, pause: l.opts.Interval}
	t.ctx, t.end = context.WithCancelCause(context.Background())
	return t
}

// Token is the term's fencing token. It is higher than that of every term of the lease before, and is for systems outside
// the lease's database: they refuse a request with a token lower than the highest that they have seen.
func (t *Term) Token() int64 {
	if t.none() {
		return 0
	}
	return t.token
}

// none says that nobody has acquired the term: it is nil or a zero value.
func (t *Term) none() bool { return t == nil || t.lease == nil }

// noTerm is what such a term says.
func noTerm() error { return wrong("the term is nil or a zero value: an acquisition gives one") }

// ended is a ctx that has ended for a reason.
func ended(reason error) context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	end(reason)
	return ctx
}

// Holder is what the row says of the holder: [Options].Holder and a random part.
func (t *Term) Holder() string {
	if t.none() {
		return ""
	}
	return t.lease.holder
}

// Done is closed when the term is over, which is before its row expires.
func (t *Term) Done() <-chan struct{} {
	if t.none() {
		return ended(noTerm()).Done()
	}
	return t.ctx.Done()
}

// Err is nil while the term can be trusted, by the clocks of this instant. Afterwards it is a [*LeaseLostError], or
// [ErrReleased]. It sends nothing.
func (t *Term) Err() error {
	if t.none() {
		return noTerm()
	}
	if left, _ := t.times(); left <= 0 {
		t.expire()
	}
	return context.Cause(t.ctx)
}

// Context gives a ctx that ends with the term, or with its parent. In the first case context.Cause gives what [Term.Err]
// says. The caller must call cancel in the end. A nil parent gives a ctx that has ended.
func (t *Term) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	switch {
	case t.none():
		return ended(noTerm()), func() {}
	case parent == nil:
		return ended(checkContext(parent)), func() {}
	}
	ctx, end := context.WithCancelCause(parent)
	detach := context.AfterFunc(t.ctx, func() { end(context.Cause(t.ctx)) })
	return ctx, func() { detach(); end(context.Canceled) }
}

// Fence makes the transaction of ctx one of this term: it commits while the term is the lease's last one, or not at all.
// It is called inside transactions.Atomic on the lease's database (or transactions.Distributed, with the handle's Context),
// at the best before the first write, and again when much time has passed:
//
//	err := transactions.Atomic(ctx, func(ctx context.Context) error {
//		if err := term.Fence(ctx); err != nil {
//			return err
//		}
//		return Reports.Create(ctx, &report)
//	})
//
// It takes one round trip and locks the lease's row FOR KEY SHARE until the transaction ends: renewals do not wait for it,
// the next term does. So the transaction should be short. Where its session has no idle_in_transaction_session_timeout, it
// gets [Options].FenceIdleTimeout for this transaction, so that a client that vanished holds nobody up for ever. A nested Atomic that is rolled back takes the lock of a Fence
// inside it along: fence the outermost one.
//
// Errors: a [*ElsewhereError] in another database than the term's; a [*LeaseLostError] when the term is over, whereupon the transaction must be rolled back; a
// [*hare.RetryableError] when the snapshot of a transaction above READ COMMITTED is older than the acquisition or the last
// renewal, so that a new transaction can succeed (transactions.Retries makes one); a [*hare.QueryError] outside such a transaction; else what
// the database said.
func (t *Term) Fence(ctx context.Context) error {
	switch {
	case t.none():
		return noTerm()
	case ctx == nil:
		return checkContext(ctx)
	case !session.In(ctx, t.lease.client.Database()):
		return wrong("Fence is for a transaction on connection %q, where lease %q is: call it inside transactions.Atomic with its ctx", t.lease.client.Alias(), t.lease.name)
	}
	if err := t.Err(); errors.Is(err, ErrReleased) {
		return t.lost("it was released", nil)
	} else if err != nil {
		return err
	}
	live, snapshot, err := t.lock(ctx)
	var retryable *hare.RetryableError
	switch {
	case errors.As(err, &retryable) && t.superseded(ctx), err == nil && live == nil && (!snapshot || t.superseded(ctx)):
		t.lose("it was taken over", nil)
		return t.Err()
	case err != nil:
		return err
	case live == nil:
		return t.stale("the acquisition of the lease, so that it does not show the term")
	case live != true && snapshot && t.Err() == nil:
		return t.stale("the last renewal of the lease, so that it shows the lease as expired")
	case live != true:
		t.lose("it has expired", nil)
		return t.Err()
	}
	return nil
}

// lock locks the term's row in the transaction of ctx. live says that it has not expired, and is nil where there is no such
// row, as far as the transaction sees, which may look at the database as it was in the past: at a snapshot.
func (t *Term) lock(ctx context.Context) (live any, snapshot bool, err error) {
	at := t.lease.keeper.wire.where()
	idle := strconv.FormatInt(t.lease.opts.FenceIdleTimeout.Milliseconds(), 10)
	rows, err := session.From(ctx, t.lease.client.Database()).Query(ctx, backend.Call{
		SQL: fenceSQL, Args: []any{t.lease.name, t.lease.holder, t.token, idle, at.system, at.oid},
	})
	if err != nil {
		return nil, false, t.refused(err)
	}
	var isolation any
	here := false
	for rows.Next() {
		values, failed := rows.Values()
		if err = errors.Join(err, failed); failed == nil {
			live, isolation, here = values[0], values[1], values[3] == true
		}
	}
	if err = errors.Join(err, rows.Close()); err != nil {
		return nil, false, t.refused(err)
	}
	if !here && at != (home{}) {
		return nil, false, &ElsewhereError{Alias: t.lease.client.Alias()}
	}
	return live, isolation == "repeatable read" || isolation == "serializable", nil
}

func (t *Term) refused(err error) error { return hare.ErrorFrom(t.lease.client.Alias(), fenceSQL, err) }

// stale is the error for a transaction that looks at the past. Another one can succeed.
func (t *Term) stale(than string) error {
	return &hare.RetryableError{DatabaseError: hare.DatabaseError{
		Alias: t.lease.client.Alias(), SQL: fenceSQL, SQLState: "40001", NotDone: true,
		Message: "the transaction's snapshot is older than " + than + ": run the transaction again",
	}}
}

// superseded asks, on another connection, whether somebody else has the lease. The transaction that wants to know has
// failed already.
func (t *Term) superseded(ctx context.Context) bool {
	row, err := t.lease.keeper.wire.send(ctx, t.lease.opts.prompt(), lookSQL(t.lease.name))
	return err == nil && (len(row) != 3 || row[1] != strconv.FormatInt(t.token, 10))
}

// Release ends the term, so that the next holder need not wait for its expiry, and returns when OnEnd has returned. It is
// bounded by two times [Options].StallTimeout besides OnEnd. An error means that the row could not be told; it expires by
// itself. A term that is over already is left alone: Release then returns nil.
func (t *Term) Release() error {
	if t.none() {
		return noTerm()
	}
	if !t.finish(nil) {
		<-t.ended
		return nil
	}
	t.await()
	_, err := t.lease.keeper.wire.send(context.Background(), t.lease.opts.guards(), releaseSQL(t.lease.name, t.lease.holder, t.token))
	<-t.ended
	if err != nil {
		t.lease.log(slog.LevelWarn, "lease: the release did not get through; it expires by itself", t.token, err)
		return err
	}
	t.lease.log(slog.LevelInfo, "lease: released", t.token, nil)
	return nil
}

// times are how long the term can still be trusted, and how long it is until the next renewal, which is not before the one
// under way has ended.
func (t *Term) times() (left, next time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.lease.clock()
	left = t.lease.opts.TTL - t.lease.opts.Margin - now.since(t.trusted)
	if t.over || t.renewing != nil {
		return left, left + time.Second
	}
	return left, t.pause - now.since(t.tried)
}

// claim marks a renewal as under way. It reports false where there is one, or the term is over.
func (t *Term) claim() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.renewing != nil {
		return false
	}
	t.renewing = make(chan struct{})
	t.tried = t.lease.clock()
	return true
}

// settle marks the renewal under way as ended.
func (t *Term) settle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.renewing != nil {
		close(t.renewing)
		t.renewing = nil
	}
}

// await waits for the renewal under way, which is bounded.
func (t *Term) await() {
	t.mu.Lock()
	renewing := t.renewing
	t.mu.Unlock()
	if renewing != nil {
		<-renewing
	}
}

// renewed extends the trust window, which began when the renewal was sent.
func (t *Term) renewed(start instant) {
	t.mu.Lock()
	t.trusted, t.tried, t.pause = start, start, t.lease.opts.Interval
	recovered := t.failure != nil && !t.over
	t.failure = nil
	t.mu.Unlock()
	t.settle()
	t.lease.keeper.rouse()
	if recovered {
		t.lease.log(slog.LevelInfo, "lease: renewals get through again", t.token, nil)
	}
}

// retry has the renewal tried again soon.
func (t *Term) retry(err error) {
	t.mu.Lock()
	t.pause = min(t.lease.opts.Interval/4, time.Second)
	t.tried = t.lease.clock()
	first := t.failure == nil && !t.over
	t.failure = err
	t.mu.Unlock()
	t.settle()
	t.lease.keeper.rouse()
	if first {
		t.lease.log(slog.LevelWarn, "lease: a renewal failed and is tried again", t.token, err)
	}
}

// expire ends a term that can be trusted no longer.
func (t *Term) expire() {
	t.mu.Lock()
	failure := t.failure
	t.mu.Unlock()
	t.lose("no renewal got through in time", failure)
}

// lose ends the term, if it is not over, for a reason.
func (t *Term) lose(reason string, cause error) {
	t.finish(t.lost(reason, cause))
}

func (t *Term) lost(reason string, cause error) *LeaseLostError {
	return &LeaseLostError{Name: t.lease.name, Holder: t.lease.holder, Token: t.token, Reason: reason, Err: cause}
}

// finish ends the term once. After it nothing is armed again: a renewal that ends later finds it over.
func (t *Term) finish(err error) bool {
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return false
	}
	t.over = true
	t.mu.Unlock()
	t.lease.vacate(t, func() { t.end(cmp.Or(err, ErrReleased)) })
	t.lease.keeper.drop(t)
	go func() {
		defer close(t.ended)
		if err != nil { // here, because a logger that is slow must not hold up the keeper, who ends other terms, too
			t.lease.log(slog.LevelWarn, "lease: lost", t.token, err)
		}
		<-t.began
		if t.lease.opts.OnEnd != nil {
			t.lease.opts.OnEnd(t, err)
		}
	}()
	return true
}
