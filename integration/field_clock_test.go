package integration

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/transactions"
)

// The clock of whoever recovers is decades slow, or fast. What counts as young is a matter of the servers' clocks, and
// what has no age limit is finished whatever the time.
//
// Field case 45.
func TestFieldClockOfTheClient(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.crash(isCommitPrepared)
	f.crash(isDecision)
	left := fmt.Sprint(f.prepared("a"), f.prepared("b"))
	for name, shift := range map[string]time.Duration{"slow": 0, "fast": 50 * 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) { // where the time is what the test makes of it, from the year 2000 on
			time.Sleep(shift)
			inside := *f
			inside.T = t
			inside.conns = inside.connect(f.urls)
			ctx := hare.WithConnections(t.Context(), inside.conns)
			report, err := transactions.Recover(ctx, coordinator, transactions.Finish())
			if err != nil || len(report.Entries) != 0 || report.Young != 4 || report.Resolved+report.Purged != 0 {
				t.Errorf("with a %s clock, %s: %+v, %v; want four that are young", name, time.Now(), report, err)
			}
		})
	}
	if now := fmt.Sprint(f.prepared("a"), f.prepared("b")); now != left {
		t.Errorf("prepared: %s, want %s as before", now, left)
	}
	synctest.Test(t, func(t *testing.T) {
		inside := *f
		inside.T = t
		inside.conns = inside.connect(f.urls)
		inside.ctx = hare.WithConnections(t.Context(), inside.conns)
		if report := inside.recover(transactions.Finish()); !report.Clean() || len(report.Entries) != 4 {
			t.Errorf("without an age limit: %+v", report)
		}
	})
	f.wantCounts(1, 1, 1)
	f.wantNothingPrepared()
}
