package postgres

import "context"

// A session remembers more than its transaction: settings, advisory locks, cursors WITH HOLD, temporary tables, LISTEN,
// the role. Whatever one user of the pool leaves there the next one finds, and a lock stays taken while nobody uses the
// connection. Only a statement of the program's own leaves anything, never one that hare renders.
//
// Cleaning whenever a connection comes back would cost every query a round trip, and cleaning after every statement of
// the program's own would double the time of a single one. So hare marks those whose words can leave something
// ([backend.Call].Lasting), and only their session is cleaned, before anybody else gets it. It waits for the answer,
// because a lock of the session must be gone when its call has returned. What a function on the server does inside an
// ordinary SELECT stays unseen, as does what triggers do under a queryset.
//
// DISCARD ALL forgets the prepared statements, too, so those of this connection are prepared anew. That is still cheaper
// than a new connection, and complete where a list of single commands would have to be kept complete. The settings that
// the connection was opened with, the time zone among them, are what it resets to.

// clean makes the session as it was when it was opened. A session with an error is not to be used again.
func (s *session) clean() error {
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	if _, err := s.pg.Exec(ctx, "DISCARD ALL").ReadAll(); err != nil {
		return err
	}
	s.statements.forget()
	s.soiled = false
	return nil
}

// reusable reports whether the pool will keep the session.
func (s *session) reusable() bool {
	return !s.pg.IsClosed() && !s.pg.IsBusy() && s.pg.TxStatus() == 'I'
}
