package transactions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hare-go/hare/hare/backend"
)

// The second phase in one database, used by the live call and by recovery alike. Every step can be repeated: a transaction
// that is finished already is found to be.

var (
	// errRolledBack: the decision says commit, and the participant's transaction was rolled back by somebody else.
	errRolledBack = errors.New("its prepared transaction is gone without a commit although the decision is to commit")
	// errLost is an errRolledBack whose somebody is the server itself.
	errLost = fmt.Errorf("the server has been set back to a time before it (an older backup, or a standby that lacked it): %w", errRolledBack)
	// errUnknowable: the prepared transaction is gone, and its server does not know whether it was committed.
	errUnknowable = errors.New("whether it was committed or lost cannot be known")
	errFailedOver = fmt.Errorf("another server has taken over since it was prepared, and it is not there: %w", errUnknowable)
	errTooOld     = fmt.Errorf("it was prepared so long ago that its server has forgotten its end: %w", errUnknowable)
	// errGone: there is no prepared transaction of that GID.
	errGone = errors.New("there is no prepared transaction of that GID")
	// errAtWork: the server process that prepares has not ended yet.
	errAtWork = errors.New("the server process that was preparing it is still at work")
	// errOtherServer: the connection leads to another database than before.
	errOtherServer = errors.New("the connection leads to another database")
)

// finishPrepared sends COMMIT PREPARED or ROLLBACK PREPARED.
func finishPrepared(ctx context.Context, conn backend.Conn, verb, gid string) error {
	_, err := conn.Control(ctx, verb+" PREPARED "+backend.Literal(gid))
	if backend.SQLState(err) == "42704" {
		return errGone
	}
	return err
}

// endSQL asks what became of a transaction: "committed", "aborted", "in progress", or NULL when it is too long ago for the
// server to know; and on which timeline the server is, which changes whenever a standby is promoted or a backup restored
// to some point in time (PostgreSQL documentation, Timelines).
func endSQL(xact string) string {
	return fmt.Sprintf(`SELECT pg_xact_status(%s::xid8), %s`, backend.Literal(xact), timelineSQL)
}

const timelineSQL = `left(pg_walfile_name(pg_current_wal_lsn()), 8)`

// gone finds out how a transaction ended that was prepared and is not there any more, its decision being to commit: nil
// says that it was committed.
//
// A server that has lost the transaction gives its id to another one sooner or later, whose end says nothing about ours.
// Before that it does not know the id at all. Afterwards only the timeline tells, so on another one than that of the
// PREPARE nothing but "aborted" is believed: that is certain to be a loss, whoever had the id.
func gone(ctx context.Context, conn backend.Conn, p prepared) error {
	if p.XactID == "" {
		return nil
	}
	answer, err := conn.Control(ctx, endSQL(p.XactID))
	switch {
	case backend.SQLState(err) == "22023": // "transaction ID is in the future"
		return errLost
	case err != nil:
		return err
	case len(answer.Row) != 2:
		return errAtWork
	}
	status, timeline := answer.Row[0], answer.Row[1]
	switch {
	case status == "aborted":
		return errRolledBack
	case p.Timeline != "" && p.Timeline != timeline:
		return errFailedOver
	case status == "in progress":
		return errAtWork // somebody is committing it at this moment
	case status == "":
		return errTooOld
	}
	return nil
}

// commitDecided commits a prepared transaction whose decision is durable. One that is gone was finished by somebody else,
// who can only have committed it, unless a hand has interfered or its server has lost it.
func commitDecided(ctx context.Context, conn backend.Conn, p prepared) error {
	err := finishPrepared(ctx, conn, "COMMIT", p.GID)
	if errors.Is(err, errGone) && p.XactID != "" {
		return gone(ctx, conn, p)
	}
	return err
}

// terminateWorkers ends the server processes that still work on a distributed transaction, and returns errAtWork until
// there are none: a PREPARE that comes too late must not leave a prepared transaction behind.
func terminateWorkers(ctx context.Context, conn backend.Conn, application string) error {
	answer, err := conn.Control(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = `+backend.Literal(application))
	if err != nil {
		return err
	}
	if len(answer.Row) == 1 && answer.Row[0] != "0" {
		return errAtWork
	}
	return nil
}

// commitPrepared is the branch's second phase after a decision to commit.
func (b *branch) commitPrepared(ctx context.Context, conn backend.Conn) error {
	return commitDecided(ctx, conn, b.xact)
}

// rollbackPrepared is the branch's second phase when there is no decision and never will be.
func (b *branch) rollbackPrepared(ctx context.Context, conn backend.Conn) error {
	if err := finishPrepared(ctx, conn, "ROLLBACK", b.gid); !errors.Is(err, errGone) {
		return err
	}
	return nil // recovery was faster
}

// rollbackPossiblyPrepared is the same when the answer to PREPARE was lost. "Does not exist" is final only when nobody can
// prepare it any more.
func (b *branch) rollbackPossiblyPrepared(ctx context.Context, conn backend.Conn) error {
	if err := terminateWorkers(ctx, conn, b.worker); err != nil {
		return err
	}
	return b.rollbackPrepared(ctx, conn)
}

// The pauses of retry, and the time of one try, so that a silent connection does not use up the whole phase.
const (
	firstTryPause = 20 * time.Millisecond
	lastTryPause  = time.Second
	tryTime       = 5 * time.Second
)

// persist runs act, an operation, on the connection that the branch already has, and on new ones until it succeeds or ctx ends.
func (b *branch) persist(ctx context.Context, operation string, act func(context.Context, backend.Conn) error) error {
	if conn := b.tx.Conn(); conn.Status() == backend.StatusIdle {
		try, cancel := context.WithTimeout(ctx, tryTime)
		err := act(try, conn)
		cancel()
		if err == nil {
			return nil
		}
		b.failedTry(ctx, operation, err, final(err))
		if final(err) {
			return err
		}
	}
	return b.retry(ctx, operation, act)
}

// retry runs act on new connections to the branch's database until it succeeds or ctx ends. The connections are not the
// pool's: a starving pool must not keep a transaction from its end. The error is that of the last try.
func (b *branch) retry(ctx context.Context, operation string, act func(context.Context, backend.Conn) error) error {
	var last error
	for pause := firstTryPause; ; pause = min(2*pause, lastTryPause) {
		err := b.once(ctx, act)
		if err == nil {
			return nil
		}
		b.failedTry(ctx, operation, err, final(err))
		if final(err) {
			return err
		}
		if last == nil || ctx.Err() == nil { // the last try's own words, not that time was up
			last = err
		}
		if sleep(ctx, pause) != nil {
			return last
		}
	}
}

// final reports whether trying again would find the same.
func final(err error) bool {
	return errors.Is(err, errRolledBack) || errors.Is(err, errUnknowable) || errors.Is(err, errOtherServer)
}

// once runs act on a new connection, after making sure that it leads to the database that took part.
func (b *branch) once(ctx context.Context, act func(context.Context, backend.Conn) error) error {
	try, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	conn, err := b.db.Dial(try)
	if err != nil {
		return err
	}
	defer conn.Release()
	is, err := ask(try, b.alias, conn)
	if err != nil {
		return err
	}
	was := b.server.identity
	if b.vote == votePrepared {
		was = b.xact.identity // what it was at that very moment
	}
	switch {
	case !is.same(was):
		return fmt.Errorf("%w: %s, and it was %s", errOtherServer, is.identity, was)
	case is.standby:
		return is.fit(b.alias, false)
	}
	return act(try, conn)
}
