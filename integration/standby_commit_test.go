package integration

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/transactions"
)

// pair is a server and its synchronous standby.
type pair struct {
	primary, standby *servers.Server
}

// newPair makes a pair with a database of a name. A session waits for the standby, unless its role's default says otherwise.
func newPair(t *testing.T, database string) (p pair, databaseURL string) {
	t.Helper()
	p.primary = ownServer(t, servers.Options{Name: "primary", Volatile: true, Settings: map[string]string{"synchronous_commit": "on"}})
	databaseURL, err := p.primary.CreateDatabase(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	p.standby = ownServer(t, servers.Options{Name: "standby", Fast: true, StandbyOf: p.primary})
	if err := p.standby.Follow(t.Context(), p.primary); err != nil {
		t.Fatal(err)
	}
	if err := p.primary.WaitFor(t.Context(), p.standby); err != nil {
		t.Fatal(err)
	}
	return p, databaseURL
}

// pairOf is a trio of which one database is of a pair.
func pairOf(t *testing.T, alias string) (*trio, pair) {
	t.Helper()
	p, databaseURL := newPair(t, "b")
	urls := servers.Databases(t, 3)
	for i, each := range everybody {
		urls[i] = servers.Direct(urls[i])
		if each == alias {
			urls[i] = databaseURL
		}
	}
	f := trioOf(t, urls...)
	f.pooled = false
	if err := f.distributed(nothing); err != nil { // first use
		t.Fatal(err)
	}
	return f, p
}

// away has the standby go away when a message comes. It is stopped: one that is merely paused would receive what has been
// sent to it when it goes on.
func (f *trio) away(p pair) func(faults.Event) {
	return func(faults.Event) {
		if err := p.standby.Stop(context.WithoutCancel(f.Context())); err != nil {
			f.Error(err)
		}
	}
}

// failOver kills the primary, whose standby is away, and has the alias lead to the standby.
func (f *trio) failOver(p pair, alias string) {
	f.Helper()
	ctx := context.WithoutCancel(f.Context())
	for _, step := range []func(context.Context) error{p.primary.Kill, p.standby.Restart, p.standby.Promote} {
		if err := step(ctx); err != nil {
			f.Fatal(err)
		}
	}
	f.urls[alias] = with(f.T, f.urls[alias], func(u *url.URL) { u.Host = host(f.T, p.standby.URL("b")) })
	f.reconnect()
}

// waiting waits until so many sessions of the primary wait for the standby.
func (f *trio) waiting(p pair, want int) {
	f.Helper()
	f.eventually(fmt.Sprintf("%d wait for the standby", want), func() bool {
		n, err := p.primary.Waiting(f.Context())
		if err != nil {
			f.Fatal(err)
		}
		return n == want
	})
}

// weakly are the defaults of the role by which a commit would not wait for the standby, or not for as long as it takes.
var weakly = []string{"", "synchronous_commit = off", "synchronous_commit = local", "synchronous_commit = remote_write", "statement_timeout = '300ms'"}

// shortDelivery leaves the others the time that they need, and gives up on a standby.
var shortDelivery = transactions.PhaseTimeouts(transactions.Phases{Prepare: 3 * time.Second, Decide: 3 * time.Second, Deliver: 2 * time.Second, Rollback: 2 * time.Second})

// The synchronous standby of a participant is away when it is told to commit, whatever the role's defaults are. The call
// gives up, says that the participant is pending, and keeps the decision. A failover to the standby, which has the PREPARE
// and not the COMMIT PREPARED, then loses nothing: recovery commits it there.
//
// Fault D1.
func TestStandbyIsAwayWhileDelivering(t *testing.T) {
	t.Parallel()
	for _, weak := range weakly {
		t.Run(weak, func(t *testing.T) {
			t.Parallel()
			f, p := pairOf(t, "a")
			f.roleDefault("a", weak)
			f.plan.Set(once("a", "COMMIT PREPARED", f.away(p)), nil)
			err := f.distributed(writeAll, shortDelivery)
			f.plan.Set(nil, nil)
			pending := as[*transactions.PartiallyCommittedError](t, err).Pending
			if len(pending) != 1 || pending[0].Alias != "a" {
				t.Errorf("pending: %+v", pending)
			}
			if weak == "" { // nobody has told the server to stop waiting
				f.waiting(p, 1)
			}
			report, err := transactions.Recover(f.ctx, coordinator, transactions.OlderThan(0), transactions.Finish(), transactions.ParticipantTimeout(3*time.Second), unheard)
			if err == nil && report.Clean() {
				t.Errorf("recovery without the standby says that nothing is left: %+v", report)
			}
			f.failOver(p, "a")
			if report := f.recover(transactions.Finish()); !report.Clean() || len(report.Entries) != 1 {
				t.Errorf("recovery after the failover: %+v", report)
			}
			f.wantCounts(1, 1, 1)
			f.wantNothingPrepared()
		})
	}
}

// roleDefault changes a default of the role that the trio logs in as, on the server of an alias.
func (f *trio) roleDefault(alias, setting string) {
	f.Helper()
	if setting != "" {
		f.exec(alias, "ALTER ROLE "+servers.Superuser+" SET "+setting)
	}
	f.reconnect()
	if err := f.distributed(nothing); err != nil {
		f.Fatal(err)
	}
}

// The standby is away when a participant prepares: nothing is decided before the standby has what was prepared. The call gives
// up and says so, and after a failover nothing is left anywhere.
//
// Fault D1.
func TestStandbyIsAwayWhilePreparing(t *testing.T) {
	t.Parallel()
	for _, weak := range weakly[:4] {
		t.Run(weak, func(t *testing.T) {
			t.Parallel()
			f, p := pairOf(t, "a")
			f.roleDefault("a", weak)
			f.plan.Set(once("a", "PREPARE TRANSACTION", f.away(p)), nil)
			err := f.distributed(writeAll, shortDelivery)
			f.plan.Set(nil, nil)
			wantOutcome(t, err, transactions.RolledBack)
			f.failOver(p, "a")
			f.recover(transactions.Finish())
			f.wantCounts(0, 0, 0)
			f.wantNothingPrepared()
		})
	}
}

// endedByHand is the case in which the server's wait is ended by an administrator.
const endedByHand = "the wait is ended by hand"

// stopWaiting has the primary stop waiting for its standby, whoever begins to, until the test ends.
func (f *trio) stopWaiting(p pair) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = p.primary.Exec(ctx, "postgres", "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
			time.Sleep(50 * time.Millisecond)
		}
	}()
	f.Cleanup(func() { cancel(); <-done })
}

