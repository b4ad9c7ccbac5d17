package hare

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/plaintext"
	"github.com/hare-go/hare/internal/session"
)

// DatabaseError says that a database, or the way to it, refused a statement. Every kind below is one, so that
// errors.As finds a *DatabaseError in each of them.
//
// Outside a transaction a refused statement has changed nothing when NotDone is true, and may or may not have been
// carried out when it is false: read before running it again. Inside a transaction nothing is durable before its
// COMMIT; on PostgreSQL the transaction then accepts nothing but its end.
type DatabaseError struct {
	Alias      string // the connection
	SQL        string // the statement, never its arguments; empty where there was none
	SQLState   string // the SQLSTATE that the server gave, or that hare maps its code to; empty where no server answered
	Constraint string // what the server says about the place, where it says so
	Table      string
	Column     string
	Message    string // the server's own words, in its language; may quote values
	NotDone    bool   // the statement certainly had no effect
	Err        error  // the cause: the driver's error, context.Canceled, ...
}

// shownSQL is how many bytes of a statement an error's text shows. A program's log line is no place for the rest.
const shownSQL = 1000

// Error says what the server said, where, and to which statement: of a long one its beginning, and how long it is. The
// field SQL has all of it.
func (e *DatabaseError) Error() string {
	if e == nil {
		return "<nil>"
	}
	text := fmt.Sprintf("connection %q: %s", e.Alias, e.Message)
	if e.SQLState != "" {
		text += fmt.Sprintf(" (SQLSTATE %s)", e.SQLState)
	}
	if e.SQL != "" {
		text += ": " + shortSQL(e.SQL)
	}
	return plaintext.Lines(text)
}

func shortSQL(sql string) string {
	if len(sql) <= shownSQL {
		return sql
	}
	end := shownSQL
	for end > 0 && !utf8.RuneStart(sql[end]) {
		end--
	}
	return fmt.Sprintf("%s... (%d bytes in all)", sql[:end], len(sql))
}

