package backendtest

import (
	"context"
	"errors"
	"testing"

	"github.com/hare-go/hare/hare"
)

// testStatements: what a program writes by hand, with $1 placeholders on every database.
func testStatements(t *testing.T, db *database) {
	t.Run("arguments and columns", func(t *testing.T) {
		rows, err := db.client.Query(db.ctx, "SELECT CAST($2 AS bigint) AS n, CAST($1 AS text) AS word, NULL AS absent", "it's", 7)
		must(t, err)
		defer rows.Close()
		equal(t, "columns", []string{"n", "word", "absent"}, rows.Columns())
		if !rows.Next() {
			t.Fatal("no row: ", rows.Err())
		}
		values, err := rows.Values()
		must(t, err)
		equal(t, "values", []any{int64(7), "it's", nil}, values)

		var (
			n       int32
			word    level
			nothing *string
		)
		must(t, rows.Scan(&n, &word, &nothing))
		equal(t, "scanned", []any{int32(7), level("it's"), (*string)(nil)}, []any{n, word, nothing})
		fails[*hare.QueryError](t, "too few pointers", rows.Scan(&n))
		var text string
		if got := failure[*hare.DecodeError](t, "NULL into a string", rows.Scan(&n, &word, &text)); got.Column != "absent" {
			t.Errorf("the error names the column %q", got.Column)
		}
		fails[*hare.DecodeError](t, "text into a number", rows.Scan(&n, &n, &nothing))
		if rows.Next() {
			t.Error("there is a second row")
		}
		must(t, rows.Err())
	})

	t.Run("an argument is never SQL", func(t *testing.T) {
		rows, err := db.client.Query(db.ctx, "SELECT 1 WHERE CAST($1 AS text) = ''", "x' OR '1'='1")
		must(t, err)
		for values, err := range rows.All() {
			t.Errorf("got %v, %v", values, err)
		}
	})

	t.Run("errors carry the statement and not the arguments", func(t *testing.T) {
		const sql = "SELECT nothing FROM no_such_table WHERE a = $1"
		_, err := db.client.Exec(db.ctx, sql, "private")
		got := failure[*hare.DatabaseError](t, "a missing table", err)
		equal(t, "SQL", sql, got.SQL)
		equal(t, "alias", db.client.Alias(), got.Alias)
		if !got.NotDone {
			t.Error("a statement that the database refused counts as one that may have been done")
		}
	})

	t.Run("transaction control is refused", func(t *testing.T) {
		words := []string{"BEGIN", "commit", " /* a */ ROLLBACK", "-- b\nSAVEPOINT s", "release s", "END"}
		if !db.client.Features().RefusesTransactionControl { // a parser of its own may not know these
			words = append(words, "START TRANSACTION", "abort")
		}
		for _, sql := range words {
			_, err := db.client.Exec(db.ctx, sql)
			fails[*hare.QueryError](t, sql, err)
		}
	})

	t.Run("a context that has ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(db.ctx)
		cancel()
		if _, err := db.client.Exec(ctx, "SELECT 1"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled in it", err)
		}
		_, err := db.client.Exec(db.ctx, "SELECT 1")
		must(t, err)
	})

	t.Run("rows left early give their connection back", func(t *testing.T) {
		for range 50 {
			rows, err := db.client.Query(db.ctx, "SELECT 1 UNION ALL SELECT 2")
			must(t, err)
			for _, err := range rows.All() {
				must(t, err)
				break
			}
		}
	})
}
