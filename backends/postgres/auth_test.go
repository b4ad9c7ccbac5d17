package postgres_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/hare-go/hare/backends/postgres"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/servers"
)

// asking is a server that asks every client for the same proof, and keeps what it is sent after that.
type asking struct {
	net.Listener
	asks pgproto3.BackendMessage
	tls  *tls.Config
	sent chan []byte // by each client, until it closed the connection or was let in
}

func newAsking(t *testing.T, asks pgproto3.BackendMessage, config *tls.Config) *asking {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &asking{Listener: listener, asks: asks, tls: config, sent: make(chan []byte, 10)}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go a.serve(conn)
		}
	}()
	return a
}

func (a *asking) serve(conn net.Conn) {
	defer conn.Close()
	server := pgproto3.NewBackend(conn, conn)
	for {
		first, err := server.ReceiveStartupMessage()
		if err != nil {
			return
		}
		if _, ok := first.(*pgproto3.SSLRequest); !ok {
			break
		}
		if a.tls == nil {
			_, _ = conn.Write([]byte("N"))
			continue
		}
		_, _ = conn.Write([]byte("S"))
		conn = tls.Server(conn, a.tls)
		server = pgproto3.NewBackend(conn, conn)
	}
	server.Send(a.asks)
	if server.Flush() != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	first := make([]byte, 1000)
	n, err := conn.Read(first)
	if err == nil && first[0] == 'X' { // goodbye
		n = 0
	}
	a.sent <- first[:n]
}

// told is what a client has sent, or nil when it was none.
func (a *asking) told(t *testing.T) string {
	t.Helper()
	select {
	case sent := <-a.sent:
		return string(sent)
	case <-time.After(10 * time.Second):
		t.Fatal("the client has neither sent anything nor gone")
		return ""
	}
}

// TestClearTextPassword: a password goes to who asks for it as it is only where nobody can listen or stand in for the
// server, or where the URL says so, whichever sslmode fell back to whatever.
// Fault S8.
func TestClearTextPassword(t *testing.T) {
	certificate, file, _ := selfSigned(t, "localhost")
	secured := &tls.Config{Certificates: []tls.Certificate{certificate}}
	for _, c := range []struct {
		name    string
		options []string
		tls     *tls.Config
		local   bool
		sent    bool
	}{
		{name: "no mode, no TLS"},
		{name: "no mode, TLS", tls: secured},
		{name: "prefer, no TLS", options: []string{"sslmode=prefer"}},
		{name: "allow, TLS", options: []string{"sslmode=allow"}, tls: secured},
		{name: "disable", options: []string{"sslmode=disable"}},
		{name: "require", options: []string{"sslmode=require"}, tls: secured},
		{name: "other methods are not allowed", options: []string{"sslmode=require", "require_auth=!md5"}, tls: secured},
		{name: "local", options: []string{"sslmode=disable"}, local: true, sent: true},
		{name: "said so", options: []string{"sslmode=disable", "require_auth=password"}, sent: true},
		{name: "said so among others", options: []string{"sslmode=disable", "require_auth=scram-sha-256,password"}, sent: true},
		{name: "said so, no mode", options: []string{"require_auth=password"}, tls: secured, sent: true},
		{name: "verify-ca", options: []string{"sslmode=verify-ca", "sslrootcert=" + file}, tls: secured, sent: true},
		{name: "verify-full", options: []string{"sslmode=verify-full", "sslrootcert=" + file}, tls: secured, sent: true},
		{name: "require with an authority", options: []string{"sslmode=require", "sslrootcert=" + file}, tls: secured, sent: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.local {
				defer postgres.NothingIsLocal()()
			}
			server := newAsking(t, &pgproto3.AuthenticationCleartextPassword{}, c.tls)
			_, port, _ := net.SplitHostPort(server.Addr().String())
			db := open(t, "postgres://u:sesame@localhost:"+port+"/d", c.options...)
			for _, take := range []func(context.Context) (backend.Conn, error){db.Acquire, db.Dial} {
				_, err := take(t.Context())
				if got := server.told(t); strings.Contains(got, "sesame") != c.sent || !c.sent && got != "" {
					t.Errorf("the server was sent %q", got)
				}
				if c.sent {
					continue
				}
				wantOption(t, err, "sslmode", "clear text", "was not sent", "sslmode=verify-full", "sslrootcert=FILE", "require_auth=password")
				if strings.Contains(err.Error(), "sesame") {
					t.Error("the error quotes the password")
				}
				for len(server.sent) > 0 { // of the way that sslmode fell back to
					same(t, "to the second try", "", server.told(t))
				}
			}
		})
	}
}

