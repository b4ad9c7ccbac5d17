package transactions

import (
	"context"
	"errors"
	"fmt"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/internal/session"
)

// Atomic runs fn in a transaction on one connection: COMMIT when it returns nil, ROLLBACK when it returns an error,
// panics or ends its goroutine. Queries made with the ctx that fn is given join the transaction. Inside another Atomic
// on the same connection it is a savepoint: an error undoes the inner block only.
//
// Name the parameter of fn ctx, so that it shadows the ctx outside: what is written with that one, or on another connection, is no
// part of the transaction and stays when fn fails.
//
// The connection is the default one unless [Using] names another. A block without a statement sends nothing.
//
// A statement that failed aborts a PostgreSQL transaction; when fn swallows its error, Atomic rolls back and returns a
// [*hare.TransactionError] that carries it. Where a statement may fail, put it into a nested Atomic. A ctx that has
// ended before COMMIT is sent rolls back; the COMMIT itself is not interrupted, and is bounded by [Phases].Decide.
//
// Errors: what fn returned, as it is, or in an [*AbortError] when it is about the end of another transaction; what the database said to COMMIT; a [*CommitUnknownError] when the answer was
// lost; an [*EndedByHandError] when a statement of fn has ended the transaction; a [*HookError] when all is committed and a hook failed.
func Atomic(ctx context.Context, fn func(ctx context.Context) error, opts ...Option) error {
	set, err := read(opts)
	if err != nil {
		return err
	}
	if fn == nil {
		return noFunction("Atomic")
	}
	if set.keepDecision {
		return &hare.QueryError{Reason: "KeepDecision is for Distributed: a transaction on one database has no decision to keep"}
	}
	client, err := clientFor(ctx, set.alias)
	if err != nil {
		return err
	}
	outer, err := session.Join(ctx, client.Alias(), client.Database())
	switch {
	case err != nil:
		return hare.ErrorFrom(client.Alias(), "", err)
	case outer != nil:
		return nested(ctx, client, outer, set, fn)
	}
	if err := features.Require(client.Alias(), client.Features(), set.needs()...); err != nil {
		return err
	}
	return retry(ctx, set.retries, retryable, func() error { return once(ctx, client, set, fn) })
}

// needs are the features without which the options mean nothing.
func (s *settings) needs() []features.Flag {
	flags := []features.Flag{features.Transactions}
	if s.readOnly {
		flags = append(flags, features.ReadOnlyTransactions)
	}
	return flags
}

// noFunction refuses a call whose function is nil.
func noFunction(call string) error {
	return &hare.QueryError{Reason: call + " takes a function, and got nil"}
}

// clientFor is the client of an alias, "" for the default one.
func clientFor(ctx context.Context, alias string) (*hare.Client, error) {
	connections, err := hare.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	return connections.Client(alias)
}

// once is one attempt.
func once(ctx context.Context, client *hare.Client, set *settings, fn func(context.Context) error) (err error) {
	tx, err := session.Open(ctx, client.Alias(), client.Database(), set.session())
	if err != nil {
		return hare.ErrorFrom(client.Alias(), "", err)
	}
	returned := false
	defer func() {
		if !returned { // a panic, or runtime.Goexit: it goes on by itself
			_ = rollback(ctx, tx, set)
		}
	}()
	err = fn(session.With(ctx, tx.Root()))
	returned = true
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		undone := rollback(ctx, tx, set)
		if byHand := endedByHand("", client.Alias(), tx, err); byHand != nil {
			return byHand
		}
		return join(rolledBack("", err), undone)
	}
	return commit(ctx, client.Alias(), tx, set)
}

