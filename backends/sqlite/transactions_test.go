package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hare-go/hare/hare/backend"
)

func begin(t testing.TB, c backend.Conn, opts backend.TxOptions) {
	t.Helper()
	control(t, c, dialect{}.Begin(opts)...)
}

func TestControl(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE t (a)")
	for _, tt := range []struct {
		statements []string
		tag        string
		status     backend.Status
	}{
		{[]string{"BEGIN IMMEDIATE"}, "BEGIN", 'T'},
		{[]string{"savepoint a"}, "SAVEPOINT", 'T'},
		{[]string{"-- why\n/* not */ SAVEPOINT b", "RELEASE SAVEPOINT b"}, "RELEASE", 'T'},
		{[]string{"ROLLBACK TO SAVEPOINT a"}, "ROLLBACK", 'T'},
		{[]string{"ROLLBACK TRANSACTION TO a", "RELEASE a"}, "RELEASE", 'T'},
		{[]string{"END"}, "COMMIT", 'I'},
		{[]string{"ROLLBACK"}, "ROLLBACK", 'I'},
		{[]string{"BEGIN", "ROLLBACK"}, "ROLLBACK", 'I'},
		{[]string{"BEGIN TRANSACTION", "SAVEPOINT a", "COMMIT"}, "COMMIT", 'I'},
		{nil, "", 'I'},
	} {
		equal(t, fmt.Sprint(tt.statements), tt.tag, control(t, c, tt.statements...).Tag)
		status(t, c, tt.status)
	}
	for _, tt := range []struct {
		statements []string
		state      string
		status     backend.Status
	}{
		{[]string{"COMMIT"}, "25P01", 'I'},
		{[]string{"SAVEPOINT a"}, "25P01", 'I'},
		{[]string{"RELEASE a"}, "25P01", 'I'},
		{[]string{"ROLLBACK TO a"}, "25P01", 'I'},
		{[]string{"BEGIN", "BEGIN"}, "25001", 'T'},
		{[]string{"RELEASE nothing", "COMMIT"}, "3B001", 'T'},
		{[]string{"ROLLBACK TO nothing"}, "3B001", 'T'},
		{[]string{"PREPARE TRANSACTION 'x'"}, "42601", 'T'},
		{[]string{"ROLLBACK"}, "", 'I'},
	} {
		_, err := c.Control(t.Context(), tt.statements...)
		if tt.state != "" {
			failed(t, err, backend.ClassOther, tt.state)
		} else if err != nil {
			t.Error(err)
		}
		status(t, c, tt.status)
	}
	answer := control(t, c, "BEGIN", "SELECT 1, NULL, 'x'", "SELECT 2", "COMMIT")
	equal(t, "answer", backend.Answer{Tag: "COMMIT", Row: []string{"1", "", "x"}}, answer)
}

// TestBefore: what goes ahead runs first, all of it or none, and without it the statement does not.
func TestBefore(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE t (a)")
	_, err := c.Exec(t.Context(), backend.Call{Before: []string{"BEGIN IMMEDIATE", "SAVEPOINT hare_1"}, SQL: "INSERT INTO nowhere VALUES (1)"})
	failed(t, err, backend.ClassOther, "42P01")
	status(t, c, backend.StatusInTransaction)
	control(t, c, "ROLLBACK TO hare_1", "RELEASE hare_1") // it stands
	rows, err := c.Query(t.Context(), backend.Call{Before: []string{"SAVEPOINT hare_1"}, SQL: "INSERT INTO t VALUES (1) RETURNING a"})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "returned", [][]any{{int64(1)}}, drain(t, rows))
	control(t, c, "ROLLBACK TO hare_1")
	_, err = c.Exec(t.Context(), backend.Call{Before: []string{"BEGIN"}, SQL: "INSERT INTO t VALUES (2)"})
	failed(t, err, backend.ClassOther, "25001")
	_, err = c.Query(t.Context(), backend.Call{Before: []string{"RELEASE nothing"}, SQL: "INSERT INTO t VALUES (3) RETURNING a"})
	failed(t, err, backend.ClassOther, "3B001")
	equal(t, "tag", "COMMIT", control(t, c, "COMMIT").Tag)
	equal(t, "rows", [][]any(nil), table(t, c, "SELECT a FROM t"))
}

