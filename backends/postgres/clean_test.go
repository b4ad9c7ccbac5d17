package postgres_test

import (
	"testing"
	"time"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/integration/servers"
)

// TestLasting: what a statement leaves in a session is gone when the next user of the pool gets it, and what belongs to
// the session is there: the settings it was opened with, and statements, which are prepared anew.
//
// Field case 10. Field case 50.
func TestLasting(t *testing.T) {
	address := servers.Database(t)
	p := newProxy(t, address)
	db := open(t, through(t, address, p.Host()), "max_size=1", "lock_timeout=4321")
	lend := func(use func(conn backend.Conn)) {
		t.Helper()
		conn, err := db.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		use(conn)
	}
	leave := func(sql string) {
		t.Helper()
		lend(func(conn backend.Conn) {
			if _, err := conn.Exec(t.Context(), backend.Call{SQL: sql, Lasting: true}); err != nil {
				t.Fatal(err)
			}
		})
	}
	const find = "SELECT $1::bigint"
	var session any
	lend(func(conn backend.Conn) {
		session = value(t, conn, "SELECT pg_backend_pid()")
		same(t, "value", any(int64(7)), value(t, conn, find, int64(7)))
	})
	for _, c := range []struct {
		leave, look string
		want        any
	}{
		{"SET timezone = 'Asia/Tokyo'", "SELECT current_setting('timezone')", "UTC"},
		{"SET lock_timeout = 1", "SELECT current_setting('lock_timeout')", "4321ms"},
		{"SELECT pg_advisory_lock(7)", "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()", int64(0)},
		{"DECLARE held CURSOR WITH HOLD FOR SELECT 1", "SELECT count(*) FROM pg_cursors WHERE is_holdable", int64(0)},
		{"LISTEN news", "SELECT count(*) FROM pg_listening_channels()", int64(0)},
		{"CREATE TEMP TABLE scratch ()", "SELECT to_regclass('scratch') IS NULL", true},
		{"PREPARE mine AS SELECT 1", "SELECT count(*) FROM pg_prepared_statements WHERE name = 'mine'", int64(0)},
		{"SET ROLE pg_monitor", "SELECT current_user = session_user", true},
	} {
		leave(c.leave)
		lend(func(conn backend.Conn) {
			same(t, "after "+c.leave, c.want, value(t, conn, c.look))
			same(t, "value after "+c.leave, any(int64(7)), value(t, conn, find, int64(7)))
			same(t, "the session after "+c.leave, session, value(t, conn, "SELECT pg_backend_pid()"))
		})
	}
	lend(func(conn backend.Conn) { run(t, conn, "SELECT 1") })
	same(t, "round trips of a statement that leaves nothing", 1, counting(p, func() {
		lend(func(conn backend.Conn) { run(t, conn, "SELECT 1") })
	}))
	same(t, "round trips of one that may", 2, counting(p, func() { leave("SET lock_timeout = 1") }))
}

// TestLastingAndBroken: a session that cannot be cleaned is not used again.
func TestLastingAndBroken(t *testing.T) {
	db := open(t, servers.Database(t), "max_size=1")
	other := open(t, servers.Database(t))
	conn := acquire(t, db)
	if _, err := conn.Exec(t.Context(), backend.Call{SQL: "SET lock_timeout = 1", Lasting: true}); err != nil {
		t.Fatal(err)
	}
	before := value(t, conn, "SELECT pg_backend_pid()")
	run(t, acquire(t, other), "SELECT pg_terminate_backend($1::int)", before)
	conn.Release()
	again := acquire(t, db)
	if after := value(t, again, "SELECT pg_backend_pid()"); after == before {
		t.Error("the session is used again")
	}
	same(t, "lock_timeout", any("0"), value(t, again, "SELECT current_setting('lock_timeout')"))
}

// TestLastingAndSilent: a session that cannot be cleaned, because the network swallows everything on it, does not keep its
// place in the pool either.
func TestLastingAndSilent(t *testing.T) {
	t.Parallel()
	address := servers.Database(t)
	p := newProxy(t, address)
	db := open(t, through(t, address, p.Host()), "max_size=1", "pool_acquire_timeout=10s")
	conn := acquire(t, db)
	if _, err := conn.Exec(t.Context(), backend.Call{SQL: "SET lock_timeout = 1", Lasting: true}); err != nil {
		t.Fatal(err)
	}
	p.Arm(proxy.Fault{Do: proxy.Swallow})
	conn.Release()
	start := time.Now()
	again, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run(t, again, "SELECT 1")
	again.Release()
	if took := time.Since(start); took > 12*time.Second {
		t.Errorf("the pool of one had no connection for %s", took)
	}
}