// Unwrap gives the cause.
func (e *DatabaseError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// IntegrityError says that a constraint refused the data: unique, foreign key, not null, check, exclusion. Constraint,
// Table and Column name the place where the server does. The statement was sent and had no effect. The same data is
// refused again unless other rows change.
type IntegrityError struct{ DatabaseError }

// Error is that of the [*DatabaseError].
func (e *IntegrityError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return e.DatabaseError.Error()
}

// Unwrap gives the [*DatabaseError].
func (e *IntegrityError) Unwrap() error {
	if e == nil {
		return nil
	}
	return &e.DatabaseError
}

// RetryableError says that the database gave up for the sake of another transaction: serialization failure, deadlock,
// a busy file. The statement had no effect. The whole transaction may be run again from its start;
// transactions.Retries does so.
type RetryableError struct{ DatabaseError }

// Error is that of the [*DatabaseError].
func (e *RetryableError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return e.DatabaseError.Error()
}

// Unwrap gives the [*DatabaseError].
func (e *RetryableError) Unwrap() error {
	if e == nil {
		return nil
	}
	return &e.DatabaseError
}

// TimeoutError says that time ran out: a statement, lock or idle time-out of the server, or the caller's deadline
// (then errors.Is finds context.DeadlineExceeded). Whether the statement took effect is in NotDone.
type TimeoutError struct{ DatabaseError }

// Error is that of the [*DatabaseError].
func (e *TimeoutError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return e.DatabaseError.Error()
}

// Unwrap gives the [*DatabaseError].
func (e *TimeoutError) Unwrap() error {
	if e == nil {
		return nil
	}
	return &e.DatabaseError
}

// ReadOnlyError says that a write met a read-only transaction or a standby server. The statement had no effect.
// Run it in a transaction that may write, on the primary server.
type ReadOnlyError struct{ DatabaseError }

// Error is that of the [*DatabaseError].
func (e *ReadOnlyError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return e.DatabaseError.Error()
}

// Unwrap gives the [*DatabaseError].
func (e *ReadOnlyError) Unwrap() error {
	if e == nil {
		return nil
	}
	return &e.DatabaseError
}

// ConnectionError says that the server cannot be reached, or that the connection broke. When NotDone is false nobody
// knows whether the statement took effect; inside a transaction the server rolls everything back. With NotDone the
// call may be made again.
type ConnectionError struct{ DatabaseError }

// Error is that of the [*DatabaseError].
func (e *ConnectionError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return e.DatabaseError.Error()
}

// Unwrap gives the [*DatabaseError].
func (e *ConnectionError) Unwrap() error {
	if e == nil {
		return nil
	}
	return &e.DatabaseError
}

// PoolTimeoutError says that no connection of the pool became free in time. Nothing was sent; the call may be made
// again. It is a [ConnectionError] too. Raise max_size or pool_acquire_timeout, or look for connections that are kept
// for long: an open transaction, rows that are not closed.
type PoolTimeoutError struct{ ConnectionError }

// Error is that of the [*ConnectionError].
func (e *PoolTimeoutError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return e.ConnectionError.Error()
}

// Unwrap gives the [*ConnectionError].
func (e *PoolTimeoutError) Unwrap() error {
	if e == nil {
		return nil
	}
	return &e.ConnectionError
}

// AbortedError says that an earlier failure has aborted the transaction on the server, which accepts nothing but its
// end. The statement had no effect. End the transaction and run it again, or put what may fail into a nested
// transactions.Atomic.
type AbortedError struct{ DatabaseError }

// Error is that of the [*DatabaseError].
func (e *AbortedError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return e.DatabaseError.Error()
}

// Unwrap gives the [*DatabaseError].
func (e *AbortedError) Unwrap() error {
	if e == nil {
		return nil
	}
	return &e.DatabaseError
}

// DecodeError says that a value from the database does not fit the place where it should go. The statement was sent;
// an INSERT or UPDATE that returned the value has taken effect. Correct the model or the column.
type DecodeError struct {
	DatabaseError
	Model string // the model, empty for Rows.Scan
	Field string // the Go field, empty for Rows.Scan
}

// Error is that of the [*DatabaseError].
func (e *DecodeError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return e.DatabaseError.Error()
}

// Unwrap gives the [*DatabaseError].
func (e *DecodeError) Unwrap() error {
	if e == nil {
		return nil
	}
	return &e.DatabaseError
}

// TransactionError says that a transaction cannot take the statement in its present state: it has ended, its
// connection is lost or is busy with rows that are still read, another goroutine holds it for too long. Nothing was
// sent. What the transaction did is durable only if its own end reported a commit.
type TransactionError struct {
	Alias  string
	Reason string
	Err    error // what brought the transaction into that state, or nil
}

// Error names the connection and the state.
func (e *TransactionError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return fmt.Sprintf("transaction on %q: %s", e.Alias, e.Reason)
}

// Unwrap gives the cause.
func (e *TransactionError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// ErrorFrom turns what a backend answered to a statement into hare's errors, for packages that build on hare. What is
// one of hare's errors already, and nil, stays as it is. Whatever is in err stays visible to errors.Is and errors.As.
func ErrorFrom(alias, sql string, err error) error {
	if err == nil {
		return nil
	}
	var answer *backend.Error
	var decode *backend.DecodeError
	var option *backend.OptionError
	var state *session.StateError
	var outside *session.OutsideError
	switch {
	case isPublic(err):
		return err
	case errors.As(err, &outside):
		return &QueryError{Reason: outside.Error()}
	case errors.Is(err, backend.ErrClosed):
		return &QueryError{Reason: errClosed.Reason, Err: err}
	case errors.As(err, &state):
		return &TransactionError{Alias: alias, Reason: state.Reason, Err: ErrorFrom(alias, "", state.Cause)}
	case errors.As(err, &decode):
		return &DecodeError{Model: decode.Model, Field: decode.Field, DatabaseError: DatabaseError{
			Alias: alias, SQL: sql, Column: decode.Column, Message: decode.Error(), Err: err,
		}}
	case errors.As(err, &option):
		return &ConfigurationError{Alias: alias, Option: option.Option, Reason: option.Reason, Err: err}
	case errors.As(err, &answer):
		return fromAnswer(alias, sql, answer, err)
	}
	base := DatabaseError{Alias: alias, SQL: sql, Message: err.Error(), Err: err}
	if errors.Is(err, context.DeadlineExceeded) {
		return &TimeoutError{base}
	}
	return &base
}

// isPublic reports whether err already is, or wraps, an error that users know.
func isPublic(err error) bool {
	var own interface{ public() }
	var unsupported *features.UnsupportedError
	return errors.As(err, &own) || errors.As(err, &unsupported)
}

func (*DatabaseError) public()      {}
func (*TransactionError) public()   {}
func (*QueryError) public()         {}
func (*FieldError) public()         {}
func (*ConfigurationError) public() {}
func (*ValidationError) public()    {}

func fromAnswer(alias, sql string, answer *backend.Error, err error) error {
	base := DatabaseError{
		Alias: alias, SQL: sql, SQLState: answer.SQLState, Constraint: answer.Constraint, Table: answer.Table,
		Column: answer.Column, Message: answer.Message, NotDone: answer.NotDone, Err: err,
	}
	if base.Message == "" && answer.Err != nil {
		base.Message = answer.Err.Error()
	}
	switch answer.Class {
	case backend.ClassIntegrity:
		return &IntegrityError{base}
	case backend.ClassRetryable:
		return &RetryableError{base}
	case backend.ClassTimeout:
		return &TimeoutError{base}
	case backend.ClassReadOnly:
		return &ReadOnlyError{base}
	case backend.ClassConnection:
		return &ConnectionError{base}
	case backend.ClassPool:
		return &PoolTimeoutError{ConnectionError{base}}
	case backend.ClassAborted:
		return &AbortedError{base}
	case backend.ClassQuery:
		return &QueryError{Reason: base.Message, Err: err}
	case backend.ClassLogin:
		return &ConfigurationError{Alias: alias, Reason: "the server refuses the login: " + base.Message, Err: err}
	}
	return &base
}
