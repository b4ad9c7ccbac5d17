package postgres

import "github.com/hare-go/hare/features"

// supported is what PostgreSQL 14, the oldest server that is accepted, and every newer one can do (PostgreSQL
// documentation, chapters SQL Commands and PostgreSQL Limits).
var supported = features.Features{
	Backend: "postgresql",

	SupportsTransactions:         true,
	SupportsSavepoints:           true,
	SupportsTwoPhaseCommit:       true,
	CanRollbackDDL:               true,
	AbortsTransactionOnError:     true,
	SupportsTransactionTimeouts:  true,
	SupportsReadOnlyTransactions: true,
	SupportsAdvisoryLocks:        true,

	SupportsSelectForUpdate:      true,
	SupportsSelectForNoKeyUpdate: true,
	SupportsSelectForShare:       true,
	SupportsSelectForKeyShare:    true,
	SupportsStreaming:            true,
	SupportsDistinctOn:           true,
	SupportsGroupingSets:         true,
	SupportsLateral:              true,
	SupportsCorrelatedSubqueries: true,
	SupportsPosixRegex:           true,

	SupportsReturning:               true,
	GuaranteesReturningOrder:        true,
	SupportsGeneratedKeys:           true,
	SupportsRowUpdates:              true,
	SupportsRowDeletes:              true,
	SupportsConflictWhere:           true,
	SupportsConflictConstraintNames: true,
	SupportsCopy:                    true,
	BindsArrayParameters:            true,
	MaxBindParameters:               65535,

	SupportsArrays:          true,
	SupportsEnumTypes:       true,
	EnforcesNumericRanges:   true,
	ComparesDecimalsExactly: true,
	ComputesDecimalsExactly: true,

	SupportsForeignKeys:           true,
	SupportsUniqueConstraints:     true,
	SupportsCheckConstraints:      true,
	SupportsDeferrableConstraints: true,
	SupportsPartialIndexes:        true,
	SupportsSchemas:               true,
	MaxIdentifierLength:           63,

	SupportsListenNotify: true,
	SupportsPoolStatus:   true,
}
