package hare

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
)

// Ping uses every database once, all side by side, so that a program learns at its start what else its first statement
// would tell it: a server that cannot be reached, a login that is refused, a time-out or search_path of the URL that the
// server does not have, a direct address that leads elsewhere. It returns all errors together, each with its alias. Nothing
// is remembered of a failure, so that Ping may be called again; it is bounded by ctx and the connections' own time-outs.
//
// A database that hare can name but not query is left out.
func (c *Connections) Ping(ctx context.Context) error {
	switch err := c.opened(); {
	case err != nil:
		return err
	case ctx == nil:
		return errNoContext
	case c.closed.Load():
		return errClosed
	}
	errs := make([]error, len(c.aliases))
	var wait sync.WaitGroup
	for i, alias := range c.aliases {
		wait.Go(func() { errs[i] = ErrorFrom(alias, "", ping(ctx, c.clients[alias].db)) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// ping uses a connection of the pool, and one outside the pool, which may go another way.
func ping(ctx context.Context, db backend.Database) error {
	for _, open := range []func(context.Context) (backend.Conn, error){db.Acquire, db.Dial} {
		conn, err := open(ctx)
		if unsupported := new(features.UnsupportedError); errors.As(err, &unsupported) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, backend.Call{SQL: "SELECT 1"})
		conn.Release()
		if err != nil {
			return fmt.Errorf("a first statement: %w", err)
		}
	}
	return nil
}