// The standby of the coordinator is away when it decides: nobody knows whether the decision stands before the standby has it, so the
// participants stay prepared, and the call says that nobody knows. After a failover to the standby, which lacks the
// decision, recovery rolls everything back; when the standby comes back instead, it commits. An administrator who has the
// server stop waiting changes nothing of that.
//
// Fault D1.
func TestStandbyIsAwayWhileDeciding(t *testing.T) {
	t.Parallel()
	for _, weak := range []string{"", "synchronous_commit = off", "synchronous_commit = remote_write", endedByHand} {
		for _, fails := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, fails over %t", weak, fails), func(t *testing.T) {
				t.Parallel()
				f, p := pairOf(t, "c")
				if weak == endedByHand {
					f.stopWaiting(p)
				} else {
					f.roleDefault("c", weak)
				}
				f.plan.Set(once("c", decisionSQL, f.away(p)), nil)
				err := f.distributed(writeAll, shortDelivery)
				f.plan.Set(nil, nil)
				as[*transactions.CommitAmbiguousError](t, err)
				if n := len(f.prepared("a")) + len(f.prepared("b")); n != 2 {
					t.Errorf("%d are prepared, want both", n)
				}
				kept := int64(0)
				if fails {
					f.failOver(p, "c")
				} else {
					kept = 1
					if err := p.standby.Restart(t.Context()); err != nil {
						t.Fatal(err)
					}
					f.waiting(p, 0)
				}
				if report := f.recover(transactions.Finish()); !report.Clean() {
					t.Errorf("recovery: %+v", report)
				}
				f.wantCounts(kept, kept, kept)
				f.wantNothingPrepared()
			})
		}
	}
}

// Everything else that ends a transaction and is given up while the standby is away: the server goes on waiting, what it has
// committed stays invisible until the standby has it, and nobody is told that it was done.
//
// Fault D1.
func TestStandbyIsAwayAtOtherEnds(t *testing.T) {
	t.Parallel()
	f, p := pairOf(t, "c")
	for name, end := range map[string]func(ctx context.Context) error{
		"COMMIT of Atomic": func(ctx context.Context) error {
			return transactions.Atomic(ctx, func(ctx context.Context) error {
				return Notes.Create(ctx, &Note{Text: "x"})
			}, transactions.Using("c"), transactions.PhaseTimeouts(transactions.Phases{Decide: 500 * time.Millisecond}))
		},
		"COMMIT of BulkCreate, under the caller's ctx": func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
			defer cancel()
			return Notes.UsingAlias("c").BulkCreate(ctx, []Note{{Text: "x"}, {Text: "y"}}, hare.BatchSize(1))
		},
		"COMMIT of CreateTables": func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
			defer cancel()
			return hare.CreateTables(ctx, f.client("c"), Later{})
		},
		"abort row of recovery": func(ctx context.Context) error {
			report, err := transactions.Recover(ctx, coordinator, transactions.OlderThan(0), transactions.Finish(), transactions.ParticipantTimeout(time.Second), unheard)
			if err == nil && !report.Clean() {
				err = fmt.Errorf("left: %+v", report.Entries)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := f.in(t)
			if strings.Contains(name, "recovery") {
				f.crash(isDecision)
			}
			before := f.count("c", "SELECT count(*) FROM note")
			if err := p.standby.Pause(t.Context()); err != nil {
				t.Fatal(err)
			}
			err := end(f.ctx)
			if err == nil {
				t.Error("it says that it was done")
			}
			time.Sleep(300 * time.Millisecond) // a cancel request comes on a connection of its own, a moment later
			f.waiting(p, 1)
			if n := f.count("c", "SELECT count(*) FROM note"); n != before {
				t.Errorf("%d notes are visible that no standby has", n-before)
			}
			if err := p.standby.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.waiting(p, 0)
			f.recover(transactions.Finish())
		})
	}
}

// Later is a table that is made while the standby is away.
type Later struct {
	ID int64
}
