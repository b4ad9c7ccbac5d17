package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hare-go/hare/hare/backend"
)

// A pooler in transaction mode, PgBouncer above all, lends a server process for one transaction. A statement that is
// prepared in one and run in the next is unknown there, or is a stranger's of the same name. Worse is the unnamed
// statement: a Bind to it in another round trip than its Parse runs whatever another client parsed last, and gives that
// client's answer without any error. Nothing in the protocol says that a pooler is there, and a configuration that says
// so may be out of date, so the way to the server is looked at when a database is first used, by facts:
//
//   - the number of the server process that the log-in told, against pg_backend_pid(). PostgreSQL itself makes them equal,
//     and a plain TCP proxy keeps them; a pooler makes a number up. It costs the first use one round trip, together with
//     the guards, and no more time than connect_timeout.
//   - only where they differ: of two connections one is served by a process that served the other, or by another process
//     than before, at the latest while the other has a transaction open. That is transaction mode. Where neither happens
//     among five connections, each has a session of its own. Two would not do: several poolers may stand behind one
//     address, and connections to different ones never meet.
//
// The second test may have to wait, for a pool that is full or that has one process. So it has a deadline of its own, after
// which the mode is unknown and is taken for transaction mode, which is right everywhere and merely slower, unless the
// URL says that it is not.

// way is what was found.
type way struct {
	pooler   backend.Pooling
	evidence string
	role     string          // quoted
	identity string          // of the database, where there is a direct address to compare
	guards   []backend.Guard // asked for and found
}

// shared reports whether the server's sessions are those of strangers, too: statements are not kept there, nothing is
// left in them, and nothing that strangers left is cleaned up.
func (w *way) shared() bool {
	return w.pooler == backend.PoolingTransaction || w.pooler == backend.PoolingUnknown
}

const (
	displaceTime   = 3 * time.Second // for the whole test of several connections, on first use
	displaceTrials = 4               // connections beside the first
)

// look finds the way that the connection has come. Where the URL tells, it is believed, if believe says so. A test of several
// connections takes no longer than patience; the connection may be closed afterwards, where the time ran out on it.
func (d *database) look(ctx context.Context, pg *pgconn.PgConn, believe bool, patience time.Duration) (*way, error) {
	bounded, cancel := context.WithTimeout(ctx, d.options.connectTimeout)
	defer cancel()
	answer, err := simple(bounded, pg, d.question)
	switch {
	case err != nil && bounded.Err() != nil && ctx.Err() == nil:
		return nil, &backend.Error{Class: backend.ClassConnection, NotDone: true, Err: err, Message: fmt.Sprintf("the log-in succeeded, and the first question was not answered within %v (connect_timeout): "+
			"a pooler on the way has no server connection to lend, or the server stands still", d.options.connectTimeout)}
	case err != nil:
		return nil, err
	}
	if len(answer.Row) != 3+len(d.options.guards) {
		return nil, unsent("the server does not answer a question about itself")
	}
	w := &way{role: answer.Row[1], identity: answer.Row[2], guards: guardsFound(d.options, answer.Row[3:])}
	wireOf(pg).known = true
	told := strconv.FormatUint(uint64(pg.PID()), 10)
	seen := fmt.Sprintf("the log-in told server process %s, and process %s answers", told, answer.Row[0])
	switch {
	case believe && d.options.pooled != nil && *d.options.pooled:
		w.pooler, w.evidence = backend.PoolingTransaction, "transaction_pooling=true in the URL; "+seen
	case told == answer.Row[0]:
		w.pooler, w.evidence = backend.PoolingNone, seen
	default:
		w.pooler, w.evidence = d.displace(ctx, pg, patience)
		w.evidence = seen + "; " + w.evidence
		if believe && d.options.pooled != nil && w.pooler == backend.PoolingUnknown {
			w.pooler, w.evidence = backend.PoolingSession, "transaction_pooling=false in the URL; "+w.evidence
		}
	}
	// The caller's own end is none of the facts.
	if ctx.Err() != nil {
		return nil, notDone(context.Cause(ctx))
	}
	return w, nil
}

// displace tries whether several connections have each a server process of its own, whatever the others do. Simple
// statements by turns come first: they keep nobody waiting, also where there is one process for all. A connection stays open
// until the end, so that a balancer has to send some of them to the same pooler.
func (d *database) displace(ctx context.Context, a *pgconn.PgConn, patience time.Duration) (backend.Pooling, string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	const which = "SELECT pg_catalog.pg_backend_pid()"
	process, user := map[*pgconn.PgConn]string{}, map[string]*pgconn.PgConn{}
	for range displaceTrials {
		other, err := d.connectThrough(ctx)
		if err != nil {
			return backend.PoolingUnknown, fmt.Sprintf("another connection could not be had within %v to see its mode", patience)
		}
		defer func() { _ = other.Close(ctx) }() // the socket is closed whatever the error
		b := other.PgConn()
		for _, step := range []struct {
			on  *pgconn.PgConn
			sql string
		}{{a, which}, {a, which}, {b, which}, {b, "BEGIN; " + which}, {a, which}, {b, "ROLLBACK"}} {
			answer, err := simple(ctx, step.on, step.sql)
			if err != nil {
				return backend.PoolingUnknown, fmt.Sprintf("several connections could not be served side by side within %v to see its mode", patience)
			}
			if len(answer.Row) == 0 {
				continue
			}
			now := answer.Row[0]
			if before := process[step.on]; before != "" && before != now {
				return backend.PoolingTransaction, fmt.Sprintf("one connection was served by process %s and then by %s", before, now)
			}
			if user[now] != nil && user[now] != step.on {
				return backend.PoolingTransaction, fmt.Sprintf("process %s served two connections", now)
			}
			process[step.on], user[now] = now, step.on
		}
	}
	return backend.PoolingSession, fmt.Sprintf("%d connections were served by a process of its own each throughout", len(process))
}

// connectThrough opens a connection that goes the way of the pool, without the guards if it is refused with them.
func (d *database) connectThrough(ctx context.Context) (*pgx.Conn, error) {
	config, bare := d.config.ConnConfig.Copy(), d.bare.Load()
	if bare {
		d.options.dropGuards(config)
	}
	c, err := d.connectWith(ctx, config)
	if startupRefused(err) && !bare && d.options.sendsGuards() {
		config = d.config.ConnConfig.Copy()
		d.options.dropGuards(config)
		c, err = d.connectWith(ctx, config)
	}
	return c, err
}

// judge refuses a way on which what the URL says is not so.
func (d *database) judge(w *way) error {
	if d.options.pooled != nil && !*d.options.pooled && w.pooler == backend.PoolingTransaction {
		return misconfigured("transaction_pooling", "is false, and a pooler in transaction mode is on the way: %s. Leave it out, or say true", w.evidence)
	}
	if missing := d.compare(w.guards, w.role); missing != nil {
		return missing
	}
	return nil
}

// tell logs what was found of a pooler, and what follows from it.
func (d *database) tell(ctx context.Context, w *way) {
	level, meaning := slog.LevelInfo, "each connection keeps its session; statements are kept prepared"
	switch {
	case w.pooler == backend.PoolingNone:
		level = slog.LevelDebug
	case w.shared():
		meaning = "statements are not kept prepared, and those that need a session are refused"
	}
	slog.Default().Log(ctx, level, "the way to the database", "alias", d.alias, "pooling", string(w.pooler),
		"evidence", w.evidence, "meaning", meaning)
}
