package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/transactions"
)

// Recovery follows a decision whatever its row says of being resolved, and resolves one of which nothing is left to do.
//
// W3. W9.
func TestFieldResolvedOrNot(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.crash(isCommitPrepared)
	f.exec("c", "UPDATE public.hare_distributed_decisions SET resolved_at = now()")
	if report := f.recover(transactions.Finish()); !report.Clean() || len(report.Entries) != 2 {
		t.Errorf("resolved too early: %+v", report)
	}
	f.wantCounts(1, 1, 1)
	f.wantNothingPrepared()
	f.crash(isCommitPrepared)
	for _, alias := range participants {
		f.exec(alias, fmt.Sprintf("COMMIT PREPARED '%s'", f.prepared(alias)[0]))
	}
	for _, resolved := range []int{1, 0} {
		if report := f.recover(transactions.Finish()); !report.Clean() || len(report.Entries) != 0 || report.Resolved != resolved {
			t.Errorf("nothing is left: %+v, want %d resolved", report, resolved)
		}
	}
	f.wantCounts(2, 2, 2)
}

// A row that cannot be taken away is no failure of the call, and hides nothing: its hooks run, and what they return is
// returned.
//
// W15.
func TestFieldRowThatStays(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=1")
	tried := make(chan struct{}, 10)
	f.plan.Set(func(_ context.Context, e faults.Event) error {
		if !strings.Contains(e.SQL, "DELETE FROM public.hare_distributed_decisions") {
			return nil
		}
		tried <- struct{}{}
		return faults.ErrInjected
	}, nil)
	for _, want := range []error{nil, errStop} {
		ran := 0
		err := f.distributed(func(d *hare.Distributed) error {
			if err := transactions.OnCommit(d.Context(), func(context.Context) error { ran++; return want }); err != nil {
				return err
			}
			return writeAll(d)
		})
		if transactions.OutcomeOf(err) != transactions.Committed || want == nil && err != nil || !errors.Is(err, want) || ran != 1 {
			t.Errorf("got %v after %d hooks", err, ran)
		}
		<-tried
	}
	f.plan.Set(nil, nil)
	if report := f.recover(transactions.Finish()); !report.Clean() || report.Resolved != 2 {
		t.Errorf("recovery: %+v, want both resolved", report)
	}
	f.wantUsable()
}

// A decision is as old as its COMMIT, not as the transaction around it: a slow function makes no old decision.
//
// W21.
func TestFieldAgeOfADecision(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	var last float64
	err := f.distributed(func(d *hare.Distributed) error {
		if err := writeAll(d); err != nil {
			return err
		}
		rows, err := d.Coordinator().Query(d.Context(), "SELECT extract(epoch FROM clock_timestamp())::float8 FROM pg_sleep(0.1)")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(&last); err != nil {
				return err
			}
		}
		return rows.Err()
	}, transactions.KeepDecision())
	if err != nil || last == 0 {
		t.Fatal(err, last)
	}
	if made := scalar[float64](f, "c", "SELECT extract(epoch FROM created_at)::float8 FROM public.hare_distributed_decisions"); made < last {
		t.Errorf("the decision is %f s older than what was done before it", last-made)
	}
}

// A participant is away for ten recoveries. Its decision is there when it comes back.
//
// Field case 43.
func TestFieldDecisionWaitsForItsParticipant(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.crash(isCommitPrepared)
	network := f.through("b")["b"]
	network.Refuse()
	for range 10 {
		f.pass()
		report := f.recover(transactions.Finish())
		if e := entryOf(t, report, "b"); e.State != transactions.StateFailed || report.Clean() || report.Resolved != 0 || len(report.Unreachable) != 1 {
			t.Errorf("recovery without b: %+v", report)
		}
	}
	if a := f.prepared("a"); len(a) != 0 {
		t.Errorf("prepared in a: %q, though only b is away", a)
	}
	network.Heal()
	if report := f.recover(transactions.Finish()); !report.Clean() || report.Resolved != 1 {
		t.Errorf("recovery with b again: %+v", report)
	}
	f.wantCounts(1, 1, 1)
	f.wantNothingPrepared()
}

// A participant hears of the decision later than the others. Meanwhile a reader sees their writes without its; the call is
// still at work, and returns when all have committed, or says who has not.
//
// Field case 34.
func TestFieldReaderBetweenTheCommits(t *testing.T) {
	t.Parallel()
	for name, inTime := range map[string]bool{"in time": true, "too late": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			reader := *f
			reader.conns = f.connect(f.urls)
			reader.ctx = hare.WithConnections(t.Context(), reader.conns)
			held := f.through("b")["b"].Arm(proxy.Fault{Statement: "COMMIT PREPARED", Do: proxy.Hold})
			deliver := time.Minute
			if !inTime {
				deliver = 3 * time.Second // in which a has committed, however slow
			}
			ended := make(chan error, 1)
			go func() {
				ended <- f.distributed(writeAll, transactions.PhaseTimeouts(transactions.Phases{Deliver: deliver}))
			}()
			<-held.Struck()
			reader.eventually("c and a have committed", func() bool { return reader.counts() == [3]int64{1, 1, 0} })
			if inTime {
				select {
				case err := <-ended:
					t.Fatalf("the call has returned before b has committed: %v", err)
				default:
				}
				held.Release()
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				reader.wantCounts(1, 1, 1)
				return
			}
			if e := as[*transactions.PartiallyCommittedError](t, <-ended); len(e.Pending) != 1 || e.Pending[0].Alias != "b" {
				t.Errorf("pending: %+v, want b", e.Pending)
			}
			held.Release()
			reader.eventually("b has committed", func() bool {
				return reader.recover(transactions.Finish()).Clean() && reader.counts() == [3]int64{1, 1, 1}
			})
			reader.wantNothingPrepared()
		})
	}
}
