package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hare-go/hare/hare/backend"
)

// A statement that is prepared, or described, on a connection goes out of date there: DDL changes the types of its
// parameters and columns, DEALLOCATE ALL makes the server forget it. A plan that is kept prepared refuses to change its
// result; one that is parsed with each run simply gives other columns, which rows.go notices before a value is read. What a
// changed parameter leads to cannot be told from a mistake in the arguments, except by describing the statement anew.

// errChanged says that a statement ran and gave columns for which its arguments' forms were not asked for.
var errChanged = errors.New("the statement's columns have changed since it was described")

// again runs a call, and once more if it failed only because its statement was out of date. The first run then had no
// effect, except that it has spoiled the transaction if there is one; where it did run, it is run again only if hare knows
// that it merely reads.
func again[T any](ctx context.Context, s *session, call backend.Call, run func(backend.Call) (T, error)) (T, error) {
	before := s.statements.byText[call.SQL]
	result, err := run(call)
	if err == nil {
		return result, nil
	}
	switch {
	case errors.Is(err, errChanged):
		if !call.ReadOnly {
			return result, err
		}
		call.Before = nil // they have run
		return run(call)
	case forgotten(err):
		s.statements.retire(call.SQL)
		s.estranged(ctx)
	case before == nil || !doubtful(err):
		return result, err
	default:
		s.statements.retire(call.SQL)
	}
	if len(call.Before) > 0 || s.status() != backend.StatusIdle {
		return result, err
	}
	if before != nil && !forgotten(err) {
		now, failed := s.prepare(ctx, call.SQL, nil)
		if failed != nil || now.same(before) {
			return result, err
		}
	}
	return run(call)
}

// same reports whether two descriptions have the same parameters and columns.
func (st *statement) same(other *statement) bool {
	return slices.Equal(st.ParamOIDs, other.ParamOIDs) && st.gives(other.Fields)
}

// gives reports whether the columns are those that the statement was described with.
func (st *statement) gives(fields []pgconn.FieldDescription) bool {
	if len(fields) != len(st.Fields) {
		return false
	}
	for i := range fields {
		if fields[i].DataTypeOID != st.Fields[i].DataTypeOID || fields[i].Name != st.Fields[i].Name {
			return false
		}
	}
	return true
}

// forgotten reports whether the server did not know a prepared statement, or had another one of its name.
func forgotten(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && backend.NotDone(err) && (refused.Code == "26000" || refused.Code == "42P05")
}

// doubtful reports whether a statement may have failed because of its age. 0A000 alone is every unsupported feature; the name
// of the function in the server that raised it tells them apart in every language. 08P01 is a Bind for another number of
// columns. Class 22 is data that does not fit, class 42 an expression whose types do not.
func doubtful(err error) bool {
	if errors.Is(err, errArgument) {
		return true
	}
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || severity(refused) != "ERROR" || len(refused.Code) != 5 {
		return false
	}
	switch refused.Code {
	case "0A000":
		return refused.Routine == "RevalidateCachedQuery"
	case "08P01":
		return true
	}
	return refused.Code[:2] == "22" || refused.Code[:2] == "42"
}
