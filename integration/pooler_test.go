package integration

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/transactions"
)

// What can only go wrong with a connection pooler on the way. All other tests of this package run through poolers as well
// if HARE_TEST_POOLER=transaction says so.

// behindPoolers is a trio of which the databases of some aliases have a pooler of their own before them.
func behindPoolers(t *testing.T, options string, opts servers.PoolerOptions, aliases ...string) (*trio, map[string]*servers.Pooler) {
	t.Helper()
	poolers, urls := map[string]*servers.Pooler{}, servers.Databases(t, len(everybody))
	for i, alias := range everybody {
		urls[i] = servers.Direct(urls[i])
		if slices.Contains(aliases, alias) {
			opts.URL = urls[i]
			poolers[alias] = servers.PoolerFor(t, opts)
			urls[i] = poolers[alias].URL(urls[i])
		}
		urls[i] += options
	}
	f := trioOf(t, urls...)
	f.pooled = true
	return f, poolers
}

// processes are the server processes of the other sessions of a database.
func (f *trio) processes(alias string) []string {
	f.Helper()
	return strings.Fields(f.text(alias, "SELECT coalesce(string_agg(pid::text, ' '), '') FROM pg_stat_activity"+
		" WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"))
}

// poolerFaults are what happens to a pooler, and what makes it answer again.
var poolerFaults = []struct {
	name         string
	strike, mend func(*servers.Pooler, context.Context) error
}{
	{"killed", (*servers.Pooler).Kill, (*servers.Pooler).Restart},
	{"paused", (*servers.Pooler).Pause, (*servers.Pooler).Resume},
	{"restarted", (*servers.Pooler).Restart, nil},
}

// The pooler before a participant, and that before the coordinator, is killed, frozen or restarted between the steps of
// the protocol, while the servers behind go on.
//
// Field case 15. Field case 35.
func TestPoolerFails(t *testing.T) {
	t.Parallel()
	for _, fault := range poolerFaults {
		for _, alias := range []string{"a", "c"} {
			t.Run(fault.name+" before "+alias, func(t *testing.T) {
				t.Parallel()
				f, poolers := behindPoolers(t, "&max_size=1", servers.PoolerOptions{}, alias)
				if err := f.distributed(writeAll); err != nil { // first use
					t.Fatal(err)
				}
				p := poolers[alias]
				f.failAtEachMoment(alias, func() error { return fault.strike(p, t.Context()) }, bound(t.Context(), p, fault.mend))
			})
		}
	}
}

// What one server process has prepared another one commits: the pooler has let go of the first in between.
//
// Field case 15.
func TestPoolerGivesAnotherProcessForEachPhase(t *testing.T) {
	t.Parallel()
	f, poolers := behindPoolers(t, "", servers.PoolerOptions{}, everybody...)
	server := f.past()
	if err := f.distributed(writeAll); err != nil { // first use
		t.Fatal(err)
	}
	var once sync.Once
	f.plan.Set(func(_ context.Context, e faults.Event) error {
		if isCommitPrepared(e) {
			once.Do(func() {
				for _, alias := range participants {
					before := server.processes(alias)
					if err := poolers[alias].Command(t.Context(), "RECONNECT"); err != nil {
						t.Error(err)
					}
					f.eventually("the processes of "+alias+" are others", func() bool {
						now := server.processes(alias)
						return !slices.ContainsFunc(before, func(pid string) bool { return slices.Contains(now, pid) })
					})
				}
			})
		}
		return nil
	}, nil)
	if err := f.distributed(writeAll); err != nil {
		t.Error(err)
	}
	f.plan.Set(nil, nil)
	f.wantCounts(2, 2, 2)
	f.wantNothingPrepared()
}

// The pooler has one connection to the server for each database, and many calls share it. A call holds one in each
// database, and waits for no second one anywhere.
func TestPoolerOfOneConnection(t *testing.T) {
	t.Parallel()
	f, _ := behindPoolers(t, "", servers.PoolerOptions{PoolSize: 1}, everybody...)
	const callers, calls = 6, 3
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() {
			for range calls {
				if err := transactions.Distributed(f.ctx, coordinator, participants, writeAll); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	f.wantCounts(callers*calls, callers*calls, callers*calls)
	f.tidied()
	f.wantNothingPrepared()
	if report := f.recover(transactions.Finish()); !report.Clean() {
		t.Errorf("recovery: %+v", report)
	}
}

// Two functions use two databases in opposite order, and each has the one connection that the other one waits for. What
// ends it is a time limit, the caller's or the pooler's, with an error that says so.
func TestPoolerOfOneConnectionInOppositeOrder(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pooler map[string]string
		within time.Duration
		says   string
	}{
		"the caller's": {nil, time.Second, "deadline"},
		"the pooler's": {map[string]string{"query_wait_timeout": "1"}, time.Minute, "query_wait_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := behindPoolers(t, "", servers.PoolerOptions{PoolSize: 1, Settings: test.pooler}, everybody...)
			if err := f.distributed(writeAll); err != nil { // first use
				t.Fatal(err)
			}
			f.tidied()
			var meet sync.WaitGroup
			meet.Add(2)
			errs := make(chan error, 2)
			for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
				go func() {
					ctx, cancel := context.WithTimeout(f.ctx, test.within)
					defer cancel()
					errs <- transactions.Distributed(ctx, coordinator, participants, func(d *hare.Distributed) error {
						for i, alias := range order {
							if err := write(d, "opposite", alias); err != nil {
								return err
							}
							if i == 0 {
								meet.Done()
								meet.Wait()
							}
						}
						return nil
					}, shortPhases)
				}()
			}
			failed := 0
			for range 2 {
				if err := <-errs; err != nil {
					failed++
					wantOutcome(t, err, transactions.RolledBack)
					if !strings.Contains(err.Error(), test.says) {
						t.Errorf("%v does not say %q", err, test.says)
					}
				}
			}
			if failed == 0 {
				t.Error("neither was ended")
			}
			n := int64(1 + 2 - failed)
			f.wantCounts(1, n, n)
			f.wantNothingPrepared()
			f.wantUsable()
		})
	}
}
