package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/hare-go/hare/hare/backend"
)

// session is what belongs to one server session for as long as it lives, whoever has the connection.
type session struct {
	pg         *pgconn.PgConn
	types      *pgtype.Map
	statements statements
	arguments  arguments
}

// sessionKey is where a connection's session is found in pgx's custom data.
const sessionKey = "hare"

// sessionOf is the connection's session.
func sessionOf(c *pgx.Conn, capacity int64) *session {
	pg := c.PgConn()
	if s, ok := pg.CustomData()[sessionKey].(*session); ok {
		return s
	}
	s := &session{pg: pg, types: c.TypeMap(), statements: statements{capacity: capacity}}
	pg.CustomData()[sessionKey] = s
	return s
}

// exec runs a call and counts what it wrote.
func (s *session) exec(ctx context.Context, call backend.Call) (int64, error) {
	if call.Batch == nil && len(call.Args) == 0 {
		return s.execSimple(ctx, call)
	}
	return again(s, call, func(before []string, fresh *bool) (int64, error) {
		a, err := s.send(ctx, call, before, fresh)
		if err != nil {
			return 0, err
		}
		var written int64
		for a.next() {
			tag, err := a.reader.Close()
			if err != nil {
				break
			}
			written += writtenBy(tag)
		}
		if err := a.close(); err != nil {
			return 0, err
		}
		return written, nil
	})
}

// query runs a call and positions its rows before the first.
func (s *session) query(ctx context.Context, call backend.Call) (*rows, error) {
	return again(s, call, func(before []string, fresh *bool) (*rows, error) {
		a, err := s.send(ctx, call, before, fresh)
		if err != nil {
			return nil, err
		}
		r := &rows{answers: a}
		// Reading the first row here shows whether the statement failed while it can still be run again.
		r.ahead = r.advance()
		if r.err != nil {
			return nil, r.err
		}
		return r, nil
	})
}

// execSimple runs SQL without arguments by the simple protocol: nothing is prepared for what mostly runs once, and the
// SQL may be several statements.
func (s *session) execSimple(ctx context.Context, call backend.Call) (int64, error) {
	results := s.pg.Exec(ctx, joined(append(call.Before[:len(call.Before):len(call.Before)], call.SQL)))
	var written int64
	done := 0
	for results.NextResult() {
		tag, err := results.ResultReader().Close()
		if err != nil {
			break
		}
		if done++; done > len(call.Before) {
			written += writtenBy(tag)
		}
	}
	switch err := results.Close(); {
	case err == nil:
		return written, nil
	case done < len(call.Before):
		return 0, ahead(call.Before[done], err)
	default:
		return 0, failure(err)
	}
}

// again runs a call, and once more if it failed only because the server's plan of the prepared statement is out of
// date: after DDL the plan may not change its result type, and DEALLOCATE or a pooler may have dropped it. The first run
// had no effect then, but in a transaction it has spoiled the transaction.
func again[T any](s *session, call backend.Call, run func(before []string, fresh *bool) (T, error)) (T, error) {
	var fresh bool
	result, err := run(call.Before, &fresh)
	if err == nil || fresh || !outdated(err) {
		return result, err
	}
	if st := s.statements.get(call.SQL); st != nil {
		s.statements.retire(st)
	}
	if len(call.Before) > 0 || backend.Status(s.pg.TxStatus()) != backend.StatusIdle || s.pg.IsClosed() {
		return result, err
	}
	return run(nil, &fresh)
}

// outdated reports whether the server refused to run a prepared statement because of its age. 0A000 alone is every
// unsupported feature; the name of the server's function tells them apart in every language.
func outdated(err error) bool {
	refused := refusal(err)
	return refused != nil && (refused.Code == "26000" || refused.Code == "0A000" && refused.Routine == "RevalidateCachedQuery")
}

// writtenBy is the number of rows that a command wrote. Reading commands have a number too.
func writtenBy(tag pgconn.CommandTag) int64 {
	if tag.Insert() || tag.Update() || tag.Delete() || strings.HasPrefix(tag.String(), "MERGE") {
		return tag.RowsAffected()
	}
	return 0
}
