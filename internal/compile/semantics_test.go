package compile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	_ "github.com/hare-go/hare/backends/sqlite"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/query"

	"github.com/hare-go/hare/internal/schema"
)

// Reading has a column of every kind of absence: NULL, and a relation that leads nowhere.
type Reading struct {
	ID       int64
	A        *int64
	B        int64
	ParentID *int64
	Parent   *Reading `hare:"fk=parent_id"`
}

// meaning is a predicate and what it means in Go. Only truth counts: a filter does not tell false from unknown, nor does
// any predicate around it. silent predicates say nothing.
type meaning struct {
	predicate query.Predicate
	silent    bool
	holds     func(r *Reading) bool
}

// readings are all combinations of a few values, each parent before its children.
func readings() []*Reading {
	var all []*Reading
	parents := []*Reading{nil}
	for len(all) < 60 {
		for _, parent := range slices.Clone(parents) {
			for _, a := range []*int64{nil, new(int64(1)), new(int64(2))} {
				for b := range int64(3) {
					r := &Reading{ID: int64(len(all) + 1), A: a, B: b, Parent: parent}
					if parent != nil {
						r.ParentID = &parent.ID
					}
					all = append(all, r)
				}
			}
		}
		parents = []*Reading{all[0], all[4], all[8]}
	}
	return all
}

// readingPaths read a path's value: nil is NULL.
var readingPaths = map[string]func(r *Reading) *int64{
	"a":         func(r *Reading) *int64 { return r.A },
	"b":         func(r *Reading) *int64 { return &r.B },
	"parent":    func(r *Reading) *int64 { return r.ParentID },
	"parent__a": func(r *Reading) *int64 { return beyond(r, func(p *Reading) *int64 { return p.A }) },
	"parent__b": func(r *Reading) *int64 { return beyond(r, func(p *Reading) *int64 { return &p.B }) },
}

func beyond(r *Reading, read func(*Reading) *int64) *int64 {
	if r.Parent == nil {
		return nil
	}
	return read(r.Parent)
}

func randomMeaning(r *rand.Rand, depth int) meaning {
	if depth == 0 || r.IntN(3) == 0 {
		return randomCondition(r)
	}
	if r.IntN(3) == 0 {
		part := randomMeaning(r, depth-1)
		return meaning{query.Not(part.predicate), part.silent, func(row *Reading) bool { return !part.holds(row) }}
	}
	connector := pickFrom(r, query.AllOf, query.AnyOf)
	group := &query.Group{Connector: connector}
	var said []meaning
	for range r.IntN(4) {
		part := randomMeaning(r, depth-1)
		group.Parts = append(group.Parts, part.predicate)
		if !part.silent {
			said = append(said, part)
		}
	}
	silent := len(said) == 0 && (connector == query.AllOf || len(group.Parts) > 0)
	return meaning{group, silent, func(row *Reading) bool {
		if connector == query.AllOf {
			return !slices.ContainsFunc(said, func(part meaning) bool { return !part.holds(row) })
		}
		return slices.ContainsFunc(said, func(part meaning) bool { return part.holds(row) })
	}}
}

func randomCondition(r *rand.Rand) meaning {
	path := pickFrom(r, "a", "b", "parent", "parent__a", "parent__b")
	read := readingPaths[path]
	operand, value := randomOperand(r)
	compared := func(lookup string, holds func(x, y int64) bool) meaning {
		return meaning{query.Q(path+"__"+lookup, operand), false, func(row *Reading) bool {
			x, y := read(row), value(row)
			return x != nil && y != nil && holds(*x, *y)
		}}
	}
	null := func(is bool) func(row *Reading) bool {
		return func(row *Reading) bool { return (read(row) == nil) == is }
	}
	switch r.IntN(12) {
	case 0:
		return meaning{query.Q(path, nil), false, null(true)}
	case 1:
		return meaning{query.Q(path+"__not", nil), false, null(false)}
	case 2:
		is := r.IntN(2) == 0
		return meaning{query.Q(path+"__isnull", is), false, null(is)}
	case 3:
		return meaning{query.Q(path+"__not", operand), false, func(row *Reading) bool { return !same(read(row), value(row)) }}
	case 4, 5:
		list, contains := randomList(r)
		return meaning{query.Q(path+"__in", list), false, func(row *Reading) bool { return contains(read(row)) }}
	case 6, 7:
		list, contains := randomList(r)
		return meaning{query.Q(path+"__not_in", list), false, func(row *Reading) bool { return !contains(read(row)) }}
	case 8:
		low, high := r.Int64N(3), r.Int64N(3)
		return meaning{query.Q(path+"__range", []int64{low, high}), false, func(row *Reading) bool {
			x := read(row)
			return x != nil && low <= *x && *x <= high
		}}
	case 9:
		return compared("gt", func(x, y int64) bool { return x > y })
	case 10:
		return compared("lte", func(x, y int64) bool { return x <= y })
	}
	return compared("exact", func(x, y int64) bool { return x == y })
}

