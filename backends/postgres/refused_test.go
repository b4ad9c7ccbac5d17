package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/servers"
)

// TestFullPoolerChangesNothing: a pooler that takes no more clients refuses them with the SQLSTATE that one has that takes no
// time-outs. That says nothing of the way, so that those who have a connection go on as before.
func TestFullPoolerChangesNothing(t *testing.T) {
	for _, c := range []struct{ name, options, role string }{
		{"guards are sent", "?statement_timeout=0", ""},
		{"guards are refused", "?statement_timeout=15s", "15000"},
		{"guards are not sent", "?statement_timeout=0&transaction_pooling=true", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			address, p := pooled(t, servers.PoolerOptions{
				IgnoreStartup: c.role == "", Settings: map[string]string{"max_client_conn": "7"},
			})
			free := 7 - 1 // besides conn
			if c.role != "" {
				admin := acquire(t, open(t, address))
				run(t, admin, "ALTER DATABASE "+value(t, admin, "SELECT quote_ident(current_database())").(string)+" SET statement_timeout = "+c.role)
			}
			wire := newProxy(t, p.URL(address))
			db := open(t, through(t, p.URL(address), wire.Host())+c.options, "max_size=2")
			conn := acquire(t, db)
			// Until it has noticed that others left it is full of them, and has room a moment later.
			for deadline := time.Now().Add(30 * time.Second); free > 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
				if other, err := open(t, p.URL(address), "transaction_pooling=true").Dial(t.Context()); err == nil {
					defer other.Release()
					free--
				}
			}
			if _, err := db.Acquire(t.Context()); err == nil || backend.SQLState(err) != "08P01" || !strings.Contains(err.Error(), "connections") {
				t.Fatalf("the pooler is not full: %v", err)
			}
			conn.Release()
			trips := counting(wire, func() {
				conn := acquire(t, db)
				if _, err := conn.Control(t.Context(), "SELECT 1"); err != nil {
					t.Error(err)
				}
			})
			same(t, "round trips", 1, trips)
		})
	}
}
