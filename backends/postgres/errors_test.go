package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/integration/servers"
)

// refused checks what a caller can know of an error; the texts are the server's.
func refused(t *testing.T, err error, want backend.Error) {
	t.Helper()
	var got *backend.Error
	if !errors.As(err, &got) {
		t.Fatalf("want a *backend.Error, got %v", err)
	}
	if got.Message == "" && got.Err == nil {
		t.Error("the error has no message")
	}
	if diff := cmp.Diff(want, *got, cmpopts.IgnoreFields(backend.Error{}, "Message", "Detail", "Err")); diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

// TestRefusedStatements provokes each kind of refusal that one connection can provoke.
func TestRefusedStatements(t *testing.T) {
	conn := fresh(t)
	run(t, conn, `CREATE TABLE author (id bigint PRIMARY KEY, name text NOT NULL UNIQUE, age int CONSTRAINT adult CHECK (age > 17));
		CREATE TABLE book (id bigint PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, author_id bigint CONSTRAINT writer REFERENCES author (id));
		INSERT INTO author VALUES (1, 'a', 20)`)
	cases := []struct {
		sql  string
		args []any
		want backend.Error
	}{
		{"INSERT INTO author VALUES ($1, $2)", []any{int64(1), "b"},
			backend.Error{Class: backend.ClassIntegrity, SQLState: "23505", Constraint: "author_pkey", Table: "author"}},
		{"INSERT INTO author (id) VALUES ($1)", []any{int64(2)},
			backend.Error{Class: backend.ClassIntegrity, SQLState: "23502", Column: "name", Table: "author"}},
		{"INSERT INTO author VALUES ($1, 'c', 3)", []any{int64(3)},
			backend.Error{Class: backend.ClassIntegrity, SQLState: "23514", Constraint: "adult", Table: "author"}},
		{"INSERT INTO book VALUES ($1, 9)", []any{int64(1)},
			backend.Error{Class: backend.ClassIntegrity, SQLState: "23503", Constraint: "writer", Table: "book"}},
		{"INSERT INTO book VALUES ($1, 1), ($1, 1)", []any{int64(1)}, // found when it commits
			backend.Error{Class: backend.ClassIntegrity, SQLState: "23505", Constraint: "book_pkey", Table: "book"}},
		{"UPDATE author SET name = 'x' WHERE id = $1", []any{"one"}, backend.Error{SQLState: "22P02"}},
		{"UPDATE author SET age = $1", []any{int64(1 << 40)}, backend.Error{SQLState: "22003"}},
		{"UPDATE author SET age = $1", []any{1.5}, backend.Error{SQLState: "22P02"}},
		{"UPDATE author SET name = $1", []any{"a\x00b"}, backend.Error{SQLState: "22021"}},
		{"SELECT nothing FROM author WHERE id = $1", []any{int64(1)}, backend.Error{SQLState: "42703"}},
		{"SELECT 1; SELECT $1", []any{int64(1)}, backend.Error{SQLState: "42601"}},
		{"SELECT $1::int / 0", []any{int64(1)}, backend.Error{SQLState: "22012"}},
	}
	for _, c := range cases {
		t.Run(c.sql, func(t *testing.T) {
			c.want.Severity, c.want.NotDone = "ERROR", true
			for _, state := range []string{"new", "prepared"} {
				_, err := conn.Exec(t.Context(), backend.Call{SQL: c.sql, Args: c.args})
				t.Log(state)
				refused(t, err, c.want)
			}
			same(t, "status", backend.StatusIdle, conn.Status())
		})
	}

	t.Run("read only", func(t *testing.T) {
		_, err := conn.Exec(t.Context(), backend.Call{Before: []string{"BEGIN READ ONLY"}, SQL: "DELETE FROM author"})
		refused(t, err, backend.Error{Class: backend.ClassReadOnly, SQLState: "25006", Severity: "ERROR", NotDone: true})
		_, err = conn.Query(t.Context(), backend.Call{SQL: "SELECT 1"})
		refused(t, err, backend.Error{Class: backend.ClassAborted, SQLState: "25P02", Severity: "ERROR", NotDone: true})
		rollback(t, conn)
	})
	t.Run("statement time-out", func(t *testing.T) {
		_, err := conn.Exec(t.Context(), backend.Call{Before: []string{"BEGIN", "SET LOCAL statement_timeout = 20"}, SQL: "SELECT pg_sleep(10)"})
		refused(t, err, backend.Error{Class: backend.ClassTimeout, SQLState: "57014", Severity: "ERROR", NotDone: true})
		rollback(t, conn)
	})
	t.Run("arguments", func(t *testing.T) {
		for _, args := range [][]any{{int64(1), int64(2)}, {struct{ a int }{1}}, {make(chan int)}} {
			_, err := conn.Exec(t.Context(), backend.Call{SQL: "SELECT $1::bigint", Args: args})
			refused(t, err, backend.Error{NotDone: true})
		}
	})
}

func rollback(t *testing.T, conn backend.Conn) {
	t.Helper()
	if _, err := conn.Control(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
}

// TestConflicts provokes the refusals that need two transactions.
func TestConflicts(t *testing.T) {
	db := open(t, servers.Database(t))
	a, b := acquire(t, db), acquire(t, db)
	run(t, a, "CREATE TABLE item (id bigint PRIMARY KEY, n bigint); INSERT INTO item VALUES (1, 0), (2, 0)")
	update := func(id int64, before ...string) backend.Call {
		return backend.Call{Before: before, SQL: "UPDATE item SET n = n + 1 WHERE id = $1", Args: []any{id}}
	}
	must := func(conn backend.Conn, call backend.Call) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("serialization", func(t *testing.T) {
		for _, conn := range []backend.Conn{a, b} {
			must(conn, backend.Call{Before: []string{"BEGIN ISOLATION LEVEL REPEATABLE READ"}, SQL: "SELECT * FROM item"})
		}
		must(a, update(1))
		if _, err := a.Control(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		_, err := b.Exec(t.Context(), update(1))
		refused(t, err, backend.Error{Class: backend.ClassRetryable, SQLState: "40001", Severity: "ERROR", NotDone: true})
		rollback(t, b)
	})

	t.Run("deadlock", func(t *testing.T) {
		must(a, update(1, "BEGIN"))
		must(b, update(2, "BEGIN"))
		waiting := make(chan error)
		go func() {
			_, err := a.Exec(context.Background(), update(2))
			waiting <- err
		}()
		_, err := b.Exec(t.Context(), update(1))
		if other := <-waiting; err == nil {
			err = other
		}
		refused(t, err, backend.Error{Class: backend.ClassRetryable, SQLState: "40P01", Severity: "ERROR", NotDone: true})
		rollback(t, a)
		rollback(t, b)
	})

	t.Run("lock time-out", func(t *testing.T) {
		must(a, update(1, "BEGIN"))
		for _, options := range []backend.TxOptions{{LockTimeoutMS: 20}, {StatementTimeoutMS: 5000, LockTimeoutMS: 20}} {
			_, err := b.Exec(t.Context(), update(1, db.Dialect().Begin(options)...))
			refused(t, err, backend.Error{Class: backend.ClassTimeout, SQLState: "55P03", Severity: "ERROR", NotDone: true})
			rollback(t, b)
		}
		_, err := b.Exec(t.Context(), backend.Call{SQL: "SELECT * FROM item FOR UPDATE NOWAIT"})
		refused(t, err, backend.Error{Class: backend.ClassTimeout, SQLState: "55P03", Severity: "ERROR", NotDone: true})
		rollback(t, a)
	})
}

// TestLostConnections: what is known of a statement whose connection breaks.
func TestLostConnections(t *testing.T) {
	address := servers.Database(t)
	db := open(t, address)
	killer := acquire(t, db)
	run(t, killer, "CREATE TABLE item (id bigint)")
	const insert = "INSERT INTO item VALUES ($1)"
	one := backend.Call{SQL: insert, Args: []any{int64(1)}}

	t.Run("terminated before", func(t *testing.T) {
		conn := dial(t, db)
		run(t, conn, insert, int64(0))
		run(t, killer, "SELECT pg_terminate_backend($1, 10000)", value(t, conn, "SELECT pg_backend_pid()"))
		_, err := conn.Exec(t.Context(), one)
		refused(t, err, backend.Error{Class: backend.ClassConnection, SQLState: "57P01", Severity: "FATAL"})
		same(t, "status", backend.StatusClosed, conn.Status())
		_, err = conn.Exec(t.Context(), one)
		refused(t, err, backend.Error{Class: backend.ClassConnection, NotDone: true})
	})
	t.Run("terminated while preparing", func(t *testing.T) {
		conn := dial(t, db)
		pid := value(t, conn, "SELECT pg_backend_pid()")
		run(t, killer, "SELECT pg_terminate_backend($1, 10000)", pid)
		_, err := conn.Exec(t.Context(), one)
		refused(t, err, backend.Error{Class: backend.ClassConnection, SQLState: "57P01", Severity: "FATAL", NotDone: true})
	})
	t.Run("idle in transaction", func(t *testing.T) {
		conn := dial(t, db)
		run(t, conn, insert, int64(0))
		if _, err := conn.Control(t.Context(), "BEGIN", "SET LOCAL idle_in_transaction_session_timeout = 10"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
		_, err := conn.Exec(t.Context(), one)
		refused(t, err, backend.Error{Class: backend.ClassTimeout, SQLState: "25P03", Severity: "FATAL"})
	})
	for name, call := range map[string]func(ctx context.Context, conn backend.Conn) error{
		"Exec": func(ctx context.Context, conn backend.Conn) error {
			_, err := conn.Exec(ctx, one)
			return err
		},
		"Query": func(ctx context.Context, conn backend.Conn) error {
			_, err := table(ctx, conn, backend.Call{SQL: insert, Args: one.Args})
			return err
		},
		"with BEGIN": func(ctx context.Context, conn backend.Conn) error {
			_, err := conn.Exec(ctx, backend.Call{Before: []string{"BEGIN"}, SQL: insert, Args: one.Args})
			return err
		},
		"unprepared": func(ctx context.Context, conn backend.Conn) error {
			_, err := conn.Exec(ctx, backend.Call{SQL: "INSERT INTO item VALUES (1)"})
			return err
		},
		"Control": func(ctx context.Context, conn backend.Conn) error {
			_, err := conn.Control(ctx, "BEGIN", "COMMIT")
			return err
		},
	} {
		t.Run("answer lost: "+name, func(t *testing.T) {
			p := newProxy(t, address)
			conn := dial(t, open(t, through(t, address, p.Host())))
			run(t, conn, insert, int64(0))
			p.Arm(proxy.Fault{Answer: true, Do: proxy.Swallow})
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			err := call(ctx, conn)
			refused(t, err, backend.Error{Class: backend.ClassTimeout})
			same(t, "is a deadline", true, errors.Is(err, context.DeadlineExceeded))
			same(t, "status", backend.StatusClosed, conn.Status())
		})
		t.Run("connection cut: "+name, func(t *testing.T) {
			p := newProxy(t, address)
			conn := dial(t, open(t, through(t, address, p.Host())))
			run(t, conn, insert, int64(0))
			p.Arm(proxy.Fault{Answer: true, Do: proxy.Cut})
			refused(t, call(t.Context(), conn), backend.Error{Class: backend.ClassConnection})
		})
		t.Run("given up before: "+name, func(t *testing.T) {
			conn := dial(t, db)
			run(t, conn, insert, int64(0))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err := call(ctx, conn)
			refused(t, err, backend.Error{NotDone: true})
			same(t, "is a cancellation", true, errors.Is(err, context.Canceled))
			same(t, "status", backend.StatusIdle, conn.Status())
		})
	}
	t.Run("given up while it runs", func(t *testing.T) {
		conn := dial(t, db)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		_, err := conn.Exec(ctx, backend.Call{SQL: "SELECT pg_sleep(10)"})
		refused(t, err, backend.Error{})
		same(t, "is a cancellation", true, errors.Is(err, context.Canceled))
	})
}

// TestLogin: what a server says to a wrong configuration, and what is said when there is no server.
func TestLogin(t *testing.T) {
	address := servers.Database(t)
	name := fmt.Sprintf("hare_login_%d", time.Now().UnixNano())
	admin := acquire(t, open(t, address))
	run(t, admin, "CREATE ROLE "+name+" LOGIN PASSWORD 'sesame'")
	t.Cleanup(func() {
		conn, err := open(t, address).Acquire(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		if _, err := conn.Exec(context.Background(), backend.Call{SQL: "DROP ROLE " + name}); err != nil {
			t.Error(err)
		}
	})
	database := value(t, admin, "SELECT current_database()::text").(string)
	run(t, admin, "REVOKE CONNECT ON DATABASE "+database+" FROM PUBLIC")

	cases := map[string]struct {
		address, user, password, database string
		want                              backend.Error
	}{
		"password":  {address, name, "wrong", "postgres", backend.Error{Class: backend.ClassLogin, SQLState: "28P01", Severity: "FATAL"}},
		"role":      {address, name + "x", "x", "postgres", backend.Error{Class: backend.ClassLogin, SQLState: "28P01", Severity: "FATAL"}},
		"database":  {address, name, "sesame", "nowhere", backend.Error{Class: backend.ClassLogin, SQLState: "3D000", Severity: "FATAL"}},
		"privilege": {address, name, "sesame", database, backend.Error{Class: backend.ClassLogin, SQLState: "42501", Severity: "FATAL"}},
		"port":      {"postgres://127.0.0.1:1/d", name, "sesame", "d", backend.Error{Class: backend.ClassConnection}},
		"host":      {"postgres://nowhere.invalid/d", name, "sesame", "d", backend.Error{Class: backend.ClassConnection}},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			c.want.NotDone = true
			db := open(t, as(t, c.address, c.user, c.password, c.database), "sslmode=disable")
			_, err := db.Acquire(t.Context())
			refused(t, err, c.want)
			_, err = db.Dial(t.Context())
			refused(t, err, c.want)
		})
	}
}
