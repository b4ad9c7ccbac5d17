package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

// schemaProgram makes all tables that hare makes, in its database and with it as the coordinator of a distributed
// transaction, and says so.
func schemaProgram() {
	urls := map[string]string{}
	err := json.Unmarshal([]byte(os.Getenv(leaseURL)), &urls)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err == nil {
		err = makeTables(ctx, urls)
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(leaseReport{Written: true})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func makeTables(ctx context.Context, urls map[string]string) error {
	conns, err := hare.Open(ctx, hare.Config{Default: "c", Connections: urls})
	if err != nil {
		return err
	}
	defer conns.Close()
	ctx = hare.WithConnections(ctx, conns)
	client, err := conns.Client("c")
	if err != nil {
		return err
	}
	if err := hare.CreateTables(ctx, client, Note{}); err != nil {
		return err
	}
	opts := briefly
	opts.TTL = time.Minute
	term, err := leases.New(client, fmt.Sprint("job ", os.Getpid()), opts).Acquire(ctx)
	if err != nil {
		return err
	}
	if err := term.Release(); err != nil {
		return err
	}
	return transactions.Distributed(ctx, "c", []string{"a"}, func(d *hare.Distributed) error { return write(d, "all", "c") })
}

// Processes that start at once make the tables through a pooler, and the one whose turn it is is killed in the middle: its
// turn ends with it, the others finish, and no advisory lock is left with a server process of the pool.
//
// Lease field case 21.
func TestLeaseTablesThroughAPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{servers.TransactionMode, servers.SessionMode} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			urls := servers.Databases(t, 2)
			for i := range urls {
				urls[i] = servers.Direct(urls[i])
			}
			f := trioOn(t, map[string]string{"c": urls[0], "a": urls[1]})
			pooler := servers.PoolerFor(t, servers.PoolerOptions{URL: urls[0], Mode: mode, PoolSize: 8, IgnoreStartup: true})
			through := func(name string) string {
				text, err := json.Marshal(map[string]string{"c": pooler.URL(urls[0]) + "&max_size=2&application_name=" + name, "a": urls[1]})
				if err != nil {
					t.Fatal(err)
				}
				return string(text)
			}
			// Whoever comes first waits for this transaction, with the lock for changes of the schema.
			blocker := f.opened(t, urls[0])
			begun, done, end := make(chan struct{}), make(chan error, 1), make(chan struct{})
			go func() {
				done <- transactions.Atomic(hare.WithConnections(f.ctx, blocker), func(ctx context.Context) error {
					client, err := blocker.Client("main")
					if err != nil {
						return err
					}
					if err := hare.CreateTables(ctx, client, hidden{}); err != nil { // takes the lock, too
						return err
					}
					close(begun)
					<-end
					return errStop
				})
			}()
			<-begun
			children := map[string]*process{}
			for i := range 4 {
				name := fmt.Sprint("child_", i)
				children[name] = launch(t, "schema", leaseURL+"="+through(name))
			}
			const waiting = "SELECT count(DISTINCT application_name) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'child_%' AND wait_event_type = 'Lock'"
			f.eventually("all wait", func() bool { return f.count("c", waiting) == 4 })
			// The one at the head of the queue gets the lock when that transaction ends, and waits for another one while it
			// has it. (A server process that waits does not notice that its client is gone.)
			bar := f.opened(t, urls[0])
			barred, freed, barDone := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				barDone <- transactions.Atomic(hare.WithConnections(f.ctx, bar), func(ctx context.Context) error {
					client, err := bar.Client("main")
					if err != nil {
						return err
					}
					if _, err := client.Exec(ctx, "CREATE TABLE note (id bigint)"); err != nil { // in the way of the same name
						return err
					}
					close(barred)
					<-freed
					return errStop
				})
			}()
			<-barred
			close(end)
			if err := <-done; err == nil {
				t.Error("the blocker was not rolled back")
			}
			var victim string
			const inside = "SELECT coalesce(min(application_name), '') FROM pg_stat_activity JOIN pg_locks l USING (pid) WHERE datname = current_database() AND locktype = 'advisory' AND l.granted AND application_name LIKE 'child_%' AND wait_event_type = 'Lock'"
			f.eventually("one is in the middle", func() bool { victim = f.text("c", inside); return victim != "" })
			children[victim].signal(syscall.SIGKILL)
			if err := children[victim].cmd.Wait(); err == nil {
				t.Error("it was not killed")
			}
			close(freed)
			if err := <-barDone; err == nil {
				t.Error("the bar was not rolled back")
			}
			for name, child := range children {
				if name == victim {
					continue
				}
				if r := child.says(); !r.Written {
					t.Errorf("%s: %s", name, &child.stderr)
				}
			}
			if n := f.count("c", "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE d.datname = current_database() AND locktype = 'advisory'"); n != 0 {
				t.Errorf("%d advisory locks are left", n)
			}
			if n := f.count("c", "SELECT count(*) FROM public.hare_leases"); n != 3 {
				t.Errorf("%d leases, want those of three children", n)
			}
			if n := f.count("c", "SELECT count(*) FROM note"); n != 3 {
				t.Errorf("%d notes, want those of three children", n)
			}
		})
	}
}

// hidden is a table that nobody else makes.
type hidden struct{ ID int64 }

// trioOn is connections of databases that there are.
func trioOn(t *testing.T, urls map[string]string) *trio {
	t.Helper()
	f := newDatabases(t, "", []string{"c"})
	f.conns.Close()
	f.urls = urls
	f.conns = f.connect(urls)
	f.ctx = hare.WithConnections(t.Context(), f.conns)
	return f
}

// opened opens connections of their own to one database.
func (f *trio) opened(t *testing.T, url string) *hare.Connections {
	t.Helper()
	conns, err := hare.Open(f.ctx, hare.Config{Connections: map[string]string{"main": url}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conns.Close)
	return conns
}
