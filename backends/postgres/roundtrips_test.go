package postgres_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/servers"
)

// TestRoundTrips counts what each kind of call costs on the wire.
func TestRoundTrips(t *testing.T) {
	address := servers.Database(t)
	p := newProxy(t, address)
	conn := acquire(t, open(t, through(t, address, p.Host())))
	run(t, conn, "CREATE TABLE item (id bigint PRIMARY KEY, name text)")

	const insert, find = "INSERT INTO item VALUES ($1, $2)", "SELECT name FROM item WHERE id = $1"
	many := make([][]any, 100) // one segment on the wire, so that no answer overtakes the end of the question
	for i := range many {
		many[i] = []any{int64(i + 10), strings.Repeat("x", 100)}
	}
	query := func(call backend.Call) func() {
		return func() {
			if _, err := table(t.Context(), conn, call); err != nil {
				t.Error(err)
			}
		}
	}
	exec := func(call backend.Call) func() {
		return func() {
			if _, err := conn.Exec(t.Context(), call); err != nil {
				t.Error(err)
			}
		}
	}
	control := func(statements ...string) func() {
		return func() {
			if _, err := conn.Control(t.Context(), statements...); err != nil {
				t.Error(err)
			}
		}
	}
	steps := []struct {
		what string
		want int
		do   func()
	}{
		{"a new statement", 2, query(backend.Call{SQL: find, Args: []any{int64(1)}})},
		{"a prepared statement", 1, query(backend.Call{SQL: find, Args: []any{int64(1)}})},
		{"BEGIN with a prepared statement", 1, query(backend.Call{Before: []string{"BEGIN"}, SQL: find, Args: []any{int64(1)}})},
		{"SAVEPOINT with a new statement", 2, exec(backend.Call{Before: []string{"SAVEPOINT a"}, SQL: insert, Args: []any{int64(1), "a"}})},
		{"SAVEPOINT with a prepared statement", 1, exec(backend.Call{Before: []string{"SAVEPOINT b"}, SQL: insert, Args: []any{int64(2), "b"}})},
		{"RELEASE, RELEASE, COMMIT", 1, control("RELEASE b", "RELEASE a", "COMMIT")},
		{"BEGIN and options with a prepared statement", 1, exec(backend.Call{
			Before: []string{"BEGIN READ WRITE", "SET LOCAL statement_timeout = 5000"}, SQL: insert, Args: []any{int64(3), "c"}})},
		{"ROLLBACK", 1, control("ROLLBACK")},
		{"no arguments", 1, exec(backend.Call{SQL: "DELETE FROM item WHERE id < 10"})},
		{"BEGIN with no arguments", 1, exec(backend.Call{Before: []string{"BEGIN"}, SQL: "DELETE FROM item"})},
		{"100 runs", 1, exec(backend.Call{SQL: insert, Batch: many})},
		{"COMMIT", 1, control("COMMIT")},
		{"100 runs that return rows", 1, query(backend.Call{SQL: find, Batch: firsts(many)})},
	}
	for _, step := range steps {
		same(t, step.what, step.want, counting(p, step.do))
	}
	same(t, "the rows in the end", any(int64(100)), value(t, conn, "SELECT count(*) FROM item"))
}

// TestRoundTripsBehindPooler: a statement that is parsed with each run costs no more round trips than one that is kept.
func TestRoundTripsBehindPooler(t *testing.T) {
	address := servers.Direct(servers.Database(t))
	p := newProxy(t, address)
	conn := acquire(t, open(t, through(t, address, p.Host()), "transaction_pooling=true"))
	const find = "SELECT $1::bigint"
	for _, step := range []struct {
		what string
		want int
		call backend.Call
	}{
		{"a new statement", 2, backend.Call{SQL: find, Args: []any{int64(1)}}},
		{"a described statement", 1, backend.Call{SQL: find, Args: []any{int64(1)}}},
		{"BEGIN with a described statement", 1, backend.Call{Before: []string{"BEGIN"}, SQL: find, Args: []any{int64(1)}}},
		{"100 runs", 1, backend.Call{SQL: find, Batch: slices.Repeat([][]any{{int64(1)}}, 100)}},
	} {
		same(t, step.what, step.want, counting(p, func() {
			if _, err := table(t.Context(), conn, step.call); err != nil {
				t.Error(err)
			}
		}))
	}
}

// firsts is the first argument of each run.
func firsts(runs [][]any) [][]any {
	var first [][]any
	for _, run := range runs {
		first = append(first, run[:1])
	}
	return first
}

// TestStatementCache: with room for two, three statements in turn are prepared again and again, and the server
// forgets the others; with no room each run prepares.
func TestStatementCache(t *testing.T) {
	address := servers.Database(t)
	p := newProxy(t, address)
	texts := []string{"SELECT $1::int", "SELECT $1::text", "SELECT $1::bool"}
	args := []any{int64(1), "a", true}
	cases := []struct {
		size  string
		trips int
		kept  any
	}{
		{"3", 3 + 2*3, int64(3)},
		{"2", 3 * 2 * 2, int64(2)},
		{"0", 3 * 2 * 2, int64(0)},
	}
	for _, c := range cases {
		t.Run(c.size, func(t *testing.T) {
			conn := acquire(t, open(t, through(t, address, p.Host()), "statement_cache_size="+c.size))
			trips := counting(p, func() {
				for range 2 {
					for i, text := range texts {
						same(t, text, args[i], value(t, conn, text, args[i]))
					}
				}
			})
			same(t, "round trips", c.trips, trips)
			run(t, conn, "CREATE TEMP TABLE kept AS SELECT count(*) AS n FROM pg_prepared_statements")
			// One statement more may be there: it is forgotten with the next preparation.
			if kept := value(t, conn, "SELECT n FROM kept").(int64); kept > c.kept.(int64)+1 {
				t.Errorf("the server keeps %d statements", kept)
			}
		})
	}
}
