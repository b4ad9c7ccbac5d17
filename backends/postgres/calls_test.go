package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/servers"
)

// TestBeforeFails: when a control statement fails, the statement does not run, whether it was prepared already or not,
// and the error names the control statement.
func TestBeforeFails(t *testing.T) {
	const insert = "INSERT INTO item VALUES ($1)"
	calls := map[string]backend.Call{
		"new":        {SQL: "INSERT INTO item (id) VALUES ($1)", Args: []any{int64(1)}},
		"prepared":   {SQL: insert, Args: []any{int64(1)}},
		"batch":      {SQL: insert, Batch: [][]any{{int64(1)}, {int64(2)}}},
		"unprepared": {SQL: "INSERT INTO item VALUES (1)"},
		"several":    {SQL: "INSERT INTO item VALUES (1); INSERT INTO item VALUES (2)"},
	}
	db := open(t, servers.Database(t))
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, db)
			run(t, conn, "DROP TABLE IF EXISTS item; CREATE TABLE item (id bigint)")
			run(t, conn, insert, int64(0))
			call.Before = []string{"BEGIN", "SET LOCAL statement_timeout = 'never'"}
			_, err := conn.Exec(t.Context(), call)
			var refused *backend.Error
			if !errors.As(err, &refused) || !refused.NotDone || !strings.Contains(refused.Message, call.Before[1]) {
				t.Fatalf("want an error that names the control statement, got %v", err)
			}
			same(t, "SQLSTATE", "22023", refused.SQLState)
			same(t, "status", backend.StatusFailed, conn.Status())
			answer, err := conn.Control(t.Context(), "COMMIT")
			same(t, "the end", [2]any{"ROLLBACK", nil}, [2]any{answer.Tag, err})
			same(t, "rows", any(int64(1)), value(t, conn, "SELECT count(*) FROM item"))
		})
	}
}

// TestSavepointStandsBeforePreparation: a statement that cannot even be prepared costs only its savepoint.
func TestSavepointStandsBeforePreparation(t *testing.T) {
	conn := fresh(t)
	run(t, conn, "CREATE TABLE item (id bigint)")
	if _, err := conn.Exec(t.Context(), backend.Call{Before: []string{"BEGIN"}, SQL: "INSERT INTO item VALUES ($1)", Args: []any{int64(1)}}); err != nil {
		t.Fatal(err)
	}
	_, err := conn.Query(t.Context(), backend.Call{Before: []string{"SAVEPOINT a"}, SQL: "SELECT nothing FROM nowhere"})
	same(t, "SQLSTATE", "42P01", backend.SQLState(err))
	same(t, "not done", true, backend.NotDone(err))
	if _, err := conn.Control(t.Context(), "ROLLBACK TO a", "COMMIT"); err != nil {
		t.Fatal(err)
	}
	same(t, "rows", any(int64(1)), value(t, conn, "SELECT count(*) FROM item"))
}

