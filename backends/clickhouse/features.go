package clickhouse

import "github.com/hare-go/hare/features"

// supported is what ClickHouse 24.3 and newer can do without a cluster's Keeper and without experimental settings.
var supported = features.Features{
	Backend: "clickhouse",

	SupportsStreaming: true,

	GuaranteesReturningOrder: true, // where rows are read back by their keys
	SupportsRowUpdates:       true,
	SupportsRowDeletes:       true,
	SupportsCopy:             true,
	MaxBindParameters:        1_000_000,

	SupportsArrays:          true,
	ComparesDecimalsExactly: true,
}