// randomOperand is a value or an expression, and what it is in a row.
func randomOperand(r *rand.Rand) (any, func(row *Reading) *int64) {
	n := r.Int64N(4)
	path := pickFrom(r, "a", "b", "parent__a")
	switch r.IntN(3) {
	case 0:
		return query.F(path), readingPaths[path]
	case 1:
		return query.F(path).Mul(2).Sub(n), func(row *Reading) *int64 {
			if x := readingPaths[path](row); x != nil {
				return new(*x*2 - n)
			}
			return nil
		}
	}
	return n, func(*Reading) *int64 { return &n }
}

func randomList(r *rand.Rand) ([]*int64, func(x *int64) bool) {
	list := make([]*int64, r.IntN(4))
	for i := range list {
		if r.IntN(3) > 0 {
			list[i] = new(r.Int64N(4))
		}
	}
	return list, func(x *int64) bool {
		return slices.ContainsFunc(list, func(y *int64) bool { return same(x, y) })
	}
}

func same(x, y *int64) bool { return x == y || x != nil && y != nil && *x == *y }

// readingDatabase is SQLite with the readings in it.
func readingDatabase(t *testing.T) (*Compiler, backend.Conn) {
	t.Helper()
	driver, ok := backend.Lookup("sqlite")
	if !ok {
		t.Fatal("there is no SQLite")
	}
	db, err := driver.Open(backend.Config{Alias: "main", URL: "sqlite:" + t.TempDir() + "/readings.db"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	conn, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Release)
	c, model := New(db.Dialect(), db.Features(), "main"), table[Reading](t)
	ddl, err := Tables(db.Dialect(), db.Features(), "main", []*schema.Table{model})
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range ddl {
		if _, err := conn.Exec(t.Context(), backend.Call{SQL: statement}); err != nil {
			t.Fatal(err)
		}
	}
	insert, err := c.Insert(model, Columns(model.Columns...), ColumnSet{})
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]any
	for _, r := range readings() {
		var row []any
		for _, column := range model.Columns {
			value, err := column.Read(backend.Pointer(r))
			if err != nil {
				t.Fatal(err)
			}
			row = append(row, value)
		}
		rows = append(rows, row)
	}
	if _, err := conn.Exec(t.Context(), backend.Call{SQL: insert.SQL, Batch: rows}); err != nil {
		t.Fatal(err)
	}
	return c, conn
}

// firsts runs a statement and gives the first column of its rows.
func firsts(t *testing.T, conn backend.Conn, s Statement, args []any) []int64 {
	t.Helper()
	rows, err := conn.Query(t.Context(), backend.Call{SQL: s.SQL, Args: args})
	if err != nil {
		t.Fatalf("%s: %v", s.SQL, err)
	}
	found := []int64{}
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, values[0].(int64))
	}
	if err := rows.Close(); err != nil {
		t.Fatalf("%s: %v", s.SQL, err)
	}
	return found
}

