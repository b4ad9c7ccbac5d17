package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/transactions"
)

// After many calls the table of decisions is empty, and recovery reads no more of it when it is long: by an index it finds
// the rows that it needs, whatever else is kept.
//
// Field case 42. W31.
func TestFieldTableOfDecisions(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=4")
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 50 {
				if err := transactions.Distributed(f.ctx, coordinator, participants, writeAll); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	f.wantCounts(200, 200, 200)
	f.wantNothingLeftOfDecisions()
	f.crash(isCommitPrepared)
	id := f.text("c", "SELECT id FROM public.hare_distributed_coordinator")
	f.exec("c", fmt.Sprintf(`INSERT INTO public.hare_distributed_decisions (xid, coordinator_alias, participant_aliases, resolved_at)
		SELECT 'hare_dtx_c:%s:' || md5(n::text), 'c', 'a', now() FROM generate_series(1, 20000) n`, id))
	f.exec("c", "ANALYZE public.hare_distributed_decisions")
	const read = "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relname = 'hare_distributed_decisions'"
	const looked = "SELECT coalesce(seq_scan, 0) + coalesce(idx_scan, 0) FROM pg_stat_user_tables WHERE relname = 'hare_distributed_decisions'"
	rows, looks := f.settled(read), f.settled(looked)
	if report := f.recover(transactions.Finish()); !report.Clean() || len(report.Entries) != 2 || report.Resolved != 1 || report.Purged != 0 {
		t.Errorf("recovery: %+v", report)
	}
	f.eventually("the server has counted", func() bool { return f.count("c", looked) > looks })
	if n := f.settled(read) - rows; n > 1000 {
		t.Errorf("recovery has read %d rows of 20 000", n)
	}
	f.pass()
	if report := f.recover(transactions.Finish()); report.Purged != 20001 {
		t.Errorf("recovery: %+v, want all removed", report)
	}
	if n := f.decisions("true"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// settled is a number of the server's statistics when it does not change any more: sessions report theirs a little later.
func (f *trio) settled(sql string) int64 {
	f.Helper()
	last := f.count("c", sql)
	for still := 0; still < 3; {
		time.Sleep(100 * time.Millisecond)
		if n := f.count("c", sql); n == last {
			still++
		} else {
			last, still = n, 0
		}
	}
	return last
}

// wantNothingLeftOfDecisions waits until the decisions of calls that are over have been taken away.
func (f *trio) wantNothingLeftOfDecisions() {
	f.Helper()
	f.eventually("the decisions are taken away", func() bool { return f.decisions("true") == 0 })
}

// An orphan's locks belong to no process, so nothing shows who is in the way of a change of the table. The change waits no
// longer than it is told to, the report names the table, and what finishes the orphan lets the change through.
//
// Field case 48.
func TestFieldOrphanInTheWayOfAMigration(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.crash(isDecision)
	migrate := func() error {
		return transactions.Atomic(f.ctx, func(ctx context.Context) error {
			_, err := f.client("b").Exec(ctx, "ALTER TABLE note ADD COLUMN more int")
			return err
		}, transactions.Using("b"), transactions.LockTimeout(200*time.Millisecond))
	}
	as[*hare.TimeoutError](t, migrate())
	report := f.recover()
	e := entryOf(t, report, "b")
	if report.Clean() || !slices.Equal(e.Tables, []string{"note"}) || e.Action != transactions.ActionRollback || !strings.Contains(e.GID, e.XID) {
		t.Errorf("report: %+v, want the table and what to do", report)
	}
	if report := f.recover(transactions.Finish()); !report.Clean() {
		t.Errorf("recovery: %+v", report)
	}
	if err := migrate(); err != nil {
		t.Errorf("after recovery: %v", err)
	}
}
