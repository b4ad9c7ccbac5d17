package integration

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/transactions"
)

// stranger makes a role without any right but to connect, and returns its name and the URL for it, past any pooler.
func (f *trio) stranger(alias string, options ...string) (name, roleURL string) {
	f.Helper()
	name, roleURL = f.role(alias)
	f.exec(alias, "REVOKE ALL ON note FROM "+name)
	for _, option := range options {
		f.exec(alias, "ALTER ROLE "+name+" "+option)
	}
	return name, servers.Direct(roleURL)
}

// session is a session with a name, after statements.
func session(t *testing.T, databaseURL, name string, statements ...string) *pgx.Conn {
	t.Helper()
	conn := pgxConnect(t, with(t, databaseURL, func(u *url.URL) {
		query := u.Query()
		query.Set("application_name", name)
		u.RawQuery = query.Encode()
	}))
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%v: %s", err, sql)
		}
	}
	return conn
}

const recoverersLock = "7521418632404034915"

// Whoever takes the recoverers' lock and is no recoverer stops nobody: recovery goes on, and the log says once who it is.
//
// Fault S4.
func TestStrangersStopNoRecoverer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		name       string
		owner      bool // it is no stranger's session
		statements []string
		prepared   bool
	}{
		"a session's lock":         {name: "psql", statements: []string{"SELECT pg_advisory_lock(" + recoverersLock + ")"}},
		"a shared lock":            {name: "psql", statements: []string{"SELECT pg_advisory_lock_shared(" + recoverersLock + ")"}},
		"a transaction's lock":     {name: "psql", statements: []string{"BEGIN", "SELECT pg_advisory_xact_lock(" + recoverersLock + ")"}},
		"under a recoverer's name": {name: "hare_recoverer", statements: []string{"BEGIN", "SELECT pg_advisory_xact_lock(" + recoverersLock + ")"}},
		"by hand":                  {name: "psql", owner: true, statements: []string{"SELECT pg_advisory_lock(" + recoverersLock + ")"}},
		"a prepared transaction": {name: "psql", prepared: true,
			statements: []string{"BEGIN", "SELECT pg_advisory_xact_lock(" + recoverersLock + ")", "PREPARE TRANSACTION 'holds the lock'"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			f.crash(isCommitPrepared)
			role, roleURL := f.stranger("c")
			if test.owner {
				roleURL = servers.Direct(f.urls["c"])
			}
			conn := session(t, roleURL, test.name, test.statements...)
			want := []string{fmt.Sprintf("server process %d", conn.PgConn().PID()), "(" + test.name + ")"}
			switch {
			case test.prepared:
				want = []string{"a prepared transaction"}
				defer f.exec("c", "ROLLBACK PREPARED 'holds the lock'")
			case !test.owner:
				want = append(want, role)
			}
			var log lines
			stop := f.recoverer(transactions.Interval(20*time.Millisecond), transactions.RecoverLogger(slog.New(slog.NewTextHandler(&log, nil))))
			f.eventually("all is finished", func() bool { return f.nothingPrepared() && f.decisions("resolved_at IS NULL") == 0 })
			passes := f.passes()
			f.eventually("more passes", func() bool { return f.passes() > passes+5 })
			stop()
			for _, part := range want {
				if n := log.count(part); n != 1 {
					t.Errorf("%q is %d times in the log, want once:\n%s", part, n, &log)
				}
			}
			f.wantCounts(1, 1, 1)
		})
	}
}

