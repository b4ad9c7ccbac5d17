// Package features describes what each database can do, as data.
//
// Code that needs a capability asks the [Features] of the connection it works on and never looks at a
// database's name. [Require] turns a missing capability into an [UnsupportedError] before anything is
// sent, so that a database which cannot do a thing never sees half of it.
package features

import (
	"fmt"
	"reflect"
)

// Features is what one database can do. The zero value can do nothing.
//
// Each backend publishes its own value; a value is complete when the connection is opened and never
// changes afterwards. Where a capability depends on the server's version, the flag is that of the oldest
// version the backend accepts.
type Features struct {
	// Backend names the database for messages: "postgresql", "sqlite", "clickhouse". No decision reads it.
	Backend string

	// Transactions.

	// SupportsTransactions: BEGIN, COMMIT and ROLLBACK with atomic effect.
	SupportsTransactions bool
	// SupportsSavepoints: a nested transaction can be rolled back alone.
	SupportsSavepoints bool
	// SupportsTwoPhaseCommit: PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED and a catalogue of
	// prepared transactions (PostgreSQL documentation, chapter SQL Commands).
	SupportsTwoPhaseCommit bool
	// CanRollbackDDL: CREATE TABLE inside a transaction is undone with it.
	CanRollbackDDL bool
	// AbortsTransactionOnError: after a failed statement the transaction accepts nothing but its end.
	AbortsTransactionOnError bool
	// SupportsTransactionTimeouts: a statement time-out local to one transaction.
	SupportsTransactionTimeouts bool
	// SupportsReadOnlyTransactions: the server refuses writes in a transaction opened read-only.
	SupportsReadOnlyTransactions bool
	// RefusesTransactionControl: the database's own parser refuses statements of the program's that begin or end a transaction
	// or a savepoint, so that hare need not read its SQL to find them.
	RefusesTransactionControl bool
	// SupportsAdvisoryLocks: transaction-scoped advisory locks.
	SupportsAdvisoryLocks bool

	// Reading.

	// SupportsSelectForUpdate: row locks taken by a SELECT.
	SupportsSelectForUpdate bool
	// SupportsSelectForNoKeyUpdate: FOR NO KEY UPDATE.
	SupportsSelectForNoKeyUpdate bool
	// SupportsSelectForShare: FOR SHARE.
	SupportsSelectForShare bool
	// SupportsSelectForKeyShare: FOR KEY SHARE.
	SupportsSelectForKeyShare bool
	// SupportsStreaming: rows can be read one by one while the statement runs.
	SupportsStreaming bool
	// SupportsDistinctOn: SELECT DISTINCT ON (...).
	SupportsDistinctOn bool
	// SupportsGroupingSets: ROLLUP, CUBE and GROUPING SETS.
	SupportsGroupingSets bool
	// SupportsLateral: LATERAL joins.
	SupportsLateral bool
	// SupportsCorrelatedSubqueries: a subquery may refer to its outer row.
	SupportsCorrelatedSubqueries bool
	// SupportsPosixRegex: regular expressions in a WHERE clause.
	SupportsPosixRegex bool
	// SortsNullsFirst: NULL sorts before every value in ascending order unless the query says otherwise.
	SortsNullsFirst bool

	// Writing.

	// SupportsReturning: INSERT, UPDATE and DELETE give rows back.
	SupportsReturning bool
	// GuaranteesReturningOrder: the rows come back in the order in which they were given.
	GuaranteesReturningOrder bool
	// SupportsGeneratedKeys: the database makes integer keys.
	SupportsGeneratedKeys bool
	// SupportsRowUpdates: UPDATE of single rows.
	SupportsRowUpdates bool
	// SupportsRowDeletes: DELETE of single rows.
	SupportsRowDeletes bool
	// SupportsConflictWhere: ON CONFLICT with a partial index's predicate.
	SupportsConflictWhere bool
	// SupportsConflictConstraintNames: ON CONFLICT ON CONSTRAINT name.
	SupportsConflictConstraintNames bool
	// SupportsCopy: COPY FROM.
	SupportsCopy bool
	// BindsArrayParameters: one parameter can be an array.
	BindsArrayParameters bool
	// MaxBindParameters is the largest number of parameters of one statement.
	MaxBindParameters int

	// Types.

	// SupportsArrays: array columns.
	SupportsArrays bool
	// SupportsEnumTypes: CREATE TYPE ... AS ENUM.
	SupportsEnumTypes bool
	// EnforcesNumericRanges: the column's type refuses a number beyond its width. Where it does not, hare does.
	EnforcesNumericRanges bool
	// ComparesDecimalsExactly: comparison and ordering of decimals lose no digit.
	ComparesDecimalsExactly bool
	// ComputesDecimalsExactly: arithmetic on decimals loses no digit.
	ComputesDecimalsExactly bool

	// Schema.

	// SupportsForeignKeys: FOREIGN KEY constraints are enforced.
	SupportsForeignKeys bool
	// SupportsUniqueConstraints: UNIQUE constraints are enforced.
	SupportsUniqueConstraints bool
	// SupportsCheckConstraints: CHECK constraints are enforced.
	SupportsCheckConstraints bool
	// SupportsDeferrableConstraints: constraints that are checked at COMMIT.
	SupportsDeferrableConstraints bool
	// SupportsPartialIndexes: CREATE INDEX ... WHERE.
	SupportsPartialIndexes bool
	// SupportsSchemas: tables live in named schemas.
	SupportsSchemas bool
	// MaxIdentifierLength is the longest name in bytes; 0 means no limit.
	MaxIdentifierLength int

	// Server.

	// SupportsListenNotify: LISTEN and NOTIFY.
	SupportsListenNotify bool
	// SupportsPoolStatus: the connection pool reports its use.
	SupportsPoolStatus bool
}

