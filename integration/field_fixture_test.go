package integration

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
)

// What went wrong with two-phase commits elsewhere must not happen here: "Field case 12." in the comment of a test stands
// for a report of one, "W6." for a weakness of the original hare. docs/reliability.md lists both with their tests, and
// internal/rules compares it with the comments.

// trioOf is a trio over the databases given in the order c, a, b.
func trioOf(t *testing.T, urls ...string) *trio {
	t.Helper()
	f := newTrio(t, "")
	for i, alias := range everybody {
		f.urls[alias] = urls[i]
	}
	f.reconnect()
	for _, alias := range everybody {
		if err := hare.CreateTables(f.ctx, f.client(alias), Note{}); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// reconnect opens the connections anew, after a change of the URLs or of what new sessions of the servers begin with.
func (f *trio) reconnect() {
	f.Helper()
	f.conns.Close()
	for _, databaseURL := range f.urls {
		servers.Renew(f, databaseURL)
	}
	f.conns = f.connect(f.urls)
	f.ctx = hare.WithConnections(f.Context(), f.conns)
}

// ownServer starts a server for one test.
func ownServer(t *testing.T, opts servers.Options) *servers.Server {
	t.Helper()
	server, err := servers.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// neighbours are n databases on one server.
func neighbours(t *testing.T, n int) []string {
	t.Helper()
	var urls []string
	for _, u := range servers.Databases(t, 3*n) { // on as many servers in turn as there are
		if len(urls) == 0 || len(urls) < n && host(t, u) == host(t, urls[0]) {
			urls = append(urls, u)
		}
	}
	return urls
}

func host(t *testing.T, databaseURL string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// with is a URL after a change.
func with(t *testing.T, databaseURL string, change func(u *url.URL)) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

// role makes a role on the server of an alias that may write notes there and no more, and returns its name and the URL
// for it. settings are its defaults, as in "search_path = x".
func (f *trio) role(alias string, settings ...string) (name, roleURL string) {
	f.Helper()
	name, password := "hare_role_"+strings.ToLower(rand.Text()), rand.Text()
	f.exec(alias, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", name, password))
	f.exec(alias, "GRANT SELECT, INSERT, UPDATE, DELETE ON note TO "+name)
	for _, setting := range settings {
		f.exec(alias, fmt.Sprintf("ALTER ROLE %s SET %s", name, setting))
	}
	owner := f.urls[alias]
	f.Cleanup(func() {
		// Whatever the test has made of its connections: one of its own.
		f.asOwner(owner, "", "REASSIGN OWNED BY "+name+" TO CURRENT_USER", "DROP OWNED BY "+name, "DROP ROLE "+name)
	})
	return name, with(f.T, owner, func(u *url.URL) { u.User = url.UserPassword(name, password) })
}

// asOwner runs statements on a connection of its own, in the database of the URL, or in another one of its server.
func (f *trio) asOwner(databaseURL, database string, statements ...string) {
	f.Helper()
	if database != "" {
		databaseURL = with(f.T, databaseURL, func(u *url.URL) { u.Path = "/" + database })
	}
	ctx := context.Background()
	conns, err := hare.Open(ctx, hare.Config{Default: "owner", Connections: map[string]string{"owner": databaseURL}})
	if err != nil {
		f.Fatal(err)
	}
	defer conns.Close()
	client, err := conns.Client("owner")
	if err != nil {
		f.Fatal(err)
	}
	for _, statement := range statements {
		if _, err := client.Exec(ctx, statement); err != nil {
			f.Errorf("%s: %v", statement, err)
		}
	}
}

// atCommit makes PREPARE TRANSACTION, or COMMIT, of a transaction that writes a note run a piece of PL/pgSQL.
func (f *trio) atCommit(alias, code string) {
	f.Helper()
	f.exec(alias, "CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "+code+" RETURN NULL; END $$")
	f.exec(alias, "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON note DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION at_commit()")
}

// atDecision makes COMMIT on the coordinator run a piece of PL/pgSQL, behind the decision: the trigger that the deferred
// constraints' turn fires before it defers them again, and has one more fire.
func (f *trio) atDecision(code string) {
	f.Helper()
	f.exec(coordinator, "CREATE TABLE at_decision (n int)")
	f.exec(coordinator, "CREATE FUNCTION at_decision() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "+code+" RETURN NULL; END $$")
	f.exec(coordinator, "CREATE CONSTRAINT TRIGGER at_decision AFTER INSERT ON at_decision DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION at_decision()")
	f.atCommit(coordinator, "SET CONSTRAINTS ALL DEFERRED; INSERT INTO at_decision VALUES (1);")
}

// clear makes the databases as they were: no notes, nothing at commit, no faults.
func (f *trio) clear() {
	f.Helper()
	f.plan.Set(nil, nil)
	for _, alias := range everybody {
		f.exec(alias, "SET LOCAL lock_timeout = '3s'; DROP FUNCTION IF EXISTS at_commit CASCADE; DELETE FROM note")
	}
}

// wantNothingLeft is what every abort must come to: no note, nothing prepared, no decision.
func (f *trio) wantNothingLeft() {
	f.Helper()
	f.wantCounts(0, 0, 0)
	f.wantNothingPrepared()
	if f.text("c", "SELECT to_regclass('public.hare_distributed_decisions')::text IS NOT NULL || ''") != "true" {
		return
	}
	// The decision of an earlier call is taken away in the background.
	deadline := time.Now().Add(5 * time.Second)
	for n := f.decisions("outcome = 'commit'"); n > 0; n = f.decisions("outcome = 'commit'") {
		if time.Now().After(deadline) {
			f.Errorf("%d decisions are left", n)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// wantQuick fails the test when more time has passed than a bound allows.
func wantQuick(t *testing.T, start time.Time, bound time.Duration) {
	t.Helper()
	if took := time.Since(start); took > bound {
		t.Errorf("it took %s, want less than %s", took, bound)
	}
}
