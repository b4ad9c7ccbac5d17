package postgres_test

import (
	"context"
	"reflect"
	"testing"
	"unsafe"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/servers"
)

// TestAlteredTables: a statement that was described before DDL gives the values that the table has now, in their present
// types, or an error; never a value read by a description that is out of date. That holds where statements are kept
// prepared and where they are parsed with each run, for clients that knew the table before.
func TestAlteredTables(t *testing.T) {
	address, p := pooled(t, servers.PoolerOptions{PoolSize: 2})
	const all, byN = "SELECT * FROM item", "SELECT n FROM item WHERE n = $1"
	cases := map[string]struct {
		alter    string
		rows     [][]any
		n        any // what byN finds
		argument any
	}{
		"column added":    {"ALTER TABLE item ADD COLUMN more bigint DEFAULT 9", [][]any{{int64(5), int64(9)}}, int64(5), int64(5)},
		"numeric added":   {"ALTER TABLE item ADD COLUMN more numeric DEFAULT 9.5", [][]any{{int64(5), backend.Decimal("9.5")}}, int64(5), int64(5)},
		"int to bigint":   {"ALTER TABLE item ALTER COLUMN n TYPE bigint USING n + 10000000000", [][]any{{int64(10000000005)}}, int64(10000000005), int64(10000000005)},
		"int to text":     {"ALTER TABLE item ALTER COLUMN n TYPE text USING 'x' || n", [][]any{{"x5"}}, "x5", "x5"},
		"int to smallint": {"ALTER TABLE item ALTER COLUMN n TYPE smallint", [][]any{{int64(5)}}, int64(5), int64(5)},
		"int to float":    {"ALTER TABLE item ALTER COLUMN n TYPE float8 USING n + 0.5", [][]any{{5.5}}, 5.5, 5.5},
		"int to interval": {"ALTER TABLE item ALTER COLUMN n TYPE interval USING make_interval(secs => n)", [][]any{{"00:00:05"}}, "00:00:05", "00:00:05"},
		"column renamed":  {"ALTER TABLE item RENAME COLUMN n TO m; ALTER TABLE item ADD COLUMN n text DEFAULT '7'", [][]any{{int64(5), "7"}}, "7", "7"},
	}
	for way, url := range map[string]string{"direct": address, "pooled": p.URL(address)} {
		told := map[string]string{"direct": "transaction_pooling=false", "pooled": "transaction_pooling=true"}[way]
		for name, c := range cases {
			t.Run(way+"/"+name, func(t *testing.T) {
				db := open(t, url, told, "max_size=1")
				conn := acquire(t, db)
				run(t, conn, "DROP TABLE IF EXISTS item; CREATE TABLE item (n int); INSERT INTO item VALUES (5)")
				if _, err := table(t.Context(), conn, backend.Call{SQL: all, ReadOnly: true}); err != nil {
					t.Fatal(err)
				}
				same(t, "before", any(int64(5)), value(t, conn, byN, int64(5)))

				run(t, conn, c.alter)
				got, err := table(t.Context(), conn, backend.Call{SQL: all, ReadOnly: true})
				same(t, "all", c.rows, got)
				same(t, "error", nil, err)
				got, err = table(t.Context(), conn, backend.Call{SQL: byN, Args: []any{c.argument}, ReadOnly: true})
				same(t, "found", [][]any{{c.n}}, got)
				same(t, "error", nil, err)
			})
		}
	}
}

