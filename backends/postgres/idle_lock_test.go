package postgres_test

import (
	"testing"
	"time"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/servers"
)

// TestIdleTimeoutTakesASessionsLock: a time-out of a pooler, or of the server behind it, closes the server connection that holds a session's advisory lock. The
// lock is gone, somebody else gets it, and the holder is told nothing: in transaction mode not even by its next statement.
func TestIdleTimeoutTakesASessionsLock(t *testing.T) {
	for _, c := range []struct {
		mode, setting string
		told          bool // by the next statement
	}{
		{servers.TransactionMode, "server_idle_timeout", false},
		{servers.TransactionMode, "server_lifetime", false},
		{servers.SessionMode, "idle_session_timeout", true}, // the server's own
	} {
		t.Run(c.mode+" mode, "+c.setting, func(t *testing.T) {
			holder, admin, p, way := lockHolder(t, c.mode, c.setting)
			for end := time.Now().Add(20 * time.Second); locksHeld(t, admin) > 0; time.Sleep(50 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the lock is still held")
				}
			}
			other := acquire(t, open(t, p.URL(way), transactionPooling(c.mode)))
			same(t, "somebody else gets the lock", any(true), value(t, other, "SELECT pg_try_advisory_lock($1)", int64(42)))
			same(t, "the holder's connection", backend.StatusIdle, holder.Status())
			_, err := holder.Exec(t.Context(), backend.Call{SQL: "SELECT 1"})
			same(t, "the holder's next statement fails", c.told, err != nil)
		})
	}
}

// TestSessionModeKeepsALock: PgBouncer's own time-outs are for server connections that no client has, and for clients that have none.
func TestSessionModeKeepsALock(t *testing.T) {
	for _, setting := range []string{"server_idle_timeout", "server_lifetime", "client_idle_timeout"} {
		_, admin, _, _ := lockHolder(t, servers.SessionMode, setting)
		time.Sleep(3 * time.Second) // three times as long as the pooler's time-out
		same(t, "with "+setting+" the lock is held", int64(1), locksHeld(t, admin))
	}
}

// lockHolder holds a session's lock through a pooler with a time-out of a second, as a statement takes it whose text does not
// show it: hare refuses what it can see.
func lockHolder(t *testing.T, mode, setting string) (holder, admin backend.Conn, p *servers.Pooler, address string) {
	t.Helper()
	options := servers.PoolerOptions{Mode: mode, PoolSize: 5}
	if setting != "idle_session_timeout" {
		options.Settings = map[string]string{setting: "1"}
	}
	address, p = pooled(t, options)
	admin = acquire(t, open(t, address))
	if setting == "idle_session_timeout" {
		if err := p.Greet(t.Context(), value(t, admin, "SELECT current_database()::text").(string), "SET idle_session_timeout = '1s'"); err != nil {
			t.Fatal(err)
		}
	}
	holder = acquire(t, open(t, p.URL(address), transactionPooling(mode)))
	value(t, holder, "SELECT pg_advisory_lock($1)::text", int64(42))
	return holder, admin, p, address
}

// transactionPooling is what a URL says of a mode.
func transactionPooling(mode string) string {
	if mode == servers.TransactionMode {
		return "transaction_pooling=true"
	}
	return "transaction_pooling=false"
}

// locksHeld counts the advisory locks in a database.
func locksHeld(t *testing.T, admin backend.Conn) int64 {
	t.Helper()
	return value(t, admin, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())").(int64)
}
