package integration

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/internal/doctor"
	"github.com/hare-go/hare/query"
	"github.com/hare-go/hare/transactions"
)

// cluster is a participant's database with everything that may lead to it: the kinds are the keys of ways.
type cluster struct {
	*testing.T
	coordinator string            // the URL of a database on another server
	ways        map[string]string // URLs by kind
	id          string            // of the coordinator's database
}

// mayFinish are the kinds that can finish what the owner has prepared, and that show what is prepared.
var (
	mayFinish = []string{"primary", "another host name", "through a pooler"}
	shows     = append([]string{"a lesser role"}, mayFinish...)
)

func newCluster(t *testing.T) *cluster {
	t.Helper()
	server := ownServer(t, servers.Options{Volatile: true})
	primary := servers.Direct(database(t, server, "x"))
	c := &cluster{T: t, coordinator: servers.Direct(servers.Databases(t, 1)[0])}
	pooler := servers.PoolerFor(t, servers.PoolerOptions{URL: primary})
	execAll(t, primary, "CREATE ROLE lesser LOGIN PASSWORD 'lesser'", "GRANT CONNECT ON DATABASE x TO lesser")
	standby := ownServer(t, servers.Options{Volatile: true, StandbyOf: server})
	c.ways = map[string]string{
		"primary":           primary,
		"standby":           standby.URL("x"),
		"a lesser role":     with(t, primary, func(u *url.URL) { u.User = url.UserPassword("lesser", "lesser") }),
		"another host name": with(t, primary, func(u *url.URL) { u.Host = "localhost:" + u.Port() }),
		"through a pooler":  pooler.URL(primary),
	}
	f := c.over([]string{"primary"})
	for _, alias := range []string{coordinator, "p0"} {
		if err := hare.CreateTables(f.ctx, f.client(alias), Note{}); err != nil {
			t.Fatal(err)
		}
	}
	err := transactions.Distributed(f.ctx, coordinator, []string{"p0"}, func(d *hare.Distributed) error { return write(d, "first", "p0") })
	if err != nil {
		t.Fatal(err)
	}
	c.id = f.text("c", "SELECT id FROM public.hare_distributed_coordinator")
	f.tidied()
	return c
}

// over are connections to the coordinator and to the cluster by kinds, whose names are in the order of kinds.
func (c *cluster) over(kinds []string) *trio {
	c.Helper()
	f := &trio{T: c.T, urls: map[string]string{coordinator: c.coordinator}, plan: &faults.Plan{}}
	for i, kind := range kinds {
		f.urls[fmt.Sprint("p", i)] = c.ways[kind]
	}
	f.conns = f.connect(f.urls)
	f.ctx = hare.WithConnections(c.Context(), f.conns)
	return f
}

// leave leaves what a crash does: one transaction that is decided and one that is not, each prepared under an alias. The first
// has a note.
func (c *cluster) leave(alias string) (note string) {
	c.Helper()
	conn, decisions := pgxConnect(c.T, c.ways["primary"]), pgxConnect(c.T, c.coordinator)
	defer conn.Close(c.Context())
	defer decisions.Close(c.Context())
	var names [2]string
	for i := range names {
		var unique [16]byte
		_, _ = rand.Read(unique[:])
		names[i] = "hare_dtx_c:" + c.id + ":" + hex.EncodeToString(unique[:])
	}
	const itself = "SELECT jsonb_build_array(jsonb_build_object('alias', $1::text, 'gid', $2::text, 'system', c.system_identifier::text, 'oid', d.oid::text, 'database', d.datname," +
		" 'xact', pg_current_xact_id()::text)) FROM pg_control_system() c, pg_database d WHERE d.datname = current_database()"
	note = names[0]
	for _, xid := range names {
		tx, err := conn.Begin(c.Context())
		if err != nil {
			c.Fatal(err)
		}
		var row string
		if _, err = tx.Exec(c.Context(), "INSERT INTO note (text) VALUES ($1)", xid); err == nil {
			err = tx.QueryRow(c.Context(), itself, alias, xid+":"+alias).Scan(&row)
		}
		if err == nil {
			_, err = tx.Exec(c.Context(), "PREPARE TRANSACTION '"+xid+":"+alias+"'")
		}
		if err == nil && xid == note {
			_, err = decisions.Exec(c.Context(), "INSERT INTO public.hare_distributed_decisions (xid, coordinator_alias, participant_aliases, outcome, participants) VALUES ($1, 'c', $2, 'commit', $3)", xid, alias, row)
		}
		if err != nil {
			c.Fatal(err)
		}
	}
	return note
}

