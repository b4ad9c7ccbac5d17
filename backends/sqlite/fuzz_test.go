package sqlite

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
	"github.com/hare-go/hare/transactions"
)

// fragments are what texts that may hide a statement are made of.
var fragments = []string{
	"COMMIT", "END", "ROLLBACK", "BEGIN", "SAVEPOINT s", "RELEASE hare_1", "ROLLBACK TO hare_1", ";", "\n", "\r", "\f", "\v", " ", "--", "/*", "*/", "/**/", "'", "''", `"`, `""`, "`", "[", "]", "\ufeff", "\x00", "é", "\xef\xbb",
	"SELECT ", "1", "'a'", "x'00'", `"a;"`, "[a;]", "`a;`", "CASE WHEN 1 THEN 2 END", "CREATE TRIGGER t AFTER INSERT ON page BEGIN ", "DELETE FROM line", "SELECT RAISE(ROLLBACK, 'x')", "CREATE TABLE x (a)", "INSERT OR ROLLBACK INTO page VALUES (1, 'a')",
	"INSERT INTO page (text) VALUES ('a')", "EXPLAIN ", "PRAGMA ", "foreign_keys", "=", "(", ")", "off", "writable_schema = on", "user_version = 3", "defer_foreign_keys = on", "main.", "temp.", "ATTACH ':memory:' AS other", "DETACH other", "CREATE TEMP TABLE x (a)", "CREATE TEMP VIEW v AS SELECT 1",
	"VACUUM", "ANALYZE", "REINDEX", "ALTER TABLE page RENAME TO pages", "DROP TABLE page", "WITH a AS (SELECT 1) ", "SELECT * FROM a", "RETURNING id", "$1", "?", ",",
}

func composed(pieces []byte) (sql string) {
	for _, piece := range pieces {
		sql += fragments[int(piece)%len(fragments)]
	}
	return sql
}

// FuzzTransactionControlOnSQLite: whatever a program sends inside Atomic, what was written before it is gone when Atomic has
// returned an error, and the connection's next user finds it as a new one is. Another statement asks the database.
//
// Fault S6. Fault S7.
func FuzzTransactionControlOnSQLite(f *testing.F) {
	for _, sql := range append(append([]string{"PRAGMA foreign_keys=''", "CREATE TEMP TABLE x (a)", "ATTACH ':memory:' AS other"}, controlling...), harmless...) {
		f.Add(sql, []byte{})
		f.Add("SELECT 1;", []byte{7, 24, 1})
	}
	for i := range fragments {
		f.Add("", []byte{byte(i), 7, 0})
		f.Add("SELECT 1", []byte{7, byte(i), byte(i), 0})
	}
	ctx, client := book(f, "sqlite::memory:?max_size=1")
	clean := left(ctx, f, client)
	f.Fuzz(func(t *testing.T, sql string, pieces []byte) {
		sql += composed(pieces)
		if upper := strings.ToUpper(sql); strings.Contains(upper, "ATTACH") && !strings.Contains(sql, "':memory:'") || strings.Contains(upper, "RECURSIVE") {
			return // no files are made here, and nothing runs for ever
		}
		for way, send := range map[string]func(context.Context, *hare.Client, string) error{"Exec": sendExec, "Query": sendQuery} {
			err := transactions.Atomic(ctx, func(ctx context.Context) error {
				if err := Pages.Create(ctx, &Page{Text: "marker"}); err != nil {
					return err
				}
				_ = send(ctx, client, sql)
				return errStop
			})
			if outcome := transactions.OutcomeOf(err); !errors.Is(err, errStop) || outcome != transactions.RolledBack {
				t.Errorf("%s(%q): Atomic returned %v, %v", way, sql, err, outcome)
			}
			if n, err := Pages.Filter(query.Q("text", "marker")).Count(ctx); n != 0 || err != nil {
				t.Errorf("%s(%q): %d pages that were rolled back are there, %v", way, sql, n, err)
			}
			if found := left(ctx, t, client); found != clean {
				t.Errorf("%s(%q) leaves %q in its connection, want %q", way, sql, found, clean)
			}
		}
	})
}
