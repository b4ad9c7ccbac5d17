package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/transactions"
)

// fragments are what texts that may hide a statement are made of: whole statements, so that the server accepts many of the texts,
// and the marks by which a reader loses its place.
var fragments = []string{
	"COMMIT", "END", "ROLLBACK", "BEGIN", "END AND CHAIN", "SAVEPOINT s", "PREPARE TRANSACTION 'stray'", ";", ";;", "\n", "\r", " ", "--", "/*", "*/", "/**/", "'", "''", `\'`, `\\`, `"`, "$$", "$a$", "$1", "E'", "U&'", "B'", "N'",
	"SELECT ", "1", "'a'", `'\'`, `E'\\'`, `E'\''`, "E'a''b'", "'a'\n'b'", "E'a' --c\n'b'", "$$;$$", "$a$;$a$", "$a$$$$a$", `"a;"`, "/*;*/", "/*/**/;*/", "--;\n", "--;\r", "+", "-", "*", "/", "(", ")", "(SELECT 1)",
	"CREATE FUNCTION f() RETURNS int ", "CREATE PROCEDURE p() ", "CREATE OR REPLACE FUNCTION g() RETURNS int ", "BEGIN ATOMIC ", "BEGIN ATOMIC SELECT 1; END", "LANGUAGE sql AS 'SELECT 1'", "RETURN 1", "ATOMIC", "begin.atomic", "(begin atomic)",
	"CASE WHEN true THEN 1 END", "CREATE TABLE x ()", "CREATE SCHEMA begin", "CREATE DOMAIN begin.atomic AS int", "DO $$ BEGIN NULL; END $$", "CREATE RULE r AS ON UPDATE TO note DO ALSO (SELECT 1; SELECT 2)",
	"SET LOCAL standard_conforming_strings = off", "SET LOCAL standard_conforming_strings = on", "PREPARE q AS SELECT 1", "EXPLAIN SELECT 1", "TABLE note", "é", "\ufeff", "\v", "\f", ",", " AS a", " a$$", "\x00", "\xe3",
}

// composed is the text that a list of bytes stands for.
func composed(pieces []byte) (sql string) {
	for _, piece := range pieces {
		sql += fragments[int(piece)%len(fragments)]
	}
	return sql
}

// FuzzTransactionControlOnPostgreSQL: whatever a program sends inside Atomic, and whatever the session's settings make of it,
// what was written before it is gone when Atomic has returned an error. Another connection to the server is asked, and
// not the list of statements that hare knows.
//
// Fault D7.
func FuzzTransactionControlOnPostgreSQL(f *testing.F) {
	for _, sql := range append(append([]string{}, controlling...), harmless...) {
		f.Add(sql, []byte{}, false)
		f.Add("SET LOCAL standard_conforming_strings = off", []byte{7}, false)
		f.Add(sql, []byte{}, true)
	}
	for i := range fragments {
		f.Add("", []byte{byte(i), 7, 0}, false)
		f.Add("SELECT 1;", []byte{byte(i), byte(i), 7, 1, 22}, true)
	}
	fuzzed, client := fuzzed(f)
	f.Fuzz(func(t *testing.T, sql string, pieces []byte, off bool) {
		sql += composed(pieces)
		marker := fmt.Sprint(time.Now().UnixNano())
		for way, send := range ways {
			ctx, cancel := context.WithTimeout(fuzzed, 5*time.Second)
			err := transactions.Atomic(ctx, func(ctx context.Context) error {
				if err := create(ctx, marker); err != nil {
					return err
				}
				if off {
					if _, err := client.Exec(ctx, "SET LOCAL standard_conforming_strings = off"); err != nil {
						return err
					}
				}
				_ = send(ctx, client, sql)
				return errStop
			}, transactions.StatementTimeout(2*time.Second))
			cancel()
			if !errors.Is(err, errStop) {
				t.Errorf("%s(%q): Atomic returned %v", way, sql, err)
			}
			wantOutcome(t, err, transactions.RolledBack)
			wantNone(t, client, way, sql, marker)
		}
	})
}

// fuzzed is one database that all runs of a fuzz test share. A text that runs for long is ended by its server.
func fuzzed(f *testing.F) (context.Context, *hare.Client) {
	f.Helper()
	url := servers.Database(f) + "&max_size=2"
	conns, err := hare.Open(f.Context(), hare.Config{Connections: map[string]string{"c": url}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(conns.Close)
	client, err := conns.Client("c")
	if err != nil {
		f.Fatal(err)
	}
	ctx := hare.WithConnections(f.Context(), conns)
	if err := hare.CreateTables(ctx, client, Note{}); err != nil {
		f.Fatal(err)
	}
	return ctx, client
}

// wantNone asks the server for what a transaction left that was rolled back: rows, and what is prepared.
func wantNone(t *testing.T, client *hare.Client, way, sql, marker string) {
	t.Helper()
	rows, err := client.Query(t.Context(), "SELECT (SELECT count(*) FROM note WHERE text = $1) + (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database())", marker)
	if err != nil {
		t.Fatalf("%s(%q): %v", way, sql, err)
	}
	defer rows.Close()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != 0 {
			t.Errorf("%s(%q): what was rolled back is there", way, sql)
		}
	}
}
