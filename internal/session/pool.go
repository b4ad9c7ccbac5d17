package session

import (
	"context"

	"github.com/hare-go/hare/hare/backend"
)

// Pool runs each statement on a connection of the pool, outside any transaction.
type Pool struct{ DB backend.Database }

// Exec runs a statement on a connection of the pool.
func (p Pool) Exec(ctx context.Context, call backend.Call) (int64, error) {
	conn, err := p.DB.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	return conn.Exec(ctx, call)
}

// Query runs a statement on a connection of the pool, which goes back when the rows are closed.
func (p Pool) Query(ctx context.Context, call backend.Call) (backend.Rows, error) {
	conn, err := p.DB.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := conn.Query(ctx, call)
	if err != nil {
		conn.Release()
		return nil, err
	}
	return &poolRows{Rows: rows, conn: conn}, nil
}

type poolRows struct {
	backend.Rows
	conn backend.Conn
}

// Close ends the query and gives the connection back.
func (r *poolRows) Close() error {
	err := r.Rows.Close()
	if r.conn != nil {
		r.conn.Release()
		r.conn = nil
	}
	return err
}

// Atomically runs fn so that its statements take effect together: in a savepoint of the open transaction of ctx on
// db, or in a transaction of its own.
func Atomically(ctx context.Context, alias string, db backend.Database, fn func(Runner) error) error {
	outer, err := Join(ctx, alias, db)
	if err != nil {
		return err
	}
	if outer != nil {
		return nested(ctx, outer, fn)
	}
	s, err := Open(ctx, alias, db, Options{})
	if err != nil {
		return err
	}
	finished := false
	defer func() {
		if !finished { // fn failed, panicked or left its goroutine
			_ = s.Rollback(context.WithoutCancel(ctx))
		}
	}()
	if err := fn(s.root); err != nil {
		return err
	}
	finished = true
	_, err = s.Commit(ctx)
	return err
}

func nested(ctx context.Context, outer *Level, fn func(Runner) error) error {
	level, err := outer.Nest(ctx)
	if err != nil {
		return err
	}
	released := false
	defer func() {
		if !released {
			_ = level.RollbackTo(context.WithoutCancel(ctx))
		}
	}()
	if err := fn(level); err != nil {
		return err
	}
	released = true
	return level.Release(ctx)
}
