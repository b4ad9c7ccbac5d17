package sqlite

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare/backend"
)

func TestErrors(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, `
		CREATE TABLE parent (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, a INT, b INT, CONSTRAINT name_check CHECK (name <> 'x'), UNIQUE (a, b));
		CREATE TABLE folded (name TEXT);
		CREATE UNIQUE INDEX folded_name ON folded (lower(name));
		INSERT INTO folded VALUES ('one');
		CREATE TABLE child (id INTEGER PRIMARY KEY, parent_id INT NOT NULL REFERENCES parent (id) ON DELETE RESTRICT, later INT REFERENCES parent (id));
		CREATE TABLE strict_one (n INT) STRICT;
		CREATE TRIGGER child_trigger BEFORE UPDATE ON child BEGIN SELECT RAISE(ABORT, 'not today'); END;
		INSERT INTO parent VALUES (1, 'one', 1, 1);
		INSERT INTO child VALUES (1, 1, NULL)`)
	type named struct{ Constraint, Table, Column string }
	for _, tt := range []struct {
		sql   string
		class backend.Class
		state string
		names named
	}{
		{"INSERT INTO parent VALUES (1, 'two', 2, 2)", backend.ClassIntegrity, "23505", named{Table: "parent", Column: "id"}},
		{"INSERT INTO parent VALUES (2, 'one', 2, 2)", backend.ClassIntegrity, "23505", named{Table: "parent", Column: "name"}},
		{"INSERT INTO parent VALUES (2, 'two', 1, 1)", backend.ClassIntegrity, "23505", named{Table: "parent"}},
		{"INSERT INTO folded VALUES ('ONE')", backend.ClassIntegrity, "23505", named{Constraint: "folded_name"}},
		{"INSERT INTO parent VALUES (2, NULL, 2, 2)", backend.ClassIntegrity, "23502", named{Table: "parent", Column: "name"}},
		{"INSERT INTO parent VALUES (2, 'x', 2, 2)", backend.ClassIntegrity, "23514", named{Constraint: "name_check"}},
		{"INSERT INTO child VALUES (2, 9, NULL)", backend.ClassIntegrity, "23503", named{}},
		{"DELETE FROM parent", backend.ClassIntegrity, "23503", named{}},
		{"UPDATE child SET later = 1", backend.ClassIntegrity, "23000", named{}},
		{"INSERT INTO strict_one VALUES ('x')", backend.ClassIntegrity, "23514", named{}},
		{"SELEC 1", backend.ClassOther, "42601", named{}},
		{"", backend.ClassOther, "42601", named{}},
		{"-- nothing", backend.ClassOther, "42601", named{}},
		{"SELECT * FROM nowhere", backend.ClassOther, "42P01", named{}},
		{"DROP TABLE nowhere", backend.ClassOther, "42P01", named{}},
		{"SELECT nothing_like_it FROM parent", backend.ClassOther, "42703", named{}},
		{`SELECT "nothing_like_it" FROM parent`, backend.ClassOther, "42703", named{}},
		{"INSERT INTO parent (nothing_like_it) VALUES (1)", backend.ClassOther, "42703", named{}},
		{"SELECT no_function(1)", backend.ClassOther, "42883", named{}},
		{"DROP INDEX no_index", backend.ClassOther, "42704", named{}},
		{"CREATE TABLE parent (a)", backend.ClassOther, "42P07", named{}},
		{"CREATE INDEX folded_name ON parent (a)", backend.ClassOther, "42P07", named{}},
		{"SELECT hare_integer_div(1, 0, 64)", backend.ClassOther, "22012", named{}},
		{"SELECT abs(-9223372036854775807 - 1)", backend.ClassOther, "42601", named{}},
		{"INSERT INTO parent (id, name) VALUES ('x', 'two')", backend.ClassOther, "42804", named{}},
		{"SELECT zeroblob(2000000000)", backend.ClassOther, "54000", named{}},
	} {
		t.Run(tt.sql, func(t *testing.T) {
			_, err := c.Exec(t.Context(), backend.Call{SQL: tt.sql})
			e := failed(t, err, tt.class, tt.state)
			equal(t, "names", tt.names, named{e.Constraint, e.Table, e.Column})
			_, err = c.Query(t.Context(), backend.Call{SQL: tt.sql})
			failed(t, err, tt.class, tt.state)
			status(t, c, backend.StatusIdle)
		})
	}
	equal(t, "rows afterwards", [][]any{{int64(1), int64(1)}}, table(t, c, "SELECT count(*), (SELECT count(*) FROM child) FROM parent"))
}

