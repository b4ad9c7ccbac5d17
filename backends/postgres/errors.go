package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hare-go/hare/hare/backend"
)

// failure makes the error of a statement that failed.
//
// NotDone follows what has been measured of PostgreSQL, poolers and lost answers: the statement certainly had no effect
// if pgx sent nothing, or if the server answered with the severity ERROR. A severity of FATAL does not count: the
// same 57P01 and 08P01 arrive for a COMMIT that is durable and waits for a standby, and for one that never ran. Nor do
// the classes that a pooler makes up when it has lost its server; of them only 57014 counts, which is what a server says
// of a statement that it has cancelled (see patience.go for one that ends a transaction). A time-out and a closed
// connection say nothing at all.
func failure(err error) *backend.Error {
	var known *backend.Error
	if errors.As(err, &known) {
		return known
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return &backend.Error{
			Class:      class(refused.Code),
			SQLState:   refused.Code,
			Severity:   severity(refused),
			Message:    refused.Message,
			Detail:     refused.Detail,
			Constraint: refused.ConstraintName,
			Table:      refused.TableName,
			Column:     refused.ColumnName,
			NotDone:    severity(refused) == "ERROR" && (refused.Code == "57014" || !madeUp(refused.Code)),
			Err:        err,
		}
	}
	e := &backend.Error{Class: backend.ClassConnection, NotDone: pgconn.SafeToRetry(err), Err: err}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		e.Class = backend.ClassTimeout
	case errors.Is(err, context.Canceled):
		e.Class = backend.ClassOther
	}
	return e
}

// notDone is failure for an error that came before the statement was sent.
func notDone(err error) *backend.Error {
	e := *failure(err)
	e.NotDone = true
	return &e
}

// unsent is the error for a statement that this package itself refuses.
func unsent(format string, args ...any) *backend.Error {
	return &backend.Error{Class: backend.ClassOther, Message: fmt.Sprintf(format, args...), NotDone: true}
}

// connectFailure makes the error of a connection that could not be opened for ctx. Nothing was sent on it.
func connectFailure(ctx context.Context, err error) *backend.Error {
	var known *backend.Error
	if refused := distrust(err); refused != nil && !errors.As(err, &known) {
		return refused
	}
	e := notDone(err)
	switch {
	case e.SQLState == "42501": // the role may not connect to the database
		e.Class = backend.ClassLogin
	case e.Class == backend.ClassLogin || e.SQLState == "" && ctx.Err() != nil:
	default:
		e.Class = backend.ClassConnection
	}
	return e
}

// ahead is failure for a control statement that travelled in front of a statement, which then did not run either.
func ahead(control string, err error) *backend.Error {
	e := *failure(err)
	cause := e.Message
	if cause == "" {
		cause = err.Error()
	}
	e.Message = fmt.Sprintf("%s, sent ahead of the statement, failed: %s", control, cause)
	return &e
}

// class sorts by SQLSTATE (PostgreSQL documentation, appendix PostgreSQL Error Codes).
func class(code string) backend.Class {
	switch code {
	case "40001", "40P01": // serialization_failure, deadlock_detected
		return backend.ClassRetryable
	case "55P03", "57014", "25P03", "25P04": // lock_not_available, query_canceled, idle and transaction time-outs
		return backend.ClassTimeout
	case "25006": // read_only_sql_transaction
		return backend.ClassReadOnly
	case "25P02": // in_failed_sql_transaction
		return backend.ClassAborted
	case "3D000": // invalid_catalog_name
		return backend.ClassLogin
	case "40002": // transaction_integrity_constraint_violation
		return backend.ClassIntegrity
	}
	if len(code) != 5 {
		return backend.ClassOther
	}
	switch {
	case code[:2] == "23":
		return backend.ClassIntegrity
	case code[:2] == "28":
		return backend.ClassLogin
	case code[:2] == "08", code[:4] == "57P0", code == "53300": // 53300: too_many_connections
		return backend.ClassConnection
	}
	return backend.ClassOther
}

// severity is the severity in English, whatever language the server speaks.
func severity(e *pgconn.PgError) string {
	if e.SeverityUnlocalized != "" {
		return e.SeverityUnlocalized
	}
	return e.Severity
}

// endsSession reports whether the server closes the connection after the error.
func endsSession(e *pgconn.PgError) bool {
	return severity(e) == "FATAL" || severity(e) == "PANIC"
}
