package hare_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/query"
)

// faults fails the i-th call that reaches a database, before it ran or after it ran (its answer is lost).
type faults struct {
	at    atomic.Int64 // which call fails; 0: none
	after atomic.Bool
	calls atomic.Int64
}

var errInjected = &backend.Error{Class: backend.ClassConnection, Message: "the connection broke"}

// strike counts a call and reports whether it is the one that fails.
func (f *faults) strike() bool { return f.calls.Add(1) == f.at.Load() }

var injected faults

func init() { backend.Register(faultyDriver{}, "faulty") }

type faultyDriver struct{}

func (faultyDriver) Features() features.Features {
	d, _ := backend.Lookup("sqlite")
	return d.Features()
}

func (faultyDriver) Open(cfg backend.Config) (backend.Database, error) {
	d, _ := backend.Lookup("sqlite")
	cfg.URL = "sqlite" + cfg.URL[len("faulty"):]
	db, err := d.Open(cfg)
	return faultyDatabase{db}, err
}

type faultyDatabase struct{ backend.Database }

func (d faultyDatabase) Acquire(ctx context.Context) (backend.Conn, error) {
	conn, err := d.Database.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return faultyConn{conn}, nil
}

type faultyConn struct{ backend.Conn }

func (c faultyConn) Exec(ctx context.Context, call backend.Call) (int64, error) {
	hit := injected.strike()
	if hit && !injected.after.Load() {
		return 0, errInjected
	}
	n, err := c.Conn.Exec(ctx, call)
	if hit && err == nil {
		return 0, errInjected
	}
	return n, err
}

func (c faultyConn) Query(ctx context.Context, call backend.Call) (backend.Rows, error) {
	hit := injected.strike()
	if hit && !injected.after.Load() {
		return nil, errInjected
	}
	rows, err := c.Conn.Query(ctx, call)
	if hit && err == nil {
		return lostRows{rows}, nil
	}
	return rows, err
}

func (c faultyConn) Control(ctx context.Context, statements ...string) (backend.Answer, error) {
	hit := injected.strike()
	if hit && !injected.after.Load() {
		return backend.Answer{}, errInjected
	}
	answer, err := c.Conn.Control(ctx, statements...)
	if hit && err == nil {
		return backend.Answer{}, errInjected
	}
	return answer, err
}

// lostRows are rows of a statement that ran and whose answer is lost.
type lostRows struct{ backend.Rows }

func (r lostRows) Next() bool {
	for r.Rows.Next() {
	}
	return false
}
func (r lostRows) Err() error   { return errInjected }
func (r lostRows) Close() error { _ = r.Rows.Close(); return errInjected }

// TestEveryFault: whichever call fails, a write leaves the objects as they were, and a bulk write leaves none or all of
// its rows.
func TestEveryFault(t *testing.T) {
	t.Cleanup(func() { injected.at.Store(0) })
	cfg := hare.Config{Connections: map[string]string{"library": "faulty:" + filepath.Join(t.TempDir(), "library.db")}}
	c, err := hare.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := hare.WithConnections(t.Context(), c)
	client, err := c.Client("")
	if err != nil {
		t.Fatal(err)
	}
	if err := hare.CreateTables(ctx, client, Reader{}); err != nil {
		t.Fatal(err)
	}
	type state = []Reader
	for _, op := range []struct {
		name string
		run  func(rows state) error
		wide int // rows that are written together
	}{
		{"Create", func(rows state) error { return Readers.Create(ctx, &rows[0]) }, 1},
		{"Save", func(rows state) error { rows[0].ID = 77; return Readers.Save(ctx, &rows[0]) }, 1},
		{"BulkCreate", func(rows state) error { return Readers.BulkCreate(ctx, rows) }, 5},
		{"BulkCreate in batches", func(rows state) error { return Readers.BulkCreate(ctx, rows, hare.BatchSize(2)) }, 5},
	} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/after=%v", op.name, after), func(t *testing.T) {
				for i := int64(1); ; i++ {
					injected.at.Store(0)
					if _, err := Readers.Unfiltered().Delete(ctx); err != nil {
						t.Fatal(err)
					}
					rows := make(state, 5)
					for n := range rows {
						rows[n].Name = fmt.Sprint(n)
					}
					if op.name == "Save" {
						rows[0].ID = 77
					}
					before := append(state{}, rows...)

					injected.calls.Store(0)
					injected.after.Store(after)
					injected.at.Store(i)
					err := op.run(rows)
					injected.at.Store(0)
					if err == nil {
						if i == 1 {
							t.Fatal("no call was made to fail")
						}
						if injected.calls.Load() >= i && !after {
							t.Errorf("the failure of call %d is not reported", i)
						}
						break
					}
					if !isA[*hare.ConnectionError](err) && !isA[*hare.TransactionError](err) {
						t.Errorf("call %d: got %T: %v", i, err, err)
					}
					if diff := cmp.Diff(before, rows); diff != "" {
						t.Errorf("call %d has changed the objects (-before +after)\n%s", i, diff)
					}
					n, err := Readers.Count(ctx)
					if err != nil {
						t.Fatal(err)
					}
					if n != 0 && (n != int64(op.wide) || !after) {
						t.Errorf("call %d failed and left %d rows", i, n)
					}
				}
			})
		}
	}
}

// TestScanFailureClosesRows: a row that does not fit ends the query and frees the connection.
func TestScanFailureClosesRows(t *testing.T) {
	ctx, client := library(t)
	if _, err := client.Exec(ctx, "CREATE TABLE loose (id integer PRIMARY KEY, name text)"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Exec(ctx, "INSERT INTO loose VALUES (1, NULL), (2, 'two')"); err != nil {
		t.Fatal(err)
	}
	loose := hare.Objects[Loose]()
	for range 20 {
		for name, err := range map[string]error{
			"All": second(loose.All(ctx)), "First": second(loose.First(ctx)), "Get": second(loose.Get(ctx, query.Q("id", 1))),
			"Refresh": loose.Refresh(ctx, &Loose{ID: 1}),
		} {
			if !isA[*hare.DecodeError](err) || !errors.Is(err, backend.ErrNull) {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	if _, err := client.Exec(ctx, "DROP TABLE loose"); err != nil {
		t.Error(err)
	}
}
