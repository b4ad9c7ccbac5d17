package sqlite_test

import (
	"path/filepath"
	"testing"

	_ "github.com/hare-go/hare/backends/sqlite"

	"github.com/hare-go/hare/backends/backendtest"
	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
)

// TestConformance runs what hare promises on every database.
func TestConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{Open: connect, Features: promised})
}

// connect opens connections to a new file.
func connect(t *testing.T) *hare.Connections {
	t.Helper()
	path := filepath.Join(t.TempDir(), "main.db")
	c, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"main": "sqlite:" + path}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// promised is written out here a second time on purpose: a flag that is lost by accident would silence its tests.
var promised = features.Features{
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
