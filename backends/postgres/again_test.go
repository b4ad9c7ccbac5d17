package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/hare-go/hare/backends/postgres"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/servers"
)

// logged is what is logged from now on.
func logged(t *testing.T) func() string {
	t.Helper()
	var (
		mu   sync.Mutex
		text bytes.Buffer
	)
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return text.Write(p)
	}), nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// metrics is set up once, when a test first asks, long after hare has made its instruments.
var metrics = sync.OnceValue(func() *sdkmetric.ManualReader {
	reader := sdkmetric.NewManualReader()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	return reader
})

// guardMissing is what the metric says of a guard.
func guardMissing(t *testing.T, guard string) (value int64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := metrics().Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	value = -1
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if g, ok := m.Data.(metricdata.Gauge[int64]); ok && m.Name == "hare.guard.missing" {
				for _, p := range g.DataPoints {
					database, _ := p.Attributes.Value("hare.database")
					name, _ := p.Attributes.Value("hare.guard")
					if database.AsString() == "main" && name.AsString() == guard {
						value = p.Value
					}
				}
			}
		}
	}
	return value
}

// guardsOf are the guards with a value that the tests' servers do not have, and how the server shows it.
var guardsOf = map[string]string{
	"statement_timeout": "4321ms", "lock_timeout": "4321ms", "idle_in_transaction_session_timeout": "4321ms",
	"search_path": "app", "synchronous_commit": "local",
}

// asURL is a guard's option.
func asURL(guard string) string { return guard + "=" + guardsOf[guard] }

// TestGuardIsGoneInANewSession: a session that is opened after a default of the role has changed says so in its first message.
// A statement that was only prepared by then does not run, neither does any later one, and every call is refused until the
// default is back.
func TestGuardIsGoneInANewSession(t *testing.T) {
	insert := backend.Call{SQL: "INSERT INTO item VALUES ($1)", Args: []any{int64(1)}}
	plain := backend.Call{SQL: "INSERT INTO public.item VALUES (1)"}
	begun := backend.Call{SQL: insert.SQL, Args: insert.Args, Before: []string{"BEGIN ISOLATION LEVEL SERIALIZABLE"}}
	for guard := range guardsOf {
		for name, c := range map[string]struct {
			first func(context.Context, backend.Conn) error
			rows  int64 // that the first call may have written
		}{
			"a statement":                  {func(ctx context.Context, conn backend.Conn) error { _, err := conn.Exec(ctx, insert); return err }, 0},
			"a transaction":                {func(ctx context.Context, conn backend.Conn) error { _, err := conn.Exec(ctx, begun); return err }, 0},
			"a query":                      {func(ctx context.Context, conn backend.Conn) error { _, err := table(ctx, conn, insert); return err }, 0},
			"a statement after BEGIN":      {begin(plain), 0},
			"a statement without argument": {twice(plain), 1},
		} {
			t.Run(guard+", "+name, func(t *testing.T) {
				address, role := asRole(t)
				admin := acquire(t, open(t, address))
				run(t, admin, "CREATE TABLE item (n bigint)")
				in := fmt.Sprintf("ALTER ROLE %s SET %s = '%s'", role, guard, guardsOf[guard])
				run(t, admin, in)
				run(t, admin, "CREATE SCHEMA app CREATE TABLE item (n bigint)")
				metrics()
				text := logged(t)
				db := open(t, address, asURL(guard), "transaction_pooling=true")
				old := acquire(t, db)
				run(t, old, "SELECT 1")
				same(t, "the metric", int64(0), guardMissing(t, guard))
				run(t, admin, "ALTER ROLE "+role+" RESET "+guard)

				conn := acquire(t, db)
				wantOption(t, c.first(t.Context(), conn), guard, "no longer, a default of the role", "ALTER ROLE "+role+" SET "+guard, "RECONNECT")
				same(t, "the connection", backend.StatusClosed, conn.Status())
				conn.Release()
				same(t, "the rows", any(c.rows), value(t, admin, "SELECT (SELECT count(*) FROM public.item) + (SELECT count(*) FROM app.item)"))
				for range 2 {
					_, err := db.Acquire(t.Context())
					wantOption(t, err, guard)
				}
				same(t, "the metric", int64(1), guardMissing(t, guard))
				same(t, "warnings", 1, strings.Count(text(), "a guard of the URL is not in force"))

				run(t, admin, in)
				conn = acquire(t, db)
				run(t, conn, insert.SQL, insert.Args...)
				same(t, "the metric", int64(0), guardMissing(t, guard))
				same(t, "the end of it in the log", 1, strings.Count(text(), "are in force again"))
			})
		}
	}
}

