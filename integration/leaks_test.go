package integration

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/transactions"
)

// A program that closes its connections right after its last call leaves no row of a decision, and no goroutine.
func TestCloseRightAfterTheLastCall(t *testing.T) {
	f := newTrio(t, "")
	before := goroutines()
	conns := f.connect(f.urls)
	ctx := hare.WithConnections(t.Context(), conns)
	f2 := *f
	f2.ctx, f2.conns = ctx, conns
	if err := f2.distributed(writeAll); err != nil {
		t.Fatal(err)
	}
	conns.Close()
	if n := f.decisions("true"); n != 0 {
		t.Errorf("%d decisions are left", n)
	}
	deadline := time.Now().Add(10 * time.Second)
	for goroutines() > before && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	if after := goroutines(); after > before {
		t.Errorf("%d of hare's goroutines, %d before:\n%s", after, before, stacks())
	}
}

// Recovery closes every connection that it opens, also that to a database that answers and may not be looked at.
func TestRecoveryClosesItsConnections(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]struct{ alias, sql string }{
		"what a participant is":         {"a", "REVOKE EXECUTE ON FUNCTION pg_control_system FROM PUBLIC"},
		"what is prepared":              {"a", "REVOKE SELECT ON pg_prepared_xacts FROM PUBLIC"},
		"what the coordinator is":       {"c", "REVOKE EXECUTE ON FUNCTION pg_control_system FROM PUBLIC"},
		"what the coordinator decides":  {"c", "REVOKE SELECT ON hare_distributed_decisions FROM PUBLIC"},
		"nothing, and all is looked at": {"b", "SELECT 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "&max_size=1")
			if err := f.distributed(writeAll); err != nil {
				t.Fatal(err)
			}
			watch := f.in(t)
			watch.conns = f.connect(f.urls)
			watch.ctx = hare.WithConnections(t.Context(), watch.conns)
			_, f.urls[refused.alias] = f.role(refused.alias)
			if refused.alias == coordinator {
				f.exec("c", "GRANT SELECT ON hare_distributed_coordinator TO PUBLIC")
			}
			f.exec(refused.alias, refused.sql)
			f.reconnect()
			for range 3 {
				report, err := transactions.Recover(f.ctx, coordinator, transactions.OlderThan(0), transactions.Finish())
				if clean := err == nil && report.Clean(); clean != (refused.alias == "b") {
					t.Errorf("recovery: %+v, %v", report, err)
				}
			}
			if n := f.plan.Held(); n != 0 { // what is forgotten would be closed by the garbage collection, some time
				t.Errorf("%d connections are not closed", n)
			}
			for _, alias := range everybody {
				f.eventually("recovery has left "+alias, func() bool {
					return watch.others(alias) == 0
				})
			}
		})
	}
}

// goroutines counts those that hare or pgx are at work in.
func goroutines() int {
	n := 0
	for _, stack := range strings.Split(stacks(), "\n\n") {
		if strings.Contains(stack, "hare-go/hare/transactions") || strings.Contains(stack, "hare-go/hare/internal/session") ||
			strings.Contains(stack, "hare-go/hare/backends") || strings.Contains(stack, "pgxpool") {
			n++
		}
	}
	return n
}

func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}