// A recoverer that has no more than the rights that the documentation asks for is recognised by the others.
//
// Fault S4.
func TestRecoverersOfLesserRolesTakeTurns(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	if err := f.distributed(writeAll); err != nil {
		t.Fatal(err)
	}
	f.tidied()
	for name, grant := range map[string]func(role string){
		"itself":      func(role string) { f.grant(role) },
		"as a member": func(role string) { f.grant(f.memberOf(role)) },
	} {
		role, roleURL := f.stranger("c")
		grant(role)
		conn := session(t, roleURL, "hare_recoverer", "BEGIN", "SELECT pg_advisory_xact_lock("+recoverersLock+")")
		f.plan.Reset()
		var log lines
		stop := f.recoverer(transactions.Interval(20*time.Millisecond), transactions.RecoverLogger(slog.New(slog.NewTextHandler(&log, nil))))
		f.eventually("ten passes", func() bool { return f.passes() > 10 })
		stop()
		for _, e := range f.plan.Events() {
			if strings.Contains(e.SQL, "pg_prepared_xacts") {
				t.Errorf("%s: a second recoverer was at work: %+v", name, e)
				break
			}
		}
		if log.String() != "" {
			t.Errorf("%s: the log:\n%s", name, &log)
		}
		_ = conn.Close(t.Context())
	}
}

// grant gives a role what docs/distributed.md says that a coordinator's role needs.
func (f *trio) grant(role string) {
	f.Helper()
	f.exec("c", "GRANT SELECT, INSERT, UPDATE, DELETE ON public.hare_distributed_decisions TO "+role)
	f.exec("c", "GRANT SELECT ON public.hare_distributed_coordinator TO "+role)
}

// memberOf makes a role that a login role is a member of, and has to become with SET ROLE.
func (f *trio) memberOf(login string) (group string) {
	f.Helper()
	group = login + "_group"
	f.exec("c", "CREATE ROLE "+group)
	f.exec("c", "ALTER ROLE "+login+" NOINHERIT")
	f.exec("c", "GRANT "+group+" TO "+login)
	owner := f.urls["c"]
	f.Cleanup(func() { f.asOwner(owner, "", "DROP OWNED BY "+group, "DROP ROLE "+group) })
	return group
}

// A session counts as that of a call at work by its name, a role that may write decisions, and an open transaction, and not by
// one or two of them: what a crash left is finished as if nobody pretended to be its call.
//
// Fault S5.
func TestStrangersAreNoLiveCalls(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		role   string // "stranger", "owner", "granted", "member"
		inside bool   // in a transaction
		named  bool
		live   bool
	}{
		"an idle stranger":                {"stranger", false, true, false},
		"a stranger in a transaction":     {"stranger", true, true, false},
		"the owner, idle":                 {"owner", false, true, false},
		"the owner, under another name":   {"owner", true, false, false},
		"the owner in a transaction":      {"owner", true, true, true},
		"a lesser role in a transaction":  {"granted", true, true, true},
		"by a membership without INHERIT": {"member", true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			f.crash(isDecision)
			gid := f.prepared("b")[0]
			call := "hare_dtx:" + strings.TrimSuffix(gid[strings.LastIndex(gid[:len(gid)-2], ":")+1:], ":b")
			if !test.named {
				call = "mine"
			}
			role, roleURL := f.stranger("c")
			switch test.role {
			case "owner":
				roleURL = servers.Direct(f.urls["c"])
			case "granted":
				f.grant(role)
			case "member":
				f.grant(f.memberOf(role))
			}
			var statements []string
			if test.inside {
				statements = []string{"BEGIN", "SELECT 1"}
			}
			session(t, roleURL, call, statements...)
			report, err := transactions.Recover(f.ctx, coordinator, transactions.OlderThan(0), unheard)
			if err != nil || len(report.Entries) != 2 {
				t.Fatalf("%+v, %v", report, err)
			}
			for _, e := range report.Entries {
				if e.Live != test.live {
					t.Errorf("live is %t, want %t: %+v", e.Live, test.live, e)
				}
			}
			stop := f.recoverer(transactions.Interval(20 * time.Millisecond)) // which leaves live calls alone for five minutes
			defer stop()
			if test.live {
				time.Sleep(3 * time.Second) // longer than its grace
				if f.nothingPrepared() {
					t.Error("a call at work was rolled back")
				}
				return
			}
			f.eventually("it is rolled back", f.nothingPrepared)
		})
	}
}
