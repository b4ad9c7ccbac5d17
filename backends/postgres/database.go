package postgres

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
)

// database is one configured database. Its pool starts with the first Acquire, because a pool dials as soon as it is
// there.
type database struct {
	alias    string
	options  options
	config   *pgxpool.Config
	direct   *pgx.ConnConfig // past the pooler, or nil
	question string          // what the first use asks the server
	inUse    chan struct{}   // an entry for each connection that is lent or being opened; full when all are

	looking     chan struct{}       // full while somebody finds the way out
	way         atomic.Pointer[way] // nil before the first use
	bare        atomic.Bool         // the guards are not sent, because a pooler on the way refuses them
	directKnown atomic.Bool         // the direct address leads to the same database

	opened  time.Time
	asked   atomic.Int64                  // when a session was asked for the guards last, in nanoseconds since then
	missing atomic.Pointer[backend.Guard] // the one that was not in force then

	mu     sync.RWMutex
	pool   *pgxpool.Pool
	closed bool
}

// Features is what PostgreSQL can do.
func (d *database) Features() features.Features { return supported }

// Dialect is how PostgreSQL spells what hare says.
func (d *database) Dialect() backend.Dialect { return dialect{} }

// TablesOwners are the roles that the URL trusts with hare's tables.
func (d *database) TablesOwners() []string { return d.options.tablesOwners }

// Acquire takes a connection from the pool. Waiting for a free one is bounded here, and not with a context for pgxpool,
// so that a call that need not wait pays for no timer.
func (d *database) Acquire(ctx context.Context) (backend.Conn, error) {
	pool, err := d.running()
	if err != nil {
		return nil, err
	}
	select {
	case d.inUse <- struct{}{}:
	default:
		if err := d.wait(ctx); err != nil {
			return nil, err
		}
	}
	pooled, err := pool.Acquire(ctx)
	w := d.way.Load()
	if w == nil || startupRefused(err) {
		pooled, w, err = firstUse(ctx, d, pooled, err, pool.Acquire)
	}
	if err == nil && len(d.options.guards) > 0 {
		err = d.watch(ctx, pooled, w)
	}
	if err != nil {
		<-d.inUse
		return nil, connectFailure(ctx, err)
	}
	return &conn{session: d.session(pooled.Conn(), w), pooled: pooled, database: d}, nil
}

// wait waits for a connection to be given back.
func (d *database) wait(ctx context.Context) error {
	timer := time.NewTimer(d.options.acquireTimeout)
	defer timer.Stop()
	select {
	case d.inUse <- struct{}{}:
		return nil
	case <-ctx.Done():
		return notDone(ctx.Err())
	case <-timer.C:
		return &backend.Error{
			Class:   backend.ClassPool,
			Message: fmt.Sprintf("no connection became free within %v: all %d are in use", d.options.acquireTimeout, cap(d.inUse)),
			NotDone: true,
		}
	}
}

// abandon gives the place of a connection back that was given up, soon if not at once.
func (d *database) abandon(given *pgx.Conn) {
	select {
	case <-given.PgConn().CleanupDone():
		<-d.inUse
	default:
		go func() {
			select {
			case <-given.PgConn().CleanupDone():
			case <-time.After(abandonTime):
			}
			<-d.inUse
		}()
	}
}

// Dial opens a connection outside the pool, to the direct address where there is one.
func (d *database) Dial(ctx context.Context) (backend.Conn, error) {
	d.mu.RLock()
	closed := d.closed
	d.mu.RUnlock()
	if closed {
		return nil, errClosed()
	}
	if d.direct != nil {
		dialled, err := d.dialDirect(ctx)
		if err != nil {
			return nil, connectFailure(ctx, err)
		}
		return &conn{session: d.session(dialled, &way{pooler: backend.PoolingNone}), own: dialled}, nil
	}
	open := func(ctx context.Context) (ownConn, error) {
		config := d.config.ConnConfig.Copy()
		if d.bareFor(ctx) {
			d.options.dropGuards(config)
		}
		dialled, err := d.connectWith(ctx, config)
		return ownConn{dialled}, err
	}
	c, err := open(ctx)
	w := d.way.Load()
	if w == nil || startupRefused(err) {
		c, w, err = firstUse(ctx, d, c, err, open)
	}
	if err != nil {
		return nil, connectFailure(ctx, err)
	}
	return &conn{session: d.session(c.conn, w), own: c.conn}, nil
}

// Close closes the pool and its idle connections. It does not wait for connections in use.
func (d *database) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	switch {
	case d.pool == nil:
	case d.pool.Stat().AcquiredConns() == 0:
		d.pool.Close()
	default:
		// pgxpool waits until the last connection is released.
		go d.pool.Close()
	}
}

// errClosed is what everything gets after Close.
func errClosed() error {
	return &backend.Error{Class: backend.ClassConnection, Err: backend.ErrClosed, NotDone: true}
}

// running is the pool, started if need be.
func (d *database) running() (*pgxpool.Pool, error) {
	d.mu.RLock()
	pool, closed := d.pool, d.closed
	d.mu.RUnlock()
	if pool != nil && !closed {
		return pool, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errClosed()
	}
	if d.pool == nil {
		started, err := pgxpool.NewWithConfig(context.Background(), d.config)
		if err != nil {
			return nil, notDone(err)
		}
		d.pool = started
	}
	return d.pool, nil
}
