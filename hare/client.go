package hare

import (
	"context"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/compile"
	"github.com/hare-go/hare/internal/schema"
	"github.com/hare-go/hare/internal/session"
)

// Client is one configured database. It is safe for concurrent use.
//
// A statement joins the transaction that its context carries on this database (transactions.Atomic and
// transactions.Distributed put it there), and runs on a connection of the pool where there is none. A client that a
// [Distributed] hands out is bound to its transaction whatever the context is.
type Client struct {
	alias    string
	owner    *Connections
	db       backend.Database
	compiler *compile.Compiler
	pool     session.Runner // what runs statements outside transactions
	rooms    *rooms
	level    *session.Level // the transaction that the client is bound to, or nil
	refusal  error          // what every call returns, for an alias that a Distributed does not know
}

// Alias is the connection's name in the configuration.
func (c *Client) Alias() string {
	if c == nil {
		return ""
	}
	return c.alias
}

// Features is what the database can do. They are known without a connection.
func (c *Client) Features() features.Features {
	if c == nil || c.db == nil {
		return features.Features{}
	}
	return c.db.Features()
}

// InTransaction reports whether the client is bound to a transaction that is still open, as those are that a
// [Distributed] hands out. A client of [Connections] is bound to none, also while a context carries one for it.
func (c *Client) InTransaction() bool { return c != nil && c.level != nil && !c.level.Over() }

// Database is the connection as its backend gives it, for packages that build on hare as transactions and leases do.
// Statements sent through it join no transaction and get none of hare's checks and errors. A client that refuses every call
// has none: nil.
func (c *Client) Database() backend.Database {
	if c == nil {
		return nil
	}
	return c.db
}

// Exec runs a statement and returns the number of rows that it wrote. The placeholders are $1, $2, ... on every
// database. An argument is any value that a field of a model can have, or that the database's own driver takes.
//
// Statements that begin or end transactions and savepoints are a [*QueryError], wherever they stand in the text: they are
// the business of package transactions. What a statement leaves in its connection (a setting, a temporary table) lasts until the
// end of its transaction, or of the call outside one; on SQLite a PRAGMA that the URL has an option for is a [*QueryError], too.
func (c *Client) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	call, err := c.rawCall(sql, args)
	if err != nil {
		return 0, err
	}
	return c.exec(ctx, call)
}

// Query runs a statement and returns its rows, which the caller must close. Placeholders and arguments are as in
// [Client.Exec]. Inside a transaction nothing else can run in it before the rows are closed.
func (c *Client) Query(ctx context.Context, sql string, args ...any) (*Rows, error) {
	call, err := c.rawCall(sql, args)
	if err != nil {
		return nil, err
	}
	rows, err := c.query(ctx, call)
	if err != nil {
		return nil, err
	}
	return &Rows{rows: session.Stream(rows), alias: c.alias, sql: sql}, nil
}

func (c *Client) rawCall(sql string, args []any) (backend.Call, error) {
	if err := c.refuseControl(sql); err != nil {
		return backend.Call{}, err
	}
	call := backend.Call{SQL: sql, Lasting: lasting(sql, headsOf(sql))}
	if call.Lasting {
		call.Session = needsSession(sql)
	}
	if len(args) > 0 {
		call.Args = make([]any, len(args))
		for i, arg := range args {
			call.Args[i] = schema.Canonical(arg)
		}
	}
	return call, nil
}

// refuseControl refuses a text in which a statement begins or ends a transaction or a savepoint. Where the database's own
// parser finds them (features.Features.RefusesTransactionControl) nothing is left to do.
func (c *Client) refuseControl(sql string) error {
	if c != nil && c.db != nil && c.db.Features().RefusesTransactionControl {
		return nil
	}
	word := transactionControl(sql)
	if word == "" {
		return nil
	}
	return &QueryError{Reason: word + " is for package transactions: use transactions.Atomic, nested for a savepoint. Where it is no statement that PostgreSQL " +
		"would run, give texts as arguments, a function's body between dollar quotes, and each statement a call of its own"}
}

// exec runs a statement where it belongs.
func (c *Client) exec(ctx context.Context, call backend.Call) (int64, error) {
	run, err := c.runner(ctx)
	if err != nil {
		return 0, err
	}
	n, err := run.Exec(ctx, call)
	return n, ErrorFrom(c.alias, call.SQL, err)
}

// query runs a statement with rows where it belongs. An error of the rows themselves is not turned yet.
func (c *Client) query(ctx context.Context, call backend.Call) (backend.Rows, error) {
	run, err := c.runner(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := run.Query(ctx, call)
	return rows, ErrorFrom(c.alias, call.SQL, err)
}

// runner is what a statement of ctx runs on. Closing the connections does not reach into open transactions.
func (c *Client) runner(ctx context.Context) (session.Runner, error) {
	level, err := c.joined(ctx)
	if err != nil {
		return nil, err
	}
	if level != nil {
		return level, nil
	}
	return c.pool, nil
}

// joined is the open transaction that statements of ctx take part in, or nil: they run on connections of the pool.
func (c *Client) joined(ctx context.Context) (*session.Level, error) {
	switch {
	case c == nil || c.db == nil:
		return nil, c.refused()
	case ctx == nil:
		return nil, errNoContext
	case c.level != nil:
		return session.Within(ctx, c.level), nil
	}
	level, err := session.Join(ctx, c.alias, c.db)
	switch {
	case err != nil:
		return nil, ErrorFrom(c.alias, "", err)
	case level == nil && c.owner.closed.Load():
		return nil, errClosed
	}
	return level, nil
}

// refused is why a client without a database refuses every call.
func (c *Client) refused() error {
	switch {
	case c == nil:
		return &QueryError{Reason: "the client is nil: Connections.Client gives one"}
	case c.refusal != nil:
		return c.refusal
	}
	return &QueryError{Reason: "the client is a zero value: Connections.Client gives one"}
}

var (
	errClosed    = &QueryError{Reason: "the connections are closed"}
	errNoContext = &QueryError{Reason: "the ctx is nil: pass the one of the caller, or context.Background()"}
)

// atomically runs fn so that its statements take effect together or not at all: in a savepoint of the transaction of
// ctx, else in a transaction of its own.
func (c *Client) atomically(ctx context.Context, fn func(session.Runner) error) error {
	level, err := c.joined(ctx)
	if err != nil {
		return err
	}
	if level != nil {
		ctx = session.With(ctx, level)
	}
	return ErrorFrom(c.alias, "", session.Atomically(ctx, c.alias, c.db, fn))
}