// commit ends the transaction with COMMIT and runs the hooks of the end that it came to.
func commit(ctx context.Context, alias string, tx *session.Session, set *settings) error {
	// A cancelled COMMIT has an unknown outcome, so the caller's cancellation does not reach it.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), set.phases.Decide)
	defer cancel()
	outcome, err := tx.Commit(bounded)
	onCommit, onRollback := tx.Root().Hooks()
	switch outcome {
	case session.Done:
		return hookError(true, runHooks(context.WithoutCancel(ctx), onCommit))
	case session.NotDone:
		err = hare.ErrorFrom(alias, "COMMIT", err)
		if byHand := endedByHand("", alias, tx, err); byHand != nil {
			return byHand
		}
		return join(err, hookError(false, runHooks(context.WithoutCancel(ctx), onRollback)))
	default:
		return &CommitUnknownError{Alias: alias, Err: hare.ErrorFrom(alias, "COMMIT", err)}
	}
}

// rollback undoes the transaction and runs its hooks. A server that cannot be told rolls back by itself when it finds the
// connection gone, so only the hooks can fail.
func rollback(ctx context.Context, tx *session.Session, set *settings) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), set.phases.Rollback)
	defer cancel()
	_ = tx.Rollback(bounded)
	if tx.EndedByHand() != nil {
		return nil // hooks are for an end that is known
	}
	_, onRollback := tx.Root().Hooks()
	return hookError(false, runHooks(context.WithoutCancel(ctx), onRollback))
}

// nested runs fn in a savepoint of the open transaction.
func nested(ctx context.Context, client *hare.Client, outer *session.Level, set *settings, fn func(context.Context) error) (err error) {
	if err := set.fitInside(outer.Session().Options()); err != nil {
		return err
	}
	if err := features.Require(client.Alias(), client.Features(), features.Savepoints); err != nil {
		return err
	}
	level, err := outer.Nest(ctx)
	if err != nil {
		return hare.ErrorFrom(client.Alias(), "", err)
	}
	returned := false
	defer func() {
		if !returned {
			_ = undo(ctx, client.Alias(), level, set)
		}
	}()
	err = fn(session.With(ctx, level))
	returned = true
	if err != nil {
		err = join(err, undo(ctx, client.Alias(), level, set))
		if byHand := endedByHand("", client.Alias(), outer.Session(), err); byHand != nil {
			return byHand
		}
		return err
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), set.phases.Decide)
	defer cancel()
	if err := level.Release(bounded); err != nil {
		if byHand := endedByHand("", client.Alias(), outer.Session(), err); byHand != nil {
			return byHand
		}
		_, onRollback := level.Hooks()
		return join(hare.ErrorFrom(client.Alias(), "RELEASE SAVEPOINT", err), hookError(false, runHooks(ctx, onRollback)))
	}
	return nil
}

// undo rolls a savepoint back and runs its hooks.
func undo(ctx context.Context, alias string, level *session.Level, set *settings) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), set.phases.Rollback)
	defer cancel()
	err := hare.ErrorFrom(alias, "ROLLBACK TO SAVEPOINT", level.RollbackTo(bounded))
	if level.Session().EndedByHand() != nil {
		return err
	}
	_, onRollback := level.Hooks()
	return join(err, hookError(false, runHooks(context.WithoutCancel(ctx), onRollback)))
}

// fitInside refuses options that a nested block cannot have: it inherits those of the transaction around it.
func (s *settings) fitInside(outer session.Options) error {
	switch {
	case s.readOnly && !outer.ReadOnly:
		return &hare.QueryError{Reason: "a read-only block cannot be nested in a transaction that writes: make the outer one read-only, or leave the option out"}
	case s.statementTimeout != 0 || s.lockTimeout != 0:
		return &hare.QueryError{Reason: "a nested block inherits the time-outs of the transaction around it and takes none of its own"}
	case s.isolation != "" && string(s.isolation) != outer.Isolation:
		return &hare.QueryError{Reason: fmt.Sprintf("a nested block has the isolation level of the transaction around it (%q), and %q was asked for", orDefault(outer.Isolation), s.isolation)}
	}
	return nil
}

func orDefault(level string) string {
	if level == "" {
		return "the database's default"
	}
	return level
}

// join adds what went wrong afterwards to the error that is the caller's answer, which stays as it is where nothing did.
func join(err, after error) error {
	switch {
	case after == nil:
		return err
	case err == nil:
		return after
	}
	return errors.Join(err, after)
}
