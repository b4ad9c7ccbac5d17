package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
)

// Level is a transaction or a savepoint in it. Statements of several goroutines take turns: a level runs one thing at
// a time, a statement or a whole nested level, so that a savepoint never swallows a statement that does not belong to
// it. A nested level runs while its parent waits, which is why the tree cannot deadlock with itself.
type Level struct {
	session *Session
	parent  *Level
	depth   int
	turn    chan struct{} // holds a token while nobody works on the level
	sent    bool          // the savepoint stands on the server; guarded by the turn of the innermost level

	mu        sync.Mutex
	over      bool
	streaming *levelRows // rows that the caller reads at its own pace, which hold the turn, or nil
	onCommit  []Hook
	onRoll    []Hook
}

// Hook is a function to run when the transaction has ended.
type Hook func(ctx context.Context) error

func newLevel(s *Session, parent *Level) *Level {
	l := &Level{session: s, parent: parent, turn: make(chan struct{}, 1)}
	if parent != nil {
		l.depth = parent.depth + 1
	}
	l.turn <- struct{}{}
	return l
}

// Session is the transaction that the level belongs to.
func (l *Level) Session() *Session { return l.session }

// Over reports whether the level has ended.
func (l *Level) Over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// enclosing is the innermost level from l outwards that is still open, or the root when none is.
func (l *Level) enclosing() *Level {
	for l.parent != nil && l.Over() {
		l = l.parent
	}
	return l
}

// take waits for the level's turn.
func (l *Level) take(ctx context.Context) error {
	if l.isStreaming() {
		return l.session.stateError("its connection is busy with rows that are still being read: read them to the end or close them first", nil)
	}
	select {
	case <-l.turn:
	default:
		timer := time.NewTimer(l.session.opts.Wait)
		defer timer.Stop()
		select {
		case <-l.turn:
		case <-ctx.Done():
			return l.session.stateError("given up while another goroutine was using the transaction", context.Cause(ctx))
		case <-timer.C:
			return l.session.stateError(fmt.Sprintf("another statement or nested block of it is still at work after %s", l.session.opts.Wait), nil)
		}
	}
	if l.Over() {
		l.give()
		return l.session.stateError("it has ended and takes no more statements", nil)
	}
	return nil
}

func (l *Level) give() { l.turn <- struct{}{} }

func (l *Level) isStreaming() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.streaming != nil
}

func (l *Level) setStreaming(rows *levelRows) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streaming = rows
}

// Exec runs a statement in the transaction.
func (l *Level) Exec(ctx context.Context, call backend.Call) (int64, error) {
	if err := l.take(ctx); err != nil {
		return 0, err
	}
	defer l.give()
	ctx, cancel := l.limit(ctx)
	defer cancel()
	if err := l.ready(&call); err != nil {
		return 0, err
	}
	n, err := l.session.conn.Exec(ctx, call)
	l.note(&call, err)
	return n, err
}

// Query runs a statement that returns rows. The transaction can do nothing else until they are closed.
func (l *Level) Query(ctx context.Context, call backend.Call) (backend.Rows, error) {
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := l.limit(ctx)
	if err := l.ready(&call); err != nil {
		cancel()
		l.give()
		return nil, err
	}
	rows, err := l.session.conn.Query(ctx, call)
	if err != nil {
		l.note(&call, err)
		cancel()
		l.give()
		return nil, err
	}
	return &levelRows{Rows: rows, level: l, call: call, cancel: cancel}, nil
}

// Stream marks rows of the level as read at the caller's pace: another statement on the level is refused at once
// instead of waiting for rows that the same goroutine may hold. Rows from a pool are left as they are.
func Stream(rows backend.Rows) backend.Rows {
	if r, ok := rows.(*levelRows); ok {
		r.level.setStreaming(r)
	}
	return rows
}

// limit bounds a statement where the server cannot do it for the transaction.
func (l *Level) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	ms := l.session.opts.StatementTimeoutMS
	if ms == 0 || l.session.DB.Features().Has(features.TransactionTimeouts) {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
}

// ready refuses a statement on a transaction that is beyond help, and puts what has not been sent yet ahead of it.
func (l *Level) ready(call *backend.Call) error {
	if l.session.abandoned.Load() {
		return l.session.stateError("it has been given up", l.session.failure)
	}
	if by := l.session.byHand; by != nil {
		return l.session.stateError("a statement in it has ended it, so it takes no more", by)
	}
	switch l.session.conn.Status() {
	case backend.StatusClosed:
		return l.session.stateError("its connection is lost, and the server has rolled it back", l.session.failure)
	case backend.StatusIdle:
		if l.session.begun {
			return l.session.stateError("the database has ended it by itself", l.session.failure)
		}
	}
	call.Before = l.unsent()
	return nil
}

// unsent lists what must precede a statement of this level: BEGIN, then the savepoints from the outside inwards.
func (l *Level) unsent() []string {
	before := l.session.begin()
	for _, level := range l.path() {
		if !level.sent {
			before = append(before, "SAVEPOINT "+level.savepoint())
		}
	}
	return before
}

// path lists the savepoint levels from the outermost to l; the root is no savepoint.
func (l *Level) path() []*Level {
	if l.parent == nil {
		return nil
	}
	return append(l.parent.path(), l)
}

// savepoint is the level's name on the server. Siblings run one after the other, so the depth is enough, and a
// constant name is a constant statement text.
func (l *Level) savepoint() string { return fmt.Sprintf("hare_%d", l.depth) }

// note records what the answer says about the transaction.
func (l *Level) note(call *backend.Call, err error) {
	s := l.session
	if err != nil && s.failure == nil {
		s.failure = err
	}
	var answer *backend.Error
	if errors.As(err, &answer) && answer.Class == backend.ClassControl {
		s.byHand = answer
	}
	// An error without an SQLSTATE means that no server answered: what was to go ahead has not run.
	answered := err == nil || backend.SQLState(err) != ""
	status := s.conn.Status()
	if !s.begun {
		s.begun = status == backend.StatusInTransaction || status == backend.StatusFailed
	}
	if answered && s.begun {
		for _, level := range l.path() {
			level.sent = true
		}
	}
	if !call.ReadOnly {
		s.wrote = true
	}
}
