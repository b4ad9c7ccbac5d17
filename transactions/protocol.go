package transactions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/session"
)

// bounded is the time of one phase: the caller's values without its cancellation.
func bounded(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d)
}

// prepare is the first phase: every participant that wrote prepares, all at once. Any error means that the transaction
// is to be aborted; the votes say what each participant has come to, and all have been waited for.
func (c *call) prepare(ctx context.Context) (err error) {
	ctx, done := c.phase(ctx, phasePrepare)
	defer func() { done(err) }()
	inTime, cancel := bounded(ctx, c.set.phases.Prepare)
	defer cancel()
	// fn may have left goroutines at work. Whether a database takes part is known when none can write in it any more.
	if err := firstError(c.each(func(b *branch) error { return b.seal(inTime) })); err != nil {
		return err
	}
	errs := c.each(func(b *branch) error {
		if b == c.coordinator {
			return c.show(inTime)
		}
		return c.part(inTime, b, phasePrepare, b.prepare)
	})
	if err := firstError(append(errs[1:], errs[0])); err != nil { // what a participant says tells more
		return err
	}
	return ctx.Err()
}

// show makes the call visible as alive while its participants wait: the coordinator's transaction is open under the name
// that recovery looks for, also when fn did nothing there.
func (c *call) show(ctx context.Context) error {
	if !slices.ContainsFunc(c.participants(), func(b *branch) bool { return b.tx.Begun() }) {
		return nil
	}
	if c.coordinator.tx.Begun() {
		return c.coordinator.rename(ctx)
	}
	return hare.ErrorFrom(c.coordinator.alias, "BEGIN", c.coordinator.tx.Begin(ctx))
}

// seal ends the part of fn in the branch, and finds out whether it has failed.
func (b *branch) seal(ctx context.Context) error {
	err := b.tx.Seal(ctx)
	if err == nil {
		err = b.tx.Healthy()
	}
	return hare.ErrorFrom(b.alias, "", err)
}

// prepare makes the branch wait for the decision, or finds that it has nothing to wait with.
func (b *branch) prepare(ctx context.Context) error {
	if !b.tx.Begun() {
		b.vote = voteNothing
		return nil
	}
	if !b.tx.Wrote() {
		if read, err := b.onlyRead(ctx); read || err != nil {
			return err
		}
	}
	if err := b.rename(ctx); err != nil {
		return err
	}
	// What is prepared belongs to the role of the session, and is as durable as the decision that will follow.
	statements := append(slices.Clone(ownRole), xactSQL, "PREPARE TRANSACTION "+backend.Literal(b.gid))
	row, outcome, err := b.tx.Prepare(ctx, statements...)
	switch outcome {
	case session.Done:
		b.vote = votePrepared
		b.xact = prepared{Alias: b.alias, GID: b.gid, identity: b.server.identity}
		if len(row) == 7 {
			b.xact.XactID, b.xact.identity, b.xact.Timeline = row[0], identity{System: row[1], OID: row[2], Name: row[3]}, row[4]
			b.weak = row[5] == "t" || b.server.weak
		}
		return b.moved()
	case session.Unknown:
		b.vote = votePossibly
		return hare.ErrorFrom(b.alias, "PREPARE TRANSACTION", err)
	}
	return b.explain(ctx, err)
}

// moved refuses what was prepared in another database than the one that was asked what it is, before the function ran: an
// alias that has been led elsewhere meanwhile takes no part, though the next call may find it right.
func (b *branch) moved() error {
	if b.xact.same(b.server.identity) {
		return nil
	}
	forget(b.db) // the next call asks anew
	return &hare.TransactionError{Alias: b.alias, Err: errOtherServer,
		Reason: fmt.Sprintf("its connection led to %s before, and has prepared in %s: nothing is decided", b.server.identity, b.xact.identity)}
}

// xactSQL is what the row of the decision keeps of a participant: by its transaction id "gone" can be told from
// "committed" (PostgreSQL documentation, System Information Functions). It also says whether the session waits for its
// synchronous standby, and makes this transaction wait.
const xactSQL = `SELECT pg_catalog.pg_current_xact_id(), c.system_identifier, d.oid, d.datname, ` + timelineSQL + `, s.weak,
	CASE WHEN s.raised THEN ` + raise + ` END
FROM (SELECT ` + leavesStandby + ` AS weak, ` + tooWeak + ` AS raised OFFSET 0) s, ` + thisDatabase + ` WHERE ` + isThisDatabase

