package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/integration/servers"
)

// observe is what a database finds of the way to its server.
func observe(t testing.TB, db backend.Database) backend.Path {
	t.Helper()
	path, err := db.(backend.Observer).Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if path.Evidence == "" {
		t.Error("there is no evidence")
	}
	return path
}

// keepsStatements reports whether a database keeps statements prepared, which shows what its first use has found.
func keepsStatements(t testing.TB, db backend.Database) bool {
	t.Helper()
	conn := acquire(t, db)
	value(t, conn, "SELECT $1::int", int64(1))
	return value(t, conn, "SELECT count(*) FROM pg_prepared_statements WHERE statement = 'SELECT $1::int'").(int64) > 0
}

// TestWay: what lies between is found out by its first use and by Observe alike, whatever it is.
func TestWay(t *testing.T) {
	address, transaction := pooled(t, servers.PoolerOptions{})
	session := servers.PoolerFor(t, servers.PoolerOptions{URL: address, Mode: servers.SessionMode})
	robin := servers.PoolerFor(t, servers.PoolerOptions{URL: address, Settings: map[string]string{"server_round_robin": "1"}})
	for _, c := range []struct {
		name, url string
		want      backend.Pooling
		keeps     bool
	}{
		{"the server itself", address, backend.PoolingNone, true},
		{"a plain proxy", through(t, address, newProxy(t, address).Host()), backend.PoolingNone, true},
		{"session mode", session.URL(address), backend.PoolingSession, true},
		{"transaction mode", transaction.URL(address), backend.PoolingTransaction, false},
		{"transaction mode in turn", robin.URL(address), backend.PoolingTransaction, false},
		{"a proxy before transaction mode", through(t, transaction.URL(address), newProxy(t, transaction.URL(address)).Host()), backend.PoolingTransaction, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := open(t, c.url)
			path := observe(t, db)
			for path.Pooler == backend.PoolingUnknown { // a machine that is too busy
				path = observe(t, db)
			}
			same(t, "pooler", c.want, path.Pooler)
			if c.want == backend.PoolingSession {
				db = open(t, c.url, "transaction_pooling=false") // for the same reason
			}
			same(t, "statements are kept", c.keeps, keepsStatements(t, db))
			same(t, "told", (*bool)(nil), path.Told)
			own := dial(t, open(t, c.url)) // the first use may be outside the pool
			same(t, "answer", any(int64(7)), value(t, own, "SELECT $1::bigint", int64(7)))
		})
	}
}

// TestWayThatIsSlow: a mode that cannot be seen in the time of a first use is unknown, and seen by who has more time.
func TestWayThatIsSlow(t *testing.T) {
	address, p := pooled(t, servers.PoolerOptions{Mode: servers.SessionMode})
	network := newProxy(t, p.URL(address))
	db := open(t, through(t, p.URL(address), network.Host()))
	slow := func() { network.Arm(proxy.Fault{Statement: "BEGIN; SELECT", Do: proxy.Delay, Delay: 4 * time.Second}) }
	slow()
	same(t, "in the time of a first use", backend.PoolingUnknown, observe(t, db).Pooler)
	slow()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	path, err := db.(backend.Observer).Observe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "in a minute", backend.PoolingSession, path.Pooler)
}

