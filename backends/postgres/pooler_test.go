package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/transactions"
)

// pooled is a new database and a pooler before its server.
func pooled(t testing.TB, opts servers.PoolerOptions) (address string, p *servers.Pooler) {
	t.Helper()
	address = servers.Direct(servers.Database(t))
	opts.URL = address
	return address, servers.PoolerFor(t, opts)
}

// wantOption checks that an error is about an option, that its reason says what it should, and that nothing was sent.
func wantOption(t testing.TB, err error, option string, says ...string) {
	t.Helper()
	var wrong *backend.OptionError
	if !errors.As(err, &wrong) {
		t.Fatalf("want an OptionError about %s, got %v", option, err)
	}
	same(t, "the option", option, wrong.Option)
	same(t, "not done", true, backend.NotDone(err))
	for _, part := range says {
		if !strings.Contains(wrong.Reason, part) {
			t.Errorf("%q does not say %q", wrong.Reason, part)
		}
	}
}

// TestManyClientsThroughPooler: clients that share a few server processes get the answers to their own questions,
// whatever statements the others parse there, with descriptions that are kept and with none.
func TestManyClientsThroughPooler(t *testing.T) {
	const clients, queries = 8, 60
	address, p := pooled(t, servers.PoolerOptions{PoolSize: 4})
	for _, size := range []string{"512", "0"} {
		t.Run("statement_cache_size="+size, func(t *testing.T) {
			var wait sync.WaitGroup
			for c := range clients {
				db := open(t, p.URL(address), "max_size=1", "statement_cache_size="+size)
				wait.Go(func() {
					for q := range queries {
						if err := ask(t, db, c, q); err != nil {
							t.Errorf("client %d, query %d: %v", c, q, err)
							return
						}
					}
				})
			}
			wait.Wait()
		})
	}
}

// ask asks a question whose text and answer are the client's own, in one of several ways.
func ask(t *testing.T, db backend.Database, client, query int) error {
	conn, err := db.Acquire(t.Context())
	if err != nil {
		return err
	}
	defer conn.Release()
	call := backend.Call{SQL: fmt.Sprintf("SELECT $1::bigint, %d::bigint, 'c%d' || $2::text", client*1000+query%7, client)}
	args := []any{int64(query), fmt.Sprint("q", query)}
	want := []any{int64(query), int64(client*1000 + query%7), fmt.Sprintf("c%dq%d", client, query)}
	all := [][]any{want}
	switch query % 3 {
	case 0:
		call.Args = args
	case 1:
		call.Before, call.Args = []string{"BEGIN", "SAVEPOINT a"}, args
	case 2:
		call.Batch, all = [][]any{args, args}, [][]any{want, want}
	}
	got, err := table(t.Context(), conn, call)
	if err != nil {
		return err
	}
	if fmt.Sprint(got) != fmt.Sprint(all) {
		return fmt.Errorf("the answer is %v, want %v", got, all)
	}
	if query%3 == 1 {
		_, err = conn.Control(t.Context(), "COMMIT")
	}
	return err
}

// TestStatementNames: the names of prepared statements are no other connection's, so that a mistake about the way shows
// as an unknown statement and not as somebody else's.
func TestStatementNames(t *testing.T) {
	db := open(t, servers.Direct(servers.Database(t)))
	seen := map[string]bool{}
	for range 3 {
		conn := acquire(t, db)
		value(t, conn, "SELECT $1::int", int64(1))
		name := value(t, conn, "SELECT name FROM pg_prepared_statements WHERE statement = 'SELECT $1::int'").(string)
		if seen[name] || len(name) < len("hare_")+12 {
			t.Errorf("%s is no name of its own", name)
		}
		seen[name] = true
	}
}

// TestSessionStatements: behind a pooler in transaction mode what needs a session is refused before anything is sent,
// also what was to go ahead of it, and what keeps to a transaction works.
func TestSessionStatements(t *testing.T) {
	address, p := pooled(t, servers.PoolerOptions{PoolSize: 1})
	wire := newProxy(t, p.URL(address))
	db := open(t, through(t, p.URL(address), wire.Host()), "transaction_pooling=true")
	conn := acquire(t, db)
	trips := counting(wire, func() {
		call := backend.Call{Before: []string{"BEGIN"}, SQL: "SET lock_timeout = 1", Session: "SET"}
		_, err := conn.Exec(t.Context(), call)
		wantOption(t, err, "transaction_pooling", "SET", "SET LOCAL", "alias of its own")
		_, err = conn.Query(t.Context(), call)
		wantOption(t, err, "transaction_pooling", "SET")
	})
	same(t, "round trips", 0, trips)
	same(t, "status", backend.StatusIdle, conn.Status())

	if _, err := conn.Control(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	run(t, conn, "SET LOCAL lock_timeout = 4321")
	same(t, "lock_timeout", any("4321ms"), value(t, conn, "SELECT current_setting('lock_timeout')"))
	run(t, conn, "CREATE TEMP TABLE scratch ON COMMIT DROP AS SELECT 7::bigint AS n")
	value(t, conn, "SELECT pg_advisory_xact_lock($1)::text", int64(1))
	same(t, "scratch", any(int64(7)), value(t, conn, "SELECT n FROM scratch"))
	if _, err := conn.Control(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	same(t, "what is left", any("0/0"), value(t, conn, `SELECT current_setting('lock_timeout') || '/' ||
		(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`))

	// The same through a pooler that keeps sessions, and without one.
	session := servers.PoolerFor(t, servers.PoolerOptions{URL: address, Mode: servers.SessionMode})
	for _, way := range []string{session.URL(address), address} {
		conn := acquire(t, open(t, way, "transaction_pooling=false"))
		if _, err := conn.Exec(t.Context(), backend.Call{SQL: "SET lock_timeout = 1", Session: "SET", Lasting: true}); err != nil {
			t.Error(err)
		}
	}
}

// TestStrangersSession: a connection that goes back to its pool leaves the session of the server alone, which may be
// somebody else's by now.
func TestStrangersSession(t *testing.T) {
	address, p := pooled(t, servers.PoolerOptions{PoolSize: 1})
	db := open(t, p.URL(address), "transaction_pooling=true", "lock_timeout=0")
	stranger := acquire(t, open(t, p.URL(address), "transaction_pooling=true"))
	conn, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), backend.Call{SQL: "DO $$ BEGIN END $$", Lasting: true}); err != nil {
		t.Fatal(err)
	}
	run(t, stranger, "SET work_mem = '4321kB'") // as a client does that is not hare
	conn.Release()
	same(t, "the stranger's setting", any("4321kB"), value(t, stranger, "SELECT current_setting('work_mem')"))
	run(t, stranger, "RESET work_mem")
}