// onlyRead finds out whether a branch certainly wrote nothing: it has no transaction id. It is not prepared then, and commits
// after the decision: what a function in it has sent with NOTIFY must not go out before. At SERIALIZABLE it is prepared
// all the same, because there a COMMIT may still be refused.
func (b *branch) onlyRead(ctx context.Context) (bool, error) {
	const ask = `SELECT pg_catalog.pg_current_xact_id_if_assigned(), pg_catalog.current_setting('transaction_isolation')`
	answer, err := b.tx.Conn().Control(ctx, ask)
	if err != nil {
		return false, hare.ErrorFrom(b.alias, ask, err)
	}
	if len(answer.Row) != 2 || answer.Row[0] != "" || answer.Row[1] == string(Serializable) {
		return false, nil
	}
	b.vote = voteRead
	return true, nil
}

// explain tells the two refusals of PREPARE TRANSACTION that are a matter of configuration from all others. The server is
// asked, because its messages are translated and its SQLSTATEs mean other things as well.
func (b *branch) explain(ctx context.Context, err error) error {
	state := backend.SQLState(err)
	err = hare.ErrorFrom(b.alias, "PREPARE TRANSACTION", err)
	if state != "55000" && state != "53200" {
		return err
	}
	now, asking := ask(ctx, b.alias, b.tx.Conn())
	if asking != nil {
		return err
	}
	if now.slots == 0 {
		forget(b.db)
		return noSlots(b.alias, err)
	}
	used, asking := b.tx.Conn().Control(ctx, `SELECT pg_catalog.count(*) FROM pg_catalog.pg_prepared_xacts`)
	if asking != nil || len(used.Row) != 1 {
		return err
	}
	if n, _ := strconv.Atoi(used.Row[0]); n >= now.slots {
		return &hare.ConfigurationError{Alias: b.alias, Option: "max_prepared_transactions", Err: err, Reason: fmt.Sprintf(
			"all %d slots for prepared transactions are in use (SELECT * FROM pg_prepared_xacts): finish what a crash left with: hare distributed-recover --finish; if they are all live, raise the setting", now.slots)}
	}
	return err
}

// decide commits the coordinator's own writes together with the decision.
func (c *call) decide(ctx context.Context) (outcome session.Outcome, err error) {
	ctx, done := c.phase(ctx, phaseDecide)
	defer func() { done(err) }()
	inTime, cancel := bounded(ctx, c.set.phases.Decide)
	defer cancel()
	var decision []string
	if waiting := c.having(votePrepared); len(waiting) > 0 {
		rows := make([]prepared, len(waiting))
		for i, b := range waiting {
			rows[i] = b.xact
		}
		insert, err := insertDecision(c.xid, c.coordinator.alias, c.coordinator.server.coordinator, rows)
		if err != nil {
			return session.NotDone, err
		}
		decision = append(slices.Clone(ownRole), durable, insert)
	}
	err = c.part(inTime, c.coordinator, phaseDecide, func(ctx context.Context) (err error) {
		outcome, err = c.coordinator.tx.Commit(ctx, decision...) // THE POINT OF NO RETURN
		if outcome == session.NotDone {
			err = c.rejected(err)
		}
		return hare.ErrorFrom(c.coordinator.alias, "COMMIT", err)
	})
	return outcome, err
}

// rejected names the refusals of a decision that have nothing to do with the coordinator's own writes.
func (c *call) rejected(err error) error {
	var answer *backend.Error
	switch {
	case !errors.As(err, &answer):
	case answer.SQLState == "23505" && answer.Table == "hare_distributed_decisions":
		return &hare.TransactionError{Alias: c.coordinator.alias, Err: err,
			Reason: "recovery took this call for dead and has rolled it back before it was decided; it may be run again (recover with a larger --older-than to leave slow calls alone)"}
	case notThere(err):
		forget(c.coordinator.db) // the next call asks anew
		return &hare.TransactionError{Alias: c.coordinator.alias, Err: err, Reason: "its connection led to " + c.coordinator.server.String() +
			" before, and leads to another database now, which does not know this coordinator: nothing is decided there"}
	case answer.SQLState == "22012": // division_by_zero: see insertDecision
		return &hare.TransactionError{Alias: c.coordinator.alias, Err: err, Reason: "the decision did not get into " + decisionsTable +
			", so that nothing is decided: a trigger on the table has dropped its row; take it away (hare doctor names it)"}
	case answer.SQLState == "42P01":
		forget(c.coordinator.db) // the tables were dropped: the next call makes them again
	}
	return err
}

