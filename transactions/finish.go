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
	errRolledBack = errors.New("its prepared transaction was rolled back although the decision is to commit")
	// errFailedOver: the server was promoted since, and is without a transaction that the old one had prepared.
	errFailedOver = errors.New("this server was promoted from a standby, or restored, after the transaction was prepared, and does not have it: whether its commit got here cannot be told")
	// errGone: there is no prepared transaction of that GID.
	errGone = errors.New("there is no prepared transaction of that GID")
	// errAtWork: the server process that prepares has not ended yet.
	errAtWork = errors.New("the server process that was preparing it is still at work")
	// errOtherServer: the connection leads to another database than before.
	errOtherServer = errors.New("the connection leads to another database")
)

// finishPrepared sends COMMIT PREPARED or ROLLBACK PREPARED.
func finishPrepared(ctx context.Context, conn backend.Conn, verb, gid string) error {
	_, err := conn.Control(ctx, verb+" PREPARED "+literal(gid))
	if backend.SQLState(err) == "42704" {
		return errGone
	}
	return err
}

// timeline is the timeline of the server's log. It changes when a standby is promoted (PostgreSQL documentation, Timelines).
const timeline = `substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)`

// commitDecided commits a prepared transaction whose decision is durable. One that is gone was finished by somebody else,
// who can only have committed it, unless a hand has interfered or the server is not the one that prepared it.
func commitDecided(ctx context.Context, conn backend.Conn, p prepared) error {
	err := finishPrepared(ctx, conn, "COMMIT", p.GID)
	if !errors.Is(err, errGone) || p.XactID == "" {
		return err
	}
	return committed(ctx, conn, p)
}

// committed makes sure that a transaction that is not prepared any more has committed: its transaction id tells. A server
// that has forgotten so old an id leaves it at that.
func committed(ctx context.Context, conn backend.Conn, p prepared) error {
	if p.XactID == "" {
		return nil
	}
	answer, err := conn.Control(ctx, fmt.Sprintf(`SELECT %[1]s, CASE WHEN %[2]s IN ('', %[1]s) THEN pg_xact_status(%[3]s::xid8) END`,
		timeline, literal(p.Timeline), literal(p.XactID)))
	switch {
	case err != nil:
		return err
	case len(answer.Row) != 2:
		return fmt.Errorf("the server does not say what became of transaction %s", p.XactID)
	case p.Timeline != "" && answer.Row[0] != p.Timeline:
		return errFailedOver
	case answer.Row[1] == "aborted":
		return errRolledBack
	case answer.Row[1] == "in progress":
		return errAtWork // somebody is committing it at this moment
	}
	return nil
}

// terminateWorkers ends the server processes that still work on a distributed transaction, and returns errAtWork until
// there are none: a PREPARE that comes too late must not leave a prepared transaction behind.
func terminateWorkers(ctx context.Context, conn backend.Conn, application string) error {
	answer, err := conn.Control(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = `+literal(application))
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

// workerName is the name of the server process that works on the branch.
func (b *branch) workerName() string {
	end := len(b.gid) - len(b.alias) - 1
	return applicationName(b.gid[end-uniqueHex : end])
}

// rollbackPossiblyPrepared is the same when the answer to PREPARE was lost. "Does not exist" is final only when nobody can
// prepare it any more.
func (b *branch) rollbackPossiblyPrepared(ctx context.Context, conn backend.Conn) error {
	if err := terminateWorkers(ctx, conn, b.workerName()); err != nil {
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

// persist runs act on the connection that the branch already has, and on new ones until it succeeds or ctx ends.
func (b *branch) persist(ctx context.Context, act func(context.Context, backend.Conn) error) error {
	if conn := b.tx.Conn(); conn.Status() == backend.StatusIdle {
		try, cancel := context.WithTimeout(ctx, tryTime)
		err := act(try, conn)
		cancel()
		if err == nil || errors.Is(err, errRolledBack) || errors.Is(err, errFailedOver) {
			return err
		}
	}
	return b.retry(ctx, act)
}

// retry runs act on new connections to the branch's database until it succeeds or ctx ends. The connections are not the
// pool's: a starving pool must not keep a transaction from its end. The error is that of the last try.
func (b *branch) retry(ctx context.Context, act func(context.Context, backend.Conn) error) error {
	var last error
	for pause := firstTryPause; ; pause = min(2*pause, lastTryPause) {
		err := b.once(ctx, act)
		if err == nil || errors.Is(err, errRolledBack) || errors.Is(err, errOtherServer) || errors.Is(err, errFailedOver) {
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
	if !is.same(b.server.identity) || is.standby {
		return fmt.Errorf("%w: %s, and it was %s", errOtherServer, is.identity, b.server.identity)
	}
	return act(try, conn)
}