// TestControlTags: the tag of the last command comes back, which is how a COMMIT or a PREPARE TRANSACTION says that it
// was a rollback.
func TestControlTags(t *testing.T) {
	conn := fresh(t)
	gid := "'hare_" + strings.ToLower(t.Name()) + "'"
	fail := func() {
		_, err := conn.Exec(t.Context(), backend.Call{SQL: "SELECT 1/0"})
		same(t, "SQLSTATE", "22012", backend.SQLState(err))
		_, err = conn.Exec(t.Context(), backend.Call{SQL: "SELECT 1"})
		same(t, "SQLSTATE in the failed transaction", "25P02", backend.SQLState(err))
	}
	steps := []struct {
		statements []string
		fail       bool
		tag        string
		status     backend.Status
	}{
		{statements: nil, tag: "", status: backend.StatusIdle},
		{statements: []string{"BEGIN"}, tag: "BEGIN", status: backend.StatusInTransaction},
		{statements: []string{"COMMIT"}, fail: true, tag: "ROLLBACK", status: backend.StatusIdle},
		{statements: []string{"BEGIN", "SAVEPOINT a"}, tag: "SAVEPOINT", status: backend.StatusInTransaction},
		{statements: []string{"PREPARE TRANSACTION " + gid}, fail: true, tag: "ROLLBACK", status: backend.StatusIdle},
		{statements: []string{"PREPARE TRANSACTION " + gid}, tag: "ROLLBACK", status: backend.StatusIdle},
		{statements: []string{"BEGIN -- with a comment", "PREPARE TRANSACTION " + gid}, tag: "PREPARE TRANSACTION", status: backend.StatusIdle},
		{statements: []string{"COMMIT PREPARED " + gid}, tag: "COMMIT PREPARED", status: backend.StatusIdle},
		{statements: []string{"BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY", "COMMIT"}, tag: "COMMIT", status: backend.StatusIdle},
	}
	for _, step := range steps {
		if step.fail {
			fail()
		}
		answer, err := conn.Control(t.Context(), step.statements...)
		same(t, fmt.Sprint(step.statements), [3]any{step.tag, nil, step.status}, [3]any{answer.Tag, err, conn.Status()})
	}
	answer, err := conn.Control(t.Context(), "BEGIN", "SELECT 7, NULL, 'a'", "SELECT 8", "COMMIT")
	same(t, "with rows", backend.Answer{Tag: "COMMIT", Row: []string{"7", "", "a"}}, answer)
	same(t, "error", nil, err)
	answer, err = conn.Control(t.Context(), "SELECT i FROM generate_series(1, 3) AS i")
	same(t, "counts are cut off", backend.Answer{Tag: "SELECT", Row: []string{"1"}}, answer)
	same(t, "error", nil, err)
	_, err = conn.Control(t.Context(), "COMMIT PREPARED "+gid)
	same(t, "SQLSTATE of an unknown transaction", "42704", backend.SQLState(err))
	same(t, "unprepared", any(int64(0)), value(t, conn, "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'COMMIT%'"))
}

// TestExecCounts: Exec counts the rows that were written, and those only.
func TestExecCounts(t *testing.T) {
	conn := fresh(t)
	cases := []struct {
		call backend.Call
		want int64
	}{
		{backend.Call{SQL: "CREATE TABLE item (id bigint, name text)"}, 0},
		{backend.Call{SQL: "INSERT INTO item VALUES (1, 'a'), (2, 'b'); -- two\n UPDATE item SET name = 'c'; SELECT * FROM item"}, 4},
		{backend.Call{SQL: "INSERT INTO item VALUES ($1, $2) RETURNING id", Batch: [][]any{{int64(3), "x"}, {int64(4), nil}}}, 2},
		{backend.Call{SQL: "INSERT INTO item VALUES ($1, $2)", Batch: [][]any{}}, 0},
		{backend.Call{SQL: "SELECT * FROM item WHERE id > $1", Args: []any{int64(0)}}, 0},
		{backend.Call{SQL: "UPDATE item SET name = $1 WHERE id > $2", Args: []any{"y", int64(2)}}, 2},
		{backend.Call{SQL: "DELETE FROM item WHERE id = ANY($1)", Args: []any{backend.List{Values: []any{int64(1), int64(9), nil}}}}, 1},
		{backend.Call{Before: []string{"BEGIN"}, SQL: "DELETE FROM item"}, 3},
		{backend.Call{Before: []string{"SAVEPOINT a"}, SQL: "INSERT INTO item VALUES (5); DELETE FROM item;"}, 2},
		{backend.Call{SQL: ""}, 0},
	}
	for _, c := range cases {
		got, err := conn.Exec(t.Context(), c.call)
		same(t, c.call.SQL, [2]any{c.want, nil}, [2]any{got, err})
	}
}

// TestBatchIsOneStatement: outside a transaction the runs of a batch take effect together or not at all.
func TestBatchIsOneStatement(t *testing.T) {
	conn := fresh(t)
	run(t, conn, "CREATE TABLE item (id bigint PRIMARY KEY)")
	_, err := conn.Exec(t.Context(), backend.Call{SQL: "INSERT INTO item VALUES ($1)", Batch: [][]any{{int64(1)}, {int64(2)}, {int64(1)}}})
	same(t, "SQLSTATE", "23505", backend.SQLState(err))
	same(t, "rows", any(int64(0)), value(t, conn, "SELECT count(*) FROM item"))
}