// TestClearTextPasswordToSeveralHosts: a host that must not get the password does not stop the others.
// Fault S8.
func TestClearTextPasswordToSeveralHosts(t *testing.T) {
	defer postgres.NothingIsLocal()()
	address := servers.Database(t)
	server := newAsking(t, &pgproto3.AuthenticationCleartextPassword{}, nil)
	_, second, _ := strings.Cut(address, "@")
	first, _, _ := strings.Cut(address, "@")
	conn := acquire(t, open(t, first+"@"+server.Addr().String()+","+second))
	same(t, "answer", any(int64(7)), value(t, conn, "SELECT 7::bigint"))
	same(t, "sent to the first host", "", server.told(t))
}

// TestIsLocal: what counts as this machine.
// Fault S8.
func TestIsLocal(t *testing.T) {
	for _, c := range []struct {
		address net.Addr
		want    bool
	}{
		{&net.UnixAddr{Name: "/run/postgresql/.s.PGSQL.5432", Net: "unix"}, true},
		{&net.TCPAddr{IP: net.ParseIP("127.0.0.1")}, true},
		{&net.TCPAddr{IP: net.ParseIP("127.8.8.8")}, true},
		{&net.TCPAddr{IP: net.ParseIP("::1")}, true},
		{&net.TCPAddr{IP: net.ParseIP("::ffff:127.0.0.1")}, true},
		{&net.TCPAddr{IP: net.ParseIP("10.0.0.1")}, false},
		{&net.TCPAddr{IP: net.ParseIP("0.0.0.0")}, false},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1")}, false},
		{&net.TCPAddr{}, false},
		{nil, false},
	} {
		same(t, "local", c.want, postgres.IsLocal(c.address))
	}
}

// TestRequireAuth: a server that asks for another proof than require_auth and channel_binding allow is sent nothing, and one
// that asks for what they allow is answered.
// Fault S8.
func TestRequireAuth(t *testing.T) {
	asks := map[string]pgproto3.BackendMessage{
		"password":      &pgproto3.AuthenticationCleartextPassword{},
		"md5":           &pgproto3.AuthenticationMD5Password{Salt: [4]byte{1, 2, 3, 4}},
		"scram-sha-256": &pgproto3.AuthenticationSASL{AuthMechanisms: []string{"SCRAM-SHA-256"}},
		"gss":           &pgproto3.AuthenticationGSS{},
		"none":          &pgproto3.AuthenticationOk{},
	}
	for _, c := range []struct{ option, asks, refused string }{
		{"require_auth=scram-sha-256", "scram-sha-256", ""},
		{"require_auth=scram-sha-256", "md5", "require_auth"},
		{"require_auth=scram-sha-256", "password", "require_auth"},
		{"require_auth=scram-sha-256", "gss", "require_auth"},
		{"require_auth=scram-sha-256", "none", "require_auth"},
		{"require_auth=md5,scram-sha-256", "md5", ""},
		{"require_auth=md5,scram-sha-256", "scram-sha-256", ""},
		{"require_auth=md5,scram-sha-256", "password", "require_auth"},
		{"require_auth=!md5,!password", "scram-sha-256", ""},
		{"require_auth=!md5,!password", "md5", "require_auth"},
		{"require_auth=!none", "none", "require_auth"},
		{"require_auth=!none", "md5", ""},
		{"channel_binding=require", "scram-sha-256", "channel_binding"},
		{"channel_binding=require", "md5", "channel_binding"},
		{"channel_binding=require", "password", "channel_binding"},
		{"channel_binding=require", "none", "channel_binding"},
		{"channel_binding=prefer", "scram-sha-256", ""},
		{"channel_binding=disable", "md5", ""},
	} {
		t.Run(c.option+" and "+c.asks, func(t *testing.T) {
			server := newAsking(t, asks[c.asks], nil)
			db := open(t, "postgres://u:sesame@"+server.Addr().String()+"/d?sslmode=disable", c.option)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := db.Acquire(ctx)
			got := server.told(t)
			if c.refused == "" {
				if got == "" {
					t.Errorf("the server was not answered: %v", err)
				}
				return
			}
			same(t, "what was sent", "", got)
			wantOption(t, err, c.refused)
			var wrong *hare.ConfigurationError
			if !errors.As(hare.ErrorFrom("main", "", err), &wrong) || wrong.Option != c.refused || strings.Contains(wrong.Error(), "refuses the login") {
				t.Errorf("want a ConfigurationError of the client's own, got %v", wrong)
			}
		})
	}
}

