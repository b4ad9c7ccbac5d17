package postgres_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/integration/servers"
)

// TestPoolExhausted: an Acquire waits as long as the option says and no longer, and a dialled connection is no part of it.
func TestPoolExhausted(t *testing.T) {
	db := open(t, servers.Database(t), "max_size=1", "pool_acquire_timeout=2s")
	held := acquire(t, db)
	_, err := db.Acquire(t.Context())
	refused(t, err, backend.Error{Class: backend.ClassPool, NotDone: true})

	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = db.Acquire(ctx)
	refused(t, err, backend.Error{Class: backend.ClassTimeout, NotDone: true})
	same(t, "is a deadline", true, errors.Is(err, context.DeadlineExceeded))

	apart, err := db.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run(t, apart, "SELECT 1")
	apart.Release()
	same(t, "status after Release", backend.StatusClosed, apart.Status())

	held.Release()
	run(t, acquire(t, db), "SELECT 1")
}

// TestRelease: only an idle and whole connection is used again.
func TestRelease(t *testing.T) {
	db := open(t, servers.Database(t), "max_size=1")
	cases := map[string]struct {
		do   func(conn backend.Conn)
		kept bool
	}{
		"idle":           {func(conn backend.Conn) { conn.Release() }, true},
		"released twice": {func(conn backend.Conn) { conn.Release(); conn.Release(); conn.Discard() }, true},
		"after an error": {func(conn backend.Conn) {
			_, err := conn.Exec(t.Context(), backend.Call{SQL: "SELECT 1/0"})
			same(t, "SQLSTATE", "22012", backend.SQLState(err))
			conn.Release()
		}, true},
		"in a transaction": {func(conn backend.Conn) {
			if _, err := conn.Control(t.Context(), "BEGIN"); err != nil {
				t.Fatal(err)
			}
			conn.Release()
		}, false},
		"rows open": {func(conn backend.Conn) {
			if _, err := conn.Query(t.Context(), backend.Call{SQL: "SELECT 1"}); err != nil {
				t.Fatal(err)
			}
			conn.Release()
		}, false},
		"discarded": {func(conn backend.Conn) { conn.Discard(); conn.Release() }, false},
		"discarded with rows open": {func(conn backend.Conn) {
			if _, err := conn.Query(t.Context(), backend.Call{SQL: "SELECT * FROM generate_series(1, 1000000)"}); err != nil {
				t.Fatal(err)
			}
			conn.Discard()
		}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			conn := acquire(t, db)
			before := value(t, conn, "SELECT pg_backend_pid()")
			c.do(conn)
			same(t, "status", backend.StatusClosed, conn.Status())
			_, err := conn.Exec(t.Context(), backend.Call{SQL: "SELECT 1"})
			refused(t, err, backend.Error{Class: backend.ClassConnection, NotDone: true})
			again, err := db.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			after := value(t, again, "SELECT pg_backend_pid()")
			again.Release()
			same(t, "the same connection", c.kept, before == after)
		})
	}
}

// TestStatementsSurviveRelease: the next user of a connection finds the statements that are prepared on it.
func TestStatementsSurviveRelease(t *testing.T) {
	address := servers.Database(t)
	p := newProxy(t, address)
	db := open(t, through(t, address, p.Host()), "max_size=1")
	use := func() {
		conn, err := db.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		same(t, "value", any(int64(1)), value(t, conn, "SELECT $1::bigint", int64(1)))
	}
	use()
	same(t, "round trips", 1, counting(p, use))
}

// TestGivenUpConnection: a connection on which a statement was given up, because the network swallows everything on it,
// does not keep its place in the pool, though pgx takes 15 seconds to give it up.
func TestGivenUpConnection(t *testing.T) {
	t.Parallel()
	address := servers.Database(t)
	p := newProxy(t, address)
	db := open(t, through(t, address, p.Host()), "max_size=1", "pool_acquire_timeout=10s")
	conn := acquire(t, db)
	p.Arm(proxy.Fault{Do: proxy.Swallow})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := conn.Exec(ctx, backend.Call{SQL: "SELECT 1"})
	refused(t, err, backend.Error{Class: backend.ClassTimeout})
	conn.Release()
	start := time.Now()
	again, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run(t, again, "SELECT 1")
	again.Release()
	if took := time.Since(start); took > 12*time.Second {
		t.Errorf("the pool of one had no connection for %s", took)
	}
}