// TestQueryRows: the rows of a call with control statements and of a batch come one after the other, the columns have
// names, and rows that are not read are dropped.
func TestQueryRows(t *testing.T) {
	conn := fresh(t)
	call := backend.Call{
		Before: []string{"BEGIN", "SELECT pg_advisory_xact_lock(1)"},
		SQL:    "SELECT $1::bigint AS n, i FROM generate_series(1, $2::int) AS i",
		Batch:  [][]any{{int64(7), int64(2)}, {int64(8), int64(0)}, {int64(9), int64(1)}},
	}
	want := [][]any{{int64(7), int64(1)}, {int64(7), int64(2)}, {int64(9), int64(1)}}
	for _, state := range []string{"new", "prepared"} {
		got, err := table(t.Context(), conn, call)
		same(t, state+": rows", want, got)
		same(t, state+": error", nil, err)
		if _, err := conn.Control(t.Context(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	}

	rows, err := conn.Query(t.Context(), backend.Call{SQL: call.SQL, Args: []any{int64(1), int64(1_000_000)}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "columns", []string{"n", "i"}, rows.Columns())
	for range 3 {
		same(t, "next", true, rows.Next())
	}
	same(t, "close", nil, rows.Close())
	same(t, "close again", nil, rows.Close())
	same(t, "next after close", false, rows.Next())
	if _, err := rows.Values(); err == nil {
		t.Error("there are values after the rows were closed")
	}
	same(t, "the connection's next answer", any(int64(1)), value(t, conn, "SELECT 1::bigint"))

	empty, err := table(t.Context(), conn, backend.Call{SQL: call.SQL, Batch: [][]any{}})
	same(t, "no runs", [2]any{[][]any(nil), nil}, [2]any{empty, err})
}

// TestColumnsUnknownToThePreparation: a FETCH that was prepared before there was a cursor learns its columns when it
// runs, and gives them as text.
func TestColumnsUnknownToThePreparation(t *testing.T) {
	conn := fresh(t)
	fetch := backend.Call{SQL: "FETCH ALL FROM c"}
	_, err := table(t.Context(), conn, fetch)
	same(t, "SQLSTATE without a cursor", "34000", backend.SQLState(err))
	if _, err := conn.Control(t.Context(), "BEGIN", "DECLARE c CURSOR FOR SELECT 7::bigint AS n, NULL::date AS d"); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), fetch)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "columns", []string{"n", "d"}, rows.Columns())
	same(t, "next", true, rows.Next())
	got, err := rows.Values()
	same(t, "row", [2]any{[]any{"7", nil}, nil}, [2]any{got, err})
	var into struct {
		N int64
		D *string
	}
	if err := rows.Scan(unsafe.Pointer(&into), dests(reflect.TypeOf(into))); err != nil {
		t.Fatal(err)
	}
	same(t, "field", int64(7), into.N)
	same(t, "close", nil, rows.Close())
}

// TestErrorInTheMiddleOfRows: the rows before the error are given, then Next ends and Err and Close agree.
func TestErrorInTheMiddleOfRows(t *testing.T) {
	conn := fresh(t)
	rows, err := conn.Query(t.Context(), backend.Call{SQL: "SELECT 1 / (3 - i) FROM generate_series(1, $1::int) AS i", Args: []any{int64(5)}})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rows.Next() {
		n++
	}
	same(t, "rows before the error", 2, n)
	same(t, "Err", "22012", backend.SQLState(rows.Err()))
	same(t, "Close", "22012", backend.SQLState(rows.Close()))
	same(t, "status", backend.StatusIdle, conn.Status())
}

