package session

import (
	"context"
	"sync"

	"github.com/hare-go/hare/hare/backend"
)

// levelRows gives the level's turn back when the rows are closed.
type levelRows struct {
	backend.Rows
	level  *Level
	call   backend.Call
	cancel context.CancelFunc

	mu      sync.Mutex // held while the connection is read
	closed  bool
	dropped error // why the rows ended although nobody closed them
}

// Next moves to the next row.
func (r *levelRows) Next() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped == nil && r.Rows.Next()
}

// Err is the error that ended the rows.
func (r *levelRows) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropped != nil {
		return r.dropped
	}
	return r.Rows.Err()
}

// Close ends the query and lets the next statement run.
func (r *levelRows) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropped != nil {
		return r.dropped
	}
	err := r.Rows.Close()
	if !r.closed {
		r.level.note(&r.call, err)
		r.end()
	}
	return err
}

func (r *levelRows) end() {
	r.closed = true
	r.cancel()
	r.level.setStreaming(nil)
	r.level.give()
}

// dropRows ends rows that are still open at the end of their level. Nobody may ever close them: a panic in the middle of a
// loop leaves them behind. Their transaction would keep its locks and its place in the pool for ever, so its connection
// is closed, which rolls it back. Rows that another goroutine is reading at this moment are left to it.
func (l *Level) dropRows() {
	l.mu.Lock()
	rows := l.streaming
	l.mu.Unlock()
	if rows == nil || !rows.mu.TryLock() {
		return
	}
	defer rows.mu.Unlock()
	if rows.closed {
		return
	}
	s := l.session
	rows.dropped = s.stateError("rows of it were still open at its end: read them to the end or close them", nil)
	if s.failure == nil {
		s.failure = rows.dropped
	}
	s.conn.Discard()
	rows.end()
}
