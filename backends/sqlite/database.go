package sqlite

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3/vfs/mvcc"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
)

// database is one configured database with its pool.
type database struct {
	alias   string
	path    string // as the URL has it, for messages
	uri     string // as SQLite takes it
	memory  string // the memory database's name; empty for a file
	options options

	slots chan struct{} // holds a token for each connection of the pool that is in use

	mu     sync.Mutex
	idle   []*session // the one used last is taken first: its cache is the warmest
	closed bool
}

func newDatabase(alias, path string, o options) (*database, error) {
	d := &database{alias: alias, path: path, options: o, slots: make(chan struct{}, o.maxSize)}
	if path != inMemory {
		d.uri = fileURI(path, o.mode)
		return d, nil
	}
	if o.mode == "ro" {
		return nil, &backend.OptionError{Option: "mode", Reason: "is ro, and a memory database begins empty: there would be nothing to read"}
	}
	// The name holds the database alive while no connection is open.
	d.memory = "hare-" + rand.Text()
	d.uri = "file:/" + d.memory + "?vfs=mvcc"
	mvcc.Create(d.memory, mvcc.Snapshot{})
	return d, nil
}

// Features is what SQLite can do.
func (d *database) Features() features.Features { return supported }

// Dialect is how SQLite spells what hare says.
func (d *database) Dialect() backend.Dialect { return dialect{alias: d.alias} }

// Acquire takes a connection from the pool.
func (d *database) Acquire(ctx context.Context) (backend.Conn, error) {
	if err := d.slot(ctx); err != nil {
		return nil, err
	}
	s, err := d.reuse()
	if err == nil && s == nil {
		s, err = d.open(ctx)
	}
	if err != nil {
		<-d.slots
		return nil, err
	}
	return &conn{session: s, database: d, pooled: true}, nil
}

// Dial opens a connection outside the pool.
func (d *database) Dial(ctx context.Context) (backend.Conn, error) {
	if d.isClosed() {
		return nil, errClosed
	}
	s, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{session: s, database: d}, nil
}

// Close closes the pool and its idle connections. It does not wait for connections in use.
func (d *database) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.closed = true
	for _, s := range d.idle {
		s.close()
	}
	d.idle = nil
	if d.memory != "" {
		mvcc.Delete(d.memory)
	}
}

// slot waits for the right to have one more connection of the pool.
func (d *database) slot(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return unsent(ctx)
	}
	select {
	case d.slots <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(d.options.acquireTimeout)
	defer timer.Stop()
	select {
	case d.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return unsent(ctx)
	case <-timer.C:
		return &backend.Error{
			Class:   backend.ClassPool,
			Message: fmt.Sprintf("no connection became free within %v: all %d are in use", d.options.acquireTimeout, cap(d.slots)),
			NotDone: true,
		}
	}
}

// reuse takes an idle connection, nil if there is none.
func (d *database) reuse() (*session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errClosed
	}
	last := len(d.idle) - 1
	if last < 0 {
		return nil, nil
	}
	s := d.idle[last]
	d.idle[last] = nil
	d.idle = d.idle[:last]
	return s, nil
}

// giveBack keeps a connection of the pool for the next caller, or closes it.
func (d *database) giveBack(s *session) {
	d.mu.Lock()
	kept := s.status() == backend.StatusIdle && !s.soiled && !d.closed
	if kept {
		d.idle = append(d.idle, s)
	}
	d.mu.Unlock()
	if !kept {
		s.close()
	}
	<-d.slots
}

func (d *database) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}
