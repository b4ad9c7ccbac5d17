// Package backend is the contract between hare and a database: what database/sql/driver is to database/sql.
// A program imports a backend for its effect and never calls this package:
//
//	import _ "github.com/hare-go/hare/backends/postgres"
//
// A backend registers a [Driver] for its URL schemes. The driver checks a URL without dialling and gives a
// [Database]; a Database lends a [Conn]; a Conn runs a [Call]. Everything else (models, querysets,
// transactions, the distributed commit) stands on these few methods, so that a wrapper around a Database
// sees each message that goes to a server.
package backend

import (
	"context"
	"slices"
	"sync"

	"github.com/hare-go/hare/features"
)

// Driver opens databases of one kind.
type Driver interface {
	// Features is what databases of this kind can do, known without a connection.
	Features() features.Features
	// Open checks the URL and every option in it and returns the database without dialling. A wrong option
	// is an [*OptionError].
	Open(cfg Config) (Database, error)
}

// Config is one configured connection.
type Config struct {
	Alias string
	URL   string
}

// Database is one configured database with its pool. It is safe for concurrent use.
type Database interface {
	// Features is what the database can do.
	Features() features.Features
	// Dialect is how the database spells what hare says.
	Dialect() Dialect
	// Acquire takes a connection from the pool, dialling if needed, and waits for a free one for as long as
	// ctx and the pool's acquire time-out allow. The caller must Release it.
	Acquire(ctx context.Context) (Conn, error)
	// Dial opens a connection of its own outside the pool, so that a starving pool cannot stop recovery.
	// Release closes it.
	Dial(ctx context.Context) (Conn, error)
	// Close closes the pool. Connections in use are closed when they are released.
	Close()
}

// Conn is one connection. It is not safe for concurrent use.
type Conn interface {
	// Exec runs the call and returns the number of rows that it wrote.
	Exec(ctx context.Context, call Call) (int64, error)
	// Query runs the call and returns its rows, positioned before the first. The connection can do nothing
	// else until they are closed.
	Query(ctx context.Context, call Call) (Rows, error)
	// Control runs statements that manage transactions (BEGIN, SAVEPOINT, COMMIT, PREPARE TRANSACTION, ...)
	// together in one round trip, never cached and never as prepared statements. After an error the rest of
	// them does not run.
	Control(ctx context.Context, statements ...string) (Answer, error)
	// Status is the transaction status after the last answer of the server.
	Status() Status
	// Setting is the present value of a setting that the server reports with its answers whenever it changes, or empty.
	Setting(name string) string
	// Release gives the connection back: to the pool when it is idle and clean, else it is closed.
	Release()
	// Discard closes the connection at once without waiting for the server.
	Discard()
}

// Call is one statement with its arguments.
type Call struct {
	// Before are control statements to send ahead in the same round trip: BEGIN travels with the first
	// statement of a transaction. They run before anything else that the call needs, preparing SQL included, so
	// that a SAVEPOINT stands before the statement can fail. If one of them fails, the statement does not run.
	Before []string
	// SQL is the statement, with placeholders $1, $2, ...
	SQL string
	// Args are the arguments, as [Canonical] values, or values that the database's own driver understands.
	Args []any
	// Batch, when set, holds one list of arguments for each run of SQL instead of Args: the statement runs
	// once for each, in order, in as few round trips as the database allows. With Query the rows of all runs
	// follow one another.
	Batch [][]any
	// ReadOnly: hare rendered SQL itself as a SELECT, so that it does not write. A distributed transaction commits
	// a database in which only such statements ran without preparing it.
	ReadOnly bool
	// Lasting: the program wrote SQL itself, and it may leave something in the session that outlives its transaction: a
	// setting, an advisory lock, a held cursor, a temporary table. A session is cleaned before it goes
	// back to the pool. SQLite tells by itself what a statement leaves, and its connection is then closed.
	Lasting bool
	// Session names what in SQL makes no sense without a session that stays with the caller: "LISTEN", "SET", a session's
	// "pg_advisory_lock", ...; empty where nothing does. Unlike Lasting it is not said on suspicion. A database behind a
	// pooler that gives each transaction another session refuses such a statement before it is sent.
	Session string
}

// Answer is what a server says to control statements.
type Answer struct {
	// Tag is the command tag of the last statement, without its counts: a server that answers COMMIT or PREPARE
	// TRANSACTION with the tag ROLLBACK has rolled back and reports no error.
	Tag string
	// Row is the first row that any of the statements returned, as text; NULL is the empty string.
	Row []string
}

// Rows are the rows of one query.
type Rows interface {
	// Columns are the names of the columns.
	Columns() []string
	// Next moves to the next row and reports whether there is one.
	Next() bool
	// Scan decodes the current row into the struct at base: column i goes where dests[i] says. There must be
	// as many dests as columns. A value that does not fit is a [*DecodeError].
	Scan(base Pointer, dests []Dest) error
	// Values decodes the current row into canonical values, for queries that no model describes.
	Values() ([]any, error)
	// Close ends the query. It may be called more than once and returns the query's error, as Err.
	Close() error
	// Err is the error that ended the rows, or nil. After Next returned false it is final.
	Err() error
}

// Status is a connection's transaction status.
type Status byte

// The statuses, as PostgreSQL's ReadyForQuery message has them (documentation, Message Formats).
const (
	StatusIdle          Status = 'I' // no transaction
	StatusInTransaction Status = 'T' // in a transaction
	StatusFailed        Status = 'E' // in a transaction that a failed statement aborted
	StatusClosed        Status = 'X' // the connection is gone
)

var registry = struct {
	sync.RWMutex
	drivers map[string]Driver
}{drivers: map[string]Driver{}}

// Register makes a driver available under the URL schemes. A backend calls it from its init function. A scheme
// that is taken panics: two backends of one kind in a program are a mistake in its imports.
func Register(driver Driver, schemes ...string) {
	registry.Lock()
	defer registry.Unlock()
	for _, scheme := range schemes {
		if _, taken := registry.drivers[scheme]; taken {
			panic("backend: the URL scheme " + scheme + " is registered twice")
		}
		registry.drivers[scheme] = driver
	}
}

// Lookup finds the driver of a URL scheme.
func Lookup(scheme string) (Driver, bool) {
	registry.RLock()
	defer registry.RUnlock()
	driver, ok := registry.drivers[scheme]
	return driver, ok
}

// Schemes lists the registered URL schemes in order.
func Schemes() []string {
	registry.RLock()
	defer registry.RUnlock()
	schemes := make([]string, 0, len(registry.drivers))
	for scheme := range registry.drivers {
		schemes = append(schemes, scheme)
	}
	slices.Sort(schemes)
	return schemes
}
