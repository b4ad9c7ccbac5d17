package session

import (
	"context"
	"time"

	"github.com/hare-go/hare/hare/backend"
)

// Outcome is what is known of a statement that ends a transaction. The three are kept apart everywhere: taking Unknown
// for one of the others is how two-phase commits lose data.
type Outcome uint8

// The outcomes.
const (
	Unknown Outcome = iota // the answer was lost; it may have happened, or may still happen
	Done                   // a server confirmed it
	NotDone                // it certainly has not happened and never will
)

// Commit ends the transaction, with the statements of ahead in the same round trip. Only the command tag COMMIT counts
// as Done: a server answers COMMIT in a failed transaction with the tag ROLLBACK and no error.
//
// The connection is given back, or closed when the outcome is Unknown. ctx bounds the wait and the statement; the caller
// decides what may interrupt it.
func (s *Session) Commit(ctx context.Context, ahead ...string) (Outcome, error) {
	_, outcome, err := s.end(ctx, "COMMIT", ahead)
	s.Release()
	return outcome, err
}

// Prepare makes the transaction a prepared one; the last of statements is its PREPARE TRANSACTION. After Done the connection is idle
// and stays with the session, for the second phase, until Release.
// Statements before it may return one row, which is the result.
func (s *Session) Prepare(ctx context.Context, statements ...string) (row []string, outcome Outcome, err error) {
	return s.end(ctx, "PREPARE TRANSACTION", statements)
}

// Begin starts the transaction on the server where no statement has done so yet. It takes no part in the turns of the
// levels: it is for whoever ends the transaction, after Seal.
func (s *Session) Begin(ctx context.Context) error {
	if s.begun {
		return nil
	}
	if _, err := s.conn.Control(ctx, s.begin()...); err != nil {
		return err
	}
	s.begun = true
	return nil
}

// Seal lets no more statements in, once those at work have ended: after it nothing changes any more of what the session
// knows of its transaction. Where they do not end in time the transaction is given up, which rolls it back. It may be
// called again, and is the first step of every end.
func (s *Session) Seal(ctx context.Context) error {
	if s.sealed {
		return nil
	}
	if err := s.root.close(ctx); err != nil {
		s.quit()
		return err
	}
	s.sealed = true
	return nil
}

// end sends what ends the transaction and reads the tag of the answer. tag is the last word expected; for COMMIT it is
// the statement as well.
func (s *Session) end(ctx context.Context, tag string, statements []string) ([]string, Outcome, error) {
	if err := s.Seal(ctx); err != nil {
		return nil, NotDone, err
	}
	if !s.begun && s.byHand == nil && len(statements) == 0 {
		return nil, Done, nil
	}
	if err := s.Healthy(); err != nil {
		_ = s.undo(ctx)
		return nil, NotDone, err
	}
	send := append(s.begin(), statements...)
	if tag == "COMMIT" {
		send = append(send, tag)
	}
	answer, err := s.conn.Control(ctx, send...)
	switch {
	case err == nil && answer.Tag == tag:
		return answer.Row, Done, nil
	case err == nil:
		return nil, NotDone, s.stateError("the server answered "+tag+" with "+answer.Tag+": a statement in it failed, so nothing of it is kept", s.failure)
	case backend.NotDone(err):
		_ = s.undo(ctx)
		return nil, NotDone, err
	default:
		// Whatever the connection says of itself now: it, or a pooler behind it, may not know what became of the transaction.
		s.conn.Discard()
		return nil, Unknown, err
	}
}

// Healthy returns an error when the transaction is known to be aborted or gone, so that it cannot end with success.
func (s *Session) Healthy() error {
	if s.byHand != nil {
		return s.stateError("a statement in it ended it before its end", s.byHand)
	}
	if !s.begun {
		return nil
	}
	switch s.conn.Status() {
	case backend.StatusFailed:
		return s.stateError("a statement in it failed and the error was not returned, so it is rolled back", s.failure)
	case backend.StatusClosed:
		return s.stateError("its connection was lost before the end, so the server has rolled it back", s.failure)
	case backend.StatusIdle:
		return s.stateError("the database ended it before its end", s.failure)
	}
	return nil
}

// Rollback ends the transaction and undoes its work. Whatever happens to the connection, nothing of the transaction is
// kept: a server that loses a session rolls its transaction back. The connection is given back.
func (s *Session) Rollback(ctx context.Context) error {
	if s.abandoned.Load() {
		return nil // it has ended, or its connection will be closed by whoever is still using it
	}
	if err := s.Seal(ctx); err != nil {
		return err
	}
	err := s.undo(ctx)
	s.Release()
	return err
}

// undoTime bounds a ROLLBACK: a connection that does not answer it is closed, which rolls back as well.
const undoTime = 5 * time.Second

// undo sends ROLLBACK where there is something to roll back, and closes the connection when that fails.
func (s *Session) undo(ctx context.Context) error {
	switch s.conn.Status() {
	case backend.StatusIdle, backend.StatusClosed:
		return nil
	}
	// The caller may be here because its ctx has ended; the rollback must go through all the same.
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, undoTime)
	defer cancel()
	_, err := s.conn.Control(ctx, "ROLLBACK")
	if err != nil {
		s.conn.Discard()
	}
	return err
}

// quit gives the transaction up while another goroutine still uses its connection: that goroutine's next statement is
// refused, and when it lets go the connection is closed, which rolls back.
func (s *Session) quit() {
	if s.abandoned.Swap(true) {
		return
	}
	s.root.mu.Lock()
	s.root.over = true
	s.root.mu.Unlock()
	go func() {
		<-s.root.turn
		s.conn.Discard()
		s.conn.Release()
		s.root.give()
	}()
}

// Conn is the session's connection, for the second phase of a prepared transaction.
func (s *Session) Conn() backend.Conn { return s.conn }

// Release gives the connection back. It may be called more than once.
func (s *Session) Release() {
	if s.conn == nil || s.abandoned.Swap(true) {
		return
	}
	s.conn.Release()
}
