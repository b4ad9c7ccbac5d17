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

// finishPrepared sends COMMIT PREPARED or ROLLBACK PREPARED. errGone is what the database said that answered, whichever it
// was: see [fate].
func finishPrepared(ctx context.Context, conn backend.Conn, verb, gid string) error {
	statement := verb + " PREPARED " + backend.Literal(gid)
	_, err := conn.Control(ctx, statement)
	switch backend.SQLState(err) {
	case "42704":
		return errGone
	case "42501":
		return finishAsOwner(ctx, conn, gid, statement, err)
	}
	return err
}

// finishAsOwner finishes a transaction that another role has prepared, as that role, where the session may become it. Behind
// a pooler that gives each transaction another session it cannot, and the refusal stays.
func finishAsOwner(ctx context.Context, conn backend.Conn, gid, statement string, refusal error) error {
	answer, err := conn.Control(ctx, `SELECT owner FROM pg_catalog.pg_prepared_xacts WHERE gid OPERATOR(pg_catalog.=) `+backend.Literal(gid)+
		` AND database OPERATOR(pg_catalog.=) pg_catalog.current_database()`)
	if err != nil || len(answer.Row) != 1 || answer.Row[0] == "" {
		return refusal
	}
	become := backend.Call{SQL: "SET ROLE " + backend.Literal(answer.Row[0]), Session: "SET", Lasting: true}
	if _, err := conn.Exec(ctx, become); err != nil {
		return refusal
	}
	_, err = conn.Control(ctx, statement)
	if _, back := conn.Control(ctx, "RESET ROLE"); back != nil {
		conn.Discard()
	}
	if backend.SQLState(err) == "42704" {
		return errGone
	}
	return err
}

// fate is what a database says of a transaction that was prepared.
type fate struct {
	prepared bool   // it still is
	workers  bool   // a server process is at work that may be preparing it
	status   string // "committed", "aborted", "in progress", or empty when it is too long ago for the server to know
	timeline string
}

const timelineSQL = `pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8)`

// readFate asks all of it in one message, which fails in any other database than that of p: a pooler may lead each message
// elsewhere, and "there is no such prepared transaction" says something only of the database that says it.
func readFate(ctx context.Context, conn backend.Conn, p prepared, worker string) (fate, error) {
	status := "NULL"
	if p.XactID != "" {
		status = "pg_catalog.pg_xact_status(" + backend.Literal(p.XactID) + "::pg_catalog.xid8)"
	}
	ask := `SELECT EXISTS (SELECT FROM pg_catalog.pg_prepared_xacts x WHERE x.gid OPERATOR(pg_catalog.=) ` + backend.Literal(p.GID) + `
	AND x.database OPERATOR(pg_catalog.=) pg_catalog.current_database()), EXISTS (SELECT ` + workersSQL(worker) + `), ` + status + `, ` + timelineSQL
	row, err := askThere(ctx, conn, p.identity, ask)
	if err != nil {
		return fate{}, err
	}
	if len(row) != 4 {
		return fate{}, fmt.Errorf("the server answered what became of it with %d columns", len(row))
	}
	return fate{prepared: row[0] == "t", workers: row[1] == "t", status: row[2], timeline: row[3]}, nil
}

// askThere runs statements in a transaction of one message, and only in the database that is meant: anywhere else the error is
// errOtherServer. It returns the first row.
func askThere(ctx context.Context, conn backend.Conn, there identity, statements ...string) ([]string, error) {
	message := []string{beginWrite, pinned}
	if there.System != "" {
		message = append(message, `SELECT FROM `+thisDatabase+` WHERE `+isThisDatabase+
			` AND c.system_identifier::pg_catalog.text OPERATOR(pg_catalog.=) `+backend.Literal(there.System)+
			` AND d.oid::pg_catalog.text OPERATOR(pg_catalog.=) `+backend.Literal(there.OID)+
			` HAVING 1 OPERATOR(pg_catalog./) pg_catalog.count(*) OPERATOR(pg_catalog.<) 0`) // no row, or division_by_zero
	}
	answer, err := conn.Control(ctx, append(append(message, statements...), "COMMIT")...)
	if err == nil {
		return answer.Row, nil
	}
	if conn.Status() != backend.StatusClosed {
		_, _ = conn.Control(ctx, "ROLLBACK")
	}
	if backend.SQLState(err) != "22012" {
		return nil, err
	}
	is := "another one"
	if now, err := ask(ctx, "", conn); err == nil {
		is = now.identity.String()
	}
	return nil, fmt.Errorf("%w: %s, and it was %s", errOtherServer, is, there)
}