// TestFailureKeepsTheTransaction: SQLite undoes the statement alone.
func TestFailureKeepsTheTransaction(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE t (a INT UNIQUE)")
	control(t, c, "BEGIN IMMEDIATE")
	exec(t, c, "INSERT INTO t VALUES (1)")
	_, err := c.Exec(t.Context(), backend.Call{SQL: "INSERT INTO t VALUES (2), (1)"})
	failed(t, err, backend.ClassIntegrity, "23505")
	status(t, c, backend.StatusInTransaction)
	exec(t, c, "INSERT INTO t VALUES (3)")
	equal(t, "tag", "COMMIT", control(t, c, "COMMIT").Tag)
	equal(t, "rows", [][]any{{int64(1)}, {int64(3)}}, table(t, c, "SELECT a FROM t ORDER BY a"))
}

// endless runs until it is cancelled.
const endless = "WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s) "

func TestCancelledRead(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	control(t, c, "BEGIN IMMEDIATE")
	exec(t, c, "CREATE TABLE t (a)")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := c.Query(ctx, backend.Call{SQL: endless + "SELECT count(*) FROM s"})
	e := failed(t, err, backend.ClassTimeout, "57014")
	if !errors.Is(e, context.DeadlineExceeded) {
		t.Errorf("%v is no DeadlineExceeded", e)
	}
	status(t, c, backend.StatusInTransaction)

	ctx, stop := context.WithCancel(t.Context())
	rows, err := c.Query(ctx, backend.Call{SQL: endless + "SELECT i FROM s"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if !rows.Next() {
			t.Fatal(rows.Err())
		}
	}
	stop()
	for rows.Next() {
		continue
	}
	e = failed(t, rows.Err(), backend.ClassOther, "57014")
	if !errors.Is(e, context.Canceled) {
		t.Errorf("%v is no Canceled", e)
	}
	if err := rows.Close(); err != rows.Err() {
		t.Errorf("Close gives %v, want the error of Err", err)
	}
	equal(t, "tag", "COMMIT", control(t, c, "COMMIT").Tag)
	exec(t, c, "INSERT INTO t VALUES (1)")
}

// TestCancelledWrite: the engine rolls the transaction back, and the connection behaves as PostgreSQL's does.
func TestCancelledWrite(t *testing.T) {
	db := openFile(t, "")
	c := acquire(t, db)
	exec(t, c, "CREATE TABLE t (a)")
	lose := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		_, err := c.Exec(ctx, backend.Call{Before: []string{"BEGIN IMMEDIATE", "SAVEPOINT hare_1"}, SQL: endless + "INSERT INTO t SELECT i FROM s"})
		failed(t, err, backend.ClassTimeout, "57014")
		status(t, c, backend.StatusFailed)
	}
	lose()
	_, err := c.Exec(t.Context(), backend.Call{SQL: "INSERT INTO t VALUES (1)"})
	failed(t, err, backend.ClassAborted, "25P02")
	_, err = c.Query(t.Context(), backend.Call{SQL: "SELECT 1"})
	failed(t, err, backend.ClassAborted, "25P02")
	for _, statement := range []string{"SAVEPOINT s", "ROLLBACK TO SAVEPOINT hare_1", "RELEASE SAVEPOINT hare_1", "BEGIN"} {
		_, err = c.Control(t.Context(), statement)
		failed(t, err, backend.ClassAborted, "25P02")
	}
	equal(t, "tag", "ROLLBACK", control(t, c, "COMMIT").Tag)
	status(t, c, backend.StatusIdle)

	lose()
	equal(t, "tag", "ROLLBACK", control(t, c, "ROLLBACK").Tag)
	status(t, c, backend.StatusIdle)
	equal(t, "rows", [][]any(nil), table(t, c, "SELECT a FROM t"))

	lose()
	c.Release()
	equal(t, "idle connections: one that was left aborted is closed", 0, len(db.idle))
	c = acquire(t, db)
	status(t, c, backend.StatusIdle)
	exec(t, c, "INSERT INTO t VALUES (1)")
}

