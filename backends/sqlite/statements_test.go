package sqlite

import (
	"context"
	"fmt"
	"testing"
	"unsafe"

	"github.com/hare-go/hare/hare/backend"
)

func prepared(c *conn) (n int) {
	for range c.session.engine.Stmts() {
		n++
	}
	return n
}

func TestStatementCache(t *testing.T) {
	c := acquire(t, openFile(t, "statement_cache_size=3"))
	for i := range 10 {
		equal(t, "value", any(int64(i)), value(t, c, fmt.Sprint("SELECT ", i)))
	}
	equal(t, "prepared statements", 3, prepared(c))
	kept := c.session.statements.byText["SELECT 7"]
	value(t, c, "SELECT 7") // becomes the last to go
	value(t, c, "SELECT 10")
	value(t, c, "SELECT 11")
	if c.session.statements.byText["SELECT 7"] != kept || kept == nil {
		t.Error("the statement used last but two was dropped")
	}
	equal(t, "prepared statements", 3, prepared(c))

	none := acquire(t, openFile(t, "statement_cache_size=0"))
	for i := range 10 {
		equal(t, "value", any(int64(i)), value(t, none, fmt.Sprint("SELECT ", i)))
		exec(t, none, fmt.Sprint("SELECT ", i))
		_, err := none.Query(t.Context(), backend.Call{SQL: "SELECT $1"})
		failed(t, err, backend.ClassOther, "08P01")
	}
	equal(t, "prepared statements", 0, prepared(none))
	rows, err := none.Query(t.Context(), backend.Call{SQL: "SELECT 1 AS one, 2 AS two WHERE false"})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "rows", [][]any(nil), drain(t, rows))
	equal(t, "columns of a statement that is gone", []string{"one", "two"}, rows.Columns())
}

// TestSchemaChange: a statement in the cache follows the schema, whoever changes it.
func TestSchemaChange(t *testing.T) {
	db := openFile(t, "")
	c, other := acquire(t, db), acquire(t, db)
	exec(t, c, "CREATE TABLE t (a BOOLEAN)")
	exec(t, c, "INSERT INTO t VALUES (true)")
	read := func() ([]string, [][]any) {
		rows, err := c.Query(t.Context(), backend.Call{SQL: "SELECT * FROM t"})
		if err != nil {
			t.Fatal(err)
		}
		return rows.Columns(), drain(t, rows)
	}
	columns, rows := read()
	equal(t, "columns", []string{"a"}, columns)
	equal(t, "rows", [][]any{{true}}, rows)
	exec(t, other, "ALTER TABLE t ADD COLUMN b INT DEFAULT 7")
	columns, rows = read()
	equal(t, "columns", []string{"a", "b"}, columns)
	equal(t, "rows", [][]any{{true, int64(7)}}, rows)
	exec(t, c, "DROP TABLE t; CREATE TABLE t (c TEXT)")
	columns, rows = read()
	equal(t, "columns", []string{"c"}, columns)
	equal(t, "rows", [][]any(nil), rows)
	exec(t, c, "DROP TABLE t")
	_, err := c.Query(t.Context(), backend.Call{SQL: "SELECT * FROM t"})
	failed(t, err, backend.ClassOther, "42P01")
}

func TestWrittenRows(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	for _, tt := range []struct {
		sql  string
		want int64
	}{
		{"CREATE TABLE p (id INTEGER PRIMARY KEY)", 0},
		{"CREATE TABLE c (p INT REFERENCES p (id) ON DELETE CASCADE)", 0},
		{"INSERT INTO p VALUES (1), (2), (3)", 3},
		{"CREATE TABLE other (a)", 0},
		{"SELECT * FROM p", 0},
		{"INSERT INTO c VALUES (1), (1), (2)", 3},
		{"UPDATE p SET id = id WHERE id > 1", 2},
		{"DELETE FROM p WHERE id = 1", 1}, // not the rows of c that go with it
		{"DELETE FROM p WHERE id = 1", 0},
		{"INSERT INTO p VALUES (7) RETURNING id", 1},
		{"INSERT INTO other VALUES (1); UPDATE other SET a = 2; SELECT 1; DELETE FROM other;", 3},
		{"PRAGMA user_version = 3", 0},
		{"DELETE FROM p;  -- all of them", 3},
	} {
		equal(t, tt.sql, tt.want, exec(t, c, tt.sql))
	}
}

