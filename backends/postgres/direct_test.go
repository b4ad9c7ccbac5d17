package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/servers"
)

// past are the options for a direct address.
func past(t testing.TB, address string) []string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal("the server's address is no URL")
	}
	return []string{"transaction_pooling=true", "direct_host=" + u.Hostname(), "direct_port=" + u.Port()}
}

// TestDirectAddress: connections outside the pool go past the pooler, so that they have their session and are there also
// while the pooler is full.
func TestDirectAddress(t *testing.T) {
	address, p := pooled(t, servers.PoolerOptions{PoolSize: 1})
	db := open(t, p.URL(address), append(past(t, address), "application_name=past")...)
	path := observe(t, db)
	same(t, "the same database", false, path.DirectElsewhere)
	same(t, "named", true, path.Direct != "")
	conn := acquire(t, db)
	if _, err := conn.Control(t.Context(), "BEGIN"); err != nil { // the pooler is full
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	own, err := db.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Release)
	if _, err := own.Exec(ctx, backend.Call{SQL: "SET lock_timeout = 4321", Session: "SET"}); err != nil {
		t.Fatal(err)
	}
	same(t, "lock_timeout", any("4321ms"), value(t, own, "SELECT current_setting('lock_timeout')"))
	same(t, "answer", any(int64(7)), value(t, own, "SELECT $1::bigint", int64(7)))
	same(t, "kept prepared", any(true), value(t, own, "SELECT count(*) > 0 FROM pg_prepared_statements"))
	same(t, "application_name", any("past"), value(t, own, "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()"))
}

// TestDirectAddressOfAFullPooler: a process that starts while the pooler is full, or away, gets its connections outside the
// pool all the same.
func TestDirectAddressOfAFullPooler(t *testing.T) {
	address, p := pooled(t, servers.PoolerOptions{PoolSize: 1})
	full := acquire(t, open(t, p.URL(address), "transaction_pooling=true"))
	if _, err := full.Control(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	db := open(t, p.URL(address), past(t, address)...)
	own, err := db.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	own.Release()
	if err := p.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	own, err = open(t, p.URL(address), past(t, address)...).Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	own.Release()
	if err := p.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := full.Control(ctx, "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	dial(t, db)
	acquire(t, db)
}

// TestDirectAddressHasTheGuards: the server behind the direct address takes what the pooler does not, and the pool's own way
// is judged all the same.
func TestDirectAddressHasTheGuards(t *testing.T) {
	address, role := asRole(t)
	p := servers.PoolerFor(t, servers.PoolerOptions{URL: address})
	db := open(t, p.URL(address), append(past(t, address), "lock_timeout=4321")...)
	_, err := db.Dial(t.Context())
	wantOption(t, err, "lock_timeout")
	run(t, acquire(t, open(t, address)), "ALTER ROLE "+role+" SET lock_timeout = 4321")
	if err := p.Command(t.Context(), "RECONNECT"); err != nil {
		t.Fatal(err)
	}
	acquire(t, db)
	run(t, acquire(t, open(t, address)), "ALTER ROLE "+role+" RESET lock_timeout")
	same(t, "lock_timeout", any("4321ms"), value(t, dial(t, db), "SELECT current_setting('lock_timeout')"))
}

// TestDirectAddressElsewhere: an address of another database, of the same server or of another one, is refused before
// anything is done there.
func TestDirectAddressElsewhere(t *testing.T) {
	address, p := pooled(t, servers.PoolerOptions{})
	other := servers.Direct(servers.Database(t))
	u, err := url.Parse(other)
	if err != nil {
		t.Fatal("the server's address is no URL")
	}
	// The pooler leads to another database than the name says, as after a restore under a new name.
	astray := servers.PoolerFor(t, servers.PoolerOptions{URL: address, Database: u.Path[1:]})
	db := open(t, astray.URL(address), past(t, address)...)
	for range 2 {
		_, err := db.Dial(t.Context())
		wantOption(t, err, "direct_host", "another database")
	}
	same(t, "elsewhere", true, observe(t, db).DirectElsewhere)
	same(t, "elsewhere", false, observe(t, open(t, p.URL(address), past(t, address)...)).DirectElsewhere)
	acquire(t, db) // the pool itself is as good as before
}

// TestDirectAddressIsNamed: an error of the direct address says that it is that one's, since through the pooler all may be well.
func TestDirectAddressIsNamed(t *testing.T) {
	address, p := pooled(t, servers.PoolerOptions{})
	u, err := url.Parse(p.URL(address))
	if err != nil {
		t.Fatal("the pooler's address is no URL")
	}
	u.User = url.UserPassword(u.User.Username(), "wrong") // the pooler takes any
	for _, options := range [][]string{{"transaction_pooling=true", "direct_host=127.0.0.1", "direct_port=1"}, past(t, address)} {
		db := open(t, u.String(), options...)
		acquire(t, db)
		conn, err := db.Dial(t.Context())
		if err == nil {
			conn.Release()
		}
		if err = hare.ErrorFrom("main", "", err); err == nil || !strings.Contains(err.Error(), "at the direct address 127.0.0.1:") {
			t.Errorf("%v: %v", options[1:], err)
		}
	}
}

// TestPing: a program learns at its start what its first statements would tell it, of all its databases.
func TestPing(t *testing.T) {
	address, p := pooled(t, servers.PoolerOptions{IgnoreStartup: true})
	good := map[string]string{"direct": address, "pooled": p.URL(address)}
	open := func(more map[string]string) *hare.Connections {
		t.Helper()
		all := map[string]string{}
		for _, some := range []map[string]string{good, more} {
			for alias, address := range some {
				all[alias] = address
			}
		}
		c, err := hare.Open(t.Context(), hare.Config{Connections: all})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	c := open(nil)
	same(t, "all well", nil, c.Ping(t.Context()))
	err := open(map[string]string{"unguarded": p.URL(address) + "&lock_timeout=1s"}).Ping(t.Context())
	var wrong *hare.ConfigurationError
	if !errors.As(err, &wrong) {
		t.Fatalf("want a ConfigurationError, got %v", err)
	}
	same(t, "alias and option", [2]string{"unguarded", "lock_timeout"}, [2]string{wrong.Alias, wrong.Option})
	c.Close()
	if err := c.Ping(t.Context()); err == nil {
		t.Error("closed connections are well")
	}
}
