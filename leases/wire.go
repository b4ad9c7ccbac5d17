package leases

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/serverview"
)

const (
	// mostConnections is how many messages of a process to one database are under way at once: as many of those that may wait
	// for the lock of a row, and as many of the others, so that rows that are locked cost no other lease its renewals.
	mostConnections = 2
	// endTimeout bounds ending a server process that was given up.
	endTimeout = 5 * time.Second
)

// wire sends the messages of all leases of a process on one database, over connections of its own: a pool that is used up
// must not cost anybody a lease. Each message is a whole transaction, so that whatever happens to the client none is left
// open.
type wire struct {
	alias string
	db    backend.Database
	known atomic.Bool            // the table is there, and hare's
	turns map[bool]chan struct{} // by whether it is prompt, an entry for each message under way

	mu     sync.Mutex
	idle   backend.Conn // kept for the next message, or nil
	closed bool
	home   home           // where the leases are, as far as it is known
	ending sync.WaitGroup // of server processes that were given up
}

func newWire(alias string, db backend.Database) *wire {
	return &wire{alias: alias, db: db, turns: map[bool]chan struct{}{
		true: make(chan struct{}, mostConnections), false: make(chan struct{}, mostConnections),
	}}
}

// send sends one message and returns the first row that its statements give. Its transaction is committed when there is no
// error. Where the error does not say that nothing was done, it may have been, or may yet be.
func (w *wire) send(ctx context.Context, g guards, statements ...string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, g.stall)
	defer cancel()
	turns := w.turns[g.prompt]
	select {
	case turns <- struct{}{}:
	case <-ctx.Done():
		return nil, hare.ErrorFrom(w.alias, "", &backend.Error{Class: backend.ClassTimeout, NotDone: true, Err: ctx.Err(),
			Message: fmt.Sprintf("%d other messages about leases are under way", mostConnections)})
	}
	defer func() { <-turns }()
	conn, err := w.take()
	if err != nil {
		return nil, err
	}
	if conn != nil {
		row, err := w.sendOn(ctx, conn, g, statements)
		// A connection that was kept may have been closed by the server meanwhile. All messages may be sent twice: the
		// second one finds what the first has done.
		if err == nil || conn.Status() != backend.StatusClosed || ctx.Err() != nil {
			w.give(conn)
			return row, err
		}
		w.give(conn)
	}
	if conn, err = w.db.Dial(ctx); err != nil {
		return nil, hare.ErrorFrom(w.alias, "", err)
	}
	row, err := w.sendOn(ctx, conn, g, statements)
	w.give(conn)
	return row, err
}

// sendOn sends the message on a connection.
func (w *wire) sendOn(ctx context.Context, conn backend.Conn, g guards, statements []string) ([]string, error) {
	name := "hare_lease:" + strings.ToLower(rand.Text()[:20])
	message, home := g.begin(name), w.where()
	if home.oid != "" {
		message = append(message, home.proveSQL())
	}
	message = append(message, statements...)
	answer, err := conn.Control(ctx, append(message, "COMMIT")...)
	if err == nil && answer.Tag != "COMMIT" {
		err = &backend.Error{Message: "the server answered COMMIT with " + answer.Tag, NotDone: true}
	}
	if err == nil {
		return answer.Row, nil
	}
	if conn.Status() != backend.StatusClosed {
		if _, rolling := conn.Control(ctx, "ROLLBACK"); rolling != nil {
			conn.Discard()
		}
	} else if !backend.NotDone(err) {
		w.end(name)
	}
	if err = hare.ErrorFrom(w.alias, "", err); home.oid != "" && backend.SQLState(err) == elsewhereState { // the statements have names and tokens in them
		err = &ElsewhereError{Alias: w.alias, Err: err}
	}
	return nil, err
}

// end ends, in the background, the server process that works on a message whose answer was given up. It is found by a name
// that no other message has; a process id may be somebody else's by now. Mostly there is none any more.
//
// Only one that waits for a lock, for some time or for its client is ended, which could go on for long. One that commits is
// left alone: where it waits for a synchronous standby, its end would make visible what no standby has.
func (w *wire) end(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.ending.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		conn, err := w.db.Dial(ctx)
		if err != nil {
			return // the guards on the server end it
		}
		defer conn.Release()
		_, err = conn.Control(ctx, endSQL(name))
		if err != nil {
			conn.Discard()
		}
	})
}

// take is the connection that was kept, or nil.
func (w *wire) take() (backend.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, &hare.QueryError{Reason: "the connections are closed"}
	}
	conn := w.idle
	w.idle = nil
	return conn, nil
}

// give keeps the connection for the next message, or closes it.
func (w *wire) give(conn backend.Conn) {
	w.mu.Lock()
	if w.idle == nil && !w.closed && conn.Status() == backend.StatusIdle {
		w.idle = conn
		conn = nil
	}
	w.mu.Unlock()
	if conn != nil {
		conn.Release()
	}
}

// close closes the connection that is kept, and lets no more messages through.
func (w *wire) close() {
	w.mu.Lock()
	w.closed = true
	conn := w.idle
	w.idle = nil
	w.mu.Unlock()
	if conn != nil {
		conn.Release()
	}
	w.ending.Wait()
}

// blockers asks, as well as it can, who has the table in use.
func (w *wire) blockers(ctx context.Context, g guards) (list []string) {
	row, err := w.send(ctx, g, blockersSQL)
	if err != nil || len(row) != 1 || json.Unmarshal([]byte(row[0]), &list) != nil {
		return nil // nobody is known to block, then
	}
	for i, form := range list {
		list[i] = strings.ToValidUTF8(serverview.Text(form), "\uFFFD")
	}
	slices.Sort(list)
	return slices.DeleteFunc(list, func(who string) bool { return who == "" }) // it has ended meanwhile
}