func TestBatch(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a INT UNIQUE)")
	batch := func(values ...int64) [][]any {
		runs := [][]any{}
		for _, v := range values {
			runs = append(runs, []any{v})
		}
		return runs
	}
	insert := func(sql string, runs [][]any) (int64, error) {
		return c.Exec(t.Context(), backend.Call{SQL: sql, Batch: runs})
	}
	count := func() any { t.Helper(); return value(t, c, "SELECT count(*) FROM t") }

	n, err := insert("INSERT INTO t (a) VALUES ($1)", batch(1, 2, 3))
	equal(t, "written", int64(3), n)
	equal(t, "error", nil, err)
	n, err = insert("INSERT INTO t (a) VALUES ($1)", batch())
	equal(t, "written by no run", int64(0), n)
	equal(t, "error", nil, err)

	// A run that fails undoes those before it: the call as a whole has had no effect.
	_, err = insert("INSERT INTO t (a) VALUES ($1)", batch(4, 5, 1))
	failed(t, err, backend.ClassIntegrity, "23505")
	status(t, c, backend.StatusIdle)
	equal(t, "rows", any(int64(3)), count())
	control(t, c, "BEGIN IMMEDIATE")
	exec(t, c, "INSERT INTO t (a) VALUES (10)")
	_, err = insert("INSERT INTO t (a) VALUES ($1)", batch(4, 5, 1))
	failed(t, err, backend.ClassIntegrity, "23505")
	_, err = insert("INSERT INTO t (a) VALUES ($1)", [][]any{{int64(6)}, {}})
	failed(t, err, backend.ClassOther, "08P01")
	status(t, c, backend.StatusInTransaction)
	control(t, c, "COMMIT")
	equal(t, "rows", any(int64(4)), count())

	query := func(runs [][]any) (backend.Rows, error) {
		return c.Query(t.Context(), backend.Call{SQL: "INSERT INTO t (a) VALUES ($1) RETURNING a * 2 AS double", Batch: runs})
	}
	rows, err := query(batch(20, 22, 21))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "columns", []string{"double"}, rows.Columns())
	equal(t, "returned, in order", [][]any{{int64(40)}, {int64(44)}, {int64(42)}}, drain(t, rows))
	rows, err = query(batch())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "columns", []string{"double"}, rows.Columns())
	equal(t, "returned by no run", [][]any(nil), drain(t, rows))
	equal(t, "rows", any(int64(7)), count())

	rows, err = query(batch(30, 31, 20, 32))
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		continue
	}
	failed(t, rows.Err(), backend.ClassIntegrity, "23505")
	failed(t, rows.Close(), backend.ClassIntegrity, "23505")
	_, err = query(batch(20, 33))
	failed(t, err, backend.ClassIntegrity, "23505")
	_, err = query([][]any{{}, {int64(1)}})
	failed(t, err, backend.ClassOther, "08P01")
	status(t, c, backend.StatusIdle)
	equal(t, "rows", any(int64(7)), count())

	// Whether the runs take effect does not depend on how many rows are read.
	rows, err = query(batch(40, 41, 42))
	if err != nil || !rows.Next() || rows.Close() != nil {
		t.Fatal(err, rows.Err())
	}
	equal(t, "rows", any(int64(10)), count())

	// Reading runs need no transaction.
	rows, err = c.Query(t.Context(), backend.Call{SQL: "SELECT id FROM t WHERE a = $1", Batch: batch(1, 99, 3)})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "read", [][]any{{int64(1)}, {int64(3)}}, drain(t, rows))
}

