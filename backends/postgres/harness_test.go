package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/servers"
)

// open opens a database of the URL with options added to it.
func open(t testing.TB, address string, options ...string) backend.Database {
	t.Helper()
	db, err := tryOpen(t, address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func tryOpen(t testing.TB, address string, options ...string) (backend.Database, error) {
	t.Helper()
	driver, ok := backend.Lookup("postgres")
	if !ok {
		t.Fatal("the scheme postgres is not registered")
	}
	for _, option := range options {
		separator := "?"
		if strings.Contains(address, "?") {
			separator = "&"
		}
		address += separator + option
	}
	return driver.Open(backend.Config{Alias: "main", URL: address})
}

// fresh is a connection to a new database.
func fresh(t testing.TB, options ...string) backend.Conn {
	t.Helper()
	return acquire(t, open(t, servers.Database(t), options...))
}

func acquire(t testing.TB, db backend.Database) backend.Conn {
	t.Helper()
	conn, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Release)
	return conn
}

// dial opens a connection of its own.
func dial(t testing.TB, db backend.Database) backend.Conn {
	t.Helper()
	conn, err := db.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Release)
	return conn
}

// run executes SQL that must succeed.
func run(t testing.TB, conn backend.Conn, sql string, args ...any) int64 {
	t.Helper()
	n, err := conn.Exec(t.Context(), backend.Call{SQL: sql, Args: args})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// table runs a query and returns all its values.
func table(ctx context.Context, conn backend.Conn, call backend.Call) ([][]any, error) {
	rows, err := conn.Query(ctx, call)
	if err != nil {
		return nil, err
	}
	var all [][]any
	for rows.Next() {
		row, err := rows.Values()
		if err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		all = append(all, row)
	}
	return all, rows.Close()
}

// value is the single value that a query gives.
func value(t testing.TB, conn backend.Conn, sql string, args ...any) any {
	t.Helper()
	all, err := table(t.Context(), conn, backend.Call{SQL: sql, Args: args})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if len(all) != 1 || len(all[0]) != 1 {
		t.Fatalf("%s: want one value, got %v", sql, all)
	}
	return all[0][0]
}

func same(t testing.TB, what string, want, got any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

// through is the address with its host replaced and without options.
func through(t testing.TB, address, host string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal("the server's address is no URL")
	}
	u.Host, u.RawQuery = host, ""
	return u.String()
}

// as is the address with another user and database.
func as(t testing.TB, address, user, password, database string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal("the server's address is no URL")
	}
	u.User, u.Path, u.RawQuery = url.UserPassword(user, password), "/"+database, ""
	return u.String()
}