// TestMeaning: on a database, a filter keeps exactly the rows for which the predicate holds and an exclude all the others,
// NULL and missing related rows or not; counting and looking for a row agree.
func TestMeaning(t *testing.T) {
	c, conn := readingDatabase(t)
	model, all := table[Reading](t), readings()
	r := rand.New(rand.NewPCG(7, 8))
	for range 500 {
		m := randomMeaning(r, 3)
		for _, exclude := range []bool{false, true} {
			node, err := Where(model, []query.Predicate{m.predicate}, exclude)
			if err != nil {
				t.Fatal(err)
			}
			q := Query{Table: model, Where: []*Node{node}, Order: PrimaryKeyOrder(model), Limit: Unlimited, Offset: Unlimited}
			want := []int64{}
			for _, row := range all {
				if m.silent || m.holds(row) != exclude {
					want = append(want, row.ID)
				}
			}
			s, args, err := c.Select(context.Background(), &q)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, firsts(t, conn, s, args)); diff != "" {
				t.Fatalf("%s\n%s (-want +got):\n%s", s.SQL, showAll(args), diff)
			}
			s, args, err = c.Count(context.Background(), &q)
			if err != nil {
				t.Fatal(err)
			}
			if got := firsts(t, conn, s, args); got[0] != int64(len(want)) {
				t.Fatalf("%s counts %d rows, and there are %d", s.SQL, got[0], len(want))
			}
			s, args, err = c.Exists(context.Background(), &q)
			if err != nil {
				t.Fatal(err)
			}
			if got := firsts(t, conn, s, args); len(got) != min(1, len(want)) {
				t.Fatalf("%s finds %d rows, and there are %d", s.SQL, len(got), len(want))
			}
		}
	}
}

// TestWritesReachTheRowsOfTheQuery: update and delete write the rows that the query returns, sliced, ordered and related
// to others as it may be, and no other.
func TestWritesReachTheRowsOfTheQuery(t *testing.T) {
	c, conn := readingDatabase(t)
	model := table[Reading](t)
	everything := Query{Table: model, Order: PrimaryKeyOrder(model), Limit: Unlimited, Offset: Unlimited}
	marks := set(t, model, query.Set("b", 99))
	marked := where(t, model, query.Q("b", 99))
	ctx := t.Context()
	control := func(statement string) {
		if _, err := conn.Control(context.WithoutCancel(ctx), statement); err != nil {
			t.Fatal(err)
		}
	}
	control("PRAGMA foreign_keys = OFF")
	ids := func(q Query) []int64 {
		s, args, err := c.Select(context.Background(), &q)
		if err != nil {
			t.Fatal(err)
		}
		found := firsts(t, conn, s, args)
		slices.Sort(found)
		return found
	}
	r := rand.New(rand.NewPCG(9, 10))
	for range 300 {
		q := Query{Table: model, Where: []*Node{where(t, model, randomMeaning(r, 2).predicate)}, Limit: Unlimited, Offset: Unlimited}
		q.Order = order(t, model, pickFrom[any](r, "a", "-b", "parent__a", "-parent__b"), pickFrom[any](r, "id", "-id"))
		if r.IntN(2) == 0 {
			q.Limit = r.IntN(12)
		}
		if r.IntN(3) == 0 {
			q.Offset = r.IntN(6)
		}
		want := ids(q)

		update, args, err := c.Update(context.Background(), &q, marks, noon)
		if err != nil {
			t.Fatal(err)
		}
		control("BEGIN")
		n, err := conn.Exec(ctx, backend.Call{SQL: update.SQL, Args: args})
		if err != nil {
			t.Fatalf("%s: %v", update.SQL, err)
		}
		written := everything
		written.Where = []*Node{marked}
		if diff := cmp.Diff(want, ids(written)); diff != "" || n != int64(len(want)) {
			t.Fatalf("%s wrote %d rows\n%s (-want +got):\n%s", update.SQL, n, showAll(args), diff)
		}
		control("ROLLBACK")

		before := ids(everything)
		remove, args, err := c.Delete(context.Background(), &q)
		if err != nil {
			t.Fatal(err)
		}
		control("BEGIN")
		n, err = conn.Exec(ctx, backend.Call{SQL: remove.SQL, Args: args})
		if err != nil {
			t.Fatalf("%s: %v", remove.SQL, err)
		}
		left := slices.DeleteFunc(before, func(id int64) bool { return slices.Contains(want, id) })
		if diff := cmp.Diff(left, ids(everything)); diff != "" || n != int64(len(want)) {
			t.Fatalf("%s deleted %d rows\n%s (-want +got):\n%s", remove.SQL, n, showAll(args), diff)
		}
		control("ROLLBACK")
	}
}

func showAll(args []any) string {
	var text strings.Builder
	for i, arg := range args {
		fmt.Fprintf(&text, "  $%d = %s\n", i+1, show(arg))
	}
	return text.String()
}
