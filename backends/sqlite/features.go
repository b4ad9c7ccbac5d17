package sqlite

import "github.com/hare-go/hare/features"

// supported is what SQLite, the version in go.mod, can do with hare's functions and collation in it.
var supported = features.Features{
	Backend: "sqlite",

	SupportsTransactions:         true,
	SupportsSavepoints:           true,
	CanRollbackDDL:               true,
	SupportsReadOnlyTransactions: true,
	RefusesTransactionControl:    true,

	SupportsStreaming:            true,
	SupportsCorrelatedSubqueries: true,
	SortsNullsFirst:              true,

	SupportsReturning:     true,
	SupportsGeneratedKeys: true,
	SupportsRowUpdates:    true,
	SupportsRowDeletes:    true,
	MaxBindParameters:     32766,

	ComparesDecimalsExactly: true,
	ComputesDecimalsExactly: true,

	SupportsForeignKeys:       true,
	SupportsUniqueConstraints: true,
	SupportsCheckConstraints:  true,
	SupportsPartialIndexes:    true,

	SupportsPoolStatus: true,
}