// clear finishes by hand what a case could not.
func (c *cluster) clear() {
	c.Helper()
	conn := pgxConnect(c.T, c.ways["primary"])
	defer conn.Close(c.Context())
	rows, err := conn.Query(c.Context(), "SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts WHERE database = current_database()")
	if err != nil {
		c.Fatal(err)
	}
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		c.Fatal(err)
	}
	execAll(c.T, c.ways["primary"], statements...)
	execAll(c.T, c.coordinator, "DELETE FROM public.hare_distributed_decisions")
}

// has reports whether any of kinds is among others.
func has(kinds []string, others []string) bool {
	return slices.ContainsFunc(kinds, func(kind string) bool { return slices.Contains(others, kind) })
}

// orders are all ways to choose up to n of kinds, in every order.
func orders(kinds []string, n int) (list [][]string) {
	for i, kind := range kinds {
		list = append(list, []string{kind})
		if n > 1 {
			rest := slices.Concat(kinds[:i], kinds[i+1:])
			for _, more := range orders(rest, n-1) {
				list = append(list, append([]string{kind}, more...))
			}
		}
	}
	return list
}

// Whatever leads to a participant's database, and in whatever order the names are: recovery sees what the primary holds, and
// finishes it over whichever alias can. Where no alias leads to the primary, or none of a role that may finish, that is what it
// says, and never that nothing is waiting.
//
// Fault D3. Fault D4.
func TestRecoveryOverEveryAliasOfOneDatabase(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	kinds := []string{"primary", "standby", "a lesser role", "another host name", "through a pooler"}
	cases := orders(kinds, 3)
	for i := range kinds {
		all := slices.Concat(kinds[i:], kinds[:i])
		cases = append(cases, all)
		all = slices.Clone(all)
		slices.Reverse(all)
		cases = append(cases, all)
	}
	for i, kinds := range cases {
		name := strings.Join(kinds, ", ")
		f := c.over(kinds)
		if report := f.recover(); report.Clean() != (has(kinds, shows) || !has(kinds, []string{"standby"})) || len(report.Entries) != 0 {
			t.Errorf("%s: nothing is left, and the report is %+v", name, report)
		}
		alias := "gone" // an alias of former days
		if i%2 == 0 {
			alias = fmt.Sprint("p", len(kinds)-1)
		}
		note := c.leave(alias)
		report := f.recover()
		if report.Clean() {
			t.Errorf("%s: two are left, and the report says that nothing is waiting: %+v", name, report)
		}
		if n := len(report.Entries); has(kinds, shows) && n != 2 {
			t.Errorf("%s: %d entries, want two: %+v", name, n, report)
		}
		report = f.recover(transactions.Finish())
		finished, notes := len(c.left()) == 0, c.notes(note)
		if want := has(kinds, mayFinish); finished != want || report.Clean() != want || want && notes != 1 {
			t.Errorf("%s: finished %t, clean %t, want both to be %t; %d notes; the report is %+v", name, finished, report.Clean(), want, notes, report)
		}
		for _, e := range report.Entries {
			if has(kinds, mayFinish) && e.Err != nil || !has(kinds, mayFinish) && e.Err == nil {
				t.Errorf("%s: %+v", name, e)
			}
		}
		f.conns.Close()
		c.clear()
	}
}

// left are the GIDs that are prepared.
func (c *cluster) left() []string {
	c.Helper()
	f := c.over([]string{"primary"})
	defer f.conns.Close()
	return f.prepared("p0")
}

// notes counts the notes with a text.
func (c *cluster) notes(text string) int64 {
	c.Helper()
	f := c.over([]string{"primary"})
	defer f.conns.Close()
	n, err := Notes.UsingAlias("p0").Filter(query.Q("text", text)).Count(f.ctx)
	if err != nil {
		c.Fatal(err)
	}
	return n
}