func TestReadOnly(t *testing.T) {
	db := openFile(t, "max_size=1")
	c := acquire(t, db)
	exec(t, c, "CREATE TABLE t (a); INSERT INTO t VALUES (1)")
	for name, end := range map[string]func(){
		"commit":   func() { control(t, c, "COMMIT") },
		"rollback": func() { control(t, c, "ROLLBACK") },
		"release":  func() { c.Release(); c = acquire(t, db) },
	} {
		t.Run(name, func(t *testing.T) {
			begin(t, c, backend.TxOptions{ReadOnly: true, LockTimeoutMS: 77})
			equal(t, "busy_timeout", any(int64(77)), value(t, c, "PRAGMA busy_timeout"))
			equal(t, "rows", [][]any{{int64(1)}}, table(t, c, "SELECT a FROM t"))
			for _, sql := range []string{"INSERT INTO t VALUES (2)", "UPDATE t SET a = 2", "DELETE FROM t", "CREATE TABLE u (a)", "DROP TABLE t"} {
				_, err := c.Exec(t.Context(), backend.Call{SQL: sql})
				failed(t, err, backend.ClassReadOnly, "25006")
			}
			status(t, c, backend.StatusInTransaction)
			end()
			status(t, c, backend.StatusIdle)
			equal(t, "query_only", any(int64(0)), value(t, c, "PRAGMA query_only"))
			equal(t, "busy_timeout", any(int64(5000)), value(t, c, "PRAGMA busy_timeout"))
			exec(t, c, "UPDATE t SET a = 1")
		})
	}
}

// TestSnapshot: a read-only transaction sees one state and is in nobody's way.
func TestSnapshot(t *testing.T) {
	for name, db := range map[string]*database{"file": openFile(t, "busy_timeout=0"), "memory": openURL(t, "sqlite::memory:?busy_timeout=0")} {
		t.Run(name, func(t *testing.T) {
			reader, writer := acquire(t, db), acquire(t, db)
			exec(t, writer, "CREATE TABLE t (a); INSERT INTO t VALUES (1)")
			begin(t, reader, backend.TxOptions{ReadOnly: true, Isolation: "repeatable read"})
			equal(t, "before", [][]any{{int64(1)}}, table(t, reader, "SELECT a FROM t"))
			begin(t, writer, backend.TxOptions{})
			exec(t, writer, "UPDATE t SET a = 2")
			equal(t, "while it is written", [][]any{{int64(1)}}, table(t, reader, "SELECT a FROM t"))
			control(t, writer, "COMMIT")
			equal(t, "after", [][]any{{int64(1)}}, table(t, reader, "SELECT a FROM t"))
			control(t, reader, "COMMIT")
			equal(t, "the next one", [][]any{{int64(2)}}, table(t, reader, "SELECT a FROM t"))
		})
	}
}

// TestBusy: the second writer waits, for as long as it may.
func TestBusy(t *testing.T) {
	for name, db := range map[string]*database{"file": openFile(t, "busy_timeout=40ms"), "memory": openURL(t, "sqlite::memory:?busy_timeout=40ms")} {
		t.Run(name, func(t *testing.T) {
			first, second := acquire(t, db), acquire(t, db)
			exec(t, first, "CREATE TABLE t (a)")
			begin(t, first, backend.TxOptions{})
			exec(t, first, "INSERT INTO t VALUES (1)")

			started := time.Now()
			_, err := second.Control(t.Context(), dialect{}.Begin(backend.TxOptions{})...)
			failed(t, err, backend.ClassRetryable, "40001")
			if waited := time.Since(started); waited < 40*time.Millisecond {
				t.Errorf("it waited %v, want 40ms", waited)
			}
			status(t, second, backend.StatusIdle)
			_, err = second.Exec(t.Context(), backend.Call{SQL: "INSERT INTO t VALUES (2)"})
			failed(t, err, backend.ClassRetryable, "40001")

			// A lock time-out of the transaction's own, which ends with the attempt.
			_, err = second.Control(t.Context(), dialect{}.Begin(backend.TxOptions{LockTimeoutMS: 1})...)
			failed(t, err, backend.ClassRetryable, "40001")
			equal(t, "busy_timeout", any(int64(40)), value(t, second, "PRAGMA busy_timeout"))

			// The caller's context ends the wait, and is what the error says.
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_, err = second.Control(ctx, "PRAGMA busy_timeout=60000", "BEGIN IMMEDIATE")
			failed(t, err, backend.ClassTimeout, "57014")
			status(t, second, backend.StatusIdle)

			committed := make(chan error)
			go func() {
				time.Sleep(10 * time.Millisecond)
				_, err := first.Control(context.Background(), "COMMIT")
				committed <- err
			}()
			begin(t, second, backend.TxOptions{LockTimeoutMS: 10_000})
			if err := <-committed; err != nil {
				t.Error(err)
			}
			exec(t, second, "INSERT INTO t VALUES (2)")
			control(t, second, "COMMIT")
			equal(t, "rows", [][]any{{int64(1)}, {int64(2)}}, table(t, second, "SELECT a FROM t ORDER BY a"))
		})
	}
}

