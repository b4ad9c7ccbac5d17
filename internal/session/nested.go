package session

import (
	"context"

	"github.com/hare-go/hare/hare/backend"
)

// Nest opens a savepoint in the level, which waits until it ends. Nothing is sent before the first statement in it.
func (l *Level) Nest(ctx context.Context) (*Level, error) {
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	return newLevel(l.session, l), nil
}

// Release ends a savepoint and keeps its work; its hooks go to the level around it. When the server refuses, because
// a statement in it failed and the error was swallowed, the savepoint is rolled back and the error returned.
func (l *Level) Release(ctx context.Context) error {
	if err := l.close(ctx); err != nil {
		return err
	}
	defer l.parent.give()
	if err := l.endSavepoint(ctx, "RELEASE SAVEPOINT "+l.savepoint()); err != nil {
		return err
	}
	commit, roll := l.takeHooks()
	l.parent.mu.Lock()
	defer l.parent.mu.Unlock()
	l.parent.onCommit = append(l.parent.onCommit, commit...)
	l.parent.onRoll = append(l.parent.onRoll, roll...)
	return nil
}

// RollbackTo ends a savepoint and undoes its work. Its hooks stay for TakeHooks.
func (l *Level) RollbackTo(ctx context.Context) error {
	if err := l.close(ctx); err != nil {
		return err
	}
	defer l.parent.give()
	return l.undo(ctx)
}

func (l *Level) endSavepoint(ctx context.Context, statement string) error {
	if !l.sent {
		return nil
	}
	s := l.session
	if s.conn.Status() == backend.StatusFailed {
		cause := s.failure
		if err := l.undo(ctx); err != nil {
			return err
		}
		return s.stateError("a statement in the nested block failed, so the block is rolled back although its error was not returned", cause)
	}
	if s.conn.Status() != backend.StatusInTransaction {
		return s.stateError("it ended before its nested block did", s.failure)
	}
	if _, err := s.conn.Control(ctx, statement); err != nil {
		if undone := l.undo(ctx); undone != nil {
			return undone
		}
		return err
	}
	return nil
}

// undo takes the work of the savepoint back. On success the transaction is usable again, so the failure is forgotten.
func (l *Level) undo(ctx context.Context) error {
	if !l.sent {
		return nil
	}
	s := l.session
	switch s.conn.Status() {
	case backend.StatusClosed, backend.StatusIdle:
		return nil // the whole transaction is gone, and the savepoint with it
	}
	if _, err := s.conn.Control(ctx, "ROLLBACK TO SAVEPOINT "+l.savepoint(), "RELEASE SAVEPOINT "+l.savepoint()); err != nil {
		return err
	}
	s.failure = nil
	return nil
}

// close shuts the level for new statements once the one at work has ended.
func (l *Level) close(ctx context.Context) error {
	l.dropRows()
	if err := l.take(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.turn <- struct{}{} // whoever still waits must see that it is over
	return nil
}

// OnCommit adds a hook for when the whole transaction has committed. It reports false when the level has ended.
func (l *Level) OnCommit(hook Hook) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.onCommit = append(l.onCommit, hook)
	return true
}

// OnRollback adds a hook for when the level, or anything around it, is rolled back. It reports false when the level
// has ended.
func (l *Level) OnRollback(hook Hook) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.onRoll = append(l.onRoll, hook)
	return true
}

// Hooks takes the level's hooks out of it.
func (l *Level) Hooks() (commit, rollback []Hook) { return l.takeHooks() }

func (l *Level) takeHooks() (commit, rollback []Hook) {
	l.mu.Lock()
	defer l.mu.Unlock()
	commit, rollback = l.onCommit, l.onRoll
	l.onCommit, l.onRoll = nil, nil
	return commit, rollback
}