func TestBatchCancelled(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE t (a)")
	runs := make([][]any, 1000)
	for i := range runs {
		runs[i] = []any{int64(i)}
	}
	ctx, cancel := context.WithCancel(t.Context())
	rows, err := c.Query(ctx, backend.Call{SQL: "INSERT INTO t VALUES ($1) RETURNING a", Batch: runs})
	if err != nil {
		t.Fatal(err)
	}
	rows.Next()
	cancel()
	failed(t, rows.Close(), backend.ClassOther, "57014")
	status(t, c, backend.StatusIdle)
	equal(t, "rows", any(int64(0)), value(t, c, "SELECT count(*) FROM t"))
}

// TestScript: several statements without arguments are one.
func TestScript(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE t (a UNIQUE); CREATE INDEX i ON t (a); -- done")
	_, err := c.Exec(t.Context(), backend.Call{SQL: "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); INSERT INTO t VALUES (1)"})
	failed(t, err, backend.ClassIntegrity, "23505")
	_, err = c.Exec(t.Context(), backend.Call{SQL: "INSERT INTO t VALUES (1); SELEC"})
	failed(t, err, backend.ClassOther, "42601")
	_, err = c.Exec(t.Context(), backend.Call{SQL: "INSERT INTO t VALUES (1); /* and */ COMMIT"})
	failed(t, err, backend.ClassQuery, "2D000")
	_, err = c.Exec(t.Context(), backend.Call{SQL: "INSERT INTO t VALUES ($1); SELECT 1", Args: []any{int64(1)}})
	failed(t, err, backend.ClassOther, "42601")
	_, err = c.Query(t.Context(), backend.Call{SQL: "INSERT INTO t VALUES (1); SELECT 1"})
	failed(t, err, backend.ClassOther, "42601")
	status(t, c, backend.StatusIdle)
	equal(t, "rows", any(int64(0)), value(t, c, "SELECT count(*) FROM t"))
	equal(t, "a comment after it", any(int64(1)), value(t, c, "SELECT 1; -- one\n/* and no more */ "))
}

// TestRollbackByATrigger: the transaction that a trigger has rolled back takes nothing but its end.
func TestRollbackByATrigger(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE t (a)")
	exec(t, c, "CREATE TRIGGER gone BEFORE INSERT ON t BEGIN SELECT RAISE(ROLLBACK, 'no'); END")
	control(t, c, "BEGIN IMMEDIATE")
	_, err := c.Exec(t.Context(), backend.Call{SQL: "INSERT INTO t VALUES (1)"})
	failed(t, err, backend.ClassIntegrity, "23000")
	status(t, c, backend.StatusFailed)
	equal(t, "tag", "ROLLBACK", control(t, c, "COMMIT").Tag)
}

func TestRowsAtTheirEnds(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	rows, err := c.Query(t.Context(), backend.Call{SQL: "SELECT 1"})
	if err != nil {
		t.Fatal(err)
	}
	for want := range 2 {
		if got := rows.Next(); got != (want == 0) {
			t.Errorf("Next is %v", got)
		}
	}
	if _, err := rows.Values(); err == nil {
		t.Error("Values gives a row after the last")
	}
	if err := rows.Scan(unsafe.Pointer(new(int64)), nil); err == nil {
		t.Error("Scan gives a row after the last")
	}
	for range 2 {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}
	equal(t, "afterwards", any(int64(1)), value(t, c, "SELECT 1"))
}

// TestLargeArgumentsAreLetGo: a statement in the cache does not keep what it was run with.
func TestLargeArgumentsAreLetGo(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	large := make([]byte, 20<<20)
	for i := range 20 { // 400 MiB, more than the engine may have
		sql := fmt.Sprintf("SELECT length($1), %d", i)
		equal(t, "Query", any(int64(len(large))), value(t, c, sql, large))
		exec(t, c, sql, large)
	}
}

func TestValuesOutliveTheRow(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	rows := table(t, c, "SELECT 'first', x'01' UNION ALL SELECT 'other', x'02'")
	equal(t, "rows", [][]any{{"first", []byte{1}}, {"other", []byte{2}}}, rows)
}
