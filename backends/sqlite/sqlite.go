// Package sqlite is hare's backend for SQLite. The engine is part of the program (ncruces/go-sqlite3, SQLite compiled to
// Go), so that neither cgo nor a library on the machine is needed. A program imports it for its effect:
//
//	import _ "github.com/hare-go/hare/backends/sqlite"
//
// It serves the URL scheme sqlite. The path is relative to the working directory unless it begins with a slash; a "?" or
// "%" in it is written %3F or %25:
//
//	sqlite:library.db
//	sqlite:/var/lib/library.db?busy_timeout=10s&synchronous=full
//	sqlite::memory:
//
// A memory database belongs to the opened database: all its connections see the same rows, two databases opened from the
// same URL do not, and closing it destroys it. As in a file in WAL mode, readers do not wait for the writer, nor it for
// them.
//
// The options, all of them checked before the file is opened. Those of SQLite are its PRAGMA statements of the same name:
//
//	max_size                most connections of the pool, 1 to 10000. Default 16. They are opened when they are needed
//	                        and kept; each takes half a megabyte at least, and cache_size on top
//	pool_acquire_timeout    longest wait for a free connection: seconds, or a duration such as 15s. Default 30s
//	statement_cache_size    prepared statements kept on each connection, 0 to 1000000. Default 512
//	mode                    rwc creates the file, rw does not, ro refuses every write. Default rwc
//	busy_timeout            how long a statement waits for another connection's lock: milliseconds, or a duration such
//	                        as 5s; 0 is not at all. Default 5s. A longer one hides a writer that never commits
//	foreign_keys            on or off. Default on: each write to a table with references looks up the referenced rows
//	journal_mode            delete, truncate, persist, memory, wal or off. Default wal: readers and the writer do not
//	                        block one another; costs two more files, which must lie on a local disk
//	synchronous             off, normal, full or extra. Default normal: in WAL mode a commit does not wait for the disk,
//	                        so that a crash of the machine, not of the program, can undo the last transactions but
//	                        never corrupts the file. full waits at each commit
//	auto_vacuum             none, full or incremental; takes effect on a new file
//	automatic_index         on or off
//	cache_size              pages of each connection's cache, or kibibytes if negative
//	cell_size_check         on or off
//	journal_size_limit      bytes of the journal to keep after a commit, -1 for all
//	locking_mode            normal or exclusive; exclusive needs max_size=1
//	max_page_count          most pages of the file, 1 to 4294967294
//	page_size               bytes of a page, a power of two from 512 to 65536; takes effect on a new file
//	recursive_triggers      on or off
//	secure_delete           on, off or fast
//	temp_store              default, file or memory
//	trusted_schema          on or off
//	wal_autocheckpoint      pages of the log after which a commit moves it into the file, 0 for never
//
// # Transactions
//
// A transaction begins with BEGIN IMMEDIATE: it takes the one write lock at once and waits for it. Had it begun as a
// reader, its first write would have to upgrade the lock, which SQLite refuses without waiting when another connection
// has written in the meantime, and two upgrades would wait for one another. A read-only transaction takes no lock and
// sees one state of the database throughout. Every transaction is serializable, whatever level is asked for.
//
// A call that is cancelled while it writes ends the whole transaction, not only the statement: SQLite rolls it back. The
// connection then refuses statements (SQLSTATE 25P02) until the transaction is ended, as PostgreSQL does after an error.
//
// Statements of the program's own that begin or end a transaction or a savepoint are refused; SQLite's own parser finds them
// (its authorizer), whatever stands before them. So is a PRAGMA that sets one of the options above. Other PRAGMA
// statements that last, ATTACH and temporary tables, views and triggers are for the transaction in which they are made: its connection
// is closed afterwards, and does not go back to the pool.
//
// # Values
//
// Instants are texts of fixed width in UTC ("2006-01-02 15:04:05.000000+00:00", years 1 to 9999), which sort in their
// order; durations are microseconds; UUIDs and documents are texts. A decimal is its digits as text in a column with the
// collation HARE_DECIMAL, so that =, <, IN, ORDER BY and unique indexes compare numbers, exactly and of any length;
// arithmetic on them is exact as well. The collation and the functions that hare uses exist in hare's connections
// only: another program can read such a table, but not sort it by a decimal or write to it where a decimal is
// indexed. NaN cannot be stored, as SQLite has NULL in its place; infinities can. A connection can use 256 MiB of memory,
// which bounds a value and a sort; beyond it the call fails (SQLSTATE 53200) and the connection is closed.
//
// Besides the canonical values, arguments can be of any integer type and time.Duration. Values of a query that no model
// describes go by the column's declared type where the query selects a column as it is, and by what SQLite holds
// elsewhere.
package sqlite

import (
	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
)

func init() { backend.Register(driver{}, "sqlite") }

type driver struct{}

// Features is what SQLite can do.
func (driver) Features() features.Features { return supported }

// Open checks the URL and returns the database. No file is opened.
func (driver) Open(cfg backend.Config) (backend.Database, error) {
	path, s, err := parseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	o, err := checkSettings(s)
	if err != nil {
		return nil, err
	}
	return newDatabase(cfg.Alias, path, o)
}
