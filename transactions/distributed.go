package transactions

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/internal/session"
)

// # How a distributed transaction stays whole
//
// The obvious way is to commit one database after the other. A crash in between leaves some with their writes and some
// without, and nobody to tell which was meant. So every participant first prepares: it writes down that it can commit, and
// waits. Then the coordinator commits its own writes together with one row, the decision. That commit is the one instant
// at which the whole transaction happens. Afterwards every participant is told, by this call or by recovery, and both
// read the same row.
//
// What must hold at every step, whatever dies:
//
//   - No COMMIT PREPARED before a durable commit decision was seen.
//   - No ROLLBACK PREPARED of a transaction that may still be decided: whoever did not see the deciding commit fail
//     first commits an abort row under the decision's key (the fence), so that the decision can never land.
//   - Clocks only delay; they never decide.
//   - From the first PREPARE on the caller's cancellation cuts no statement in half; after the decision it stops nothing.
//   - A lost answer is not a failure: it is found out, on another connection.

// Distributed runs fn in one transaction over several PostgreSQL databases: each keeps its writes or none does, even if
// the process, a server or the network dies at the worst instant. The coordinator's database holds the decision, in a
// table that hare makes there on first use; it takes part with its own writes like every participant. coordinator may be
// "" for the default connection.
//
// The clients of the handle write in the transaction, and so does every query made with its Context. The first line of fn is
// therefore
//
//	ctx := d.Context()
//
// because a queryset, Client or Atomic with the ctx outside writes past the transaction: that stays when fn fails, and nothing
// can see it. With the Context nothing can be written elsewhere by mistake: an alias that takes no part is a
// [*hare.QueryError], for a nested Distributed too. What is to stay whatever happens is written with the ctx outside.
//
// A database in which nothing ran costs nothing, and one in which only querysets read is not prepared. After fn there are three
// round trips, whatever the number of participants: prepare, decide, deliver.
//
// Before anything opens, in this order: a [*hare.QueryError] for no participants or for a name given twice, a
// [*hare.ConfigurationError] for an alias that is not configured, a [*features.UnsupportedError] for a database without
// two-phase commit, a [*hare.QueryError] for an alias that is already in a transaction of ctx or that ctx is closed to, a
// [*hare.ConfigurationError] for an alias that a GID cannot carry. Before fn runs: a [*hare.ConfigurationError] for a
// server that cannot prepare or is a standby, a [*hare.QueryError] for two aliases of one database.
//
// Afterwards: what fn returned, as it is, with everything rolled back; an [*AbortError], rolled back everywhere;
// a [*RollbackPendingError], rolled back, with a participant that could not be told yet; a [*PartiallyCommittedError],
// committed, with a participant that could not be told yet; a [*CommitAmbiguousError], when nobody knows; a
// [*MixedOutcomeError], when somebody interfered by hand; an [*EndedByHandError], when a statement of fn has ended the
// transaction in one database; a [*HookError], committed, with a failing hook. [OutcomeOf]
// sorts them.
//
// The error of fn apart, which is returned as it is, the text of every error tells the transaction's xid as soon as there is
// one. Log events, spans and metrics tell the same and more (docs/operations.md).
//
// Waiting for a lock is bounded by ten seconds unless [LockTimeout] says otherwise, because a deadlock over two databases
// is seen by none of them.
func Distributed(ctx context.Context, coordinator string, participants []string, fn func(d *hare.Distributed) error, opts ...Option) error {
	set, err := read(opts)
	if err != nil {
		return err
	}
	if err := set.fitDistributed(); err != nil {
		return err
	}
	if fn == nil {
		return noFunction("Distributed")
	}
	c, err := validate(ctx, coordinator, participants, set)
	if err != nil {
		return err
	}
	ctx, done := c.watch(ctx)
	defer done()
	return retry(ctx, set.retries, retryableAnywhere, func() error { return c.attempt(ctx).run(ctx, fn) })
}