// TestWayWithOneProcess: one process for all shows transaction mode at once. In session mode the second connection waits for
// the first: the mode stays unknown, in bounded time, and is treated as transaction mode; the connection that waited is
// replaced where need be.
func TestWayWithOneProcess(t *testing.T) {
	for mode, want := range map[string]backend.Pooling{
		servers.TransactionMode: backend.PoolingTransaction, servers.SessionMode: backend.PoolingUnknown,
	} {
		t.Run(mode, func(t *testing.T) {
			address, p := pooled(t, servers.PoolerOptions{PoolSize: 1, Mode: mode})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			db := open(t, p.URL(address), "max_size=1")
			conn, err := db.Acquire(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Exec(ctx, backend.Call{SQL: "SELECT $1::int", Args: []any{int64(1)}}); err != nil {
				t.Fatal(err)
			}
			same(t, "statements kept", any(int64(0)), value(t, conn, "SELECT count(*) FROM pg_prepared_statements"))
			conn.Discard()
			same(t, "pooler", want, observe(t, db).Pooler)
			if want == backend.PoolingUnknown { // what cannot be seen is as the URL says
				same(t, "statements are kept", true, keepsStatements(t, open(t, p.URL(address), "max_size=1", "transaction_pooling=false")))
			}
		})
	}
}

// TestWayOfAFullPooler: where all of a pooler's processes are taken the mode stays unknown after a bounded time, and the
// connection that waited is replaced, or its error told in the caller's time.
func TestWayOfAFullPooler(t *testing.T) {
	address, p := pooled(t, servers.PoolerOptions{PoolSize: 2})
	holder := open(t, p.URL(address), "transaction_pooling=true")
	db := open(t, p.URL(address), "max_size=1")
	first := acquire(t, holder)
	if _, err := first.Control(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	second := acquire(t, holder)
	if _, err := second.Control(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := db.Acquire(ctx); err == nil {
		t.Fatal("a pooler that is full has answered")
	}
	// Where nobody else sets an end, it says what it waited for.
	_, err := open(t, p.URL(address), "connect_timeout=500ms").Acquire(t.Context())
	if lost := (*hare.ConnectionError)(nil); !errors.As(hare.ErrorFrom("main", "", err), &lost) || !lost.NotDone || !strings.Contains(lost.Error(), "within 500ms (connect_timeout): a pooler on the way has no server connection to lend") {
		t.Errorf("of a pooler that is full: %v", err)
	}
	if _, err := second.Control(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	same(t, "statements are kept", false, keepsStatements(t, db))
}

// TestWayAsTold: true is believed and spares the test of two connections; false is not believed.
func TestWayAsTold(t *testing.T) {
	address, p := pooled(t, servers.PoolerOptions{})
	session := servers.PoolerFor(t, servers.PoolerOptions{URL: address, Mode: servers.SessionMode})
	for _, way := range []string{p.URL(address), session.URL(address), address} {
		db := open(t, way, "transaction_pooling=true")
		same(t, "statements are kept", false, keepsStatements(t, db))
		same(t, "told", true, *observe(t, db).Told)
	}
	same(t, "pooler", backend.PoolingNone, observe(t, open(t, address, "transaction_pooling=true")).Pooler)

	for _, way := range []string{session.URL(address), address} {
		same(t, "statements are kept", true, keepsStatements(t, open(t, way, "transaction_pooling=false")))
	}
	db := open(t, p.URL(address), "transaction_pooling=false")
	for range 2 { // a failure is not remembered
		_, err := db.Acquire(t.Context())
		wantOption(t, err, "transaction_pooling", "false", "transaction mode")
		_, err = db.Dial(t.Context())
		wantOption(t, err, "transaction_pooling")
	}
	path := observe(t, db)
	same(t, "pooler", backend.PoolingTransaction, path.Pooler)
	same(t, "told", false, *path.Told)
}

// TestWayFailureIsNotRemembered: a pooler that cannot be reached says nothing of the way.
func TestWayFailureIsNotRemembered(t *testing.T) {
	address, p := pooled(t, servers.PoolerOptions{})
	db := open(t, p.URL(address))
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Acquire(t.Context()); err == nil || backend.SQLState(err) != "" {
		t.Errorf("without a pooler: %v", err)
	}
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "statements are kept", false, keepsStatements(t, db))
}

// TestFirstUse counts what finding the way costs: a round trip to the server itself, once, also for many at a time.
func TestFirstUse(t *testing.T) {
	address := servers.Direct(servers.Database(t))
	wire := newProxy(t, address)
	plain := open(t, through(t, address, wire.Host()))
	login := counting(wire, func() { dial(t, plain) }) // with the question
	again := counting(wire, func() { dial(t, plain) })
	same(t, "round trips for the way", 1, login-again)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fresh := open(t, address)
	if _, err := fresh.Acquire(ctx); err == nil || !strings.Contains(err.Error(), "cancel") {
		t.Errorf("the caller's end is not told: %v", err)
	}
	same(t, "statements are kept", true, keepsStatements(t, fresh))
}
