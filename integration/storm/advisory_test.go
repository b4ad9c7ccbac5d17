package storm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/leases"
)

// election is what a voter takes part in.
type election struct {
	URL   string
	Lease string // by the lease of this name; empty: by a session's advisory lock
}

// lockKey is the key of the advisory lock.
const lockKey = 7300

// voterProgram is a process that wants to lead. It connects, says "connected", tries once when it is told to, says whether it
// leads, and stays connected until the end of its orders.
func voterProgram(orders *json.Decoder, words *json.Encoder) error {
	ctx := context.Background()
	var e election
	if err := orders.Decode(&e); err != nil {
		return err
	}
	try, end, err := e.enter(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := words.Encode("connected"); err != nil {
		return err
	}
	for {
		var now string
		if err := orders.Decode(&now); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		leads, err := try()
		if err != nil {
			return err
		}
		if err := words.Encode(leads); err != nil {
			return err
		}
	}
}

// enter connects. What it returns tries to lead, and leaves.
func (e election) enter(ctx context.Context) (try func() (bool, error), end func(), err error) {
	if e.Lease == "" {
		config, err := pgx.ParseConfig(e.URL)
		if err != nil {
			return nil, nil, err
		}
		config.DefaultQueryExecMode = pgx.QueryExecModeExec // a pooler keeps no prepared statements
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return nil, nil, err
		}
		try = func() (leads bool, err error) {
			err = conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", lockKey).Scan(&leads)
			return leads, err
		}
		return try, func() { _ = conn.Close(ctx) }, nil // it ends with the process
	}
	conns, err := hare.Open(ctx, hare.Config{Connections: map[string]string{"main": e.URL}})
	if err != nil {
		return nil, nil, err
	}
	client, err := conns.Client("main")
	if err != nil {
		return nil, nil, err
	}
	lease := leases.New(client, e.Lease, leases.Options{TTL: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	try = func() (bool, error) {
		term, err := lease.TryAcquire(ctx)
		var held *leases.HeldError
		if errors.As(err, &held) {
			return false, nil
		}
		return err == nil && term.Err() == nil, err
	}
	return try, conns.Close, nil
}

// leaders has n processes take part in an election, one after another while all of them stay, or all at once, and says how
// many of them lead. The processes have ended when it returns.
func leaders(t *testing.T, n int, e election, atOnce bool) (count int) {
	t.Helper()
	voters := make([]*process, n)
	for i := range voters {
		voters[i] = program(t, "voter")
		voters[i].tell(t, e)
	}
	for _, v := range voters {
		hear[string](t, v)
	}
	heard := func(v *process) {
		if hear[bool](t, v) {
			count++
		}
	}
	for _, v := range voters {
		v.tell(t, "now")
		if !atOnce {
			heard(v)
		}
	}
	for _, v := range voters {
		if atOnce {
			heard(v)
		}
	}
	for _, v := range voters {
		v.leave(t)
	}
	return count
}

// advisoryLocks is how many sessions of the server hold the lock.
func advisoryLocks(t *testing.T, conn *pgx.Conn) (n int) {
	t.Helper()
	err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, lockKey).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// observer is a connection past all that may fail.
func observer(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// TestAdvisoryLockElectsSeveral repeats a report from production. Behind a pooler in transaction mode each transaction gets
// any session of the pool, so that a session's advisory lock goes to whoever gets the session that has it: processes that
// ask one after another all lead, and the lock outlives them in the pool. With a lease one leads, whichever way each comes.
//
// Lease field case 21.
func TestAdvisoryLockElectsSeveral(t *testing.T) {
	t.Parallel()
	for _, n := range []int{4, 8} {
		t.Run(fmt.Sprintf("%d processes", n), func(t *testing.T) {
			direct := servers.Direct(servers.Database(t))
			pooler := servers.PoolerFor(t, servers.PoolerOptions{URL: direct})
			pooled, conn := pooler.URL(direct), observer(t, direct)

			if got := leaders(t, n, election{URL: direct}, false); got != 1 {
				t.Errorf("advisory lock, directly: %d of %d lead, want 1", got, n)
			}
			eventually(t, "the lock ends with its session", func() bool { return advisoryLocks(t, conn) == 0 })

			if got := leaders(t, n, election{URL: pooled}, false); got != n {
				t.Errorf("advisory lock through a pooler, one after another: %d of %d lead, want all of them: this is what the test is to show", got, n)
			}
			if got := advisoryLocks(t, conn); got != 1 {
				t.Errorf("when all its owners have ended, %d sessions of the pool have the advisory lock, want 1: this is what the test is to show", got)
			}
			if err := pooler.Command(t.Context(), "RECONNECT"); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the pool has let the lock go", func() bool { return advisoryLocks(t, conn) == 0 })
			// This one is a matter of luck, in which the report saw 3 of 4 and 4 of 8.
			t.Logf("advisory lock through a pooler, all at once: %d of %d lead", leaders(t, n, election{URL: pooled}, true), n)

			for trial, way := range []struct {
				url    string
				atOnce bool
			}{{direct, true}, {pooled, false}, {pooled, true}, {pooled, true}, {pooled, true}} {
				e := election{URL: way.url, Lease: fmt.Sprintf("trial %d", trial)}
				if got := leaders(t, n, e, way.atOnce); got != 1 {
					t.Errorf("lease, directly: %t, all at once: %t: %d of %d lead, want 1", way.url == direct, way.atOnce, got, n)
				}
			}
		})
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}