// TestAuthenticationOptions: what the options take.
// Fault S8.
func TestAuthenticationOptions(t *testing.T) {
	for option, right := range map[string]bool{
		"require_auth=scram-sha-256": true, "require_auth=md5,password,gss,sspi,none,oauth": true, "require_auth=!password,!md5": true,
		"require_auth=": false, "require_auth=plain": false, "require_auth=md5,!password": false, "require_auth=!md5,password": false,
		"require_auth=md5,md5": false, "require_auth=md5,": false, "require_auth=SCRAM-SHA-256": false,
		"channel_binding=disable": true, "channel_binding=prefer": true, "channel_binding=require": true, "channel_binding=yes": false,
		"synchronous_commit=on": true, "synchronous_commit=remote_apply": true, "synchronous_commit=remote_write": true,
		"synchronous_commit=local": true, "synchronous_commit=off": true, "synchronous_commit=true": false,
	} {
		_, err := tryOpen(t, "postgres://u@h/d", option)
		if (err == nil) != right {
			t.Errorf("%s: %v", option, err)
		}
		if !right {
			name, _, _ := strings.Cut(option, "=")
			var wrong *backend.OptionError
			if !errors.As(err, &wrong) || wrong.Option != name {
				t.Errorf("%s: want an OptionError, got %v", option, err)
			}
		}
	}
}

// TestServerThatAsksForThePassword: PostgreSQL itself, with the method "password" in pg_hba.conf, gets it where it may, with
// and without TLS, and channel binding works where it has TLS.
// Fault S8.
func TestServerThatAsksForThePassword(t *testing.T) {
	_, file, key := selfSigned(t, "localhost")
	server, err := servers.Start(t.Context(), servers.Options{Name: "auth", Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	super := server.URL("postgres")
	admin := acquire(t, open(t, super))
	run(t, admin, "CREATE ROLE clear LOGIN PASSWORD 'sesame'")
	hba := value(t, admin, "SELECT current_setting('hba_file')").(string)
	for name, text := range map[string]string{"cert.pem": read(t, file), "key.pem": read(t, key), "hba": "host all clear all password\nhost all all all scram-sha-256\n"} {
		path := strings.Replace(hba, "pg_hba.conf", name, 1)
		if name == "hba" {
			path = hba
		}
		run(t, admin, "COPY (SELECT unnest(string_to_array("+backend.Literal(strings.TrimSpace(text))+", E'\\n'))) TO PROGRAM "+backend.Literal("umask 077; cat > "+path))
		if name != "hba" {
			run(t, admin, "ALTER SYSTEM SET ssl_"+strings.TrimSuffix(name, ".pem")+"_file = "+backend.Literal(path))
		}
	}
	run(t, admin, "ALTER SYSTEM SET ssl = on")
	run(t, admin, "SELECT pg_reload_conf()")
	for value(t, admin, "SELECT current_setting('ssl')") != "on" {
		time.Sleep(10 * time.Millisecond)
	}
	defer postgres.NothingIsLocal()()
	_, port, err := net.SplitHostPort(strings.Split(strings.Split(super, "@")[1], "/")[0])
	if err != nil {
		t.Fatal(err)
	}
	clear, scram := as(t, through(t, super, "localhost:"+port), "clear", "sesame", "postgres"), through(t, super, "localhost:"+port)
	for _, c := range []struct {
		name, address string
		options       []string
		refused       string
	}{
		{"clear text, no TLS", clear, []string{"sslmode=disable"}, "sslmode"},
		{"clear text, prefer", clear, nil, "sslmode"},
		{"clear text, require", clear, []string{"sslmode=require"}, "sslmode"},
		{"clear text, said so", clear, []string{"sslmode=disable", "require_auth=password"}, ""},
		{"clear text, verified", clear, []string{"sslmode=verify-full", "sslrootcert=" + file}, ""},
		{"clear text where scram-sha-256 is required", clear, []string{"sslmode=verify-full", "sslrootcert=" + file, "require_auth=scram-sha-256"}, "require_auth"},
		{"scram-sha-256, no TLS", scram, []string{"sslmode=disable", "require_auth=scram-sha-256"}, ""},
		{"scram-sha-256 where clear text is required", scram, []string{"require_auth=password"}, "require_auth"},
		{"channel binding", scram, []string{"sslmode=require", "channel_binding=require"}, ""},
		{"channel binding without TLS", scram, []string{"sslmode=disable", "channel_binding=require"}, "channel_binding"},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := open(t, c.address, c.options...)
			conn, err := db.Acquire(t.Context())
			if c.refused != "" {
				wantOption(t, err, c.refused)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			encrypted := value(t, conn, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").(bool)
			conn.Release()
			same(t, "encrypted, as the server and as the client say", encrypted, observe(t, db).Transport.Encrypted)
		})
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
