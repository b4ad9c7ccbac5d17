package leases

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
)

// attempt takes the lease if it is free. Only one is under way at a time.
func (l *Lease) attempt(ctx context.Context) (*Term, error) {
	l.mu.Lock()
	held := l.term
	l.mu.Unlock()
	if held != nil {
		return nil, wrong("%q is held by this very Lease (term %d): release that first", l.name, held.token)
	}
	seen, err := l.free(ctx)
	if err != nil {
		return nil, err
	}
	// An acquisition that is given up half way would hold without anybody's knowing, so the caller's ctx does not reach it.
	start := l.clock()
	row, err := l.keeper.wire.send(context.WithoutCancel(ctx), l.opts.guards(), acquireSQL(l.name, l.holder, seen, l.opts.TTL)...)
	if err != nil {
		return nil, l.explain(ctx, l.permitted(err))
	}
	if len(row) != 1 { // somebody else was quicker
		if _, err := l.free(ctx); err != nil {
			return nil, err
		}
		return nil, &HeldError{Name: l.name}
	}
	token, err := strconv.ParseInt(row[0], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("lease %q: the server's answer to an acquisition is no token: %w", l.name, err)
	}
	return l.begin(ctx, token, start)
}

// begin makes a term of a row that was acquired, unless it came too late.
func (l *Lease) begin(ctx context.Context, token int64, start instant) (*Term, error) {
	t := newTerm(l, token, start)
	l.mu.Lock()
	l.term = t
	l.mu.Unlock()
	var err error
	switch left, _ := t.times(); {
	case left <= 0:
		err = t.lost("the answer to its acquisition came after the time for which it could be trusted", nil)
	case l.stopping.Err() != nil:
		err = ErrStopped
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case !l.keeper.keep(t):
		err = &hare.QueryError{Reason: "the connections are closed"}
	default:
		return t, nil
	}
	l.vacate(t, func() { t.end(err) })
	_, _ = l.keeper.wire.send(context.WithoutCancel(ctx), l.opts.guards(), releaseSQL(l.name, l.holder, token)) // else it expires by itself
	return nil, err
}

// free looks whether the lease may be taken, and returns the token of its last term. What this very Lease holds without
// knowing, because an answer was lost, is free for it.
func (l *Lease) free(ctx context.Context) (token int64, err error) {
	w := l.keeper.wire
	if err := w.settle(ctx, l.opts.prompt()); err != nil {
		return 0, err
	}
	if err := w.ready(ctx, l.opts); err != nil {
		return 0, l.permitted(err)
	}
	row, err := w.send(ctx, l.opts.prompt(), lookSQL(l.name))
	if backend.SQLState(err) == "42P01" { // undefined_table: it was dropped meanwhile
		w.known.Store(false)
		return 0, w.ready(ctx, l.opts)
	}
	if err != nil || len(row) != 3 {
		return 0, l.permitted(err)
	}
	token, err = strconv.ParseInt(row[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("lease %q: the token in its row is no number: %w", l.name, err)
	}
	ms, err := strconv.ParseInt(row[2], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("lease %q: the expiry in its row is no time: %w", l.name, err)
	}
	if ms > 0 && row[0] != l.holder {
		return 0, &HeldError{Name: l.name, Holder: row[0], Token: token, Remaining: time.Duration(ms) * time.Millisecond}
	}
	return token, nil
}

// permitted says what to do where the role may not use the table.
func (l *Lease) permitted(err error) error {
	var refused *hare.DatabaseError
	if backend.SQLState(err) != "42501" || !errors.As(err, &refused) { // insufficient_privilege
		return err
	}
	return &hare.ConfigurationError{Alias: l.client.Alias(), Err: err, Reason: "the role may not use " + table + " (" + refused.Message +
		"): let its owner or a superuser run GRANT SELECT, INSERT, UPDATE ON " + table + " TO it"}
}

// explain says who may hold the row, when a message waited for it in vain.
func (l *Lease) explain(ctx context.Context, err error) error {
	return explain(ctx, l.name, l.keeper.wire, l.opts.prompt(), err)
}

func explain(ctx context.Context, name string, w *wire, g guards, err error) error {
	if backend.SQLState(err) != "55P03" { // lock_not_available
		return err
	}
	blocked := &BlockedError{Name: name, Err: err}
	blocked.By = w.blockers(ctx, g)
	return blocked
}
