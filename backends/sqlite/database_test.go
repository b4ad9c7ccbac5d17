package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hare-go/hare/hare/backend"
)

func TestPool(t *testing.T) {
	db := openFile(t, "max_size=2&pool_acquire_timeout=1s")
	first, second := acquire(t, db), acquire(t, db)

	started := time.Now()
	_, err := db.Acquire(t.Context())
	failed(t, err, backend.ClassPool, "")
	if waited := time.Since(started); waited < time.Second {
		t.Errorf("it waited %v, want 1s", waited)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = db.Acquire(ctx)
	if e := failed(t, err, backend.ClassTimeout, ""); !errors.Is(e, context.DeadlineExceeded) {
		t.Errorf("%v is no DeadlineExceeded", e)
	}
	_, err = db.Acquire(ctx) // has ended before
	failed(t, err, backend.ClassTimeout, "")

	outside, err := db.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "outside the pool", any(int64(1)), value(t, outside, "SELECT 1"))
	outside.Release()
	status(t, outside, backend.StatusClosed)
	equal(t, "idle connections", 0, len(db.idle))

	go func() {
		time.Sleep(5 * time.Millisecond)
		first.Release()
	}()
	third := acquire(t, db)
	if third.session != first.session {
		t.Error("a connection was opened although one was idle")
	}
	third.Release()
	second.Release()
	second.Release() // counts once
	equal(t, "idle connections", 2, len(db.idle))
	equal(t, "slots in use", 0, len(db.slots))
}

// TestGivenBack: a connection that its caller has given back serves another, and only him.
func TestGivenBack(t *testing.T) {
	db := openFile(t, "max_size=1")
	c := acquire(t, db)
	c.Release()
	status(t, c, backend.StatusClosed)
	_, err := c.Exec(t.Context(), backend.Call{SQL: "SELECT 1"})
	failed(t, err, backend.ClassConnection, "")
	_, err = c.Query(t.Context(), backend.Call{SQL: "SELECT 1"})
	failed(t, err, backend.ClassConnection, "")
	_, err = c.Control(t.Context(), "BEGIN")
	failed(t, err, backend.ClassConnection, "")
	next := acquire(t, db)
	c.Discard()
	equal(t, "the next caller's", any(int64(1)), value(t, next, "SELECT 1"))
}

// TestUnclean: what is not idle when it comes back is closed, and its transaction rolled back.
func TestUnclean(t *testing.T) {
	for name, leave := range map[string]func(*conn){
		"released in a transaction": func(c *conn) { c.Release() },
		"discarded":                 func(c *conn) { c.Discard(); c.Release() },
		"with open rows": func(c *conn) {
			if _, err := c.Query(context.Background(), backend.Call{SQL: "INSERT INTO t VALUES (2), (3) RETURNING a"}); err != nil {
				t.Error(err)
			}
			c.Release()
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := openFile(t, "max_size=1")
			c := acquire(t, db)
			exec(t, c, "CREATE TABLE t (a)")
			control(t, c, "BEGIN IMMEDIATE")
			exec(t, c, "INSERT INTO t VALUES (1)")
			leave(c)
			status(t, c, backend.StatusClosed)
			equal(t, "idle connections", 0, len(db.idle))
			equal(t, "slots in use", 0, len(db.slots))
			equal(t, "rows", [][]any(nil), table(t, acquire(t, db), "SELECT a FROM t"))
		})
	}
}

// TestRowsOutliveTheConnection: rows that are still open when the connection is given back end with an error.
func TestRowsOutliveTheConnection(t *testing.T) {
	db := openFile(t, "")
	for name, sql := range map[string]string{"read": "SELECT 1 UNION SELECT 2", "written": "INSERT INTO t VALUES (1), (2) RETURNING a"} {
		t.Run(name, func(t *testing.T) {
			c := acquire(t, db)
			exec(t, c, "CREATE TABLE IF NOT EXISTS t (a)")
			rows, err := c.Query(t.Context(), backend.Call{SQL: sql})
			if err != nil || !rows.Next() {
				t.Fatal(err)
			}
			c.Release()
			if _, err := rows.Values(); err == nil {
				t.Error("Values gives a row of a closed connection")
			}
			if err := rows.Scan(nil, nil); err == nil {
				t.Error("Scan gives a row of a closed connection")
			}
			if rows.Next() {
				t.Error("Next gives a row of a closed connection")
			}
			failed(t, rows.Err(), backend.ClassConnection, "")
			failed(t, rows.Close(), backend.ClassConnection, "")
		})
	}
}