// confirm waits until the server's log is durable up to now, by the word of its synchronous standby if there is one: what was
// seen to be committed cannot be undone by a failover any more. The COMMIT of a transaction waits like that if it has written to
// the log; a message there changes nothing (PostgreSQL documentation, pg_logical_emit_message).
func confirm(ctx context.Context, conn backend.Conn, there identity) error {
	_, err := askThere(ctx, conn, there, "SET LOCAL synchronous_commit = on", "SELECT pg_catalog.pg_logical_emit_message(true, 'hare', '')")
	return err
}

// gone finds out how a transaction ended that was prepared and is not there any more, its decision being to commit: nil
// says that it was committed, and durably.
//
// A server that has lost the transaction gives its id to another one sooner or later, whose end says nothing about ours.
// Before that it does not know the id at all. Afterwards only the timeline tells, which changes whenever a standby is
// promoted or a backup restored to some point in time (PostgreSQL documentation, Timelines), so on another one than that of
// the PREPARE nothing but "aborted" is believed: that is certain to be a loss, whoever had the id.
func gone(ctx context.Context, conn backend.Conn, p prepared) error {
	f, err := readFate(ctx, conn, p, "")
	switch {
	case backend.SQLState(err) == "22023": // "transaction ID is in the future"
		return errLost
	case err != nil:
		return err
	case f.prepared:
		return errAtWork // the server that was asked to commit it was another one
	case p.XactID == "":
		return confirm(ctx, conn, p.identity)
	case f.status == "aborted":
		return errRolledBack
	case p.Timeline != "" && p.Timeline != f.timeline:
		return errFailedOver
	case f.status == "in progress":
		return errAtWork // somebody is committing it at this moment
	case f.status == "":
		return errTooOld
	}
	return confirm(ctx, conn, p.identity)
}

// commitDecided commits a prepared transaction whose decision is durable. One that is gone was finished by somebody else,
// who can only have committed it, unless a hand has interfered or its server has lost it. weak says that the session does not
// wait until its synchronous standby has the COMMIT PREPARED, which has no transaction in which that could be asked for.
func commitDecided(ctx context.Context, conn backend.Conn, p prepared, weak bool) error {
	err := finishPrepared(ctx, conn, "COMMIT", p.GID)
	switch {
	case err == nil && !weak:
		return nil
	case err == nil, errors.Is(err, backend.ErrUnreplicated):
		p.Timeline = "" // it was there a moment ago
		return gone(ctx, conn, p)
	case !errors.Is(err, errGone):
		return err
	}
	if failed := gone(ctx, conn, p); failed != nil || p.XactID != "" {
		return failed
	}
	return errGone
}

// rollBackPrepared rolls a prepared transaction back that is not decided and never will be. errGone says that its database,
// and no other, has nothing of it; worker is the name of the server processes that may yet prepare it, or empty.
func rollBackPrepared(ctx context.Context, conn backend.Conn, p prepared, worker string) error {
	err := finishPrepared(ctx, conn, "ROLLBACK", p.GID)
	if !errors.Is(err, errGone) {
		return err
	}
	p.XactID = "" // how it ended is clear
	f, err := readFate(ctx, conn, p, worker)
	switch {
	case err != nil:
		return err
	case f.prepared || f.workers:
		return errAtWork
	}
	return errGone
}

// workersSQL, what follows SELECT, finds the server processes of this login role that work under a name. Strangers may have
// sessions of the same name.
func workersSQL(name string) string {
	return `pid FROM pg_catalog.pg_stat_activity a WHERE a.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() AND a.usename OPERATOR(pg_catalog.=) SESSION_USER
	AND a.pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid() AND a.application_name OPERATOR(pg_catalog.=) ` + backend.Literal(name) + ` AND ` + backend.Literal(name) + ` OPERATOR(pg_catalog.<>) ''`
}

// terminateWorkers ends the server processes that still work on a distributed transaction, and returns errAtWork until
// there are none: a PREPARE that comes too late must not leave a prepared transaction behind.
func terminateWorkers(ctx context.Context, conn backend.Conn, application string) error {
	answer, err := conn.Control(ctx, `SELECT pg_catalog.count(pg_catalog.pg_terminate_backend(w.pid)) FROM (SELECT `+workersSQL(application)+`) w`)
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
	return commitDecided(ctx, conn, b.xact, b.weak)
}

// rollbackPrepared is the branch's second phase when there is no decision and never will be.
func (b *branch) rollbackPrepared(ctx context.Context, conn backend.Conn) error {
	p := b.xact
	if b.vote != votePrepared {
		p = prepared{GID: b.gid, identity: b.server.identity}
	}
	if err := rollBackPrepared(ctx, conn, p, b.worker); !errors.Is(err, errGone) {
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
	b.weak = is.weak
	return act(try, conn)
}
