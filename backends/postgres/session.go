package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hare-go/hare/hare/backend"
)

// session is what belongs to one server session for as long as it lives, whoever has the connection.
type session struct {
	pg         *pgconn.PgConn
	statements statements
	arguments  arguments
	soiled     bool // a statement may have left something that the next user must not find
}

// sessionKey is where a connection's session is found in pgx's custom data.
const sessionKey = "hare"

// sessionOf is the connection's session.
func sessionOf(c *pgx.Conn, capacity int64) *session {
	pg := c.PgConn()
	if s, ok := pg.CustomData()[sessionKey].(*session); ok {
		return s
	}
	s := &session{pg: pg, statements: statements{capacity: capacity}, arguments: arguments{types: c.TypeMap()}}
	pg.CustomData()[sessionKey] = s
	return s
}

// status is the transaction status after the last answer of the server.
func (s *session) status() backend.Status {
	if s.pg.IsClosed() {
		return backend.StatusClosed
	}
	return backend.Status(s.pg.TxStatus())
}

// exec runs a call and counts what it wrote.
func (s *session) exec(ctx context.Context, call backend.Call) (int64, error) {
	if call.Batch == nil && len(call.Args) == 0 {
		return s.execSimple(ctx, call)
	}
	return again(s, call, func() (int64, error) {
		f, err := s.send(ctx, call)
		if err != nil {
			return 0, err
		}
		var written int64
		for f.next() {
			tag, _ := f.reader.Close() // its error is also that of the flight
			written += writtenBy(tag)
		}
		if err := f.land(); err != nil {
			return 0, err
		}
		return written, nil
	})
}

// query runs a call and positions its rows before the first.
func (s *session) query(ctx context.Context, call backend.Call) (*rows, error) {
	return again(s, call, func() (*rows, error) {
		f, err := s.send(ctx, call)
		if err != nil {
			return nil, err
		}
		r := newRows(f)
		// Reading the first row now shows whether the statement failed while it can still be run again.
		if r.ahead = r.advance(); r.err != nil {
			return nil, r.err
		}
		return r, nil
	})
}

// execSimple runs SQL without arguments without preparing it, since it mostly runs once. By the simple protocol it may
// be several statements.
//
// The server parses a whole message of the simple protocol before it runs any of it, so that a mistake in the statement
// would keep the SAVEPOINT ahead of it from being set. Control statements therefore travel ahead by the extended
// protocol in the same round trip, or, with several statements, in a round trip of their own.
func (s *session) execSimple(ctx context.Context, call backend.Call) (int64, error) {
	switch {
	case len(call.Before) == 0:
		return count(s.pg.Exec(ctx, call.SQL), nil)
	case strings.Contains(call.SQL, ";"):
		if _, err := count(s.pg.Exec(ctx, joined(call.Before)), call.Before); err != nil {
			return 0, notDone(err)
		}
		return count(s.pg.Exec(ctx, call.SQL), nil)
	}
	batch := &pgconn.Batch{}
	for _, sql := range call.Before {
		batch.ExecParams(sql, nil, nil, nil, nil)
	}
	batch.ExecParams(call.SQL, nil, nil, nil, nil)
	return count(s.pg.ExecBatch(ctx, batch), call.Before)
}

// count counts what the statements after the control statements before wrote.
func count(results *pgconn.MultiResultReader, before []string) (int64, error) {
	var written int64
	done := 0
	for results.NextResult() {
		tag, err := results.ResultReader().Close()
		if err != nil {
			break
		}
		if done++; done > len(before) {
			written += writtenBy(tag)
		}
	}
	switch err := results.Close(); {
	case err == nil:
		return written, nil
	case done < len(before):
		return 0, ahead(before[done], err)
	default:
		return 0, failure(err)
	}
}

// again runs a call, and once more if it failed only because its prepared statement is out of date: after DDL the
// server may not change a plan's result type, and DEALLOCATE ALL makes it forget the statement. The first run then had no
// effect, except that it has spoiled the transaction if there is one.
func again[T any](s *session, call backend.Call, run func() (T, error)) (T, error) {
	result, err := run()
	if err == nil || !outdated(err) {
		return result, err
	}
	s.statements.retire(call.SQL)
	if len(call.Before) > 0 || s.status() != backend.StatusIdle {
		return result, err
	}
	return run()
}

// writtenBy is the number of rows that a command wrote. Reading commands have a number too.
func writtenBy(tag pgconn.CommandTag) int64 {
	if tag.Insert() || tag.Update() || tag.Delete() || strings.HasPrefix(tag.String(), "MERGE") {
		return tag.RowsAffected()
	}
	return 0
}