// ambiguous finds out what became of a decision whose answer was lost: the fence either finds it or makes it impossible.
func (c *call) ambiguous(ctx context.Context, cause error) error {
	waiting := c.having(votePrepared)
	if len(waiting) == 0 { // nobody waits for a decision, and none was written: a plain COMMIT is in doubt
		unknown := &CommitUnknownError{XID: c.xid, Alias: c.coordinator.alias, Err: cause}
		c.ended(ctx, unknown)
		return unknown
	}
	committed, err := c.fence(ctx)
	switch {
	case err != nil:
		unresolved := &CommitAmbiguousError{XID: c.xid, Coordinator: c.coordinator.alias, Err: errors.Join(cause, err)}
		for _, b := range waiting {
			unresolved.Participants = append(unresolved.Participants, b.alias)
			unresolved.GIDs = append(unresolved.GIDs, b.gid)
		}
		c.ended(ctx, unresolved)
		return unresolved
	case committed:
		return c.deliver(ctx)
	}
	return c.abort(ctx, cause)
}

// fence makes sure that a decision whose answer was lost has come or never will.
func (c *call) fence(ctx context.Context) (committed bool, err error) {
	ctx, done := c.phase(ctx, phaseFence)
	defer func() { done(err) }()
	inTime, cancel := bounded(ctx, c.set.phases.Decide)
	defer cancel()
	err = c.part(inTime, c.coordinator, phaseFence, func(ctx context.Context) error {
		return c.coordinator.retry(ctx, "fence", func(ctx context.Context, conn backend.Conn) (err error) {
			committed, err = fence(ctx, conn, c.xid, c.coordinator.alias, c.coordinator.server.coordinator, fenceWait(ctx))
			return err
		})
	})
	return committed, err
}

// deliver is the second phase: every prepared participant commits, all at once. The decision is durable, so nothing here
// can turn the transaction into anything but committed.
func (c *call) deliver(ctx context.Context) error {
	waiting, errs := c.commitAll(ctx)
	var pending, lost []ParticipantState
	unfinished := map[*branch]bool{}
	for i, b := range waiting {
		switch {
		case errs[i] == nil:
			continue
		case errors.Is(errs[i], errRolledBack):
			lost = append(lost, ParticipantState{Alias: b.alias, GID: b.gid, Err: errs[i]})
		default:
			pending = append(pending, ParticipantState{Alias: b.alias, GID: b.gid, Err: hare.ErrorFrom(b.alias, "COMMIT PREPARED", errs[i])})
		}
		unfinished[b] = true
	}
	c.release() // before the hooks, which may need the connections
	if len(waiting) > 0 && len(unfinished) == 0 {
		resolve(c.coordinator.db, c.xid, c.set.keepDecision, c.set.logger)
	}
	var err error
	switch {
	case len(lost) > 0:
		err = &MixedOutcomeError{XID: c.xid, Coordinator: c.coordinator.alias, RolledBack: lost, Pending: pending}
	case len(pending) > 0:
		err = &PartiallyCommittedError{XID: c.xid, Coordinator: c.coordinator.alias, Pending: pending}
	}
	c.ended(ctx, err)
	var hooks []session.Hook
	for _, b := range c.branches {
		if !unfinished[b] { // a hook runs only for a commit that is known
			onCommit, _ := b.tx.Root().Hooks()
			hooks = append(hooks, onCommit...)
		}
	}
	return join(err, c.runHooks(ctx, true, hooks))
}

