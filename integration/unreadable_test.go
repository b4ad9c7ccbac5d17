package integration

import (
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/internal/doctor"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

// encoded makes a database of another encoding on the server of a URL and leads there.
func encoded(t *testing.T, server, encoding string) string {
	t.Helper()
	name := strings.ToLower("enc_" + encoding)
	execAll(t, server, "CREATE DATABASE "+name+" ENCODING '"+encoding+"' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
	return with(t, server, func(u *url.URL) { u.Path = "/" + name })
}

// Strangers prepare under names that the database of a participant cannot show: in another database of its cluster, and in
// itself; even such that look like hare's own. It costs recovery, the command, the doctor and the gauges nothing: hare's are
// finished, the strangers' counted and left alone. Owners and tables with such names are no obstacle either.
//
// Fault D10.
func TestNamesThatADatabaseCannotShow(t *testing.T) {
	t.Parallel()
	binary := buildCommand(t)
	for encoding, here := range map[string]string{
		"EUC_JP":    "SET client_encoding = 'EUC_JP'",
		"WIN1252":   "SET client_encoding = 'WIN1252'",
		"SQL_ASCII": "SET client_encoding = 'SQL_ASCII'",
		"UTF8":      "",
	} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			server := ownServer(t, servers.Options{Volatile: true})
			neighbour := servers.Direct(database(t, server, "neighbour"))
			f := trioOf(t, servers.Databases(t, 1)[0], encoded(t, neighbour, encoding), servers.Databases(t, 1)[0])
			if err := f.distributed(writeAll); err != nil {
				t.Fatal(err)
			}
			f.tidied()
			id := f.text("c", "SELECT id FROM public.hare_distributed_coordinator")

			// U+1F40B has no place in any of the three, nor have the bytes of the owner in the neighbour's encoding.
			execAll(t, neighbour, `CREATE ROLE "wal🐋" LOGIN SUPERUSER PASSWORD 'wal'`)
			owner := with(t, neighbour, func(u *url.URL) { u.User = url.UserPassword("wal🐋", "wal") })
			prepare(t, owner, "t", "stranger🐋")
			prepare(t, owner, "t", "hare_dtx_c:"+id+":"+strings.Repeat("a", 32)+":🐋")
			ours := 0 // strangers in the participant's database
			if here != "" {
				unshown := map[string]string{"EUC_JP": "\x8f\xf5\xf5", "WIN1252": "\x81", "SQL_ASCII": "\xff\xfe"}[encoding]
				for _, gid := range []string{"stranger" + unshown, `it's a \ ` + unshown, "hare_dtx_c:" + id + ":" + strings.Repeat("b", 32) + ":" + unshown} {
					prepareBytes(t, f.urls["a"], here, unshown, gid)
					ours++
				}
			}
			f.crash(isCommitPrepared)

			p := &patients{T: t, urls: f.urls}
			report := p.examine(doctor.Options{OlderThan: 0})
			if list := of(report, "a", "prepared_transactions"); len(list) == 0 || !strings.HasPrefix(list[0].Value, "hare's") {
				t.Errorf("the doctor: %+v", list)
			}
			for _, finding := range of(report, "a", "prepared_transactions") {
				if strings.ContainsRune(strings.Join(finding.SQL, ""), '\uFFFD') {
					t.Errorf("a statement with a GID that is none: %q", finding.SQL)
				}
			}
			config := writeConfiguration(t, f.urls)
			if r := runHare(t, binary, recoverArgs(config, "--older-than", "0")...); r.status != 1 || !strings.Contains(r.out, "2 waiting") {
				t.Errorf("the command: status %d\n%s%s", r.status, r.out, r.errs)
			}
			var log lines
			stop := f.recoverer(transactions.Interval(20*time.Millisecond), transactions.OlderThan(0), transactions.RecoverLogger(slog.New(slog.NewTextHandler(&log, nil))))
			f.eventually("hare's are finished", func() bool { return f.decisions("resolved_at IS NULL") == 0 })
			stop()
			if n := log.count("level=WARN"); n != 0 {
				t.Errorf("warnings:\n%s", &log)
			}
			report2 := f.recover()
			if !report2.Clean() || len(report2.Databases) != 3 || report2.Databases[1].Others != ours || report2.Databases[1].SlotsUsed != ours+2 || report2.Databases[1].Oldest == 0 {
				t.Errorf("strangers: %+v, want %d in this database and 2 in another", report2, ours)
			}
			f.wantCounts(2, 2, 2)
		})
	}
}

