package postgres

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/hare/backend"
)

// opened is a connection that has just been opened, of the pool or of its own.
type opened interface {
	Conn() *pgx.Conn
	Hijack() *pgx.Conn // takes it from the pool
}

// ownConn is a connection of its own.
type ownConn struct{ conn *pgx.Conn }

func (c ownConn) Conn() *pgx.Conn { return c.conn }

func (c ownConn) Hijack() *pgx.Conn { return c.conn }

// firstUse completes an open that found the way unknown, or was refused for what it may be: it looks at the way with the
// connection, once for all who come at the same time, and gives a connection that can be used. What fails is not
// remembered: the next use looks again, with new connections.
func firstUse[C opened](ctx context.Context, d *database, c C, refusal error, open func(context.Context) (C, error)) (C, *way, error) {
	var none C
	select {
	case d.looking <- struct{}{}:
		defer func() { <-d.looking }()
	case <-ctx.Done():
		if refusal == nil {
			closeAtOnce(c.Hijack())
		}
		return none, nil, notDone(context.Cause(ctx))
	}
	if startupRefused(refusal) && d.options.sendsGuards() {
		again, err := open(context.WithValue(ctx, bareKey, true))
		if err != nil {
			return none, nil, refusal // which had another cause, a pooler that is full for example
		}
		if _, bare := again.Conn().PgConn().CustomData()[string(bareKey)]; bare && !d.bare.Load() {
			d.way.Store(nil) // another one than before; first, so that nobody uses an open without guards that has not been looked at
			d.bare.Store(true)
		}
		c, refusal = again, nil
	}
	if refusal != nil {
		return none, nil, refusal
	}
	if w := d.way.Load(); w != nil {
		return c, w, nil
	}
	w, err := d.look(ctx, c.Conn().PgConn(), true, displaceTime)
	if err == nil {
		err = d.judge(w)
	}
	if err != nil {
		d.bare.Store(false)
		closeAtOnce(c.Hijack())
		return none, nil, err
	}
	if c.Conn().IsClosed() {
		closeAtOnce(c.Hijack())
		if c, err = open(ctx); err != nil {
			return none, nil, err
		}
	}
	d.way.Store(w)
	d.tell(ctx, w)
	return c, w, nil
}

// estranged is told that the server did not know a statement that was prepared on this connection, or knew it too well. On a
// connection to the server itself somebody has run DEALLOCATE ALL. Else the way is another one than was found, and as long
// as that is open statements are not kept prepared.
func (s *session) estranged(ctx context.Context) {
	if s.status() == backend.StatusIdle {
		answer, err := simple(ctx, s.pg, "SELECT pg_catalog.pg_backend_pid()")
		if err == nil && len(answer.Row) == 1 && answer.Row[0] == strconv.FormatUint(uint64(s.pg.PID()), 10) {
			return
		}
		s.unnamed = true
	}
	s.database.doubt()
}

// doubt has the next use of the database look at the way again. A pooler that was taken for one in session mode is not
// trusted again.
func (d *database) doubt() {
	w := d.way.Load()
	switch {
	case w == nil || w.shared():
	case w.pooler == backend.PoolingNone:
		d.way.CompareAndSwap(w, nil)
	default:
		changed := *w
		changed.pooler = backend.PoolingUnknown
		changed.evidence = "a statement prepared on a connection was unknown there later; before that, " + w.evidence
		if d.way.CompareAndSwap(w, &changed) {
			slog.Default().Warn("the pooler on the way to the database does not keep sessions apart: statements are no longer kept prepared",
				"alias", d.alias, "evidence", changed.evidence)
		}
	}
}

// Observe looks at the way to the server and does not believe the URL, over connections of its own that go the way
// of the pool. Where no call waits for it, it is given more time than a first use takes: half of what the caller has.
func (d *database) Observe(ctx context.Context) (backend.Path, error) {
	patience := displaceTime
	if deadline, ok := ctx.Deadline(); ok {
		patience = max(patience, (time.Until(deadline) / 2).Truncate(time.Second))
	}
	ctx, cancel := context.WithTimeout(ctx, 2*d.options.connectTimeout+patience)
	defer cancel()
	c, err := d.connectThrough(ctx)
	if err != nil {
		return backend.Path{}, connectFailure(ctx, err)
	}
	defer closeAtOnce(c)
	w, err := d.look(ctx, c.PgConn(), false, patience)
	if err != nil {
		return backend.Path{}, connectFailure(ctx, err)
	}
	path := backend.Path{
		Pooler: w.pooler, Evidence: w.evidence, Told: d.options.pooled, Guards: w.guards, Direct: d.options.directAddress(),
		Transport: wireOf(c.PgConn()).way,
	}
	if d.direct != nil {
		if path.DirectElsewhere, path.DirectTransport, err = d.directElsewhere(ctx, w); err != nil {
			return path, connectFailure(ctx, err)
		}
	}
	return path, nil
}
