package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/hare-go/hare/hare/backend"
)

// What this package refuses by itself, with PostgreSQL's SQLSTATE for the same.
var (
	errAborted        = refused(backend.ClassAborted, "25P02", "the transaction is aborted: SQLite has rolled it back after an error or a cancelled write; statements are refused until it is ended")
	errNoTransaction  = refused(backend.ClassOther, "25P01", "there is no transaction in progress")
	errInTransaction  = refused(backend.ClassOther, "25001", "there is a transaction in progress already")
	errEmpty          = refused(backend.ClassOther, "42601", "the text has no statement in it")
	errManyStatements = refused(backend.ClassOther, "42601", "only one statement can have arguments or rows, and the text has several")
	errParameter      = refused(backend.ClassOther, "42P02", "a placeholder is not of the form $1, $2, ...")
)

// What is refused before anything runs. None of these has an SQLSTATE.
var (
	errClosed = &backend.Error{Class: backend.ClassConnection, Err: backend.ErrClosed, NotDone: true}
	errGone   = &backend.Error{Class: backend.ClassConnection, Message: "the connection is closed", NotDone: true}
	errBack   = &backend.Error{Class: backend.ClassConnection, Message: "the connection has been given back", NotDone: true}
	errBusy   = &backend.Error{
		Message: "the connection is busy: the rows of its last query are not closed, or another goroutine is using it",
		NotDone: true,
	}
)

func refused(class backend.Class, state, text string) *backend.Error {
	return &backend.Error{Class: class, SQLState: state, Severity: "ERROR", Message: text, NotDone: true}
}

// unsent is the error of a call whose context ended before anything of it ran. It has no SQLSTATE.
func unsent(ctx context.Context) *backend.Error {
	return &backend.Error{Class: cancelled(ctx), NotDone: true, Err: ctx.Err()}
}

// cancelled is the class of what a context ended: a deadline is a time-out, a cancellation the caller's own will.
func cancelled(ctx context.Context) backend.Class {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return backend.ClassTimeout
	}
	return backend.ClassOther
}

// failure makes the error of a call that failed.
//
// The engine lives in the process and answers itself, so that a failed statement certainly had no effect. The exception
// is an error of the disk: whether a commit that could not be flushed is in the file is known after the next start.
func (s *session) failure(ctx context.Context, err error) error {
	var known *backend.Error
	if errors.As(err, &known) {
		return known
	}
	if s.verdict.denied != nil && errors.Is(err, sqlite3.AUTH) {
		return s.verdict.denied
	}
	if s.raised != nil && isPlain(err) {
		return s.raised
	}
	var code sqlite3.ExtendedErrorCode
	if !errors.As(err, &code) {
		return &backend.Error{SQLState: "XX000", Severity: "ERROR", Message: message(err), NotDone: true, Err: err}
	}
	// A wait for a lock that the context ends is busy to the engine.
	if ctx.Err() != nil && (code.Code() == sqlite3.INTERRUPT || code.Code() == sqlite3.BUSY) {
		return &backend.Error{
			Class: cancelled(ctx), SQLState: "57014", Severity: "ERROR", Message: "the statement was cancelled", NotDone: true,
			Err: fmt.Errorf("%w: %w", ctx.Err(), err),
		}
	}
	e := &backend.Error{Severity: "ERROR", Message: message(err), NotDone: code.Code() != sqlite3.IOERR, Err: err}
	e.Class, e.SQLState = classify(code)
	refine(e, code)
	return e
}