// TestClose: a closed database gives no connections. Those in use go on until they are released, and Close does not wait.
func TestClose(t *testing.T) {
	db := open(t, servers.Database(t), "min_size=1")
	conn := acquire(t, db)
	db.Close()
	db.Close()
	run(t, conn, "SELECT 1")
	_, err := db.Acquire(t.Context())
	refused(t, err, backend.Error{Class: backend.ClassConnection, NotDone: true})
}

// TestOpenDialsNothing: neither Open nor Close needs a server, whatever the pool's size.
func TestOpenDialsNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dialled := make(chan struct{})
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.Close()
			close(dialled)
		}
	}()
	db := open(t, "postgres://"+listener.Addr().String()+"/d", "min_size=4")
	same(t, "features", "postgresql", db.Features().Backend)
	select {
	case <-dialled:
		t.Error("the server was dialled")
	case <-time.After(50 * time.Millisecond):
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSilentServer: a server that accepts and says nothing is a broken connection, not a full pool.
func TestSilentServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	db := open(t, "postgres://"+listener.Addr().String()+"/d", "connect_timeout=50ms")
	for _, take := range []func(context.Context) (backend.Conn, error){db.Acquire, db.Dial} {
		_, err := take(t.Context())
		refused(t, err, backend.Error{Class: backend.ClassConnection, NotDone: true})
	}
}

// TestSeveralHosts: the hosts are tried in order, until one answers and is what is wanted.
func TestSeveralHosts(t *testing.T) {
	address := servers.Database(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal("the server's address is no URL")
	}
	several := "postgres://" + u.User.String() + "@127.0.0.1:1," + u.Host + u.Path
	for _, wanted := range []string{"any", "read-write", "primary", "prefer-standby"} {
		run(t, acquire(t, open(t, several, "target_session_attrs="+wanted)), "SELECT 1")
	}
	for _, wanted := range []string{"read-only", "standby"} {
		_, err := open(t, several, "target_session_attrs="+wanted).Acquire(t.Context())
		refused(t, err, backend.Error{Class: backend.ClassConnection, NotDone: true})
	}
}

// TestOldServer: a server before PostgreSQL 14 is refused when it is dialled, by the client, and the error says so.
// Fault S12.
func TestOldServer(t *testing.T) {
	for version, accepted := range map[string]bool{"9.6.24": false, "13.22 (Debian 13.22-1)": false, "": false, "14.0": true, "19beta1": true} {
		t.Run(version, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			go answerLogins(listener, version)
			db := open(t, "postgres://u@"+listener.Addr().String()+"/d", "sslmode=disable")
			for _, take := range []func(context.Context) (backend.Conn, error){db.Acquire, db.Dial} {
				conn, err := take(t.Context())
				if accepted {
					if err != nil {
						t.Fatal(err)
					}
					conn.Discard()
					continue
				}
				refused(t, err, backend.Error{Class: backend.ClassLogin, NotDone: true})
				wantOption(t, err, "host", "leads to PostgreSQL", "14 or newer")
			}
		})
	}
}

// answerLogins lets every client in as a server of the version.
func answerLogins(listener net.Listener, version string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		server := pgproto3.NewBackend(conn, conn)
		if _, err := server.ReceiveStartupMessage(); err != nil {
			return
		}
		server.Send(&pgproto3.AuthenticationOk{})
		server.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: version})
		server.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{1, 2, 3, 4}})
		server.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		if err := server.Flush(); err != nil {
			return
		}
		go answerQuestions(server)
	}
}

// answerQuestions tells who asks that the server process is the one of the log-in.
func answerQuestions(server *pgproto3.Backend) {
	for {
		question, err := server.Receive()
		if err != nil {
			return
		}
		if _, ok := question.(*pgproto3.Query); !ok {
			continue
		}
		text := func(name string) pgproto3.FieldDescription {
			return pgproto3.FieldDescription{Name: []byte(name), DataTypeOID: 25, DataTypeSize: -1, TypeModifier: -1}
		}
		server.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{text("pid"), text("role"), text("identity")}})
		server.Send(&pgproto3.DataRow{Values: [][]byte{[]byte("1"), []byte("u"), {}}})
		server.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
		server.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		if err := server.Flush(); err != nil {
			return
		}
	}
}
