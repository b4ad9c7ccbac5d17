package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/integration/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// fixture is a table in a database behind a proxy.
type fixture struct {
	*testing.T
	*proxy.Proxy
	direct *pgx.Conn
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	database := servers.Database(t)
	p, err := proxy.Start(database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	f := &fixture{T: t, Proxy: p, direct: connect(t, database)}
	if _, err := f.direct.Exec(t.Context(), "CREATE TABLE note (text text)"); err != nil {
		t.Fatal(err)
	}
	return f
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// notes is how many notes there are, by a connection that does not go through the proxy.
func (f *fixture) notes() int {
	f.Helper()
	var n int
	if err := f.direct.QueryRow(f.Context(), "SELECT count(*) FROM note").Scan(&n); err != nil {
		f.Fatal(err)
	}
	return n
}

// wait waits for the number of notes to be n.
func (f *fixture) wait(n int) {
	f.Helper()
	f.poll(fmt.Sprint(n, " notes"), func() bool { return f.notes() == n })
}

const insert = "INSERT INTO note VALUES ($1)"

// protocols are the ways in which pgx sends a statement.
var protocols = map[string]pgx.QueryExecMode{"simple": pgx.QueryExecModeSimpleProtocol, "extended": pgx.QueryExecModeExec}

// A message that is struck on its way never comes, or comes late; one whose answer is struck has come. The client sees a
// broken connection, or nothing for as long as it waits.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		fault   proxy.Fault
		silent  bool // the client waits in vain
		written int
	}{
		{"cut", proxy.Fault{Do: proxy.Cut}, false, 0},
		{"answer cut", proxy.Fault{Do: proxy.Cut, Answer: true}, false, 1},
		{"swallowed", proxy.Fault{Do: proxy.Swallow}, true, 0},
		{"answer swallowed", proxy.Fault{Do: proxy.Swallow, Answer: true}, true, 1},
		{"delayed", proxy.Fault{Do: proxy.Delay, Delay: 5 * time.Second}, true, 1},
		{"answer delayed", proxy.Fault{Do: proxy.Delay, Delay: 5 * time.Second, Answer: true}, true, 1},
	} {
		for protocol, mode := range protocols {
			t.Run(test.name+", "+protocol, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				conn := connect(t, f.URL())
				fault := test.fault
				fault.Statement, fault.Skip = "INTO note", 1
				armed := f.Arm(fault)
				if _, err := conn.Exec(t.Context(), insert, mode, "passes"); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				if test.silent {
					ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second) // long enough to send it
				}
				defer cancel()
				_, err := conn.Exec(ctx, insert, mode, "struck")
				if err == nil || errors.Is(err, context.DeadlineExceeded) != test.silent {
					t.Errorf("the client got %v", err)
				}
				<-armed.Struck()
				if fault.Do == proxy.Delay {
					<-armed.Passed()
				}
				f.wait(1 + test.written)
				if _, err := connect(t, f.URL()).Exec(t.Context(), insert, mode, "passes"); err != nil {
					t.Errorf("another connection: %v", err)
				}
				f.wait(2 + test.written)
			})
		}
	}
}

// What is held passes when it is released, and never when the proxy is closed first.
func TestHold(t *testing.T) {
	t.Parallel()
	for _, release := range []bool{true, false} {
		t.Run(fmt.Sprint("release ", release), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			conn := connect(t, f.URL())
			armed := f.Arm(proxy.Fault{Statement: "INTO note", Do: proxy.Hold})
			done := make(chan error)
			go func() {
				_, err := conn.Exec(t.Context(), insert, pgx.QueryExecModeExec, "held")
				done <- err
			}()
			<-armed.Struck()
			if n := f.notes(); n != 0 {
				t.Errorf("%d notes came through", n)
			}
			if release {
				armed.Release()
				<-armed.Passed()
			} else {
				f.Close()
			}
			if err := <-done; (err == nil) != release {
				t.Errorf("the client got %v", err)
			}
			want := 0
			if release {
				want = 1
			}
			f.wait(want)
		})
	}
}

// A black hole answers nobody, nor does a client's end reach the server through it; connections made after its end work.
func TestNetwork(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	conn, quits := connect(t, f.URL()), connect(t, f.URL())
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // long enough to send it
		t.Cleanup(cancel)
		return ctx
	}
	f.Swallow()
	if _, err := conn.Exec(short(), "SELECT 1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("through the hole: %v", err)
	}
	if _, err := pgx.Connect(short(), f.URL()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("connecting through the hole: %v", err)
	}
	clients := f.Clients()
	_ = quits.Close(short())
	f.poll("the client's end", func() bool { return f.Clients() < clients })
	if n := f.sessions(); n != 2 {
		t.Errorf("the server has %d sessions, want those two that it has not heard of", n)
	}
	f.Refuse()
	if _, err := pgx.Connect(t.Context(), f.URL()); err == nil {
		t.Error("a refused connection was made")
	}
	f.poll("the end of the sessions", func() bool { return f.sessions() == 0 })
	f.Heal()
	conn = connect(t, f.URL())
	before := f.RoundTrips()
	if _, err := conn.Exec(t.Context(), "SELECT 1; SELECT 2"); err != nil || f.RoundTrips() != before+1 {
		t.Errorf("%d round trips for one message, want 1; %v", f.RoundTrips()-before, err)
	}
	if n := f.Clients(); n != 1 {
		t.Errorf("%d clients, want 1", n)
	}
	f.Cut()
	if _, err := conn.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("a connection that was cut works")
	}
}

// sessions is how many the server has in the database, but for the direct one.
func (f *fixture) sessions() (n int) {
	f.Helper()
	const others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
	if err := f.direct.QueryRow(f.Context(), others).Scan(&n); err != nil {
		f.Fatal(err)
	}
	return n
}

// poll waits until something holds.
func (f *fixture) poll(what string, holds func() bool) {
	f.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.Fatalf("%s does not come", what)
		}
	}
}

// A server that gets a spoiled statement does not know it, and the connection goes on.
func TestSpoil(t *testing.T) {
	t.Parallel()
	for name, mode := range protocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			conn := connect(t, f.URL())
			f.Arm(proxy.Fault{Statement: "INSERT", Do: proxy.Spoil})
			_, err := conn.Exec(t.Context(), insert, mode, "a")
			if refused := new(pgconn.PgError); !errors.As(err, &refused) || refused.Code != "42601" {
				t.Errorf("got %v, want a syntax error", err)
			}
			if _, err := conn.Exec(t.Context(), insert, mode, "b"); err != nil {
				t.Error(err)
			}
			f.wait(1)
		})
	}
}