// run is the protocol.
func (c *call) run(ctx context.Context, fn func(d *hare.Distributed) error) error {
	defer c.release()
	if err := c.open(ctx); err != nil {
		c.ended(ctx, err)
		return err
	}
	if err := c.execute(ctx, fn); err != nil {
		return c.rollBack(ctx, err)
	}
	if err := c.prepare(ctx); err != nil {
		return c.abort(ctx, err)
	}
	switch outcome, err := c.decide(ctx); outcome {
	case session.NotDone:
		return c.abort(ctx, err)
	case session.Unknown:
		return c.ambiguous(ctx, err)
	}
	return c.deliver(ctx)
}

// validate refuses what is wrong with the call, without a byte sent or a connection taken.
func validate(ctx context.Context, coordinator string, participants []string, set *settings) (*call, error) {
	if len(participants) == 0 {
		return nil, &hare.QueryError{Reason: "a distributed transaction needs at least one participant beside its coordinator; for one database use Atomic"}
	}
	connections, err := hare.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	names := append([]string{coordinator}, participants...)
	for i, name := range names {
		if name == "" {
			if names[i], err = defaultAlias(connections); err != nil {
				return nil, err
			}
		}
	}
	if twice := repeated(names); len(twice) > 0 {
		return nil, &hare.QueryError{Reason: fmt.Sprintf("coordinator %q, participants %q: named more than once: %q; each database takes part once", names[0], names[1:], twice)}
	}
	c := &call{set: set, connections: connections}
	for _, name := range names {
		client, err := connections.Client(name)
		if err != nil {
			return nil, err
		}
		c.branches = append(c.branches, &branch{alias: name, client: client, db: client.Database()})
	}
	c.coordinator = c.branches[0]
	for _, b := range c.branches {
		if err := b.require(); err != nil {
			return nil, err
		}
	}
	for _, b := range c.branches {
		switch level, err := session.Join(ctx, b.alias, b.db); {
		case err != nil:
			return nil, hare.ErrorFrom(b.alias, "", err)
		case level != nil && !level.Over():
			return nil, &hare.QueryError{Reason: fmt.Sprintf("%q is already in an open transaction of this context: a distributed transaction opens its own, so call it outside", b.alias)}
		}
	}
	return c, checkNames(names[0], names[1:])
}

func defaultAlias(connections *hare.Connections) (string, error) {
	client, err := connections.Client("")
	if err != nil {
		return "", err
	}
	return client.Alias(), nil
}

// repeated lists the names that stand more than once.
func repeated(names []string) []string {
	var twice []string
	for i, name := range names {
		if slices.Contains(names[:i], name) && !slices.Contains(twice, name) {
			twice = append(twice, name)
		}
	}
	return twice
}

func (s *settings) fitDistributed() error {
	switch {
	case s.alias != "":
		return &hare.QueryError{Reason: "Using is not for Distributed, which is given its connections by name"}
	case s.readOnly:
		return &hare.QueryError{Reason: "ReadOnly is not for Distributed: a transaction that writes nothing needs no two-phase commit"}
	}
	if s.lockTimeout == 0 && s.statementTimeout == 0 {
		s.lockTimeout = defaultLockTimeout
	}
	return nil
}

// execute runs fn in the open transactions.
func (c *call) execute(ctx context.Context, fn func(d *hare.Distributed) error) (err error) {
	inside, done := c.phase(ctx, phaseCallback)
	inside = hare.WithConnections(inside, c.connections)
	for _, b := range c.branches {
		inside = session.With(inside, b.tx.Root())
	}
	returned := false
	defer func() {
		if !returned { // a panic, or runtime.Goexit: it goes on by itself
			done(errNotReturned)
			_ = c.rollBack(ctx, errNotReturned)
		}
	}()
	err = fn(hare.NewDistributed(inside, c.xid, c.coordinator.alias, c.participantAliases()))
	returned = true
	if err == nil && ctx.Err() != nil {
		err = &AbortError{XID: c.xid, Err: ctx.Err()}
	}
	done(err)
	return err
}

var errNotReturned = errors.New("the function did not return")