func TestBusyConnection(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	rows, err := c.Query(t.Context(), backend.Call{SQL: "SELECT 1 UNION SELECT 2"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Exec(t.Context(), backend.Call{SQL: "SELECT 1"})
	failed(t, err, backend.ClassOther, "")
	_, err = c.Query(t.Context(), backend.Call{SQL: "SELECT 1"})
	failed(t, err, backend.ClassOther, "")
	_, err = c.Control(t.Context(), "BEGIN")
	failed(t, err, backend.ClassOther, "")
	equal(t, "the rows", [][]any{{int64(1)}, {int64(2)}}, drain(t, rows))
	equal(t, "afterwards", any(int64(1)), value(t, c, "SELECT 1"))
}

func TestClose(t *testing.T) {
	for name, url := range map[string]string{"file": "sqlite:" + filepath.Join(t.TempDir(), "main.db"), "memory": "sqlite::memory:"} {
		t.Run(name, func(t *testing.T) {
			db := openURL(t, url)
			used, idle := acquire(t, db), acquire(t, db)
			exec(t, used, "CREATE TABLE t (a); INSERT INTO t VALUES (1)")
			idle.Release()
			db.Close()
			db.Close()
			_, err := db.Acquire(t.Context())
			failed(t, err, backend.ClassConnection, "")
			_, err = db.Dial(t.Context())
			failed(t, err, backend.ClassConnection, "")
			equal(t, "the connection in use", any(int64(1)), value(t, used, "SELECT a FROM t"))
			used.Release()
			if used.session.engine != nil {
				t.Error("a connection that was in use at Close stays open")
			}
			equal(t, "slots in use", 0, len(db.slots))
		})
	}
}

// TestFilesClosed: nothing keeps the files open, so that the log is gone with the last connection.
func TestFilesClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.db")
	db := openURL(t, "sqlite:"+path)
	c := acquire(t, db)
	exec(t, c, "CREATE TABLE t (a)")
	rows, err := c.Query(t.Context(), backend.Call{SQL: "SELECT 1 UNION SELECT 2"})
	if err != nil || !rows.Next() {
		t.Fatal(err)
	}
	c.Release()
	db.Close()
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "files", "[- main.db]", fmt.Sprint(files))
}

// TestMemory: every connection sees the same rows, also after all were closed; another database does not.
func TestMemory(t *testing.T) {
	db, other := openURL(t, "sqlite::memory:"), openURL(t, "sqlite::memory:")
	first, second := acquire(t, db), acquire(t, db)
	exec(t, first, "CREATE TABLE t (a); INSERT INTO t VALUES (1)")
	equal(t, "second", any(int64(1)), value(t, second, "SELECT a FROM t"))
	outside, err := db.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exec(t, outside, "INSERT INTO t VALUES (2)")
	for _, c := range []backend.Conn{outside, first, second} {
		c.Discard()
	}
	equal(t, "third", [][]any{{int64(1)}, {int64(2)}}, table(t, acquire(t, db), "SELECT a FROM t ORDER BY a"))
	_, err = acquire(t, other).Exec(t.Context(), backend.Call{SQL: "SELECT a FROM t"})
	failed(t, err, backend.ClassOther, "42P01")

	// Writing while rows are read, as a loop over a query does.
	reader, writer := acquire(t, db), acquire(t, db)
	rows, err := reader.Query(t.Context(), backend.Call{SQL: "SELECT a FROM t"})
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		exec(t, writer, "INSERT INTO t VALUES (3)")
	}
	equal(t, "rows", any(int64(4)), value(t, writer, "SELECT count(*) FROM t"))
}

func TestOpenCancelled(t *testing.T) {
	db := openFile(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, acquired := db.Acquire(ctx)
	_, dialled := db.Dial(ctx)
	for _, err := range []error{acquired, dialled} {
		if e := failed(t, err, backend.ClassOther, ""); !errors.Is(e, context.Canceled) {
			t.Errorf("%v is no Canceled", e)
		}
	}
	equal(t, "slots in use", 0, len(db.slots))
}
