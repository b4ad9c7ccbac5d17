// Package clickhouse makes ClickHouse known to hare: its URLs are checked and its features can be asked, so that a
// configuration may name such a database and code that asks features decides rightly. Querying it is not available yet:
// whatever would need a connection is refused with a features.UnsupportedError before anything is sent, and no
// connection is ever opened. A program imports the package for its effect:
//
//	import _ "github.com/hare-go/hare/backends/clickhouse"
//
// It serves the URL scheme clickhouse:
//
//	clickhouse://user:password@host:8123/database?secure=true
//
// The options:
//
//	max_size                most connections of the pool, 1 to 10000
//	pool_acquire_timeout    longest wait for a free connection: seconds, or a duration such as 15s
//	connect_timeout         longest time to dial and log in, likewise
//	secure                  true or false: TLS
//	compression             none, lz4 or zstd
package clickhouse

import (
	"context"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
)

func init() { backend.Register(driver{}, "clickhouse") }

// Queries is the feature that the errors of this package name: running statements at all. It is no flag of
// features.Features, as every other backend has it.
const Queries features.Flag = "Queries"

type driver struct{}

// Features is what ClickHouse can do.
func (driver) Features() features.Features { return supported }

// Open checks the URL and returns a database that can be asked for its features.
func (driver) Open(cfg backend.Config) (backend.Database, error) {
	if err := checkURL(cfg.URL); err != nil {
		return nil, err
	}
	return database{alias: cfg.Alias}, nil
}

type database struct{ alias string }

// Features is what ClickHouse can do.
func (database) Features() features.Features { return supported }

// Dialect is how ClickHouse spells what hare says.
func (d database) Dialect() backend.Dialect { return dialect(d) }

// Acquire refuses.
func (d database) Acquire(context.Context) (backend.Conn, error) { return nil, d.unsupported() }

// Dial refuses.
func (d database) Dial(context.Context) (backend.Conn, error) { return nil, d.unsupported() }

// Close has nothing to close.
func (database) Close() {}

func (d database) unsupported() error {
	return &features.UnsupportedError{
		Alias: d.alias, Backend: supported.Backend, Feature: Queries,
		Detail: "querying ClickHouse is not available yet; use an alias of another backend",
	}
}
