package hare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/compile"
	"github.com/hare-go/hare/internal/session"
)

// Connections are the open databases of a program, by alias. They are safe for concurrent use.
type Connections struct {
	clients  map[string]*Client
	aliases  []string
	fallback string // the alias where none is named, or empty
	closed   atomic.Bool
}

// Open checks the whole configuration (the aliases, the default, each URL and every option in it) and gives the
// connections without dialling: a database is dialled by the first statement that needs it. All mistakes are returned
// together; each is a [*ConfigurationError].
//
// The caller must Close the connections. Usually [SetDefault] follows, so that querysets find them.
func Open(ctx context.Context, cfg Config) (*Connections, error) {
	if ctx == nil {
		return nil, errNoContext
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	c := &Connections{clients: map[string]*Client{}, aliases: sortedKeys(cfg.Connections), fallback: cfg.defaultAlias()}
	var faults []error
	for _, alias := range c.aliases {
		client, err := c.open(alias, cfg.Connections[alias])
		if err != nil {
			faults = append(faults, err)
			continue
		}
		c.clients[alias] = client
	}
	if len(faults) > 0 {
		c.Close()
		return nil, errors.Join(faults...)
	}
	return c, nil
}

func (c *Connections) open(alias, address string) (*Client, error) {
	d, err := driver(alias, address)
	if err != nil {
		return nil, err
	}
	db, err := d.Open(backend.Config{Alias: alias, URL: address})
	if err != nil {
		return nil, ErrorFrom(alias, "", err)
	}
	return &Client{
		alias: alias, owner: c, db: db, pool: session.Pool{DB: db}, rooms: new(rooms),
		compiler: compile.New(db.Dialect(), db.Features(), alias),
	}, nil
}

// Client is the client of a connection; "" is the default one, by the rule of [Config.Default]. An unknown alias is
// a [*ConfigurationError] that names the nearest known one.
func (c *Connections) Client(alias string) (*Client, error) {
	if err := c.opened(); err != nil {
		return nil, err
	}
	if alias == "" {
		if c.fallback == "" {
			return nil, &ConfigurationError{Option: "default", Reason: fmt.Sprintf(
				"no connection is named, and none of %q is the default: name one, or set the default", c.aliases)}
		}
		alias = c.fallback
	}
	client, ok := c.clients[alias]
	if !ok {
		return nil, &ConfigurationError{Alias: alias, Reason: "there is no such connection" + nearest(alias, c.aliases)}
	}
	return client, nil
}

// Aliases lists the connections in order.
func (c *Connections) Aliases() []string {
	if c == nil {
		return nil
	}
	return slices.Clone(c.aliases)
}

// opened refuses connections that nobody has opened.
func (c *Connections) opened() error {
	if c == nil || c.clients == nil {
		return &QueryError{Reason: "the connections are nil or a zero value: hare.Open gives some"}
	}
	return nil
}

// Close closes all pools. Connections in use are closed when they are released; a statement that starts afterwards
// gets a [*QueryError]. Closing twice does nothing.
func (c *Connections) Close() {
	if c == nil || c.closed.Swap(true) {
		return
	}
	for _, client := range c.clients {
		session.Close(client.db)
	}
}

var process atomic.Pointer[Connections]

// SetDefault makes c the connections that querysets use where the context carries none, as slog.SetDefault does for
// loggers. nil takes them away. It closes nothing.
func SetDefault(c *Connections) { process.Store(c) }

type connectionsKey struct{}

// WithConnections gives a context in which querysets use c: for a test, or a tenant with databases of its own. With nil they
// use those of [SetDefault]. A nil ctx stays nil, which every call refuses.
func WithConnections(ctx context.Context, c *Connections) context.Context {
	if ctx == nil {
		return nil
	}
	return context.WithValue(ctx, connectionsKey{}, c)
}

// FromContext are the connections of ctx, else those of [SetDefault]; where there are neither, a
// [*ConfigurationError].
func FromContext(ctx context.Context) (*Connections, error) {
	if ctx == nil {
		return nil, errNoContext
	}
	if c, ok := ctx.Value(connectionsKey{}).(*Connections); ok && c != nil {
		return c, nil
	}
	if c := process.Load(); c != nil {
		return c, nil
	}
	return nil, &ConfigurationError{Reason: "there are no connections: call hare.SetDefault at the program's start, or give the context some with hare.WithConnections"}
}
