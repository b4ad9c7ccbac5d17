// Package faults wraps a backend so that a test sees, and can fail, each message that goes to a database. A call fails
// before it ran, as when the request is lost, or after it ran, as when the answer is lost; the connection is gone
// either way, and the caller cannot tell which it was.
package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
)

// ErrInjected is the cause of every injected failure.
var ErrInjected = errors.New("injected fault")

// Event is one call on its way.
type Event struct {
	N     int    // its number among all calls of the plan, from 1
	Alias string // the connection
	Op    string // acquire, dial, exec, query or control
	SQL   string // the statements, those sent ahead included, joined by "; "
}

// Plan decides about each call. The zero value lets every call through.
type Plan struct {
	mu            sync.Mutex
	before, after Fault
	events        []Event
	held          int
}

// Fault looks at a call on its way and fails it with an error. It may be called from several goroutines.
type Fault func(ctx context.Context, e Event) error

// Set sets what is asked before each call, when it has not run, and after it, when it has and its answer is lost by an
// error. nil asks nothing.
func (p *Plan) Set(before, after Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before, p.after = before, after
}

var schemes atomic.Int64

// Scheme registers the plan under a URL scheme of its own, for URLs of inner's: a URL "postgres://..." of the inner
// scheme "postgres" becomes scheme + "://...".
func (p *Plan) Scheme(inner string) string {
	scheme := fmt.Sprintf("faults%d", schemes.Add(1))
	backend.Register(&driver{plan: p, inner: inner, scheme: scheme}, scheme)
	return scheme
}

// URL is a URL of a PostgreSQL database with the plan in between.
func (p *Plan) URL(scheme, url string) string {
	_, rest, _ := strings.Cut(url, "://")
	return scheme + "://" + rest
}

// Events are the calls so far.
func (p *Plan) Events() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Event(nil), p.events...)
}

// Held is the number of connections that were given out and have not come back.
func (p *Plan) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

func (p *Plan) hold(change int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held += change
}

// Reset forgets the calls so far; numbers begin at 1 again.
func (p *Plan) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = nil
}

func (p *Plan) note(alias, op, sql string) (e Event, before, after Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e = Event{N: len(p.events) + 1, Alias: alias, Op: op, SQL: sql}
	p.events = append(p.events, e)
	return e, p.before, p.after
}

// around runs a call between the plan's two questions.
func (p *Plan) around(ctx context.Context, alias, op, sql string, call func() error) (injected bool, err error) {
	e, before, after := p.note(alias, op, sql)
	if before != nil {
		if err := before(ctx, e); err != nil {
			return true, lost(err)
		}
	}
	if err := call(); err != nil {
		return false, err
	}
	if after != nil {
		if err := after(ctx, e); err != nil {
			return true, lost(err)
		}
	}
	return false, nil
}

// lost is what a client sees of a connection that broke while a call was under way.
func lost(err error) error {
	return &backend.Error{Class: backend.ClassConnection, Message: "the connection broke", Err: err}
}

type driver struct {
	plan          *Plan
	inner, scheme string
}

func (d *driver) driver() backend.Driver {
	inner, ok := backend.Lookup(d.inner)
	if !ok {
		panic("faults: the backend of " + d.inner + " is not imported")
	}
	return inner
}

func (d *driver) Features() features.Features { return d.driver().Features() }

func (d *driver) Open(cfg backend.Config) (backend.Database, error) {
	cfg.URL = d.inner + strings.TrimPrefix(cfg.URL, d.scheme)
	db, err := d.driver().Open(cfg)
	if err != nil {
		return nil, err
	}
	return &database{Database: db, plan: d.plan, alias: cfg.Alias}, nil
}

type database struct {
	backend.Database
	plan  *Plan
	alias string
}

func (d *database) Acquire(ctx context.Context) (backend.Conn, error) {
	return d.connect(ctx, "acquire", d.Database.Acquire)
}

func (d *database) Dial(ctx context.Context) (backend.Conn, error) {
	return d.connect(ctx, "dial", d.Database.Dial)
}

func (d *database) connect(ctx context.Context, op string, open func(context.Context) (backend.Conn, error)) (backend.Conn, error) {
	var inner backend.Conn
	injected, err := d.plan.around(ctx, d.alias, op, "", func() (err error) {
		inner, err = open(ctx)
		return err
	})
	if err != nil {
		if injected && inner != nil {
			inner.Discard()
			inner.Release()
		}
		return nil, err
	}
	d.plan.hold(1)
	return &conn{Conn: inner, db: d}, nil
}

type conn struct {
	backend.Conn
	db       *database
	returned sync.Once
}

func (c *conn) Release() {
	c.Conn.Release()
	c.returned.Do(func() { c.db.plan.hold(-1) })
}

func (c *conn) Discard() {
	c.Conn.Discard()
	c.returned.Do(func() { c.db.plan.hold(-1) })
}

func (c *conn) do(ctx context.Context, op, sql string, call func() error) error {
	injected, err := c.db.plan.around(ctx, c.db.alias, op, sql, call)
	if injected {
		c.Discard()
	}
	return err
}

func (c *conn) Exec(ctx context.Context, call backend.Call) (n int64, err error) {
	err = c.do(ctx, "exec", text(call), func() (err error) {
		n, err = c.Conn.Exec(ctx, call)
		return err
	})
	return n, err
}

func (c *conn) Query(ctx context.Context, call backend.Call) (rows backend.Rows, err error) {
	err = c.do(ctx, "query", text(call), func() (err error) {
		rows, err = c.Conn.Query(ctx, call)
		return err
	})
	if err != nil {
		if rows != nil {
			_ = rows.Close()
		}
		return nil, err
	}
	return rows, nil
}

func (c *conn) Control(ctx context.Context, statements ...string) (answer backend.Answer, err error) {
	err = c.do(ctx, "control", strings.Join(statements, "; "), func() (err error) {
		answer, err = c.Conn.Control(ctx, statements...)
		return err
	})
	if err != nil {
		return backend.Answer{}, err
	}
	return answer, nil
}

func text(call backend.Call) string {
	return strings.Join(append(append([]string(nil), call.Before...), call.SQL), "; ")
}
