package postgres

import (
	"cmp"
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hare-go/hare/hare/backend"
)

// session is what belongs to one server session for as long as it lives, whoever has the connection.
type session struct {
	pg         *pgconn.PgConn
	wire       *wire
	database   *database
	statements statements
	arguments  arguments
	soiled     bool // a statement may have left something that the next user must not find

	// What follows from the way to the server, said anew to each user of the connection.
	shared  bool // the server's session may be another one for each transaction
	unnamed bool // statements are not kept prepared: each run has its Parse with it
}

// sessionKey is where a connection's session is found in pgx's custom data.
const sessionKey = "hare"

// session is the connection's session, which it has come to by the way w.
func (d *database) session(c *pgx.Conn, w *way) *session {
	pg := c.PgConn()
	s, ok := pg.CustomData()[sessionKey].(*session)
	if !ok {
		s = &session{
			pg:         pg,
			wire:       wireOf(pg),
			statements: statements{capacity: d.options.statements, prefix: newPrefix()},
			arguments:  arguments{types: c.TypeMap()},
			database:   d,
		}
		pg.CustomData()[sessionKey] = s
	}
	s.shared = w.shared()
	s.unnamed = s.shared || d.options.statements == 0
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
	if err := s.unguarded(); err != nil {
		return 0, err
	}
	if call.Batch == nil && len(call.Args) == 0 {
		return s.execSimple(ctx, call)
	}
	return again(ctx, s, call, func(call backend.Call) (int64, error) {
		f, err := s.send(ctx, call)
		if err != nil {
			return 0, err
		}
		var written int64
		for f.next() {
			written += writtenBy(f.close())
		}
		if err := f.land(); err != nil {
			return 0, err
		}
		return written, nil
	})
}

// query runs a call and positions its rows before the first.
func (s *session) query(ctx context.Context, call backend.Call) (*rows, error) {
	if err := s.unguarded(); err != nil {
		return nil, err
	}
	return again(ctx, s, call, func(call backend.Call) (*rows, error) {
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
	done, ran := 0, ""
	for results.NextResult() {
		tag, err := results.ResultReader().Close()
		if err != nil {
			break
		}
		if done++; done > len(before) {
			written += writtenBy(tag)
			ran = cmp.Or(ran, controlled(tag))
		}
	}
	switch err := results.Close(); {
	case ran != "":
		return 0, backend.Control(ran, err)
	case err == nil:
		return written, nil
	case done < len(before):
		return 0, ahead(before[done], err)
	default:
		return 0, failure(err)
	}
}

// controlled is the tag of a statement that began or ended a transaction or a savepoint, and empty for all others. A call of the
// program's has none, by the check of its text; the server, which reads it with the eyes that count, confirms that here.
func controlled(tag pgconn.CommandTag) string {
	switch name := tag.String(); name {
	case "COMMIT", "ROLLBACK", "BEGIN", "START TRANSACTION", "SAVEPOINT", "RELEASE", "PREPARE TRANSACTION":
		return name
	}
	return ""
}

// writtenBy is the number of rows that a command wrote. Reading commands have a number too.
func writtenBy(tag pgconn.CommandTag) int64 {
	if tag.Insert() || tag.Update() || tag.Delete() || strings.HasPrefix(tag.String(), "MERGE") {
		return tag.RowsAffected()
	}
	return 0
}