// begin is BEGIN as a message of its own, and then a call.
func begin(call backend.Call) func(context.Context, backend.Conn) error {
	return func(ctx context.Context, conn backend.Conn) error {
		if _, err := conn.Control(ctx, "BEGIN ISOLATION LEVEL SERIALIZABLE"); err != nil {
			return errors.New("BEGIN is refused")
		}
		_, err := conn.Exec(ctx, call)
		return err
	}
}

// twice makes a call that nothing comes before, which runs, and then again.
func twice(call backend.Call) func(context.Context, backend.Conn) error {
	return func(ctx context.Context, conn backend.Conn) error {
		if _, err := conn.Exec(ctx, call); err != nil {
			return errors.New("the first statement is refused")
		}
		_, err := conn.Exec(ctx, call)
		return err
	}
}

// TestGuardsCostNoRoundTrip: a new session is asked for the guards in its first message, whatever that is, and a pooler's in that
// of a call a minute.
func TestGuardsCostNoRoundTrip(t *testing.T) {
	address := servers.Direct(servers.Database(t))
	guards := []string{"statement_timeout=4321", "lock_timeout=4321", "search_path=public", "synchronous_commit=on"}
	run(t, acquire(t, open(t, address)), "CREATE TABLE item (n bigint)")
	for name, first := range map[string]func(conn backend.Conn) error{
		"a statement": func(conn backend.Conn) error {
			_, err := table(t.Context(), conn, backend.Call{SQL: "SELECT $1::bigint", Args: []any{int64(1)}})
			return err
		},
		"a transaction": func(conn backend.Conn) error {
			_, err := conn.Exec(t.Context(), backend.Call{SQL: "INSERT INTO item VALUES ($1)", Args: []any{int64(1)}, Before: []string{"BEGIN ISOLATION LEVEL SERIALIZABLE", "SET LOCAL lock_timeout = 1"}})
			return err
		},
		"several runs": func(conn backend.Conn) error {
			_, err := conn.Exec(t.Context(), backend.Call{SQL: "INSERT INTO item VALUES ($1)", Batch: [][]any{{int64(1)}, {int64(2)}}})
			return err
		},
		"what no transaction may surround": func(conn backend.Conn) error {
			_, err := conn.Exec(t.Context(), backend.Call{SQL: "VACUUM item"})
			return err
		},
		"several statements": func(conn backend.Conn) error {
			_, err := conn.Exec(t.Context(), backend.Call{SQL: "SELECT 1; SELECT 2"})
			return err
		},
		"a mistake": func(conn backend.Conn) error {
			if _, err := conn.Exec(t.Context(), backend.Call{SQL: "SELEC"}); backend.SQLState(err) != "42601" {
				return fmt.Errorf("want a syntax error, got %w", err)
			}
			return nil
		},
		"BEGIN": func(conn backend.Conn) error {
			_, err := conn.Control(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
			return err
		},
	} {
		trips := map[string]int{}
		for _, options := range [][]string{nil, guards} {
			network := newProxy(t, address)
			db := open(t, through(t, address, network.Host()), options...)
			acquire(t, db) // the first use
			trips[fmt.Sprint(options)] = counting(network, func() {
				conn := acquire(t, db)
				if err := first(conn); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		same(t, name, trips[fmt.Sprint([]string(nil))], trips[fmt.Sprint(guards)])
	}
}

// TestGuardsOfAPoolerCostNoRoundTrip: a call that takes the question with it because the time is over makes as many round trips
// as one that does not, and the answer is believed for as long as it should be.
func TestGuardsOfAPoolerCostNoRoundTrip(t *testing.T) {
	address, role := asRole(t)
	run(t, acquire(t, open(t, address)), "ALTER ROLE "+role+" SET lock_timeout = 4321")
	p := servers.PoolerFor(t, servers.PoolerOptions{URL: address})
	network := newProxy(t, p.URL(address))
	db := open(t, through(t, p.URL(address), network.Host())+"?sslmode=disable", "lock_timeout=4321", "transaction_pooling=true")
	ask := func() int {
		conn, err := db.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		return counting(network, func() { value(t, conn, "SELECT $1::bigint", int64(1)) })
	}
	ask()
	without := ask()
	defer postgres.AskEvery(0)()
	same(t, "round trips", without, ask())
}

// TestGuardIsGoneBehindAPooler: behind a pooler in each mode a guard that a default of the role or the pooler's own greeting gave
// is missed within the time in which it is asked for again, by log, metric and the error of a call, and calls work again
// when it is back; nobody restarts anything.
func TestGuardIsGoneBehindAPooler(t *testing.T) {
	defer postgres.AskEvery(50 * time.Millisecond)()
	for mode, reasons := range map[string][]string{
		servers.TransactionMode: {"the role", "the pooler"},
		servers.SessionMode:     {"the role"}, // the greeting lasts until the pooler's DISCARD ALL
	} {
		for _, by := range reasons {
			t.Run(mode+" mode, by "+by, func(t *testing.T) {
				address, role := asRole(t)
				admin := acquire(t, open(t, address))
				p := servers.PoolerFor(t, servers.PoolerOptions{URL: address, Mode: mode, IgnoreStartup: true})
				database := value(t, admin, "SELECT current_database()::text").(string)
				set := func(timeout string) {
					t.Helper()
					var err error
					if by == "the role" {
						run(t, admin, "ALTER ROLE "+role+" SET statement_timeout = '"+timeout+"'")
						err = p.Command(t.Context(), "RECONNECT")
					} else {
						err = p.Greet(t.Context(), database, "SET statement_timeout = '"+timeout+"'")
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				set("4321ms")
				metrics()
				text := logged(t)
				db := open(t, p.URL(address), "statement_timeout=4321")
				ask := func() error {
					conn, err := db.Acquire(t.Context())
					if err != nil {
						return err
					}
					_, err = conn.Exec(t.Context(), backend.Call{SQL: "SELECT 1"})
					if mode == servers.SessionMode {
						conn.Discard() // the next one has a session that is as new as the pooler's
					}
					conn.Release()
					return err
				}
				if err := ask(); err != nil {
					t.Fatal(err)
				}
				set("9s")
				wrong := until(t, ask, func(err error) bool { return err != nil })
				wantOption(t, wrong, "statement_timeout", "is 4321 in the URL and 9000 on the server", "ALTER ROLE "+role+" SET statement_timeout = 4321", "RECONNECT")
				var public *hare.ConfigurationError
				if !errors.As(hare.ErrorFrom("main", "", wrong), &public) || public.Alias != "main" {
					t.Errorf("want a ConfigurationError, got %v", wrong)
				}
				for range 3 {
					if err := ask(); err == nil {
						t.Error("a call is let through while the guard is missing")
					}
				}
				same(t, "the metric", int64(1), guardMissing(t, "statement_timeout"))
				same(t, "warnings", 1, strings.Count(text(), "a guard of the URL is not in force"))
				set("4321ms")
				until(t, ask, func(err error) bool { return err == nil })
				same(t, "the metric", int64(0), guardMissing(t, "statement_timeout"))
				same(t, "the end of it in the log", 1, strings.Count(text(), "are in force again"))
			})
		}
	}
}

// until asks until the answer is as it should be.
func until(t *testing.T, ask func() error, good func(error) bool) error {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := ask()
		if good(err) {
			return err
		}
		if time.Now().After(end) {
			t.Fatalf("the answer is still %v", err)
		}
	}
}

// TestEndsAreNotRefused: a transaction that was begun while the guard was in force ends as its caller says, and connections
// outside the pool are given, while calls are refused.
func TestEndsAreNotRefused(t *testing.T) {
	defer postgres.AskEvery(0)()
	address, role := asRole(t)
	admin := acquire(t, open(t, address))
	run(t, admin, "CREATE TABLE item (n bigint)")
	run(t, admin, "ALTER ROLE "+role+" SET lock_timeout = 4321")
	p := servers.PoolerFor(t, servers.PoolerOptions{URL: address})
	db := open(t, p.URL(address), "lock_timeout=4321")
	conn := acquire(t, db)
	if _, err := conn.Exec(t.Context(), backend.Call{SQL: "INSERT INTO item VALUES ($1)", Args: []any{int64(1)}, Before: []string{"BEGIN"}}); err != nil {
		t.Fatal(err)
	}
	run(t, admin, "ALTER ROLE "+role+" RESET lock_timeout")
	if err := p.Command(t.Context(), "RECONNECT"); err != nil {
		t.Fatal(err)
	}
	until(t, func() error {
		other, err := db.Acquire(t.Context())
		if err == nil {
			_, err = other.Exec(t.Context(), backend.Call{SQL: "SELECT 1"})
			other.Release()
		}
		return err
	}, func(err error) bool { return err != nil })
	if _, err := conn.Control(t.Context(), "COMMIT"); err != nil {
		t.Error(err)
	}
	same(t, "the rows", any(int64(1)), value(t, admin, "SELECT count(*) FROM item"))
	run(t, dial(t, db), "SELECT 1")
}
