package integration

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	_ "github.com/hare-go/hare/backends/clickhouse"
	_ "github.com/hare-go/hare/backends/sqlite"
	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

// unopened are connections that fail the test when one of them is opened.
func unopened(t *testing.T) *hare.Connections {
	t.Helper()
	plan := &faults.Plan{}
	file := filepath.Join(t.TempDir(), "shelf.db")
	config := hare.Config{Default: "c", Connections: map[string]string{
		"c":      plan.URL(plan.Scheme("postgres"), "postgres://nobody@127.0.0.1:1/c?sslmode=disable"),
		"a":      plan.URL(plan.Scheme("postgres"), "postgres://nobody@127.0.0.1:1/a?sslmode=disable"),
		"lite":   "sqlite:" + file,
		"events": "clickhouse://127.0.0.1:1/events",
	}}
	conns, err := hare.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conns.Close)
	t.Cleanup(func() {
		if events := plan.Events(); len(events) > 0 {
			t.Errorf("connections were used: %+v", events)
		}
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the SQLite file was made: %v", err)
		}
	})
	return conns
}

// Rows 25 to 27, and section 3.1 of the original's list.
//
// Field case 23. W26.
func TestValidationBeforeAnythingOpens(t *testing.T) {
	conns := unopened(t)
	ctx := hare.WithConnections(t.Context(), conns)
	for _, test := range []struct {
		name         string
		coordinator  string
		participants []string
		options      []transactions.Option
		want         any
		says         []string
	}{
		{"no participants", "c", nil, nil, new(*hare.QueryError), []string{"participant"}},
		{"an alias twice", "c", []string{"a", "a"}, nil, new(*hare.QueryError), []string{`"a"`}},
		{"the coordinator as participant", "c", []string{"a", "c"}, nil, new(*hare.QueryError), []string{`"c"`}},
		{"the default coordinator as participant", "", []string{"c"}, nil, new(*hare.QueryError), []string{`"c"`}},
		{"twice goes before unknown", "x", []string{"x"}, nil, new(*hare.QueryError), []string{`"x"`}},
		{"unknown coordinator", "nowhere", []string{"a"}, nil, new(*hare.ConfigurationError), []string{"nowhere"}},
		{"unknown participant", "c", []string{"a", "nowhere"}, nil, new(*hare.ConfigurationError), []string{"nowhere"}},
		{"SQLite as coordinator", "lite", []string{"a"}, nil, new(*features.UnsupportedError), []string{"lite", "sqlite", "TwoPhaseCommit"}},
		{"SQLite as participant", "c", []string{"a", "lite"}, nil, new(*features.UnsupportedError), []string{"lite", "sqlite", "TwoPhaseCommit"}},
		{"ClickHouse as coordinator", "events", []string{"a"}, nil, new(*features.UnsupportedError), []string{"events", "clickhouse", "TwoPhaseCommit"}},
		{"ClickHouse as participant", "c", []string{"events"}, nil, new(*features.UnsupportedError), []string{"events", "clickhouse", "TwoPhaseCommit"}},
		{"Using", "c", []string{"a"}, []transactions.Option{transactions.Using("c")}, new(*hare.QueryError), []string{"Using"}},
		{"ReadOnly", "c", []string{"a"}, []transactions.Option{transactions.ReadOnly()}, new(*hare.QueryError), []string{"ReadOnly"}},
		{"retries", "c", []string{"a"}, []transactions.Option{transactions.Retries(101)}, new(*hare.QueryError), []string{"101"}},
		{"isolation", "c", []string{"a"}, []transactions.Option{transactions.Isolation("chaos")}, new(*hare.QueryError), []string{"chaos", "serializable"}},
		{"lock time-out", "c", []string{"a"}, []transactions.Option{transactions.LockTimeout(time.Microsecond)}, new(*hare.QueryError), []string{"LockTimeout"}},
		{"statement time-out", "c", []string{"a"}, []transactions.Option{transactions.StatementTimeout(-1)}, new(*hare.QueryError), []string{"StatementTimeout"}},
		{"phase", "c", []string{"a"}, []transactions.Option{transactions.PhaseTimeouts(transactions.Phases{Decide: -1})}, new(*hare.QueryError), []string{"Decide"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := transactions.Distributed(ctx, test.coordinator, test.participants, func(*hare.Distributed) error {
				t.Error("the callback ran")
				return nil
			}, test.options...)
			if !errors.As(err, test.want) {
				t.Fatalf("got %T %v, want %T", err, err, test.want)
			}
			for _, part := range test.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

// A GID that PostgreSQL would refuse is refused before anything opens.
//
// Field case 19.
func TestValidationOfGIDLength(t *testing.T) {
	// hare_dtx_ + coordinator + : + 16 + : + 32 + : + alias: 60 bytes beside the two aliases, 199 in all.
	for _, test := range []struct {
		coordinator, participant int
		fits                     bool
	}{
		{70, 70, false}, {69, 70, true}, {1, 138, true}, {1, 139, false}, {138, 1, true}, {139, 1, false}, {1, 300, false},
	} {
		plan := &faults.Plan{}
		coordinator, participant := strings.Repeat("c", test.coordinator), strings.Repeat("p", test.participant)
		conns, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{
			coordinator: plan.URL(plan.Scheme("postgres"), "postgres://nobody@127.0.0.1:1/c?sslmode=disable"),
			participant: plan.URL(plan.Scheme("postgres"), "postgres://nobody@127.0.0.1:1/p?sslmode=disable"),
		}})
		if err != nil {
			t.Fatal(err)
		}
		err = transactions.Distributed(hare.WithConnections(t.Context(), conns), coordinator, []string{participant}, func(*hare.Distributed) error { return nil })
		var configuration *hare.ConfigurationError
		if refused := errors.As(err, &configuration) && len(plan.Events()) == 0; refused == test.fits {
			t.Errorf("aliases of %d and %d bytes: %v after %d calls, want it to fit: %v", test.coordinator, test.participant, err, len(plan.Events()), test.fits)
		}
		conns.Close()
	}
}

func TestClickHouseRefusesEveryOperation(t *testing.T) {
	conns := unopened(t)
	ctx := hare.WithConnections(t.Context(), conns)
	client, err := conns.Client("events")
	if err != nil {
		t.Fatal(err)
	}
	qs := Notes.UsingAlias("events")
	for name, operation := range map[string]func() error{
		"Exec":   func() error { _, err := client.Exec(ctx, "SELECT 1"); return err },
		"Query":  func() error { _, err := client.Query(ctx, "SELECT 1"); return err },
		"All":    func() error { _, err := qs.All(ctx); return err },
		"Count":  func() error { _, err := qs.Count(ctx); return err },
		"Create": func() error { return qs.Create(ctx, &Note{}) },
		"Atomic": func() error {
			return transactions.Atomic(ctx, func(context.Context) error { return nil }, transactions.Using("events"))
		},
		"CreateTables": func() error { return hare.CreateTables(ctx, client, Note{}) },
		"Recover":      func() error { _, err := transactions.Recover(ctx, "events"); return err },
	} {
		err := operation()
		var unsupported *features.UnsupportedError
		if !errors.As(err, &unsupported) {
			t.Errorf("%s: %T %v, want an UnsupportedError", name, err, err)
			continue
		}
		if diff := cmp.Diff([]string{"events", "clickhouse"}, []string{unsupported.Alias, unsupported.Backend}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Rows 28 and 29: the clean-up goes on when a part of it fails.
func TestAcceptance28And29CleanUpGoesOn(t *testing.T) {
	for _, alias := range everybody {
		f := newTrio(t, "")
		f.plan.Set(failOn(1, alias, func(sql string) bool { return sql == "ROLLBACK" }), nil)
		err := f.distributed(func(d *hare.Distributed) error {
			if err := writeAll(d); err != nil {
				return err
			}
			return errStop
		})
		if err != errStop {
			t.Errorf("ROLLBACK fails on %s: got %v, want the callback's own error", alias, err)
		}
		f.wantCounts(0, 0, 0)
		f.wantNothingPrepared()
		f.wantUsable()
	}
}

func TestHandleAfterItsEnd(t *testing.T) {
	f := newTrio(t, "")
	var kept *hare.Distributed
	err := f.distributed(func(d *hare.Distributed) error {
		kept = d
		if _, err := d.Client("stranger").Exec(d.Context(), "SELECT 1"); err == nil || !strings.Contains(err.Error(), "stranger") {
			t.Errorf("an unknown alias: %v", err)
		}
		_, err := d.Client("stranger").Exec(d.Context(), "SELECT 1")
		as[*hare.QueryError](t, err)
		return writeAll(d)
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = kept.Client("a").Exec(f.ctx, "INSERT INTO note (text) VALUES ('late')")
	as[*hare.TransactionError](t, err)
	err = Notes.UsingAlias("a").Create(kept.Context(), &Note{Text: "late"})
	as[*hare.TransactionError](t, err)
	f.wantCounts(1, 1, 1)
}
