package postgres_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/servers"
)

// asRole is a database and a role of its own that may create in it, so that the role's defaults are nobody else's.
func asRole(t testing.TB) (address, role string) {
	t.Helper()
	super := servers.Direct(servers.Database(t))
	u, err := url.Parse(super)
	if err != nil {
		t.Fatal("the server's address is no URL")
	}
	role = "role_" + u.Path[len("/hare_test_"):]
	conn := acquire(t, open(t, super))
	run(t, conn, "CREATE ROLE "+role+" LOGIN PASSWORD 'secret'")
	run(t, conn, "GRANT CREATE ON SCHEMA public TO "+role)
	run(t, conn, "GRANT CREATE ON DATABASE "+u.Path[1:]+" TO "+role)
	t.Cleanup(func() { // before the database is dropped
		_, err := conn.Exec(context.Background(), backend.Call{SQL: "DROP OWNED BY " + role + "; DROP ROLE " + role})
		if err != nil {
			t.Error(err)
		}
	})
	return as(t, super, role, "secret", u.Path[1:]) + "?sslmode=disable", role
}

// TestGuards: what the URL asks for and the server does not have stops every use until it is mended, whether the pooler
// drops start-up parameters, refuses them, or is told not to get them.
func TestGuards(t *testing.T) {
	const asked = "statement_timeout=4321ms"
	for name, c := range map[string]struct {
		ignore  bool
		options []string
	}{
		"dropped":             {true, []string{asked}},
		"refused":             {false, []string{asked}},
		"told, dropped":       {true, []string{asked, "transaction_pooling=true"}},
		"told, never refused": {false, []string{asked, "transaction_pooling=true"}},
	} {
		t.Run(name, func(t *testing.T) {
			address, role := asRole(t)
			p := servers.PoolerFor(t, servers.PoolerOptions{URL: address, IgnoreStartup: c.ignore})
			db := open(t, p.URL(address), c.options...)
			for range 2 {
				_, err := db.Acquire(t.Context())
				wantOption(t, err, "statement_timeout", "4321", "0 on the server", "ALTER ROLE "+role+" SET statement_timeout = 4321", "SET LOCAL", "transactions.StatementTimeout")
				_, err = db.Dial(t.Context())
				wantOption(t, err, "statement_timeout")
			}
			guards := observe(t, db).Guards
			same(t, "guards", []backend.Guard{{Name: "statement_timeout", Asked: "4321", Found: "0"}}, guards)

			admin := acquire(t, open(t, address))
			run(t, admin, "ALTER ROLE "+role+" SET statement_timeout = 4321")
			if err := p.Command(t.Context(), "RECONNECT"); err != nil {
				t.Fatal(err)
			}
			conn := acquire(t, db)
			same(t, "statement_timeout", any("4321ms"), value(t, conn, "SELECT current_setting('statement_timeout')"))
			same(t, "in force", true, observe(t, db).Guards[0].InForce())
		})
	}
}

// TestGuardsOnTheServerItself: a direct connection has them all, and one more of them is none too many.
func TestGuardsOnTheServerItself(t *testing.T) {
	address := servers.Direct(servers.Database(t))
	for _, timeout := range []string{"15s", "1ms", "1500ms", "60s", "90s", "1h", "25h", "48h", "2147483647"} {
		options := []string{"statement_timeout=" + timeout, "lock_timeout=4321", "idle_in_transaction_session_timeout=0", `search_path=a,%22b c%22, public`, "synchronous_commit=remote_write"}
		db := open(t, address, options...)
		acquire(t, db)
		guards := observe(t, db).Guards
		same(t, "guards", 5, len(guards))
		for _, g := range guards {
			if !g.InForce() {
				t.Errorf("%+v is not in force", g)
			}
		}
	}
}

// TestSearchPath: a search path that a pooler drops would have statements run in other schemas.
func TestSearchPath(t *testing.T) {
	address, role := asRole(t)
	p := servers.PoolerFor(t, servers.PoolerOptions{URL: address, IgnoreStartup: true})
	db := open(t, p.URL(address), "search_path=app,public")
	_, err := db.Acquire(t.Context())
	wantOption(t, err, "search_path", "app,public", `"$user", public`, "ALTER ROLE "+role+" SET search_path = app,public")
	run(t, acquire(t, open(t, address)), "ALTER ROLE "+role+" SET search_path = app, public")
	if err := p.Command(t.Context(), "RECONNECT"); err != nil {
		t.Fatal(err)
	}
	same(t, "search_path", any("app, public"), value(t, acquire(t, db), "SELECT current_setting('search_path')"))
}

// TestPoolerComesBetween: a pooler that refuses start-up parameters and takes the server's place in the middle of a program's
// life is found out like one that was there from the start.
func TestPoolerComesBetween(t *testing.T) {
	address, role := asRole(t)
	run(t, acquire(t, open(t, address)), "ALTER ROLE "+role+" SET lock_timeout = 4321")
	p := servers.PoolerFor(t, servers.PoolerOptions{URL: address})
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal("the server's address is no URL")
	}
	r := newRelay(t, u.Host)
	db := open(t, through(t, address, r.Addr().String())+"?sslmode=disable", "lock_timeout=4321", "max_size=1")
	conn, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	value(t, conn, "SELECT $1::int", int64(1))
	r.lead(p.Host())
	if _, err := conn.Exec(t.Context(), backend.Call{SQL: "SELECT 1"}); err == nil {
		t.Fatal("the connection did not break")
	}
	conn.Release()
	same(t, "statements are kept", false, keepsStatements(t, db))
}
