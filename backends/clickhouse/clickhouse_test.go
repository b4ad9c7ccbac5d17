package clickhouse

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
)

func TestRegistered(t *testing.T) {
	found, ok := backend.Lookup("clickhouse")
	if !ok {
		t.Fatal("the scheme clickhouse is not registered")
	}
	// Written out a second time on purpose: a flag that is lost by accident must not pass.
	want := features.Features{
		Backend:                  "clickhouse",
		SupportsStreaming:        true,
		GuaranteesReturningOrder: true,
		SupportsRowUpdates:       true,
		SupportsRowDeletes:       true,
		SupportsCopy:             true,
		MaxBindParameters:        1_000_000,
		SupportsArrays:           true,
		ComparesDecimalsExactly:  true,
	}
	if diff := cmp.Diff(want, found.Features()); diff != "" {
		t.Errorf("features (-want +got)\n%s", diff)
	}
}

func TestURL(t *testing.T) {
	const secret = "hunter2"
	for _, tt := range []struct{ name, url, option, reason string }{
		{"everything", "clickhouse://u:hunter2@db.example:8123/events?max_size=4&secure=true&compression=lz4&connect_timeout=2s&pool_acquire_timeout=1.5", "", ""},
		{"least", "clickhouse://db/events", "", ""},
		{"IPv6", "clickhouse://[::1]:9000/events", "", ""},
		{"IPv6 without a port", "clickhouse://[::1]/events", "", ""},
		{"encoded password", "clickhouse://u:hunter2%40%2F@db/events", "", ""},
		{"no slashes", "clickhouse:hunter2", "url", "want clickhouse://"},
		{"no host", "clickhouse:///events", "host", "is missing"},
		{"no host but a user", "clickhouse://u:hunter2@/events", "host", "is missing"},
		{"space in the host", "clickhouse://d b/events", "host", "space"},
		{"port is no number", "clickhouse://db:http/events", "port", "from 1 to 65535"},
		{"port too large", "clickhouse://db:65536/events", "port", "from 1 to 65535"},
		{"no port after the colon", "clickhouse://db:/events", "port", "from 1 to 65535"},
		{"two colons", "clickhouse://a:b:c/events", "url", "host and port"},
		{"no database", "clickhouse://db", "url", "names no database"},
		{"no database after the slash", "clickhouse://db/", "url", "names no database"},
		{"two databases", "clickhouse://db/a/b", "url", "names no database"},
		{"slash in a password", "clickhouse://u:hun/hunter2@db/events", "port", "from 1 to 65535"},
		{"question mark in a password", "clickhouse://u/hun?hunter2@db/events", "url", "inside a password"},
		{"percent in a password", "clickhouse://u:hunter2%@db/events", "url", "write a literal % as %25"},
		{"percent in the database", "clickhouse://db/ev%ents", "url", "write a literal % as %25"},
		{"unknown option", "clickhouse://db/events?max_sise=4", "max_sise", `did you mean "max_size"?`},
		{"unknown option near none", "clickhouse://db/events?colour=4", "colour", "compression, connect_timeout, max_size"},
		{"no value", "clickhouse://db/events?secure", "secure", "has no value"},
		{"empty value", "clickhouse://db/events?secure=", "secure", "has no value"},
		{"twice", "clickhouse://db/events?secure=true&secure=true", "secure", "given twice"},
		{"no boolean", "clickhouse://db/events?secure=1", "secure", "none of true, false"},
		{"pool of none", "clickhouse://db/events?max_size=0", "max_size", "from 1 to 10000"},
		{"no time-out", "clickhouse://db/events?connect_timeout=0", "connect_timeout", "is not a time-out"},
		{"undecodable", "clickhouse://db/events?compression=%zz", "compression", "has no value"},
		{"no compression", "clickhouse://db/events?compression=gzip", "compression", "none of none, lz4, zstd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db, err := driver{}.Open(backend.Config{Alias: "events", URL: tt.url})
			if tt.option == "" {
				if err != nil {
					t.Fatal(err)
				}
				db.Close()
				return
			}
			var wrong *backend.OptionError
			if !errors.As(err, &wrong) {
				t.Fatalf("Open gave %v, want an OptionError", err)
			}
			if wrong.Option != tt.option || !strings.Contains(wrong.Reason, tt.reason) {
				t.Errorf("Open gave %v, want option %q and a reason with %q", err, tt.option, tt.reason)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error quotes a secret: %v", err)
			}
		})
	}
}

func FuzzURL(f *testing.F) {
	f.Add("clickhouse://u:p@[::1]:9000/events?max_size=4")
	f.Add("clickhouse://@:/?&=%")
	f.Fuzz(func(t *testing.T, url string) {
		err := checkURL(url)
		var wrong *backend.OptionError
		if err != nil && !errors.As(err, &wrong) {
			t.Errorf("%q gave %v, want an OptionError", url, err)
		}
	})
}

