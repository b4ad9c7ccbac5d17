package backend

import (
	"errors"
	"fmt"
)

// Class sorts what a database refuses by what a caller can do about it.
type Class uint8

// The classes.
const (
	ClassOther      Class = iota // anything else: syntax, missing table, division by zero, ...
	ClassIntegrity               // a constraint refused the data
	ClassRetryable               // serialization failure, deadlock, busy: the whole transaction may be run again
	ClassTimeout                 // a statement, lock or idle time-out of the server, or the caller's deadline
	ClassReadOnly                // a write in a read-only transaction
	ClassConnection              // the server cannot be reached, or the connection broke
	ClassPool                    // no connection became free in time
	ClassLogin                   // the server refuses the user, password or database: a matter of configuration
	ClassAborted                 // the transaction is already aborted and accepts nothing but its end
	ClassQuery                   // a statement that is not the program's to send: it did not run
	ClassControl                 // the statement ran and ended or began a transaction by itself; Statement names it
)

// ErrClosed is the cause of what a database answers after its Close: no call can succeed any more.
var ErrClosed = errors.New("the connections have been closed")

// ErrUnreplicated is the cause of an error that says: what the statement did is there, and no synchronous standby is known to
// have it, because somebody has ended the server's wait for one.
var ErrUnreplicated = errors.New("the server's wait for its synchronous standby was ended before the standby had it: it is done, and a failover may undo it")

// Error is what a database, or the way to it, answered. The hare package turns it into its public errors.
type Error struct {
	Class      Class
	SQLState   string // five characters (SQL standard); SQLite's result codes are mapped to the nearest
	Severity   string // ERROR, FATAL, PANIC as the server says; empty where no server answered
	Message    string
	Detail     string
	Constraint string
	Table      string
	Column     string
	Statement  string // of ClassControl: the command tag, as COMMIT
	// NotDone is true when the statement certainly had no effect: it was never sent, or a living server
	// answered that it failed. False means that nobody knows: the answer was lost, or the connection ended
	// while the statement may have been at work.
	NotDone bool
	Err     error
}

// Error is the server's message, or the cause's.
func (e *Error) Error() string {
	text := e.Message
	if text == "" && e.Err != nil {
		text = e.Err.Error()
	}
	if e.SQLState != "" {
		text += " (SQLSTATE " + e.SQLState + ")"
	}
	return text
}

// Unwrap gives the driver's error.
func (e *Error) Unwrap() error { return e.Err }

// NotDone reports whether err says that the statement certainly had no effect.
func NotDone(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.NotDone
}

// Control is the error for a call of the program's in which the server has answered a statement with the tag of one that
// controls transactions, although none was found in its SQL. cause is what else went wrong, or nil.
func Control(tag string, cause error) *Error {
	return &Error{Class: ClassControl, SQLState: "2D000", Statement: tag, Err: cause,
		Message: "a statement of the text was " + tag + ": what ran before it may be committed, whatever becomes of the transaction around it"}
}

// SQLState is the SQLSTATE in err, or empty.
func SQLState(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.SQLState
	}
	return ""
}

// OptionError says which part of a connection's URL is wrong and what would be right. It never quotes a secret.
type OptionError struct {
	Option string // the option's name, or "url" for the address itself
	Reason string
}

// Error names the option.
func (e *OptionError) Error() string {
	return fmt.Sprintf("option %q: %s", e.Option, e.Reason)
}

// DecodeError says that a value from the database does not fit the model's field.
type DecodeError struct {
	Model, Field, Column string
	Err                  error
}

// Error names model, field and column; a value that no model describes has only a column.
func (e *DecodeError) Error() string {
	if e.Model == "" {
		return fmt.Sprintf("column %q: %v", e.Column, e.Err)
	}
	return fmt.Sprintf("%s.%s (column %q): %v", e.Model, e.Field, e.Column, e.Err)
}

// Unwrap gives the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// ErrNull is the cause of a [*DecodeError] when a NULL meets a field that cannot hold it.
var ErrNull = errors.New("the database has NULL, and the field cannot hold it: make the field a pointer, or the column NOT NULL")