// TestBusyCommit: without the log, a commit waits for the readers. One that has waited in vain leaves the transaction
// open, and can be tried again or rolled back.
func TestBusyCommit(t *testing.T) {
	db := openFile(t, "journal_mode=delete&busy_timeout=10")
	reader, writer := acquire(t, db), acquire(t, db)
	exec(t, writer, "CREATE TABLE t (a); INSERT INTO t VALUES (1)")
	begin(t, reader, backend.TxOptions{ReadOnly: true})
	equal(t, "rows", [][]any{{int64(1)}}, table(t, reader, "SELECT a FROM t"))

	begin(t, writer, backend.TxOptions{})
	exec(t, writer, "INSERT INTO t VALUES (2)")
	_, err := writer.Control(t.Context(), "COMMIT")
	failed(t, err, backend.ClassRetryable, "40001")
	status(t, writer, backend.StatusInTransaction)
	control(t, reader, "COMMIT")
	equal(t, "tag", "COMMIT", control(t, writer, "COMMIT").Tag)
	equal(t, "rows", [][]any{{int64(1)}, {int64(2)}}, table(t, reader, "SELECT a FROM t ORDER BY a"))
}

// TestDeferredConstraint: a COMMIT that a constraint refuses has not happened, and is rolled back.
func TestDeferredConstraint(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE c (p INT REFERENCES p (id) DEFERRABLE INITIALLY DEFERRED)")
	begin(t, c, backend.TxOptions{})
	exec(t, c, "INSERT INTO c VALUES (1)")
	_, err := c.Control(t.Context(), "COMMIT")
	failed(t, err, backend.ClassIntegrity, "23503")
	equal(t, "tag", "ROLLBACK", control(t, c, "ROLLBACK").Tag)
	equal(t, "rows", [][]any(nil), table(t, c, "SELECT * FROM c"))
}

// TestWriters: transactions that read and then write take turns; none fails, and none loses what another wrote.
func TestWriters(t *testing.T) {
	for name, db := range map[string]*database{"file": openFile(t, ""), "memory": openURL(t, "sqlite::memory:")} {
		t.Run(name, func(t *testing.T) {
			exec(t, acquire(t, db), "CREATE TABLE t (n INT); INSERT INTO t VALUES (0)")
			const writers, rounds = 4, 25
			errs := make(chan error, writers)
			var group sync.WaitGroup
			for range writers {
				group.Go(func() {
					for range rounds {
						if err := increment(t.Context(), db); err != nil {
							errs <- err
							return
						}
					}
				})
			}
			group.Wait()
			close(errs)
			for err := range errs {
				t.Error(err)
			}
			equal(t, "n", any(int64(writers*rounds)), value(t, acquire(t, db), "SELECT n FROM t"))
		})
	}
}

func increment(ctx context.Context, db *database) error {
	c, err := db.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	rows, err := c.Query(ctx, backend.Call{Before: dialect{}.Begin(backend.TxOptions{}), SQL: "SELECT n FROM t"})
	if err != nil {
		return err
	}
	rows.Next()
	values, err := rows.Values()
	if err != nil {
		return err
	}
	if err := rows.Close(); err != nil {
		return err
	}
	if _, err := c.Exec(ctx, backend.Call{SQL: "UPDATE t SET n = $1", Args: []any{values[0].(int64) + 1}}); err != nil {
		return err
	}
	_, err = c.Control(ctx, "COMMIT")
	return err
}

// TestOtherPrograms: two databases on one file are as two programs.
func TestOtherPrograms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.db")
	var group sync.WaitGroup
	errs := make(chan error, 8)
	for range 8 { // all of them find a new file and change its journal
		group.Go(func() {
			db, err := driver{}.Open(backend.Config{URL: "sqlite:" + path})
			if err != nil {
				errs <- err
				return
			}
			defer db.Close()
			c, err := db.Acquire(t.Context())
			if err != nil {
				errs <- err
				return
			}
			defer c.Release()
			_, err = c.Exec(t.Context(), backend.Call{SQL: "CREATE TABLE IF NOT EXISTS t (a); INSERT INTO t VALUES (1)"})
			errs <- err
		})
	}
	group.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	equal(t, "rows", any(int64(8)), value(t, acquire(t, openURL(t, "sqlite:"+path)), "SELECT count(*) FROM t"))
}
