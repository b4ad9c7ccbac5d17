package session_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	_ "github.com/hare-go/hare/backends/sqlite"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/internal/session"
)

// open gives a SQLite database with a table t (n), and the plan that sees what is sent to it.
func open(t *testing.T) (backend.Database, *faults.Plan) {
	t.Helper()
	plan := &faults.Plan{}
	scheme := plan.Scheme("sqlite")
	driver, _ := backend.Lookup(scheme)
	db, err := driver.Open(backend.Config{Alias: "db", URL: scheme + ":" + filepath.Join(t.TempDir(), "test.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if _, err := (session.Pool{DB: db}).Exec(t.Context(), backend.Call{SQL: "CREATE TABLE t (n INTEGER)"}); err != nil {
		t.Fatal(err)
	}
	plan.Reset()
	return db, plan
}

func begin(t *testing.T, db backend.Database, opts session.Options) *session.Session {
	t.Helper()
	s, err := session.Open(t.Context(), "db", db, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Rollback(context.Background()) })
	return s
}

func insert(ctx context.Context, run session.Runner, n int64) error {
	_, err := run.Exec(ctx, backend.Call{SQL: "INSERT INTO t (n) VALUES ($1)", Args: []any{n}})
	return err
}

func count(t *testing.T, db backend.Database) (n int64) {
	t.Helper()
	rows, err := (session.Pool{DB: db}).Query(t.Context(), backend.Call{SQL: "SELECT count(*) FROM t"})
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			t.Fatal(err)
		}
		n = values[0].(int64)
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

func sent(plan *faults.Plan) []string {
	var list []string
	for _, e := range plan.Events() {
		if e.SQL != "" {
			list = append(list, e.SQL)
		}
	}
	return list
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestNothingIsSentBeforeTheFirstStatement(t *testing.T) {
	db, plan := open(t)
	ctx := t.Context()
	empty := begin(t, db, session.Options{})
	level, err := empty.Root().Nest(ctx)
	must(t, err)
	must(t, level.Release(ctx))
	if outcome, err := empty.Commit(ctx); outcome != session.Done || err != nil {
		t.Errorf("an empty transaction: %v, %v", outcome, err)
	}
	if diff := cmp.Diff([]string(nil), sent(plan)); diff != "" {
		t.Errorf("sent by an empty transaction (-want +got):\n%s", diff)
	}

	s := begin(t, db, session.Options{})
	one, err := s.Root().Nest(ctx)
	must(t, err)
	two, err := one.Nest(ctx)
	must(t, err)
	must(t, insert(ctx, two, 1))
	must(t, insert(ctx, two, 2))
	must(t, two.Release(ctx))
	three, err := one.Nest(ctx)
	must(t, err)
	must(t, insert(ctx, three, 3))
	must(t, three.RollbackTo(ctx))
	must(t, one.Release(ctx))
	if outcome, err := s.Commit(ctx); outcome != session.Done || err != nil {
		t.Errorf("commit: %v, %v", outcome, err)
	}
	const statement = "INSERT INTO t (n) VALUES ($1)"
	want := []string{
		"BEGIN IMMEDIATE; SAVEPOINT hare_1; SAVEPOINT hare_2; " + statement,
		statement,
		"RELEASE SAVEPOINT hare_2",
		"SAVEPOINT hare_2; " + statement,
		"ROLLBACK TO SAVEPOINT hare_2; RELEASE SAVEPOINT hare_2",
		"RELEASE SAVEPOINT hare_1",
		"COMMIT",
	}
	if diff := cmp.Diff(want, sent(plan)); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	if n := count(t, db); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

func TestFromFindsTheInnermostOpenLevel(t *testing.T) {
	db, _ := open(t)
	other, _ := open(t)
	ctx := t.Context()
	s := begin(t, db, session.Options{})
	outer := session.With(ctx, s.Root())
	level, err := s.Root().Nest(ctx)
	must(t, err)
	inner := session.With(outer, level)
	if session.From(inner, db) != level || session.From(outer, db) != s.Root() || session.From(inner, other) != nil || session.In(ctx, db) {
		t.Error("From does not follow the context")
	}
	must(t, level.Release(ctx))
	if session.From(inner, db) != s.Root() {
		t.Error("work that outlives a nested block does not go on in the block around it")
	}
	must(t, s.Rollback(ctx))
	if session.In(inner, db) {
		t.Error("a transaction that has ended is said to be open")
	}
	var state *session.StateError
	if err := insert(ctx, session.From(inner, db), 1); !errors.As(err, &state) {
		t.Errorf("a statement of a transaction that has ended: %v", err)
	}
	if n := count(t, db); n != 0 {
		t.Errorf("%d rows, want none", n)
	}
}

func TestEndWhileASiblingIsAtWork(t *testing.T) {
	db, _ := open(t)
	ctx := t.Context()
	for name, end := range map[string]func(*session.Session) error{
		"commit":   func(s *session.Session) error { _, err := s.Commit(ctx); return err },
		"rollback": func(s *session.Session) error { return s.Rollback(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, db, session.Options{Wait: 50 * time.Millisecond})
			level, err := s.Root().Nest(ctx)
			must(t, err)
			must(t, insert(ctx, level, 1))
			var state *session.StateError
			if err := end(s); !errors.As(err, &state) || !strings.Contains(err.Error(), "still at work") {
				t.Errorf("the end: %v", err)
			}
			if err := insert(ctx, level, 2); !errors.As(err, &state) {
				t.Errorf("the sibling's next statement: %v", err)
			}
			_ = level.Release(ctx) // it lets go, and the connection is closed
			deadline := time.Now().Add(10 * time.Second)
			for insert(ctx, session.Pool{DB: db}, 3) != nil {
				if time.Now().After(deadline) {
					t.Fatal("the transaction that was given up still holds its locks")
				}
				time.Sleep(10 * time.Millisecond)
			}
			_, err = (session.Pool{DB: db}).Exec(ctx, backend.Call{SQL: "DELETE FROM t"})
			must(t, err)
		})
	}
}

func TestAtomically(t *testing.T) {
	db, plan := open(t)
	ctx := t.Context()
	refused := errors.New("refused")
	both := func(last error) func(session.Runner) error {
		return func(run session.Runner) error {
			if err := insert(ctx, run, 1); err != nil {
				return err
			}
			return last
		}
	}
	must(t, session.Atomically(ctx, "db", db, both(nil)))
	if err := session.Atomically(ctx, "db", db, both(refused)); err != refused {
		t.Errorf("got %v, want the function's own error", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not go on")
			}
		}()
		_ = session.Atomically(ctx, "db", db, func(run session.Runner) error {
			must(t, insert(ctx, run, 1))
			panic("stop")
		})
	}()
	if n := count(t, db); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
	plan.Reset()
	s := begin(t, db, session.Options{})
	inside := session.With(ctx, s.Root())
	must(t, session.Atomically(inside, "db", db, both(nil)))
	if err := session.Atomically(inside, "db", db, both(refused)); err != refused {
		t.Errorf("got %v, want the function's own error", err)
	}
	_, err := s.Commit(ctx)
	must(t, err)
	if n := count(t, db); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

func TestBeforeCloseRunsOnceForEachName(t *testing.T) {
	db, _ := open(t)
	ran := map[string]int{}
	for range 3 {
		session.BeforeClose(db, "a", func() { ran["a"]++ })
		session.BeforeClose(db, "b", func() { ran["b"]++ })
	}
	session.Close(db)
	session.Close(db)
	if diff := cmp.Diff(map[string]int{"a": 1, "b": 1}, ran); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
}
