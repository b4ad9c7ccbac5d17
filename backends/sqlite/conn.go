package sqlite

import (
	"context"
	"sync/atomic"

	"github.com/hare-go/hare/hare/backend"
)

// conn is a session for as long as its caller has it.
type conn struct {
	*session
	database *database
	pooled   bool
	busy     atomic.Bool // a call is running or its rows are open
	returned bool
}

// Exec runs the call and returns the number of rows that it wrote. A call without arguments may have several statements
// in its SQL, separated by semicolons, which take effect together; the rows of all are counted.
func (c *conn) Exec(ctx context.Context, call backend.Call) (int64, error) {
	if err := c.enter(); err != nil {
		return 0, err
	}
	defer c.leave()
	return c.session.exec(ctx, call)
}

// Query runs the call and returns its rows.
func (c *conn) Query(ctx context.Context, call backend.Call) (backend.Rows, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	r, err := c.session.query(ctx, call)
	if err != nil {
		c.leave()
		return nil, err
	}
	if r.done { // there was no row
		c.leave()
	} else {
		r.conn = c
	}
	return r, nil
}

// Control runs statements that manage transactions, one after the other.
func (c *conn) Control(ctx context.Context, statements ...string) (backend.Answer, error) {
	if err := c.enter(); err != nil {
		return backend.Answer{}, err
	}
	defer c.leave()
	return c.session.control(ctx, statements)
}

// Setting is empty: SQLite reports no settings.
func (c *conn) Setting(string) string { return "" }

// Status is the transaction status after the last statement.
func (c *conn) Status() backend.Status {
	if c.returned {
		return backend.StatusClosed
	}
	return c.session.status()
}

// Release gives the connection back to the pool, which keeps it only if it is idle and whole, or closes it. A
// transaction that is still open is rolled back.
func (c *conn) Release() {
	switch {
	case c.returned:
	case c.busy.Load():
		c.Discard() // rows are open, and the statement with them
	case !c.pooled:
		c.Discard()
	default:
		c.returned = true
		c.database.giveBack(c.session)
	}
}

// Discard closes the connection.
func (c *conn) Discard() {
	if c.returned {
		return
	}
	c.returned = true
	c.session.close()
	if c.pooled {
		<-c.database.slots
	}
}

// enter claims the connection for one call.
func (c *conn) enter() error {
	if c.returned {
		return errBack
	}
	if !c.busy.CompareAndSwap(false, true) {
		return errBusy
	}
	return nil
}

func (c *conn) leave() { c.busy.Store(false) }
