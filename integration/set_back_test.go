package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/transactions"
)

// A participant's server fails over to a standby that has what was prepared, and not that it was committed. Where the
// decision was kept, recovery brings its commit; where the call has taken it away, it is like one that never was.
func TestParticipantSetBackBehindItsCommit(t *testing.T) {
	t.Parallel()
	urls := servers.Databases(t, 2)
	primary := ownServer(t, servers.Options{Volatile: true})
	database, err := primary.CreateDatabase(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	f := trioOf(t, urls[0], urls[1], database)
	copied := make(chan struct{})
	f.plan.Set(func(ctx context.Context, e faults.Event) error {
		if e.Alias == "b" && isCommitPrepared(e) {
			select {
			case <-copied:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}, nil)
	ended := make(chan error)
	call := func(text string, opts ...transactions.Option) {
		opts = append(opts, transactions.PhaseTimeouts(transactions.Phases{Deliver: 5 * time.Minute}))
		ended <- transactions.Distributed(f.ctx, coordinator, participants, func(d *hare.Distributed) error { return write(d, text, everybody...) }, opts...)
	}
	go call("kept", transactions.KeepDecision())
	go call("taken away")
	f.eventually("both are decided, and prepared in b", func() bool { return f.count("a", "SELECT count(*) FROM note") == 2 && len(f.prepared("b")) == 2 })
	standby := ownServer(t, servers.Options{Volatile: true, StandbyOf: primary})
	close(copied)
	if err := errors.Join(<-ended, <-ended); err != nil {
		t.Fatal(err)
	}
	f.wantCounts(2, 2, 2)
	f.eventually("the decisions are resolved", func() bool { return f.decisions("resolved_at IS NOT NULL") == 1 && f.decisions("true") == 1 })

	if err := errors.Join(primary.Kill(t.Context()), standby.Exec(t.Context(), "b", "SELECT pg_promote()")); err != nil {
		t.Fatal(err)
	}
	f.urls["b"] = standby.URL("b")
	f.reconnect()
	report := f.recover(transactions.Finish())
	for _, e := range report.Entries {
		if e.Alias != "b" || e.State != transactions.StateDone {
			t.Errorf("recovery: %+v", e)
		}
	}
	if len(report.Entries) != 2 {
		t.Errorf("recovery: %+v", report)
	}
	if text := f.text("b", "SELECT string_agg(text, ', ') FROM note"); text != "kept" {
		t.Errorf("b has %q", text)
	}
	f.wantCounts(2, 2, 1)
	f.wantNothingPrepared()
}