// Flag names one boolean of [Features]; its text is the field's name.
type Flag string

// The flags that hare's own code asks for. A Flag of any other boolean field works just as well.
const (
	Transactions         Flag = "SupportsTransactions"
	Savepoints           Flag = "SupportsSavepoints"
	TwoPhaseCommit       Flag = "SupportsTwoPhaseCommit"
	TransactionTimeouts  Flag = "SupportsTransactionTimeouts"
	ReadOnlyTransactions Flag = "SupportsReadOnlyTransactions"
	AdvisoryLocks        Flag = "SupportsAdvisoryLocks"
	RollbackDDL          Flag = "CanRollbackDDL"
	AbortsOnError        Flag = "AbortsTransactionOnError"
	SelectForUpdate      Flag = "SupportsSelectForUpdate"
	SelectForNoKeyUpdate Flag = "SupportsSelectForNoKeyUpdate"
	SelectForKeyShare    Flag = "SupportsSelectForKeyShare"
	Streaming            Flag = "SupportsStreaming"
	CorrelatedSubqueries Flag = "SupportsCorrelatedSubqueries"
	Returning            Flag = "SupportsReturning"
	GeneratedKeys        Flag = "SupportsGeneratedKeys"
	RowUpdates           Flag = "SupportsRowUpdates"
	RowDeletes           Flag = "SupportsRowDeletes"
	ArrayParameters      Flag = "BindsArrayParameters"
	Arrays               Flag = "SupportsArrays"
	NumericRanges        Flag = "EnforcesNumericRanges"
	ExactDecimals        Flag = "ComputesDecimalsExactly"
	ForeignKeys          Flag = "SupportsForeignKeys"
	UniqueConstraints    Flag = "SupportsUniqueConstraints"
	CheckConstraints     Flag = "SupportsCheckConstraints"
	DeferrableConstraint Flag = "SupportsDeferrableConstraints"
)

// Has reports whether the database has the capability. Of a flag that names no boolean field of [Features] it has none.
func (f Features) Has(flag Flag) bool {
	field := reflect.ValueOf(f).FieldByName(string(flag))
	return field.IsValid() && field.Kind() == reflect.Bool && field.Bool()
}

// Require returns an [*UnsupportedError] for the first of the flags that f lacks, and nil when it has them all.
// alias is the connection's name for the message.
func Require(alias string, f Features, flags ...Flag) error {
	for _, flag := range flags {
		if !f.Has(flag) {
			return &UnsupportedError{Alias: alias, Backend: f.Backend, Feature: flag}
		}
	}
	return nil
}

// UnsupportedError says that a database cannot do what was asked of it. It is raised before anything is sent:
// nothing has changed anywhere. Retrying cannot help; use another alias or another way.
type UnsupportedError struct {
	Alias   string // the connection, empty where none is involved
	Backend string // the database behind it
	Feature Flag   // the capability that it lacks
	Detail  string // what was asked and the way out, where that says more than the flag
}

// Error names the alias, the backend and the feature.
func (e *UnsupportedError) Error() string {
	if e == nil {
		return "<nil>"
	}
	text := fmt.Sprintf("%s does not have %s", e.Backend, e.Feature)
	if e.Alias != "" {
		text = fmt.Sprintf("connection %q (%s) does not have %s", e.Alias, e.Backend, e.Feature)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}