// TestPoolerAgainstItsReputation: a pooler that was taken for one in session mode and turns out not to be is found out
// by the first statement that is unknown, and from then on statements are not kept prepared.
func TestPoolerAgainstItsReputation(t *testing.T) {
	address, p := pooled(t, servers.PoolerOptions{Mode: servers.SessionMode})
	db := open(t, p.URL(address), "transaction_pooling=false")
	conn, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const find = "SELECT $1::bigint"
	same(t, "answer", any(int64(7)), value(t, conn, find, int64(7)))
	same(t, "kept prepared", any(true), value(t, conn, "SELECT count(*) > 0 FROM pg_prepared_statements"))
	run(t, conn, "DEALLOCATE ALL") // as if the session had become another one
	same(t, "answer without the statement", any(int64(8)), value(t, conn, find, int64(8)))
	conn.Release()

	conn = acquire(t, db)
	run(t, conn, "DEALLOCATE ALL")
	same(t, "answer", any(int64(9)), value(t, conn, "SELECT $1::bigint + 0", int64(9)))
	same(t, "kept prepared afterwards", any(int64(0)), value(t, conn, "SELECT count(*) FROM pg_prepared_statements"))
	_, err = conn.Exec(t.Context(), backend.Call{SQL: "LISTEN x", Session: "LISTEN"})
	wantOption(t, err, "transaction_pooling")
}

// TestClientBehindPooler: a program is refused what needs a session and told what to do, also inside a transaction, which
// goes on; what keeps to the transaction works there.
func TestClientBehindPooler(t *testing.T) {
	address, p := pooled(t, servers.PoolerOptions{})
	c, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"main": p.URL(address)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	client, err := c.Client("main")
	if err != nil {
		t.Fatal(err)
	}
	refused := func(ctx context.Context, sql, instead string) {
		t.Helper()
		_, err := client.Exec(ctx, sql)
		var wrong *hare.ConfigurationError
		if !errors.As(err, &wrong) || wrong.Alias != "main" || wrong.Option != "transaction_pooling" || !strings.Contains(wrong.Reason, instead) {
			t.Errorf("%s: want a ConfigurationError that says %q, got %v", sql, instead, err)
		}
	}
	for sql, instead := range map[string]string{
		"LISTEN news": "ask the database now and then", "SET lock_timeout = 1": "Use SET LOCAL", "SELECT pg_advisory_lock(1)": "or a lease",
		"CREATE TEMP TABLE t ()": "ON COMMIT DROP", "SELECT 1 INTO TEMP t": "ON COMMIT DROP", "CREATE TABLE pg_temp.t ()": "ON COMMIT DROP",
		"DECLARE c CURSOR WITH HOLD FOR SELECT 1": "Leave WITH HOLD out", "PREPARE q AS SELECT 1": "). Use a connection with an alias of its own",
		"DISCARD ALL": "). Use a connection with an alias of its own", "SELECT set_config('lock_timeout', '1', false)": "Use SET LOCAL", "SELECT 1; RESET ALL": "Use SET LOCAL",
	} {
		refused(t.Context(), sql, instead)
	}
	ctx := hare.WithConnections(t.Context(), c)
	err = transactions.Atomic(ctx, func(ctx context.Context) error {
		refused(ctx, "SET lock_timeout = 1", "SET LOCAL") // as the first statement, which BEGIN would have travelled with
		for _, sql := range []string{
			"SET LOCAL lock_timeout = 4321", "SELECT pg_advisory_xact_lock(1)", "CREATE TEMP TABLE t ON COMMIT DROP AS SELECT 1 AS n",
			"DECLARE c CURSOR FOR SELECT n FROM t", "SELECT set_config('statement_timeout', '9s', true)", "NOTIFY news", "CREATE TABLE kept AS SELECT * FROM t",
		} {
			if _, err := client.Exec(ctx, sql); err != nil {
				return err
			}
		}
		refused(ctx, "LISTEN news", "NOTIFY works")
		return nil
	}, transactions.Using("main"))
	same(t, "the transaction", nil, err)
	same(t, "what it kept", any(int64(1)), value(t, acquire(t, open(t, address)), "SELECT count(*) FROM kept"))
}
