package sqlite

import (
	"testing"
	"unsafe"

	"github.com/hare-go/hare/hare/backend"
)

// TestAllocations: reading costs no allocation for a row beyond its texts, and a call no more than what it returns.
func TestAllocations(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE t (id INTEGER PRIMARY KEY, flag BOOLEAN, at TIMESTAMP, f REAL, u CHAR(36), s TEXT, n TEXT)")
	var runs [][]any
	for i := range 1000 {
		runs = append(runs, []any{int64(i), true, when, 1.5, uuid1, "a text", nil})
	}
	if _, err := c.Exec(t.Context(), backend.Call{SQL: "INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6, $7)", Batch: runs}); err != nil {
		t.Fatal(err)
	}
	var stored []any
	byName := map[string]backend.Dest{}
	for _, d := range destsOf(&stored) {
		byName[d.Field] = d
	}
	dests := func(names ...string) (list []backend.Dest) {
		for _, name := range names {
			list = append(list, byName[name])
		}
		return list
	}
	numbers, texts := dests("Int64", "Bool", "Time", "Float64", "UUID"), dests("Int64", "Bool", "Time", "Float64", "UUID", "String")
	var into fields
	read := func(call backend.Call, dests []backend.Dest) func() {
		return func() {
			rows, err := c.Query(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
				if err := rows.Scan(unsafe.Pointer(&into), dests); err != nil {
					t.Fatal(err)
				}
			}
			if err := rows.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	args := []any{int64(1000)}
	for _, tt := range []struct {
		name string
		most float64
		run  func()
	}{
		{"1000 rows without texts", 2, read(backend.Call{SQL: "SELECT id, flag, at, f, u FROM t WHERE id < $1", Args: args}, numbers)},
		{"1000 rows with a text each", 1002, read(backend.Call{SQL: "SELECT id, flag, at, f, u, s FROM t WHERE id < $1", Args: args}, texts)},
		{"one row", 2, read(backend.Call{SQL: "SELECT id, flag, at, f, u FROM t WHERE id = 7"}, numbers)},
		{"an update", 1, func() {
			if _, err := c.Exec(t.Context(), backend.Call{SQL: "UPDATE t SET f = f WHERE id = $1", Args: args}); err != nil {
				t.Fatal(err)
			}
		}},
		{"an update of 100 rows, one by one", 1, func() {
			if _, err := c.Exec(t.Context(), backend.Call{SQL: "UPDATE t SET flag = $2, at = $3, f = $4, u = $5, s = $6, n = $7 WHERE id = $1", Batch: runs[:100]}); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		if got := testing.AllocsPerRun(10, tt.run); got > tt.most {
			t.Errorf("%s: %v allocations, want at most %v", tt.name, got, tt.most)
		}
	}
}
