package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// shared are the servers that all tests of a test binary use.
var shared struct {
	sync.Mutex
	main   bool     // Main runs, and will close what is started
	urls   []string // of databases that every server has; empty before the first use
	server *Server  // nil if the servers are somebody else's

	poolers map[string]*Pooler // by server
}

// Main runs the tests of a package that uses [Database] or [Databases] and closes the server that they may have started:
//
//	func TestMain(m *testing.M) { servers.Main(m) }
func Main(m *testing.M) {
	shared.Lock()
	shared.main = true
	shared.Unlock()
	m.Run()
	shared.Lock()
	defer shared.Unlock()
	for _, p := range shared.poolers {
		if err := p.Close(); err != nil {
			panic(err)
		}
	}
	if shared.server == nil {
		return
	}
	if err := shared.server.Close(); err != nil {
		panic(err)
	}
}

// Database makes a fresh database on a shared server and returns its URL. The server is the first in
// HARE_TEST_POSTGRES_URLS, else one that is started for the test binary, where commits are not durable. At the end of
// the test the transactions left prepared in the database are rolled back and the database is dropped, whoever uses it.
func Database(tb testing.TB) string {
	tb.Helper()
	return Databases(tb, 1)[0]
}

// Databases makes n fresh databases, see [Database], on as many different servers as there are.
func Databases(tb testing.TB, n int) []string {
	tb.Helper()
	servers, err := sharedServers(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	databases, errs := make([]string, n), make([]error, n)
	var wait sync.WaitGroup
	for i := range databases {
		wait.Go(func() { databases[i], errs[i] = newDatabase(tb.Context(), servers[i%len(servers)]) })
	}
	wait.Wait()
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var wait sync.WaitGroup
		for i, database := range databases {
			if database == "" {
				continue
			}
			wait.Go(func() {
				if err := dropDatabase(ctx, servers[i%len(servers)], database); err != nil {
					tb.Errorf("dropping a test's database: %v", err)
				}
			})
		}
		wait.Wait()
	})
	if err := errors.Join(errs...); err != nil {
		tb.Fatal(err)
	}
	addresses := make([]string, n)
	for i, database := range databases {
		if addresses[i], err = through(tb.Context(), servers[i%len(servers)], database); err != nil {
			tb.Fatal(err)
		}
	}
	return addresses
}

// sharedServers are the URLs of the servers named in the environment, or of the one server of this test binary, which
// the first call starts.
func sharedServers(ctx context.Context) ([]string, error) {
	shared.Lock()
	defer shared.Unlock()
	if len(shared.urls) > 0 {
		return shared.urls, nil
	}
	if urls := configuredURLs(); len(urls) > 0 {
		for _, url := range urls {
			if err := checkServer(ctx, url); err != nil {
				return nil, err
			}
		}
		shared.urls = urls
		return urls, nil
	}
	if !shared.main {
		return nil, errNoMain
	}
	server, err := Start(context.WithoutCancel(ctx), Options{Name: "shared", Volatile: true})
	if err != nil {
		return nil, err
	}
	shared.server, shared.urls = server, []string{server.URL("postgres")}
	return shared.urls, nil
}

// checkServer says what a server of somebody else lacks.
func checkServer(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("%s: %w", urlsVariable, err)
	}
	defer conn.Close(ctx)
	var prepared int
	err = conn.QueryRow(ctx, "SELECT current_setting('max_prepared_transactions')::int").Scan(&prepared)
	if err == nil && prepared == 0 {
		err = errors.New("max_prepared_transactions is 0")
	}
	if err != nil {
		return fmt.Errorf("%s: server %s:%d: %w", urlsVariable, conn.Config().Host, conn.Config().Port, err)
	}
	return nil
}

// newDatabase makes a database on a server and returns its URL.
func newDatabase(ctx context.Context, server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", errors.New(urlsVariable + " holds what is no URL") // which may be a password
	}
	u.Path = "/hare_test_" + strings.ToLower(rand.Text())
	return u.String(), execSQL(ctx, server, "CREATE DATABASE "+u.Path[1:])
}

// dropDatabase drops a database with all that is in it, whoever uses it.
func dropDatabase(ctx context.Context, server, database string) error {
	u, err := url.Parse(database)
	if err != nil {
		return err
	}
	if err := rollBackPrepared(ctx, database); err != nil {
		return fmt.Errorf("rolling back what is left prepared: %w", err)
	}
	return execSQL(ctx, server, "DROP DATABASE "+u.Path[1:]+" WITH (FORCE)")
}

// rollBackPrepared rolls back the transactions prepared in a database, without which it could not be dropped.
func rollBackPrepared(ctx context.Context, database string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx,
		"SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts WHERE database = current_database()")
	if err != nil {
		return err
	}
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
