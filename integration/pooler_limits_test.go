package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/transactions"
)

// occupyPooler takes a pooler's only connection to the database of an alias, until release.
func (f *trio) occupyPooler(alias string) (release func()) {
	f.Helper()
	client, err := f.client(alias).Database().Dial(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := client.Control(f.ctx, "BEGIN"); err != nil {
		f.Fatal(err)
	}
	return sync.OnceFunc(func() {
		if _, err := client.Control(f.ctx, "ROLLBACK"); err != nil {
			f.Error(err)
		}
		client.Release()
	})
}

// The pooler has no connection to the server to lend and ends the wait. In the function, and when all is to be prepared,
// that is a rollback with an error that says why; after the decision it is a commit that recovery finishes.
func TestPoolerHasNoConnectionToLend(t *testing.T) {
	t.Parallel()
	settings := map[string]string{"query_wait_timeout": "1"}
	f, _ := behindPoolers(t, "", servers.PoolerOptions{PoolSize: 1, Settings: settings}, everybody...)
	if err := f.distributed(writeAll); err != nil { // first use
		t.Fatal(err)
	}
	f.tidied()
	for _, alias := range everybody {
		release := f.occupyPooler(alias)
		err := f.distributed(writeAll)
		release()
		wantOutcome(t, err, transactions.RolledBack)
		if err == nil || !strings.Contains(err.Error(), "query_wait_timeout") || !strings.Contains(err.Error(), `"`+alias+`"`) {
			t.Errorf("%s: %v does not say why", alias, err)
		}
		f.wantCounts(1, 1, 1)
	}
	var release func()
	var once sync.Once
	f.plan.Set(func(_ context.Context, e faults.Event) error {
		if e.Alias == "a" && isCommitPrepared(e) {
			once.Do(func() { release = f.occupyPooler("a") })
		}
		return nil
	}, nil)
	err := f.distributed(writeAll)
	f.plan.Set(nil, nil)
	if pending := as[*transactions.PartiallyCommittedError](t, err).Pending; len(pending) != 1 || pending[0].Alias != "a" {
		t.Errorf("pending: %+v", pending)
	}
	report := f.recover(transactions.Finish(), transactions.ParticipantTimeout(5*time.Second))
	if !slices.ContainsFunc(report.Unreachable, func(u transactions.Unreachable) bool { return u.Alias == "a" }) {
		t.Errorf("recovery without a: %+v", report)
	}
	release()
	if report := f.recover(transactions.Finish()); !report.Clean() {
		t.Errorf("recovery: %+v", report)
	}
	f.wantCounts(2, 2, 2)
	f.wantNothingPrepared()
	f.wantUsable()
}

// The pooler takes no more clients. The call is rolled back with its error, with and without settings in the URL, which
// a pooler may refuse by the same SQLSTATE.
func TestPoolerTakesNoMoreClients(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]string{"": "", ", with a guard": "&statement_timeout=0"} {
		t.Run("full"+name, func(t *testing.T) {
			t.Parallel()
			const limit = 6
			f, _ := behindPoolers(t, option, servers.PoolerOptions{IgnoreStartup: true, Settings: map[string]string{"max_client_conn": fmt.Sprint(limit)}}, "a")
			if err := f.distributed(writeAll); err != nil { // first use
				t.Fatal(err)
			}
			f.tidied()
			f.reconnect()
			watch := newTrioOn(f)
			var clients []backend.Conn
			// Until it has noticed that others left it is full of them, and has room a moment later.
			f.eventually("all places are ours", func() bool {
				if client, err := watch.client("a").Database().Dial(f.ctx); err == nil {
					clients = append(clients, client)
				}
				return len(clients) == limit
			})
			err := f.distributed(writeAll)
			for _, client := range clients {
				client.Release()
			}
			wantOutcome(t, err, transactions.RolledBack)
			as[*hare.ConnectionError](t, err)
			if err == nil || !strings.Contains(err.Error(), "max_client_conn") {
				t.Errorf("%v does not say why", err)
			}
			f.eventually("the pooler has noticed that they left", func() bool { return f.distributed(writeAll) == nil })
			f.wantNothingPrepared()
		})
	}
}

// The pooler's connections to the servers live for a second, whoever uses them.
func TestPoolerRecyclesItsConnections(t *testing.T) {
	t.Parallel()
	f, _ := behindPoolers(t, "&max_size=2", servers.PoolerOptions{Settings: map[string]string{"server_lifetime": "1"}}, everybody...)
	server := f.past()
	seen := map[string]bool{}
	calls := int64(0)
	for deadline := time.Now().Add(time.Minute); len(seen) < 6 && time.Now().Before(deadline); calls++ {
		if err := f.distributed(writeAll); err != nil {
			t.Fatal(err)
		}
		for _, pid := range server.processes("a") {
			seen[pid] = true
		}
	}
	if len(seen) < 6 {
		t.Errorf("%d server processes in a minute", len(seen))
	}
	f.wantCounts(calls, calls, calls)
	f.tidied()
	f.wantNothingPrepared()
}

// A recoverer that finds another one at work leaves its transaction in order. Broken off, it would cost the pooler a
// connection to the server with every pass of every instance.
func TestIdleRecovererSparesThePooler(t *testing.T) {
	t.Parallel()
	f, _ := behindPoolers(t, "", servers.PoolerOptions{}, coordinator)
	if err := f.distributed(writeAll); err != nil {
		t.Fatal(err)
	}
	f.tidied()
	server := f.past()
	other, err := server.client("c").Database().Dial(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Release()
	if _, err := other.Control(f.ctx, "BEGIN", "SET LOCAL application_name = 'hare_recoverer'", "SELECT pg_advisory_xact_lock(7521418632404034915)"); err != nil {
		t.Fatal(err)
	}
	before := server.processes("c")
	f.plan.Reset()
	stop := f.recoverer(transactions.Interval(20 * time.Millisecond))
	f.eventually("ten passes", func() bool { return f.passes() > 10 })
	stop()
	now := server.processes("c")
	for _, pid := range before {
		if !slices.Contains(now, pid) {
			t.Errorf("server process %s is gone: %q, and before %q", pid, now, before)
		}
	}
}

// A statement whose context ends while its answer comes must not bring the pooler down: PgBouncer 1.18 dies of a request to
// cancel that meets the end of the statement.
func TestCancelledStatementsSpareThePooler(t *testing.T) {
	t.Parallel()
	f, _ := behindPoolers(t, "", servers.PoolerOptions{}, "a")
	watch, err := f.client("a").Database().Dial(f.ctx) // a connection that would not outlive the pooler
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Release()
	const workers, statements = 4, 100
	var wait sync.WaitGroup
	ended := make(chan error, workers*statements)
	for range workers {
		wait.Go(func() {
			for i := range statements {
				ctx, cancel := context.WithTimeout(f.ctx, 10*time.Millisecond+time.Duration(i%20)*200*time.Microsecond)
				_, err := f.client("a").Exec(ctx, "SELECT pg_sleep(0.01)")
				cancel()
				ended <- err
			}
		})
	}
	wait.Wait()
	close(ended)
	cancelled := 0
	for err := range ended {
		if errors.Is(err, context.DeadlineExceeded) {
			cancelled++
		}
	}
	if cancelled == 0 {
		t.Error("no statement was cancelled")
	}
	if _, err := watch.Control(f.ctx, "SELECT 1"); err != nil {
		t.Errorf("the pooler is gone: %v", err)
	}
	f.wantUsable()
}
