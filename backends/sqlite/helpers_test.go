package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare/backend"
)

// openURL opens a database and closes it at the end of the test.
func openURL(t testing.TB, url string) *database {
	t.Helper()
	db, err := driver{}.Open(backend.Config{Alias: "main", URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db.(*database)
}

// openFile opens a new file with options, "max_size=1&mode=rw" for example.
func openFile(t testing.TB, options string) *database {
	t.Helper()
	return openURL(t, "sqlite:"+filepath.Join(t.TempDir(), "main.db")+"?"+options)
}

// acquire takes a connection and gives it back at the end of the test.
func acquire(t testing.TB, db *database) *conn {
	t.Helper()
	c, err := db.Acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Release)
	return c.(*conn)
}

func exec(t testing.TB, c backend.Conn, sql string, args ...any) int64 {
	t.Helper()
	n, err := c.Exec(context.Background(), backend.Call{SQL: sql, Args: args})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func control(t testing.TB, c backend.Conn, statements ...string) backend.Answer {
	t.Helper()
	answer, err := c.Control(context.Background(), statements...)
	if err != nil {
		t.Fatalf("%q: %v", statements, err)
	}
	return answer
}

// table runs a query and gives all its rows.
func table(t testing.TB, c backend.Conn, sql string, args ...any) [][]any {
	t.Helper()
	rows, err := c.Query(context.Background(), backend.Call{SQL: sql, Args: args})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return drain(t, rows)
}

func drain(t testing.TB, rows backend.Rows) [][]any {
	t.Helper()
	var all [][]any
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, values)
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

// value runs a query and gives the first value of its first row.
func value(t testing.TB, c backend.Conn, sql string, args ...any) any {
	t.Helper()
	rows := table(t, c, sql, args...)
	if len(rows) == 0 {
		t.Fatalf("%s: no row", sql)
	}
	return rows[0][0]
}

func equal(t testing.TB, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

// failed takes an error apart and compares its class, SQLSTATE and whether it is known to have had no effect.
func failed(t testing.TB, err error, class backend.Class, state string) *backend.Error {
	t.Helper()
	var e *backend.Error
	if !errors.As(err, &e) {
		t.Fatalf("the error is %v, want a *backend.Error of class %d and SQLSTATE %q", err, class, state)
	}
	if e.Class != class || e.SQLState != state || !e.NotDone {
		t.Errorf("the error is %v of class %d, NotDone %v, want class %d and SQLSTATE %q, NotDone", e, e.Class, e.NotDone, class, state)
	}
	return e
}

func status(t testing.TB, c backend.Conn, want backend.Status) {
	t.Helper()
	if got := c.Status(); got != want {
		t.Errorf("the status is %c, want %c", got, want)
	}
}