// The recoverer, the command and the doctor beside a standby whose name sorts before that of its primary, after it, and without
// the primary; the coordinator has a standby of its own.
//
// Fault D3. Fault D4.
func TestAStandbyNeverStandsForItsPrimary(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	binary := buildCommand(t)
	for _, kinds := range [][]string{{"standby", "primary"}, {"primary", "standby"}, {"a lesser role", "standby", "primary"}, {"standby"}} {
		f := c.over(kinds)
		seen := has(kinds, mayFinish)
		config := writeConfiguration(t, f.urls)
		command := func(status int, parts ...string) {
			t.Helper()
			r := runHare(t, binary, recoverArgs(config, "--older-than", "0")...)
			for _, part := range parts {
				if !strings.Contains(r.out, part) {
					t.Errorf("%q: the command does not say %q:\n%s", kinds, part, r.out)
				}
			}
			if r.status != status {
				t.Errorf("%q: status %d, want %d:\n%s%s", kinds, r.status, status, r.out, r.errs)
			}
		}
		standby := fmt.Sprint("p", slices.Index(kinds, "standby"))
		if seen {
			command(0, "no distributed transaction is waiting\n")
		} else {
			command(1, "no distributed transaction is waiting in the databases that were looked at", fmt.Sprintf("%q could not be looked at", standby), "no connection leads to the primary")
		}
		c.leave("gone")
		if seen {
			command(1, "2 waiting")
		} else {
			command(1, "no connection leads to the primary")
		}
		p := &patients{T: t, urls: f.urls}
		p.want(p.examine(doctor.Options{}), standby, "prepared_transactions", map[bool]doctor.State{true: doctor.OK, false: doctor.Warning}[seen], "a standby")

		var log lines
		stop := f.recoverer(transactions.Interval(20*time.Millisecond), transactions.OlderThan(0), transactions.RecoverLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if seen {
			f.eventually("all is finished", func() bool { return len(c.left()) == 0 })
		} else {
			f.eventually("it says that the primary is not seen", func() bool { return log.count("no connection leads to the primary") == 1 })
		}
		stop()
		f.conns.Close()
		c.clear()
	}
}

// A standby of the coordinator beside it is no reason for alarm, and neither the command nor the doctor takes it for the
// coordinator.
//
// Fault D3.
func TestAStandbyOfTheCoordinator(t *testing.T) {
	t.Parallel()
	server := ownServer(t, servers.Options{Volatile: true})
	primary := servers.Direct(database(t, server, "c"))
	f := trioOf(t, primary, servers.Databases(t, 1)[0], servers.Databases(t, 1)[0])
	if err := f.distributed(writeAll); err != nil {
		t.Fatal(err)
	}
	f.tidied()
	standby := ownServer(t, servers.Options{Volatile: true, StandbyOf: server})
	for _, alias := range []string{"a-standby", "z-standby"} {
		f.urls[alias] = standby.URL("c")
	}
	f.reconnect()
	report := f.recover()
	if !report.Clean() {
		t.Errorf("nothing is left, and the report is %+v", report)
	}
	for _, d := range report.Databases {
		if d.Standby != strings.HasSuffix(d.Alias, "standby") || d.Standby && d.Primary != coordinator {
			t.Errorf("database %+v", d)
		}
	}
	f.crash(isCommitPrepared)
	p := &patients{T: t, urls: f.urls}
	f.eventually("the standby has the decision", func() bool {
		return len(of(p.examine(doctor.Options{}), "z-standby", "decisions")) == 1
	})
	for _, finding := range p.examine(doctor.Options{}).Findings {
		if at := slices.Index(finding.Command, "--coordinator"); at >= 0 && finding.Command[at+1] != coordinator {
			t.Errorf("%s of %q: the command names another coordinator: %q", finding.Check, finding.Alias, finding.Command)
		}
	}
	if report := f.recover(transactions.Finish()); !report.Clean() {
		t.Errorf("recovery: %+v", report)
	}
	f.wantCounts(2, 2, 2)
}

// The alias that prepared a transaction stops answering in the middle of recovery: another one of the same database goes on,
// with finishing and with finding out what has become of it.
//
// Fault D4.
func TestRecoveryGoesOnOverAnotherAlias(t *testing.T) {
	t.Parallel()
	for step, fail := range map[string]func(*proxy.Proxy){"COMMIT PREPARED": (*proxy.Proxy).Swallow, "pg_xact_status": (*proxy.Proxy).Cut} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			f.crash(isCommitPrepared)
			if step == "pg_xact_status" {
				f.exec("b", "COMMIT PREPARED '"+f.prepared("b")[0]+"'")
			}
			f.urls["b2"] = f.urls["b"]
			calls := f.failFrom("b", step, fail)
			report := f.recover(transactions.Finish(), transactions.ParticipantTimeout(2*time.Second))
			if calls() == 0 || !report.Clean() || report.Resolved != 1 {
				t.Errorf("after %d calls over b: %+v", calls(), report)
			}
			if step == "COMMIT PREPARED" && entryOf(t, report, "b2").State != transactions.StateDone {
				t.Errorf("it was not finished over b2: %+v", report)
			}
			f.plan.Set(nil, nil)
			f.urls["b"] = f.urls["b2"] // past the proxy
			f.reconnect()
			f.wantCounts(1, 1, 1)
			f.wantNothingPrepared()
		})
	}
}