// TestRefusals: whatever would need a connection says what is missing, and where.
func TestRefusals(t *testing.T) {
	db, err := driver{}.Open(backend.Config{Alias: "events", URL: "clickhouse://127.0.0.1:1/events"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, acquired := db.Acquire(t.Context())
	_, dialled := db.Dial(t.Context())
	for name, err := range map[string]error{"Acquire": acquired, "Dial": dialled} {
		want := &features.UnsupportedError{
			Alias: "events", Backend: "clickhouse", Feature: Queries,
			Detail: "querying ClickHouse is not available yet; use an alias of another backend",
		}
		if diff := cmp.Diff(error(want), err); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	if err := features.Require("events", db.Features(), features.TwoPhaseCommit); err == nil {
		t.Error("ClickHouse takes part in distributed transactions, want an UnsupportedError")
	}
}

func TestTypeName(t *testing.T) {
	for _, tt := range []struct {
		column backend.ColumnType
		want   string
	}{
		{backend.ColumnType{Kind: backend.KindBool}, "Bool"},
		{backend.ColumnType{Kind: backend.KindInt16}, "Int16"},
		{backend.ColumnType{Kind: backend.KindInt32}, "Int32"},
		{backend.ColumnType{Kind: backend.KindInt64}, "Int64"},
		{backend.ColumnType{Kind: backend.KindFloat}, "Float64"},
		{backend.ColumnType{Kind: backend.KindText, Size: 10}, "String"},
		{backend.ColumnType{Kind: backend.KindBytes}, "String"},
		{backend.ColumnType{Kind: backend.KindTime}, "DateTime64(6, 'UTC')"},
		{backend.ColumnType{Kind: backend.KindDuration}, "Int64"},
		{backend.ColumnType{Kind: backend.KindUUID}, "UUID"},
		{backend.ColumnType{Kind: backend.KindDecimal, Precision: 10, Scale: 2}, "Decimal(10, 2)"},
		{backend.ColumnType{Kind: backend.KindJSON}, "String"},
		{backend.ColumnType{Kind: backend.KindArray, Elem: &backend.ColumnType{Kind: backend.KindInt32}}, "Array(Int32)"},
		{backend.ColumnType{Kind: backend.KindText, Override: "FixedString(8)"}, "FixedString(8)"},
	} {
		got, err := dialect{}.TypeName(tt.column)
		if err != nil || got != tt.want {
			t.Errorf("TypeName(%+v) = %q, %v, want %q", tt.column, got, err, tt.want)
		}
	}
	for _, column := range []backend.ColumnType{
		{},
		{Kind: backend.KindDecimal, Precision: 77},
		{Kind: backend.KindArray, Elem: &backend.ColumnType{Kind: backend.KindDecimal}},
	} {
		_, err := dialect{alias: "events"}.TypeName(column)
		var unsupported *features.UnsupportedError
		if !errors.As(err, &unsupported) || unsupported.Alias != "events" {
			t.Errorf("TypeName(%+v) gave the error %v, want an UnsupportedError of events", column, err)
		}
	}
}

func TestDialect(t *testing.T) {
	d := dialect{}
	whole, float := backend.ColumnType{Kind: backend.KindInt64}, backend.ColumnType{Kind: backend.KindFloat}
	got := []string{
		d.In("c", whole, "$1"),
		d.Match(backend.MatchContains, "c", "$1"),
		d.Match(backend.MatchStartsWith, "c", "$1"),
		d.Match(backend.MatchEndsWith, "c", "$1"),
		d.Match(backend.MatchExactFold, "c", "$1"),
		d.Match(backend.MatchEndsWithFold, "c", "$1"),
		d.Pattern(backend.MatchContains, "100%_"),
		d.Compute("/", whole, "a", "b"),
		d.Compute("/", float, "a", "b"),
		d.Compute("%", whole, "a", "b"),
		d.Argument(whole, "$1"),
		d.Limit("$1", "$2"), d.Limit("$1", ""), d.Limit("", "$1"), d.Limit("", ""),
		d.SchemaLock(),
	}
	want := []string{
		"has($1, c)",
		"position(c, $1) > 0",
		"startsWith(c, $1)",
		"endsWith(c, $1)",
		"upperUTF8(c) = upperUTF8($1)",
		"endsWith(upperUTF8(c), upperUTF8($1))",
		"100%_",
		"intDiv(a, b)",
		"(a / b)",
		"(a % b)",
		"CAST($1 AS Int64)",
		"LIMIT $1 OFFSET $2", "LIMIT $1", "OFFSET $1", "",
		"",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fragments (-want +got)\n%s", diff)
	}
	if clause, inline := d.GeneratedKey(whole); clause != "Int64" || inline {
		t.Errorf("GeneratedKey = %q, %v, want Int64 as any column", clause, inline)
	}
	if _, ok := d.Rows([]backend.ColumnType{whole}, []string{"$1"}); ok {
		t.Error("Rows has a form, want none")
	}
	if begin := d.Begin(backend.TxOptions{ReadOnly: true}); len(begin) != 0 {
		t.Errorf("Begin = %q, want nothing", begin)
	}
}

// TestPing: a program that only names ClickHouse can still be told at its start what is wrong with its other databases.
func TestPing(t *testing.T) {
	c, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"events": "clickhouse://h/d"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}