// TestCancelledAlone: without a transaction there is none to lose.
func TestCancelledAlone(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE t (a)")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := c.Exec(ctx, backend.Call{SQL: endless + "INSERT INTO t SELECT i FROM s"})
	failed(t, err, backend.ClassTimeout, "57014")
	status(t, c, backend.StatusIdle)
	equal(t, "rows", [][]any(nil), table(t, c, "SELECT a FROM t"))

	// A context that has ended before the call: nothing is run, and the error has no SQLSTATE.
	for name, call := range map[string]func() error{
		"Exec":    func() error { _, err := c.Exec(ctx, backend.Call{SQL: "INSERT INTO t VALUES (1)"}); return err },
		"Query":   func() error { _, err := c.Query(ctx, backend.Call{SQL: "SELECT 1"}); return err },
		"Control": func() error { _, err := c.Control(ctx, "BEGIN"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			if e := failed(t, call(), backend.ClassTimeout, ""); !errors.Is(e, context.DeadlineExceeded) {
				t.Errorf("%v is no DeadlineExceeded", e)
			}
			status(t, c, backend.StatusIdle)
		})
	}
}

// TestOutOfMemory: the engine panics, and the program gets an error.
func TestOutOfMemory(t *testing.T) {
	db := openFile(t, "")
	for name, run := range map[string]func(*conn) error{
		"Exec": func(c *conn) error {
			_, err := c.Exec(t.Context(), backend.Call{SQL: "SELECT length(randomblob(400000000))"})
			return err
		},
		"Query": func(c *conn) error {
			_, err := c.Query(t.Context(), backend.Call{SQL: "SELECT randomblob(400000000)"})
			return err
		},
		"Next": func(c *conn) error {
			rows, err := c.Query(t.Context(), backend.Call{SQL: "SELECT 1 UNION ALL SELECT length(randomblob(400000000))"})
			if err != nil {
				return err
			}
			for rows.Next() {
				continue
			}
			return rows.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := acquire(t, db)
			control(t, c, "BEGIN IMMEDIATE")
			exec(t, c, "CREATE TABLE t (a)")
			failed(t, run(c), backend.ClassOther, "53200")
			status(t, c, backend.StatusClosed)
			_, err := c.Exec(t.Context(), backend.Call{SQL: "SELECT 1"})
			failed(t, err, backend.ClassConnection, "")
			c.Release()
			// The locks of the connection are gone, and so is its work.
			exec(t, acquire(t, db), "CREATE TABLE t (a); DROP TABLE t")
		})
	}
}

func TestMessagesKeepValuesOut(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE t (a TEXT UNIQUE CHECK (length(a) > 3))")
	exec(t, c, "INSERT INTO t VALUES ($1)", "secret")
	for _, v := range []any{"secret", "sec", "sec\x00ret"} {
		_, err := c.Exec(t.Context(), backend.Call{SQL: "INSERT INTO t VALUES ($1)", Args: []any{v}})
		if err == nil || strings.Contains(err.Error(), "sec") {
			t.Errorf("the error is %v", err)
		}
	}
}
