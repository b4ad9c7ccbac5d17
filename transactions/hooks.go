package transactions

import (
	"context"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/internal/session"
)

// OnCommit runs fn once, after the whole outermost transaction on the connection has really committed, in the order of
// registration. It is dropped when the nested block that registered it, or anything around it, rolls back. fn runs
// outside the transaction, with the ctx of the outermost call freed of its cancellation. In a distributed transaction
// hooks run after the last participant has committed, the coordinator's first.
//
// Where no transaction is open, fn runs at once and its error is returned. The option [Using] names the connection.
func OnCommit(ctx context.Context, fn func(ctx context.Context) error, opts ...Option) error {
	if fn == nil {
		return noFunction("OnCommit")
	}
	level, err := openLevel(ctx, opts)
	if err != nil {
		return err
	}
	if level == nil || !level.OnCommit(fn) {
		return fn(ctx)
	}
	return nil
}

// OnRollback runs fn once if the transaction on the connection is rolled back, or the nested block in which it was
// registered. It is dropped when the transaction commits, and does not run when nobody knows the outcome. Where no
// transaction is open it is a [*hare.QueryError]. The option [Using] names the connection.
func OnRollback(ctx context.Context, fn func(ctx context.Context) error, opts ...Option) error {
	if fn == nil {
		return noFunction("OnRollback")
	}
	level, err := openLevel(ctx, opts)
	if err != nil {
		return err
	}
	if level == nil || !level.OnRollback(fn) {
		return &hare.QueryError{Reason: "OnRollback needs an open transaction: call it inside Atomic or Distributed, with the ctx that they pass on"}
	}
	return nil
}

func openLevel(ctx context.Context, opts []Option) (*session.Level, error) {
	set, err := read(opts)
	if err != nil {
		return nil, err
	}
	client, err := clientFor(ctx, set.alias)
	if err != nil {
		return nil, err
	}
	level, err := session.Join(ctx, client.Alias(), client.Database())
	return level, hare.ErrorFrom(client.Alias(), "", err)
}

// runHooks runs every hook, also after one that fails or panics, and returns what failed. A panic goes on when the
// others have run.
func runHooks(ctx context.Context, hooks []session.Hook) (errs []error) {
	for i, hook := range hooks {
		returned := false
		func() {
			defer func() {
				if !returned {
					runHooks(ctx, hooks[i+1:])
				}
			}()
			if err := hook(ctx); err != nil {
				errs = append(errs, err)
			}
			returned = true
		}()
	}
	return errs
}

// hookError is nil when no hook failed.
func hookError(committed bool, errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return &HookError{Committed: committed, Errs: errs}
}
