package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// poolerVariable puts a pooler between the tests and each shared server: HARE_TEST_POOLER=transaction or session. The URLs
// of [Database] and [Databases] then lead through it, and [Direct] past it.
const poolerVariable = "HARE_TEST_POOLER"

// through is a database's address through the shared pooler in front of its server, started if need be, or the address
// itself where tests want no pooler.
func through(ctx context.Context, server, database string) (string, error) {
	mode := os.Getenv(poolerVariable)
	if mode == "" {
		return database, nil
	}
	if mode != TransactionMode && mode != SessionMode {
		return "", fmt.Errorf("%s is neither %s nor %s", poolerVariable, TransactionMode, SessionMode)
	}
	shared.Lock()
	defer shared.Unlock()
	p := shared.poolers[server]
	if p == nil {
		if !shared.main {
			return "", errNoMain
		}
		var err error
		p, err = StartPooler(context.WithoutCancel(ctx), PoolerOptions{URL: server, OwnRoles: true, Mode: mode, PoolSize: 20})
		if err != nil {
			return "", err
		}
		if shared.poolers == nil {
			shared.poolers = map[string]*Pooler{}
		}
		shared.poolers[server] = p
	}
	return p.URL(database), nil
}

// Through is the way to a database of a server of the test's own: through a pooler where HARE_TEST_POOLER says so.
func Through(tb testing.TB, server *Server, database string) string {
	tb.Helper()
	address, err := through(tb.Context(), server.URL("postgres"), database)
	if err != nil {
		tb.Fatal(err)
	}
	return address
}

// Renew has the pooler that HARE_TEST_POOLER has put before a database open new sessions there, so that what new sessions
// begin with is in force: the defaults of roles and databases.
func Renew(tb testing.TB, database string) {
	tb.Helper()
	u, err := url.Parse(database)
	if err != nil {
		tb.Fatal("the database's address is no URL") // which may hold a password
	}
	shared.Lock()
	var pooler *Pooler
	for _, p := range shared.poolers {
		if p.Host() == u.Host {
			pooler = p
		}
	}
	shared.Unlock()
	if pooler == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), time.Minute) // a cleanup may want it, too
	defer cancel()
	if err := pooler.Command(ctx, "RECONNECT "+strings.TrimPrefix(u.Path, "/")); err != nil {
		tb.Fatal(err)
	}
}

// Pooled reports whether the addresses of tests lead through a pooler.
func Pooled() bool { return os.Getenv(poolerVariable) != "" }

// direct are the addresses of servers by those of the poolers in front, host:port.
var direct sync.Map

// Direct is the address of a test's database past the pooler that a test or HARE_TEST_POOLER has put there, for what a test
// asks the server itself; the address as it is where there is none.
func Direct(database string) string {
	u, err := url.Parse(database)
	if err != nil {
		return database
	}
	if server, ok := direct.Load(u.Host); ok {
		u.Host = server.(string)
	}
	return u.String()
}

// errNoMain says that nothing would close what a test wants started.
var errNoMain = errors.New("nobody would close the server: the package lacks" +
	" func TestMain(m *testing.M) { servers.Main(m) }")
