package servers

import (
	"context"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pooled opens a connection through a pooler that keeps no prepared statements.
func pooled(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// serverProcess is the number of the server process that runs the connection's next statement.
func serverProcess(t *testing.T, conn *pgx.Conn) (pid uint32) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

// TestPoolerModes: with a transaction open elsewhere on the process that a client used last, the client gets another one
// in transaction mode, and keeps its own in session mode. No client is told the number of a real process.
func TestPoolerModes(t *testing.T) {
	database := Database(t)
	for mode, moves := range map[string]bool{TransactionMode: true, SessionMode: false} {
		t.Run(mode, func(t *testing.T) {
			p := PoolerFor(t, PoolerOptions{URL: database, Mode: mode})
			a, b := pooled(t, p.URL(database)), pooled(t, p.URL(database))
			if a.PgConn().PID() == serverProcess(t, a) {
				t.Error("the connection goes past the pooler")
			}
			var name string
			if err := a.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
				t.Fatal(err)
			}
			if u, err := url.Parse(database); err != nil || "/"+name != u.Path {
				t.Errorf("the pooler leads to %s: %v", name, err)
			}
			moved := false
			for range 3 {
				before := serverProcess(t, a)
				if _, err := b.Exec(t.Context(), "BEGIN"); err != nil {
					t.Fatal(err)
				}
				moved = moved || before != serverProcess(t, a) || before == serverProcess(t, b)
				if _, err := b.Exec(t.Context(), "ROLLBACK"); err != nil {
					t.Fatal(err)
				}
			}
			if moved != moves {
				t.Errorf("the client's process changed: %t, want %t", moved, moves)
			}
		})
	}
}

func TestPoolerAndStartupParameters(t *testing.T) {
	database := Database(t)
	address := "&statement_timeout=4321"
	strict := PoolerFor(t, PoolerOptions{URL: database})
	_, err := pgx.Connect(t.Context(), strict.URL(database)+address)
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "08P01" {
		t.Errorf("a parameter that is not ignored: %v", err)
	}
	lenient := PoolerFor(t, PoolerOptions{URL: database, IgnoreStartup: true})
	if got := read(t, lenient.URL(database)+address, "SHOW statement_timeout"); got != "0" {
		t.Errorf("a parameter that is ignored has the effect %s", got)
	}
}

func TestPoolerLivesThroughEverything(t *testing.T) {
	ctx := t.Context()
	database := Database(t)
	p := PoolerFor(t, PoolerOptions{URL: database, PoolSize: 1})
	before := serverProcess(t, pooled(t, p.URL(database)))
	if again := serverProcess(t, pooled(t, p.URL(database))); again != before {
		t.Errorf("a pool of one has the processes %d and %d", before, again)
	}
	if err := p.Command(ctx, "RECONNECT"); err != nil {
		t.Fatal(err)
	}
	if after := serverProcess(t, pooled(t, p.URL(database))); after == before {
		t.Error("RECONNECT has changed nothing")
	}

	conn := pooled(t, p.URL(database))
	if err := p.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, "SELECT 1")
		answer <- err
	}()
	if err := p.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; err != nil {
		t.Errorf("the connection did not live through the pause: %v", err)
	}
	if err := p.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, "SELECT 1"); err == nil {
		t.Error("the connection has outlived the pooler")
	}
	if err := execSQL(ctx, p.URL(database), "SELECT 1"); err == nil {
		t.Error("a killed pooler answers")
	}
	if err := p.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if err := execSQL(ctx, p.URL(database), "SELECT 1"); err != nil {
		t.Errorf("restarted: %v", err)
	}
}

// TestPoolerLeadsElsewhere: a client's next transaction is on the other server, and in the other database, without its
// connection having ended; one that is open ends where it began.
func TestPoolerLeadsElsewhere(t *testing.T) {
	ctx := t.Context()
	home := Database(t)
	away, err := start(t, Options{Name: "other", Volatile: true}).CreateDatabase(ctx, "elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	p := PoolerFor(t, PoolerOptions{URL: home, PoolSize: 2})
	idle, busy := pooled(t, p.URL(home)), pooled(t, p.URL(home))
	const where = "SELECT current_database() || ' ' || (SELECT system_identifier FROM pg_control_system())"
	at := func(conn *pgx.Conn) (is string) {
		t.Helper()
		if err := conn.QueryRow(ctx, where).Scan(&is); err != nil {
			t.Fatal(err)
		}
		return is
	}
	if _, err := busy.Exec(ctx, "BEGIN"); err != nil {
		t.Fatal(err)
	}
	atHome, elsewhere := at(busy), read(t, away, where)
	name, _, _ := strings.Cut(atHome, " ")
	if err := p.Lead(ctx, name, away); err != nil {
		t.Fatal(err)
	}
	if got := at(idle); got != elsewhere {
		t.Errorf("the idle client is at %s", got)
	}
	if got := at(busy); got != atHome {
		t.Errorf("the client in a transaction is at %s", got)
	}
	if _, err := busy.Exec(ctx, "COMMIT"); err != nil || at(busy) != elsewhere {
		t.Errorf("after its transaction the client is still there: %v", err)
	}
	if err := p.Lead(ctx, name, home); err != nil {
		t.Fatal(err)
	}
	if at(idle) != atHome || at(busy) != atHome {
		t.Error("the clients were not led back")
	}
}

func TestPoolerThatCannotStartSaysWhy(t *testing.T) {
	_, err := StartPooler(t.Context(), PoolerOptions{URL: Database(t), Mode: "no_such_mode"})
	if err == nil {
		t.Fatal("it started")
	}
	if got := err.Error(); !strings.Contains(got, "pool_mode") {
		t.Errorf("the error does not hold the pooler's log: %s", got)
	}
}

func TestPoolerCloseLeavesNothing(t *testing.T) {
	database := Database(t)
	p, err := StartPooler(t.Context(), PoolerOptions{URL: database})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Pause(t.Context()), p.Close(), p.Close()); err != nil {
		t.Fatal(err)
	}
	if err := execSQL(t.Context(), p.URL(database), "SELECT 1"); err == nil {
		t.Error("the pooler still answers")
	}
	if _, err := os.Stat(p.directory); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
	if alive(p.pid) {
		t.Error("the process is left")
	}
}

// TestDatabasesThroughPoolers: the environment puts a pooler before the shared servers, and what lies behind is still
// found, and dropped at the end.
func TestDatabasesThroughPoolers(t *testing.T) {
	t.Setenv(poolerVariable, TransactionMode)
	var direct string
	t.Run("use", func(t *testing.T) {
		database := Database(t)
		if direct = Direct(database); direct == database || Direct(direct) != direct {
			t.Fatal("the database is not behind a pooler")
		}
		conn := pooled(t, database)
		if conn.PgConn().PID() == serverProcess(t, conn) {
			t.Error("the connection goes past the pooler")
		}
		conn = pooled(t, direct)
		if conn.PgConn().PID() != serverProcess(t, conn) {
			t.Error("the direct address leads through a pooler")
		}
	})
	var refused *pgconn.PgError
	if err := execSQL(t.Context(), direct, "SELECT 1"); !errors.As(err, &refused) || refused.Code != "3D000" {
		t.Errorf("the database is still there: %v", err)
	}
	t.Setenv(poolerVariable, "both")
	if _, err := through(t.Context(), "", direct); err == nil {
		t.Error("an unknown mode is accepted")
	}
}
