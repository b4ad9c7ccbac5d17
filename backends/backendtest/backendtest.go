// Package backendtest is the conformance suite: what hare promises on every database, as tests. A backend runs it from
// a test of its own:
//
//	func TestConformance(t *testing.T) {
//		backendtest.Run(t, backendtest.Harness{Open: open, Features: want})
//	}
//
// Which promises apply is decided by the features of the database alone, and the suite first compares these with the
// set that the harness expects, so that no group of tests can stop running unnoticed.
package backendtest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
)

// Harness is a database to test.
type Harness struct {
	// Open gives connections to an empty database of its own under the default alias, closed and removed when the test
	// ends.
	Open func(t *testing.T) *hare.Connections
	// Features is what the database must be able to do, written out by the caller: not taken from the backend.
	Features features.Features
}

// group is a part of the suite. It runs where the database has all the features that it needs, and none of those that it
// shows the absence of.
type group struct {
	name  string
	needs []features.Flag
	run   func(t *testing.T, db *database)
	lacks []features.Flag
}

// skip skips the group where it does not apply. The features are those that the caller expects, which have been compared.
func (g group) skip(t *testing.T, f features.Features) {
	if err := features.Require("", f, g.needs...); err != nil {
		t.Skip(err)
	}
	for _, flag := range g.lacks {
		if f.Has(flag) {
			t.Skipf("the database has %s", flag)
		}
	}
}

var groups = []group{
	{"statements", nil, testStatements, nil},
	{"tables", []features.Flag{features.RollbackDDL}, testTables, nil},
	{"types", []features.Flag{features.RollbackDDL}, testTypes, nil},
	{"arrays", []features.Flag{features.RollbackDDL, features.Arrays}, testArrays, nil},
	{"lists", []features.Flag{features.RollbackDDL, features.Arrays, features.RowUpdates}, testLists, nil},
	{"no arrays", []features.Flag{features.RollbackDDL}, testNoArrays, []features.Flag{features.Arrays}},
	{"objects", []features.Flag{features.RollbackDDL, features.GeneratedKeys, features.RowUpdates, features.RowDeletes}, testObjects, nil},
	{"reading", []features.Flag{features.RollbackDDL}, testReading, nil},
	{"lookups", []features.Flag{features.RollbackDDL}, testLookups, nil},
	{"null", []features.Flag{features.RollbackDDL}, testNull, nil},
	{"expressions", []features.Flag{features.RollbackDDL, features.RowUpdates}, testExpressions, nil},
	{"declarations", []features.Flag{features.RollbackDDL, features.RowUpdates, features.RowDeletes, features.CheckConstraints, features.UniqueConstraints}, testDeclarations, nil},
	{"slices", []features.Flag{features.RollbackDDL, features.GeneratedKeys, features.RowUpdates, features.RowDeletes}, testSlices, nil},
	{"iterating", []features.Flag{features.RollbackDDL, features.GeneratedKeys, features.RowUpdates, features.Transactions}, testIterating, nil},
	{"bulk order", []features.Flag{features.RollbackDDL, features.GeneratedKeys, features.UniqueConstraints}, testBulkOrder, nil},
	{"names", []features.Flag{features.RollbackDDL}, testNames, nil},
	{"messages", []features.Flag{features.RollbackDDL, features.RowUpdates, features.UniqueConstraints, features.CheckConstraints}, testMessages, nil},
	{"content", []features.Flag{features.RollbackDDL, features.GeneratedKeys, features.RowUpdates}, testContent, nil},
	{"paths", []features.Flag{features.RollbackDDL, features.GeneratedKeys, features.RowUpdates, features.RowDeletes, features.ForeignKeys}, testPaths, nil},
	{"parallel", []features.Flag{features.RollbackDDL, features.GeneratedKeys, features.RowUpdates, features.Transactions}, testParallel, nil},
	{"limits", []features.Flag{features.RollbackDDL, features.GeneratedKeys, features.RowUpdates}, testLimits, nil},
	{"arguments", []features.Flag{features.RollbackDDL, features.GeneratedKeys, features.RowUpdates}, testArguments, nil},
	{"arithmetic", []features.Flag{features.RollbackDDL, features.RowUpdates, features.RowDeletes, features.ExactDecimals}, testArithmetic, nil},
	{"membership", []features.Flag{features.RollbackDDL, features.RowUpdates, features.RowDeletes}, testMembership, nil},
	{"updates", []features.Flag{features.RollbackDDL, features.RowUpdates, features.RowDeletes}, testUpdates, nil},
	{"bulk", []features.Flag{features.RollbackDDL, features.GeneratedKeys}, testBulk, nil},
	{"conflicts", []features.Flag{features.RollbackDDL, features.GeneratedKeys, features.UniqueConstraints}, testConflicts, nil},
	{"composite keys", []features.Flag{features.RollbackDDL, features.RowUpdates, features.RowDeletes}, testCompositeKeys, nil},
	{"relations", []features.Flag{features.RollbackDDL, features.ForeignKeys}, testRelations, nil},
	{"refusals", []features.Flag{features.RollbackDDL}, testRefusals, nil},
	{"integrity", []features.Flag{features.RollbackDDL, features.UniqueConstraints, features.ForeignKeys, features.CheckConstraints}, testIntegrity, nil},
	{"transactions", []features.Flag{features.RollbackDDL, features.Transactions, features.RowDeletes}, testTransactions, nil},
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Run("features", func(t *testing.T) {
		db := open(t, h)
		if diff := cmp.Diff(h.Features, db.client.Features()); diff != "" {
			t.Errorf("the database's features are not those expected (-want +got)\n%s", diff)
		}
	})
	for _, g := range groups {
		t.Run(strings.ReplaceAll(g.name, " ", "-"), func(t *testing.T) {
			g.skip(t, h.Features)
			g.run(t, open(t, h))
		})
	}
}

