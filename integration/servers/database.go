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
	databases := make([]string, n)
	for i := range databases {
		database, err := newDatabase(tb, servers[i%len(servers)])
		if err != nil {
			tb.Fatal(err)
		}
		databases[i] = database
	}
	return databases
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
		return nil, errors.New("nobody would close the server: the package lacks" +
			" func TestMain(m *testing.M) { servers.Main(m) }")
	}
	server, err := Start(context.WithoutCancel(ctx), Options{Name: "shared", Fast: true})
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

// newDatabase makes a database on a server, to be dropped at the end of the test.
func newDatabase(tb testing.TB, server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", errors.New(urlsVariable + " holds what is no URL") // which may be a password
	}
	name := "hare_test_" + strings.ToLower(rand.Text())
	if err := execSQL(tb.Context(), server, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	u.Path = "/" + name
	database := u.String()
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := rollBackPrepared(ctx, database); err != nil {
			tb.Errorf("rolling back the transactions left prepared: %v", err)
		}
		if err := execSQL(ctx, server, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Errorf("dropping the test's database: %v", err)
		}
	})
	return database, nil
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