// commitAll commits every participant that is prepared, and says what came of each. Those that only read end beside them;
// nothing of theirs can be lost but what they would have notified.
func (c *call) commitAll(ctx context.Context) (waiting []*branch, errs []error) {
	ctx, done := c.phase(ctx, phaseDeliver)
	defer func() { done(firstError(errs)) }()
	inTime, cancel := bounded(ctx, c.set.phases.Deliver)
	defer cancel()
	waiting = c.having(votePrepared)
	all := append(slices.Clone(waiting), c.having(voteRead)...)
	errs = together(all, func(b *branch) error {
		return c.part(inTime, b, phaseDeliver, func(ctx context.Context) error {
			if b.vote == voteRead {
				_, err := b.tx.Commit(ctx)
				return hare.ErrorFrom(b.alias, "COMMIT", err)
			}
			return b.persist(ctx, "COMMIT PREPARED", b.commitPrepared)
		})
	})
	return waiting, errs[:len(waiting)]
}

// rollBack ends a transaction of which nothing has been prepared.
func (c *call) rollBack(ctx context.Context, cause error) error {
	c.rollBackAll(ctx)
	if byHand := c.endedByHand(ctx, cause); byHand != nil {
		return byHand
	}
	cause = rolledBack(c.xid, cause)
	c.ended(ctx, cause)
	return join(cause, c.rollbackHooks(ctx))
}

// abort ends a transaction that is not decided and never will be, though participants may have prepared.
func (c *call) abort(ctx context.Context, cause error) error {
	errs := c.rollBackAll(ctx)
	var pending []ParticipantState
	for i, b := range c.branches {
		if errs[i] != nil {
			pending = append(pending, ParticipantState{Alias: b.alias, GID: b.gid, Err: hare.ErrorFrom(b.alias, "ROLLBACK PREPARED", errs[i])})
		}
	}
	var err error = &AbortError{XID: c.xid, Err: cause}
	if len(pending) > 0 {
		err = &RollbackPendingError{XID: c.xid, Coordinator: c.coordinator.alias, Pending: pending, Err: cause}
	}
	if byHand := c.endedByHand(ctx, err); byHand != nil {
		return byHand
	}
	c.ended(ctx, err)
	return join(err, c.rollbackHooks(ctx))
}

// endedByHand is the error of a call in which a statement has ended the transaction on one database, whatever was done to the
// others; else nil.
func (c *call) endedByHand(ctx context.Context, cause error) error {
	for _, b := range c.branches {
		if err := endedByHand(c.xid, b.alias, b.tx, cause); err != nil {
			c.ended(ctx, err)
			return err
		}
	}
	return nil
}

// rollBackAll undoes every branch, whatever it has come to.
func (c *call) rollBackAll(ctx context.Context) (errs []error) {
	ctx, done := c.phase(ctx, phaseRollback)
	defer func() { done(firstError(errs)) }()
	inTime, cancel := bounded(ctx, c.set.phases.Rollback)
	defer cancel()
	return c.each(func(b *branch) error { return c.part(inTime, b, phaseRollback, b.undo) })
}

// undo rolls the branch back.
func (b *branch) undo(ctx context.Context) error {
	switch b.vote {
	case votePrepared:
		return b.persist(ctx, "ROLLBACK PREPARED", b.rollbackPrepared)
	case votePossibly:
		return b.persist(ctx, "ROLLBACK PREPARED", b.rollbackPossiblyPrepared)
	case voteNone, voteRead:
		_ = b.tx.Rollback(ctx) // a server that cannot be told finds the connection gone
	}
	return nil
}

func (c *call) rollbackHooks(ctx context.Context) error {
	c.release() // the hooks may need the connections
	var hooks []session.Hook
	for _, b := range c.branches {
		_, onRollback := b.tx.Root().Hooks()
		hooks = append(hooks, onRollback...)
	}
	return c.runHooks(ctx, false, hooks)
}

// runHooks runs what was registered for the end that the transaction has come to.
func (c *call) runHooks(ctx context.Context, committed bool, hooks []session.Hook) error {
	errs := runHooks(context.WithoutCancel(ctx), hooks)
	if len(errs) == 0 {
		return nil
	}
	err := &HookError{XID: c.xid, Committed: committed, Errs: errs}
	c.seen.span.RecordError(err)
	return err
}