// Require skips the test where the client's database lacks one of the features. It is for tests of things that only
// some databases have, and names the feature, never the database.
func Require(t testing.TB, c *hare.Client, flags ...features.Flag) {
	t.Helper()
	if err := features.Require(c.Alias(), c.Features(), flags...); err != nil {
		t.Skip(err)
	}
}

// Demand fails the test where the client's database lacks one of the features: for tests that would prove nothing by being
// skipped.
func Demand(t testing.TB, c *hare.Client, flags ...features.Flag) {
	t.Helper()
	if err := features.Require(c.Alias(), c.Features(), flags...); err != nil {
		t.Fatal(err)
	}
}

// database is the database of one group of tests.
type database struct {
	connections *hare.Connections
	client      *hare.Client
	ctx         context.Context // carries the connections
}

func open(t *testing.T, h Harness) *database {
	t.Helper()
	connections := h.Open(t)
	client, err := connections.Client("")
	if err != nil {
		t.Fatal(err)
	}
	return &database{connections, client, hare.WithConnections(t.Context(), connections)}
}

// create makes the tables of the models.
func (db *database) create(t *testing.T, models ...any) {
	t.Helper()
	must(t, hare.CreateTables(db.ctx, db.client, models...))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// equal compares what was got with what is wanted.
func equal(t *testing.T, what string, want, got any, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

// sameError compares errors by identity.
var sameError = cmp.Comparer(func(a, b error) bool { return a == b })

// fails makes sure that err is of the type E.
func fails[E error](t *testing.T, what string, err error) {
	t.Helper()
	_ = failure[E](t, what, err)
}

// failure is err as the E that it must be.
func failure[E error](t *testing.T, what string, err error) E {
	t.Helper()
	var wanted E
	if !errors.As(err, &wanted) {
		t.Fatalf("%s: got %T: %v, want %T", what, err, err, wanted)
	}
	return wanted
}
