package servers

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestSynchronousStandby: what is committed has reached the standby, and is there after a failover; without the standby a
// commit waits, and goes on when the standby is back, or when it is needed no longer.
func TestSynchronousStandby(t *testing.T) {
	for _, way := range ownWays(t) {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			primary := start(t, Options{Name: "primary", Way: way, Fast: true, Settings: map[string]string{"synchronous_commit": "on"}})
			standby := start(t, Options{Name: "standby", StandbyOf: primary, Fast: true})
			write := func() error { return primary.Exec(ctx, "postgres", "INSERT INTO t VALUES (1)") }
			err := errors.Join(standby.Follow(ctx, primary), primary.WaitFor(ctx, standby),
				primary.Exec(ctx, "postgres", "CREATE TABLE t (n int)"), write())
			if err != nil {
				t.Fatal(err)
			}
			for _, away := range []struct {
				name        string
				leave, back func(context.Context) error
			}{
				{"paused", standby.Pause, standby.Resume},
				{"stopped", standby.Stop, standby.Restart},
				{"killed", standby.Kill, standby.Restart},
				{"needed no longer", standby.Pause, func(ctx context.Context) error { return primary.WaitFor(ctx) }},
			} {
				if err := away.leave(ctx); err != nil {
					t.Fatalf("%s: %v", away.name, err)
				}
				wrote := make(chan error, 1)
				go func() { wrote <- write() }()
				awaitWaiter(t, primary)
				if err := away.back(ctx); err != nil {
					t.Fatalf("%s: %v", away.name, err)
				}
				if err := <-wrote; err != nil {
					t.Errorf("%s: %v", away.name, err)
				}
			}
			if err := errors.Join(standby.Resume(ctx), primary.WaitFor(ctx, standby), write(), primary.Kill(ctx), standby.Promote(ctx)); err != nil {
				t.Fatal(err)
			}
			if err := standby.Exec(ctx, "postgres", "INSERT INTO t VALUES (1)"); err != nil {
				t.Errorf("promoted: %v", err)
			}
			if got := read(t, standby.URL("postgres"), "SELECT count(*)::text FROM t"); got != "7" {
				t.Errorf("after the failover there are %s rows, want 7", got)
			}
		})
	}
}

// awaitWaiter waits until a commit waits for a standby.
func awaitWaiter(t *testing.T, primary *Server) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		n, err := primary.Waiting(t.Context())
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("no commit waits for the standby: %v", err)
		}
		if n > 0 {
			return
		}
	}
}