// prepareBytes prepares under a name of any bytes, in a session whose encoding lets them through, and locks a table of such a
// name.
func prepareBytes(t *testing.T, databaseURL, encoding, unshown, gid string) {
	t.Helper()
	conn := pgxConnect(t, databaseURL)
	table := `"t` + unshown + `"`
	for _, sql := range []string{encoding, "CREATE TABLE IF NOT EXISTS " + table + " (id int)", "BEGIN", "INSERT INTO " + table + " VALUES (1)",
		"PREPARE TRANSACTION '" + strings.ReplaceAll(gid, "'", "''") + "'"} {
		if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
			t.Fatalf("%v: %q", err, sql)
		}
	}
}

// An alias that is no ASCII is the same participant in every encoding that has its letters: its GID is recognised, and finished.
//
// Fault D10.
func TestAliasesInOtherEncodings(t *testing.T) {
	t.Parallel()
	server := ownServer(t, servers.Options{Volatile: true})
	neighbour := servers.Direct(database(t, server, "neighbour"))
	for encoding, alias := range map[string]string{"WIN1252": "größe", "EUC_JP": "在庫", "SQL_ASCII": "größe", "UTF8": "在庫"} {
		t.Run(encoding, func(t *testing.T) {
			f := newDatabases(t, "", []string{"c"})
			f.urls[alias] = encoded(t, neighbour, encoding)
			f.reconnect()
			if err := hare.CreateTables(f.ctx, f.client(alias), Note{}); err != nil {
				t.Fatal(err)
			}
			f.plan.Set(always(alias, "COMMIT PREPARED", ""), nil)
			err := transactions.Distributed(f.ctx, "c", []string{alias}, func(d *hare.Distributed) error { return write(d, "x", alias) }, shortPhases)
			wantOutcome(t, err, transactions.PartiallyCommitted)
			f.plan.Set(nil, nil)
			p := &patients{T: t, urls: f.urls}
			gid := f.prepared(alias)[0]
			p.want(p.examine(doctor.Options{}), alias, "prepared_transactions", doctor.Failure, gid)
			report := f.recover(transactions.Finish())
			if !report.Clean() || len(report.Entries) != 1 || report.Entries[0].GID != gid || report.Resolved != 1 {
				t.Errorf("recovery: %+v", report)
			}
			if left := f.prepared(alias); len(left) != 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// A lease's row is locked by a prepared transaction whose GID the database cannot show: the error still says what blocks it.
//
// Fault D10.
func TestLeaseBlockedByANameThatCannotBeShown(t *testing.T) {
	t.Parallel()
	server := ownServer(t, servers.Options{Volatile: true})
	databaseURL := encoded(t, servers.Direct(database(t, server, "neighbour")), "WIN1252")
	conns, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"a": databaseURL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conns.Close)
	client, err := conns.Client("a")
	if err != nil {
		t.Fatal(err)
	}
	lease := leases.New(client, "job", leases.Options{LockTimeout: 200 * time.Millisecond})
	term, err := lease.TryAcquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := term.Release(); err != nil {
		t.Fatal(err)
	}
	conn := pgxConnect(t, databaseURL)
	for _, sql := range []string{"SET client_encoding = 'WIN1252'", "BEGIN", "SELECT FROM public.hare_leases FOR UPDATE", "PREPARE TRANSACTION 'whale\x81'"} {
		if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
			t.Fatalf("%v: %q", err, sql)
		}
	}
	_, err = lease.TryAcquire(t.Context())
	if blocked := as[*leases.BlockedError](t, err); len(blocked.By) != 1 || !strings.Contains(blocked.By[0], "prepared transaction whale") {
		t.Errorf("blocked by %q", blocked.By)
	}
}
