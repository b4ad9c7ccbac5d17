package postgres_test

import (
	"testing"

	_ "github.com/hare-go/hare/backends/postgres"

	"github.com/hare-go/hare/backends/backendtest"
	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
)

// TestConformance runs what hare promises on every database.
func TestConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{Open: connect, Features: promised})
}

// TestConformanceThroughPooler runs it once more where each transaction may get another session.
func TestConformanceThroughPooler(t *testing.T) {
	server := servers.Direct(servers.Database(t))
	p := servers.PoolerFor(t, servers.PoolerOptions{URL: server, PoolSize: 5})
	backendtest.Run(t, backendtest.Harness{Features: promised, Open: func(t *testing.T) *hare.Connections {
		t.Helper()
		address := p.URL(servers.Direct(servers.Database(t)))
		c, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"main": address}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}})
}

// connect opens connections to a new database.
func connect(t *testing.T) *hare.Connections {
	t.Helper()
	c, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"main": servers.Database(t)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// promised is written out here a second time on purpose: a flag that is lost by accident would silence its tests.
var promised = features.Features{
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
