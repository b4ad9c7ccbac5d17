// Package session holds an open transaction on one connection: its tree of savepoints, whose turn it is, its hooks,
// and its end. The hare package sends statements through it, the transactions package opens and ends it.
//
// Nothing is sent before the first statement: BEGIN and every pending SAVEPOINT travel with it in one round trip, so
// an empty transaction costs nothing.
package session

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hare-go/hare/hare/backend"
)

// Runner runs statements: on an open transaction or on the pool.
type Runner interface {
	// Exec runs a statement and returns the number of rows that it wrote.
	Exec(ctx context.Context, call backend.Call) (int64, error)
	// Query runs a statement and returns its rows; nothing else runs on its connection before they are closed.
	Query(ctx context.Context, call backend.Call) (backend.Rows, error)
}

// Session is one transaction on one connection. Its methods are for the transactions package; statements go through
// its levels.
type Session struct {
	Alias string
	DB    backend.Database

	conn backend.Conn
	opts Options
	root *Level
	// Guarded by the turn of the innermost level, of which only one works at a time.
	begun   bool           // BEGIN has taken effect
	wrote   bool           // a statement ran that may have written
	failure error          // the first failed statement, for the message when the end finds the transaction aborted
	byHand  *backend.Error // the answer to a statement that ended the transaction, see EndedByHand

	sealed    bool        // no more statements come; guarded by the one goroutine that ends the transaction
	abandoned atomic.Bool // its end has been given up; see quit
}

// Options are the options of one transaction.
type Options struct {
	backend.TxOptions
	// AfterBegin are control statements that travel with BEGIN.
	AfterBegin []string
	// Wait is how long a statement waits for another goroutine's statement or savepoint in the same transaction,
	// and how long the end waits for them. 0 means [DefaultWait].
	Wait time.Duration
}

// DefaultWait is the bound on waiting for other goroutines in one transaction.
const DefaultWait = 30 * time.Second

// StateError says that a transaction cannot do what was asked in its present state; nothing was sent.
type StateError struct {
	Alias  string
	Reason string
	Cause  error // what brought the transaction into that state, if an error did
}

// Error names the connection and the state.
func (e *StateError) Error() string {
	text := fmt.Sprintf("transaction on %q: %s", e.Alias, e.Reason)
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap gives the cause.
func (e *StateError) Unwrap() error { return e.Cause }

// Open takes a connection for a transaction. It sends nothing. Whoever opened it must end it: with Commit, Rollback, or
// Prepare and Release.
func Open(ctx context.Context, alias string, db backend.Database, opts Options) (*Session, error) {
	conn, err := db.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if opts.Wait == 0 {
		opts.Wait = DefaultWait
	}
	s := &Session{Alias: alias, DB: db, conn: conn, opts: opts}
	s.root = newLevel(s, nil)
	return s, nil
}

// Root is the transaction itself, the outermost level.
func (s *Session) Root() *Level { return s.root }

// Options are the options it was opened with.
func (s *Session) Options() Options { return s.opts }

// Begun reports whether anything was sent, so that the transaction exists on the server.
func (s *Session) Begun() bool { return s.begun }

// Wrote reports whether a statement ran that is not known to have only read.
func (s *Session) Wrote() bool { return s.wrote }

// Failure is the error of the first failed statement, or nil.
func (s *Session) Failure() error { return s.failure }

// EndedByHand is the answer to a statement in the transaction that ended it, or may have, on the server; nil where there was
// none. What ran before that statement may be committed then, whatever becomes of the session.
func (s *Session) EndedByHand() *backend.Error { return s.byHand }

func (s *Session) stateError(reason string, cause error) error {
	return &StateError{Alias: s.Alias, Reason: reason, Cause: cause}
}

// begin gives the statements that start the transaction, none when it has started.
func (s *Session) begin() []string {
	if s.begun {
		return nil
	}
	return append(s.DB.Dialect().Begin(s.opts.TxOptions), s.opts.AfterBegin...)
}

// node is one open level in a context, or the bound of an enclosure; a context carries one chain for all databases.
type node struct {
	level *Level
	bound *Enclosure // in the place of a level: no database beyond it can be used
	outer *node
}

type contextKey struct{}

// With gives a context in which statements on the level's database join the level.
func With(ctx context.Context, level *Level) context.Context {
	outer, _ := ctx.Value(contextKey{}).(*node)
	return context.WithValue(ctx, contextKey{}, &node{level: level, outer: outer})
}

// From is the innermost open level of ctx on db, or nil. A level that has ended gives way to the one around it; when
// the whole transaction has ended the level is still returned, and refuses statements: work that outlives its
// transaction must not slip out of it unnoticed.
func From(ctx context.Context, db backend.Database) *Level {
	level, _ := find(ctx, db)
	return level
}

// Within is the innermost level of ctx that belongs to the same transaction as level, or level's own: a client bound
// to a transaction joins the savepoint that the caller has opened in it.
func Within(ctx context.Context, level *Level) *Level {
	if inner := From(ctx, level.session.DB); inner != nil && inner.session == level.session {
		return inner
	}
	return level.enclosing()
}

// In reports whether ctx carries an open transaction on db.
func In(ctx context.Context, db backend.Database) bool {
	level := From(ctx, db)
	return level != nil && !level.Over()
}