// classify maps result codes to the nearest SQLSTATE.
func classify(code sqlite3.ExtendedErrorCode) (backend.Class, string) {
	switch code {
	case sqlite3.CONSTRAINT_UNIQUE, sqlite3.CONSTRAINT_PRIMARYKEY, sqlite3.CONSTRAINT_ROWID:
		return backend.ClassIntegrity, "23505"
	case sqlite3.CONSTRAINT_FOREIGNKEY:
		return backend.ClassIntegrity, "23503"
	case sqlite3.CONSTRAINT_NOTNULL:
		return backend.ClassIntegrity, "23502"
	case sqlite3.CONSTRAINT_CHECK, sqlite3.CONSTRAINT_DATATYPE:
		return backend.ClassIntegrity, "23514"
	}
	switch code.Code() {
	case sqlite3.ERROR:
		return backend.ClassOther, "42601"
	case sqlite3.CONSTRAINT:
		return backend.ClassIntegrity, "23000"
	case sqlite3.BUSY, sqlite3.LOCKED, sqlite3.PROTOCOL, sqlite3.SCHEMA:
		return backend.ClassRetryable, "40001"
	case sqlite3.READONLY:
		return backend.ClassReadOnly, "25006"
	case sqlite3.INTERRUPT:
		return backend.ClassTimeout, "57014"
	case sqlite3.FULL:
		return backend.ClassOther, "53100"
	case sqlite3.NOMEM:
		return backend.ClassOther, "53200"
	case sqlite3.TOOBIG:
		return backend.ClassOther, "54000"
	case sqlite3.MISMATCH:
		return backend.ClassOther, "42804"
	case sqlite3.RANGE:
		return backend.ClassOther, "42P02"
	case sqlite3.PERM, sqlite3.AUTH:
		return backend.ClassOther, "42501"
	case sqlite3.IOERR:
		return backend.ClassOther, "58030"
	case sqlite3.CANTOPEN:
		return backend.ClassOther, "58P01"
	case sqlite3.CORRUPT, sqlite3.NOTADB:
		return backend.ClassOther, "XX001"
	}
	return backend.ClassOther, "XX000"
}

// refine tells errors apart for which SQLite has one code, by the beginning of its message, and takes names out of it.
// The engine is compiled into the program and speaks one language; a message that is not known changes nothing, and the
// class never depends on it.
func refine(e *backend.Error, code sqlite3.ExtendedErrorCode) {
	switch {
	case code == sqlite3.CONSTRAINT_TRIGGER && e.Message == "FOREIGN KEY constraint failed":
		e.SQLState = "23503" // ON DELETE RESTRICT is a trigger to SQLite
	case e.Class == backend.ClassIntegrity:
		name(e, code)
	case code.Code() != sqlite3.ERROR:
	case strings.HasPrefix(e.Message, "table ") && strings.Contains(e.Message, " has no column named "):
		e.SQLState = "42703"
	case strings.HasSuffix(e.Message, " already exists"):
		e.SQLState = "42P07"
	default:
		for prefix, state := range unknown {
			if strings.HasPrefix(e.Message, prefix) {
				e.SQLState = state
			}
		}
	}
}

var unknown = map[string]string{
	"no such table":              "42P01",
	"no such view":               "42P01",
	"no such column":             "42703",
	"no such function":           "42883",
	"no such index":              "42704",
	"no such trigger":            "42704",
	"no such collation sequence": "42704",
}

// name fills in the names that a constraint's message ends with:
//
//	UNIQUE constraint failed: loan.book_id, loan.reader_id
//	UNIQUE constraint failed: index 'loan_book_id_key'
//	NOT NULL constraint failed: loan.book_id
//	CHECK constraint failed: loan_days_check
func name(e *backend.Error, code sqlite3.ExtendedErrorCode) {
	_, names, found := strings.Cut(e.Message, " constraint failed: ")
	if !found {
		return
	}
	if index, ok := strings.CutPrefix(names, "index '"); ok {
		e.Constraint = strings.TrimSuffix(index, "'")
		return
	}
	if code == sqlite3.CONSTRAINT_CHECK {
		e.Constraint = names
		return
	}
	columns := strings.Split(names, ", ")
	var column string
	e.Table, column, _ = strings.Cut(columns[0], ".")
	if len(columns) == 1 {
		e.Column = column
	}
}

// message is the engine's message without the general text of its code in front.
func message(err error) string {
	text := err.Error()
	var code sqlite3.ErrorCode
	if errors.As(err, &code) {
		if rest, ok := strings.CutPrefix(text, code.Error()+": "); ok {
			return rest
		}
	}
	return strings.TrimPrefix(text, "sqlite3: ")
}
