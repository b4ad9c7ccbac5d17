package postgres

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hare-go/hare/hare/backend"
)

// conn is a session for as long as its caller has it.
type conn struct {
	*session
	pooled   *pgxpool.Conn // the connection of the pool of
	database *database     // this database, or
	own      *pgx.Conn     // a connection of its own
	busy     atomic.Bool   // a call is running or its rows are open
	returned bool
}

// Exec runs the call and returns the number of rows that it wrote. A call without arguments may have several statements
// in its SQL, separated by semicolons; the rows of all are counted.
func (c *conn) Exec(ctx context.Context, call backend.Call) (int64, error) {
	if call.Session != "" && c.shared {
		return 0, needsSession(call.Session)
	}
	if err := c.enter(); err != nil {
		return 0, err
	}
	defer c.leave()
	c.soiled = c.soiled || call.Lasting
	written, err := c.session.exec(ctx, call)
	if err != nil {
		return 0, err
	}
	if call.Session == "DEALLOCATE" || call.Session == "DISCARD" {
		c.statements.forget()
	}
	return written, nil
}

// Query runs the call and returns its rows.
func (c *conn) Query(ctx context.Context, call backend.Call) (backend.Rows, error) {
	if call.Session != "" && c.shared {
		return nil, needsSession(call.Session)
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	c.soiled = c.soiled || call.Lasting
	r, err := c.session.query(ctx, call)
	if err != nil {
		c.leave()
		return nil, err
	}
	if r.landed { // it has no rows
		c.leave()
	} else {
		r.leave = c.leave
	}
	return r, nil
}

// Control runs statements that manage transactions, in one message of the simple protocol.
func (c *conn) Control(ctx context.Context, statements ...string) (backend.Answer, error) {
	if err := c.enter(); err != nil {
		return backend.Answer{}, err
	}
	defer c.leave()
	if len(statements) == 0 {
		return backend.Answer{}, nil
	}
	return patiently(ctx, c.pg, joined(statements))
}

// simple sends one message of the simple protocol.
func simple(ctx context.Context, pg *pgconn.PgConn, sql string) (backend.Answer, error) {
	results := pg.Exec(ctx, sql)
	var answer backend.Answer
	for results.NextResult() {
		reader := results.ResultReader()
		for reader.NextRow() {
			if answer.Row == nil {
				answer.Row = asText(reader.Values())
			}
		}
		if tag, err := reader.Close(); err == nil {
			answer.Tag = command(tag.String())
		}
	}
	if err := results.Close(); err != nil {
		return backend.Answer{}, failure(err)
	}
	return answer, nil
}

// asText copies a row of the simple protocol, whose values are text.
func asText(values [][]byte) []string {
	row := make([]string, len(values))
	for i, value := range values {
		row[i] = string(value)
	}
	return row
}

// command is a tag without its counts.
func command(tag string) string { return strings.TrimRight(tag, " 0123456789") }

// Status is the transaction status after the last answer of the server.
func (c *conn) Status() backend.Status {
	if c.returned {
		return backend.StatusClosed
	}
	return c.session.status()
}

// Setting is what the server last reported of a setting.
func (c *conn) Setting(name string) string { return c.pg.ParameterStatus(name) }

// abandonTime is how long a connection that was given up keeps its place in the pool, while it tells the server so.
const abandonTime = time.Second

// Release gives the connection back to the pool, which keeps it only if it is idle and whole, or closes it.
func (c *conn) Release() {
	if c.returned {
		return
	}
	c.returned = true
	// DISCARD ALL behind a pooler would clean a stranger's session.
	if c.pooled != nil && c.soiled && !c.shared && c.reusable() && c.clean() != nil {
		closeAtOnce(c.pooled.Conn())
	}
	if c.pooled != nil && c.pooled.Conn().IsClosed() {
		// pgxpool would keep the place until the connection is cleaned up, which takes 15 seconds where the network
		// swallows everything, and let the next caller wait for it without a bound.
		c.database.abandon(c.pooled.Hijack())
		return
	}
	if c.pooled != nil {
		c.pooled.Release()
		<-c.database.inUse
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	_ = c.own.Close(ctx) // the socket is closed whatever the error
}

// Discard closes the connection without waiting for the server.
func (c *conn) Discard() {
	if c.returned {
		return
	}
	c.returned = true
	own := c.own
	if c.pooled != nil {
		own = c.pooled.Hijack()
		<-c.database.inUse
	}
	closeAtOnce(own)
}

// closeAtOnce closes a connection without waiting for the server: a context that is done makes pgx close the socket.
func closeAtOnce(c *pgx.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Close(ctx)
}

// enter claims the connection for one call.
func (c *conn) enter() error {
	if c.returned {
		return &backend.Error{Class: backend.ClassConnection, Message: "the connection has been given back", NotDone: true}
	}
	if !c.busy.CompareAndSwap(false, true) {
		return unsent("the connection is busy: the rows of its last query are not closed, or another goroutine is using it")
	}
	return nil
}

func (c *conn) leave() { c.busy.Store(false) }

// joined makes one message of several statements. A statement that ends in a comment cannot swallow the next.
func joined(statements []string) string {
	if len(statements) == 1 {
		return statements[0]
	}
	return strings.Join(statements, "\n;")
}