// TestBusy: a connection whose rows are open refuses everything else, and says why.
func TestBusy(t *testing.T) {
	conn := fresh(t)
	rows, err := conn.Query(t.Context(), backend.Call{SQL: "SELECT 1"})
	if err != nil {
		t.Fatal(err)
	}
	for what, try := range map[string]func() error{
		"Exec":    func() error { _, err := conn.Exec(t.Context(), backend.Call{SQL: "SELECT 1"}); return err },
		"Query":   func() error { _, err := conn.Query(t.Context(), backend.Call{SQL: "SELECT 1"}); return err },
		"Control": func() error { _, err := conn.Control(t.Context(), "BEGIN"); return err },
	} {
		var busy *backend.Error
		if err := try(); !errors.As(err, &busy) || !busy.NotDone || !strings.Contains(busy.Message, "busy") {
			t.Errorf("%s: want an error that says busy, got %v", what, err)
		}
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	run(t, conn, "SELECT 1")
}

// TestOutdatedStatement: after DDL and after DEALLOCATE ALL a prepared statement that has become useless is prepared
// again and run again outside a transaction. In a transaction it fails once, and says so.
func TestOutdatedStatement(t *testing.T) {
	const find = "SELECT * FROM item WHERE id = $1"
	look := func(conn backend.Conn) ([][]any, error) {
		return table(context.Background(), conn, backend.Call{SQL: find, Args: []any{int64(1)}})
	}
	spoil := map[string]struct {
		sql, state string
		want       [][]any
	}{
		"column added":   {"ALTER TABLE item ADD COLUMN more text", "0A000", [][]any{{int64(1), "a", nil}}},
		"type changed":   {"ALTER TABLE item ALTER COLUMN name TYPE jsonb USING '{}'", "0A000", [][]any{{int64(1), backend.JSON("{}")}}},
		"all forgotten":  {"DEALLOCATE ALL", "26000", [][]any{{int64(1), "a"}}},
		"all discarded":  {"DISCARD ALL", "26000", [][]any{{int64(1), "a"}}},
		"column dropped": {"ALTER TABLE item DROP COLUMN name", "0A000", [][]any{{int64(1)}}},
	}
	db := open(t, servers.Database(t))
	for name, s := range spoil {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, db)
			run(t, conn, "DROP TABLE IF EXISTS item; CREATE TABLE item (id bigint, name text)")
			run(t, conn, "INSERT INTO item VALUES (1, 'a')")
			if _, err := look(conn); err != nil {
				t.Fatal(err)
			}
			run(t, conn, s.sql)
			got, err := look(conn)
			same(t, "outside a transaction", s.want, got)
			same(t, "error", nil, err)

			if s.state == "26000" {
				run(t, conn, s.sql)
			} else {
				run(t, conn, "ALTER TABLE item ADD COLUMN last text")
			}
			if _, err := conn.Control(t.Context(), "BEGIN"); err != nil {
				t.Fatal(err)
			}
			_, err = look(conn)
			same(t, "in a transaction", s.state, backend.SQLState(err))
			same(t, "not done", true, backend.NotDone(err))
			if _, err := conn.Control(t.Context(), "ROLLBACK", "BEGIN"); err != nil {
				t.Fatal(err)
			}
			_, err = look(conn)
			same(t, "in the next transaction", nil, err)
		})
	}

	t.Run("not supported", func(t *testing.T) {
		conn := dial(t, db)
		_, err := conn.Exec(t.Context(), backend.Call{SQL: "SELECT DISTINCT i FROM generate_series(1, $1) AS i FOR UPDATE", Args: []any{int64(1)}})
		same(t, "SQLSTATE", "0A000", backend.SQLState(err))
	})
}

// TestSession: what every session has, and what the options ask for.
func TestSession(t *testing.T) {
	address := servers.Database(t)
	settings := func(options ...string) map[string]any {
		conn := acquire(t, open(t, address, options...))
		got := map[string]any{}
		for _, name := range []string{"TimeZone", "client_encoding", "application_name", "statement_timeout", "lock_timeout",
			"idle_in_transaction_session_timeout", "search_path"} {
			got[name] = value(t, conn, "SELECT current_setting($1)", name)
		}
		return got
	}
	t.Setenv("PGTZ", "America/New_York")
	same(t, "by default", map[string]any{
		"TimeZone": "UTC", "client_encoding": "UTF8", "application_name": "hare", "statement_timeout": "0", "lock_timeout": "0",
		"idle_in_transaction_session_timeout": "0", "search_path": `"$user", public`,
	}, settings())
	t.Setenv("PGAPPNAME", "from the environment")
	same(t, "the environment's name", any("from the environment"), settings()["application_name"])
	same(t, "as asked", map[string]any{
		"TimeZone": "UTC", "client_encoding": "UTF8", "application_name": "a & b's", "statement_timeout": "15s", "lock_timeout": "250ms",
		"idle_in_transaction_session_timeout": "1min", "search_path": "a, pg_catalog",
	}, settings("application_name=a%20%26%20b's", "statement_timeout=15s", "lock_timeout=250", "idle_in_transaction_session_timeout=60000ms",
		"search_path=a,%20pg_catalog"))
}
