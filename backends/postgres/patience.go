package postgres

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hare-go/hare/hare/backend"
)

// # Giving up on an answer ends nothing
//
// When a statement's deadline passes, pgx closes the connection and sends a CancelRequest first. For an ordinary statement
// that is right: nobody wants its result any more. For one that ends a transaction it is not. A COMMIT, PREPARE
// TRANSACTION or COMMIT PREPARED that waits for its synchronous standby is done already; a cancel ends only the wait, and
// what no standby has becomes visible (PostgreSQL documentation, Synchronous Replication). A failover then undoes what
// others have acted on. So no CancelRequest goes out for what [conn.Control] sends: giving up leaves the server alone.
//
// Others can end the wait too: an administrator's pg_cancel_backend, and a statement_timeout during COMMIT PREPARED. The
// server then reports success with a warning. hare takes that warning for what it is: the outcome is not durable where
// it was asked to be, and is treated as unknown.

// line is what one connection keeps of this.
type line struct {
	dial    pgconn.DialFunc
	patient atomic.Bool // what runs, or ran last, is not to be cancelled
	alone   bool        // the server has given up waiting for its standby; only its connection's user reads or writes it
}

// lineKey is where a connection's line is found in pgx's custom data.
const lineKey = "hare line"

var errPatient = errors.New("what ends a transaction is not cancelled")

// DialContext dials for the connection itself, and for the CancelRequest that pgx sends on a connection of its own.
func (l *line) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if l.patient.Load() {
		return nil, errPatient
	}
	return l.dial(ctx, network, address)
}

// withLine gives the configuration of one connection a line.
func withLine(config *pgx.ConnConfig) {
	l := &line{dial: config.DialFunc}
	config.DialFunc = l.DialContext
	connected := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, pg *pgconn.PgConn) error {
		pg.CustomData()[lineKey] = l
		if connected == nil {
			return nil
		}
		return connected(ctx, pg)
	}
}

func lineOf(pg *pgconn.PgConn) *line {
	l, ok := pg.CustomData()[lineKey].(*line)
	if !ok {
		l = &line{} // of a connection that hare opens to look at the way, and never ends a transaction on
	}
	return l
}

// noticed is pgx's hook for what the server says beside its answers. The name of the function in the server that raised it
// is the same in every language.
func noticed(pg *pgconn.PgConn, notice *pgconn.Notice) {
	if notice.Routine == "SyncRepWaitForLSN" {
		lineOf(pg).alone = true
	}
}

// patiently sends one message of the simple protocol that is never cancelled. Only a refusal that no pooler makes up is
// certain to have undone it.
func patiently(ctx context.Context, pg *pgconn.PgConn, sql string) (backend.Answer, error) {
	l := lineOf(pg)
	l.alone = false
	l.patient.Store(true)
	answer, err := simple(ctx, pg, sql)
	if !pg.IsClosed() { // else pgx may be about to send its CancelRequest
		l.patient.Store(false)
	}
	if err == nil && l.alone {
		err = &backend.Error{Severity: "WARNING", SQLState: "01000", Err: backend.ErrUnreplicated}
	}
	return answer, ending(err)
}

// ending is the error of a statement that may have ended a transaction. A pooler that has lost its server answers with
// classes 08, 57, 58 or XX, as an ERROR and with the connection ready for more, whatever became of the statement.
func ending(err error) error {
	var answer *backend.Error
	if !errors.As(err, &answer) || !answer.NotDone || !madeUp(answer.SQLState) {
		return err
	}
	doubtful := *answer
	doubtful.NotDone = false
	return &doubtful
}

// madeUp reports whether a pooler may have made an answer of this SQLSTATE up: connection exceptions, operator
// intervention, system errors and internal errors.
func madeUp(code string) bool {
	if len(code) != 5 {
		return false
	}
	switch code[:2] {
	case "08", "57", "58", "XX":
		return true
	}
	return false
}