// TestAlteredTableInATransaction: where a statement cannot be run again it fails, and its next run knows the table.
func TestAlteredTableInATransaction(t *testing.T) {
	address, p := pooled(t, servers.PoolerOptions{})
	const find = "SELECT n FROM item WHERE n = $1"
	for way, db := range map[string]backend.Database{
		"direct": open(t, address, "max_size=1"), "pooled": open(t, p.URL(address), "max_size=1", "transaction_pooling=true"),
	} {
		t.Run(way, func(t *testing.T) {
			conn := acquire(t, db)
			run(t, conn, "DROP TABLE IF EXISTS item; CREATE TABLE item (n int); INSERT INTO item VALUES (5)")
			same(t, "before", any(int64(5)), value(t, conn, find, int64(5)))
			run(t, conn, "ALTER TABLE item ALTER COLUMN n TYPE text USING 'x' || n")
			call := backend.Call{Before: []string{"BEGIN"}, SQL: find, Args: []any{"x5"}}
			_, err := table(t.Context(), conn, call)
			if err == nil || !backend.NotDone(err) {
				t.Errorf("the first run in a transaction: %v", err)
			}
			if _, err := conn.Control(t.Context(), "ROLLBACK"); err != nil {
				t.Fatal(err)
			}
			got, err := table(t.Context(), conn, call)
			same(t, "rows of the next", [][]any{{"x5"}}, got)
			same(t, "error of the next", nil, err)
			if _, err := conn.Control(t.Context(), "ROLLBACK"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestAlteredTableUnderAWrite: a statement that may have written is not run again when its rows come in a form that cannot
// be read; its error does not claim that it did nothing.
func TestAlteredTableUnderAWrite(t *testing.T) {
	address, p := pooled(t, servers.PoolerOptions{})
	conn := acquire(t, open(t, p.URL(address), "transaction_pooling=true"))
	run(t, conn, "CREATE TABLE item (n int)")
	insert := backend.Call{SQL: "INSERT INTO item SELECT 5 RETURNING *"}
	if _, err := table(t.Context(), conn, insert); err != nil {
		t.Fatal(err)
	}
	run(t, conn, "ALTER TABLE item ALTER COLUMN n TYPE interval USING make_interval(secs => n), ALTER COLUMN n SET DEFAULT '1s'; "+
		"CREATE FUNCTION secs(int) RETURNS interval LANGUAGE sql AS 'SELECT make_interval(secs => $1)'; CREATE CAST (int AS interval) WITH FUNCTION secs(int) AS ASSIGNMENT")
	_, err := table(t.Context(), conn, insert)
	if err == nil || backend.NotDone(err) {
		t.Errorf("the rows that cannot be read: %v", err)
	}
	same(t, "status", backend.StatusIdle, conn.Status())
	got, err := table(t.Context(), conn, insert)
	same(t, "rows of the next run", [][]any{{"00:00:05"}}, got)
	same(t, "error of the next run", nil, err)
	same(t, "runs", any(int64(3)), value(t, conn, "SELECT count(*) FROM item"))
}

// TestAlteredTableScanned: a field of a struct gets the present value, too.
func TestAlteredTableScanned(t *testing.T) {
	address, p := pooled(t, servers.PoolerOptions{})
	conn := acquire(t, open(t, p.URL(address), "transaction_pooling=true"))
	run(t, conn, "CREATE TABLE item (n int); INSERT INTO item VALUES (5)")
	var into struct{ N int64 }
	scan := func() error {
		rows, err := conn.Query(context.Background(), backend.Call{SQL: "SELECT n FROM item", ReadOnly: true})
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(unsafe.Pointer(&into), dests(reflect.TypeOf(into))); err != nil {
				return err
			}
		}
		return rows.Close()
	}
	for alter, want := range map[string]int64{
		"SELECT": 5,
		"ALTER TABLE item ALTER COLUMN n TYPE bigint":  5,
		"ALTER TABLE item ALTER COLUMN n TYPE numeric": 5,
	} {
		run(t, conn, alter)
		same(t, "error after "+alter, nil, scan())
		same(t, "value after "+alter, want, into.N)
	}
	run(t, conn, "ALTER TABLE item ALTER COLUMN n TYPE text USING 'none'")
	if err := scan(); err == nil {
		t.Errorf("text in a whole number: %d", into.N)
	}
}
