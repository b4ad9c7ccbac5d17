package integration

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/internal/doctor"
	"github.com/hare-go/hare/transactions"
)

// A time-out that is off is worth a warning, and a default of the role mends it, also over one that is off for the database.
func TestDoctorTimeoutsOff(t *testing.T) {
	t.Parallel()
	url := unpooled(t, 1)[0]
	p := &patients{T: t, urls: map[string]string{"a": asRole(t, url)}, mender: map[string]string{"a": url}}
	name := p.databaseName("a")
	execAll(t, url, "ALTER DATABASE "+name+" SET lock_timeout = 0")
	report := p.examine(doctor.Options{})
	p.mended(p.want(report, "a", "lock_timeout", doctor.Warning, "none", "the database's default"), nil, "5s", "the role's default in this database")
	p.mended(p.want(report, "a", "statement_timeout", doctor.Warning, "none"), nil, "15s")
	p.mended(p.want(report, "a", "idle_in_transaction_session_timeout", doctor.Warning, "none"), nil, "1m0s")
}

// asRole makes a role without rights of its own, which goes at the end of the test, and returns the URL with it.
func asRole(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	role := "role_" + strings.TrimPrefix(u.Path, "/hare_test_")
	execAll(t, database, "CREATE ROLE "+role+" LOGIN PASSWORD 'secret'")
	conn := pgxConnect(t, database)
	t.Cleanup(func() {
		for _, sql := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			if _, err := conn.Exec(context.Background(), sql); err != nil {
				t.Error(err)
			}
		}
	})
	u.User = url.UserPassword(role, "secret")
	return u.String()
}

func (p *patients) databaseName(alias string) string {
	p.Helper()
	u, err := url.Parse(p.urls[alias])
	if err != nil {
		p.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

// A standby is a failure, and so is nothing else about it; transactions that are read-only by default are worth a warning.
func TestDoctorStandby(t *testing.T) {
	t.Parallel()
	first := ownServer(t, servers.Options{Volatile: true})
	p := &patients{T: t, urls: map[string]string{"a": database(t, first, "a")}}
	standby := ownServer(t, servers.Options{Volatile: true, StandbyOf: first})
	p.urls["copy"] = standby.URL("a")
	report := p.examine(doctor.Options{})
	p.want(report, "a", "primary", doctor.OK)
	p.want(report, "copy", "primary", doctor.Failure, "standby")
	if twice := of(report, "", "same_database"); len(twice) != 0 {
		t.Errorf("a primary and its standby: %+v", twice)
	}

	execAll(t, first.URL("a"), "ALTER ROLE hare SET default_transaction_read_only = on")
	p.mender = map[string]string{"a": p.urls["a"] + "&default_transaction_read_only=off"}
	p.mended(p.want(p.examine(doctor.Options{}), "a", "primary", doctor.Warning, "read-only"), nil)
}

// Two aliases of one database are worth a warning that names both.
func TestDoctorOneDatabaseTwice(t *testing.T) {
	t.Parallel()
	urls := unpooled(t, 2)
	p := &patients{T: t, urls: map[string]string{"a": urls[0], "b": urls[1], "again": urls[0] + "&application_name=again", "third": urls[0]}}
	p.want(p.examine(doctor.Options{}), "", "same_database", doctor.Warning, `"a" and "again" and "third" are one: database "`+p.databaseName("a"))
	delete(p.urls, "again")
	delete(p.urls, "third")
	p.want(p.examine(doctor.Options{}), "", "same_database", doctor.OK, "2 aliases are 2 databases")
}

// A database that does not answer costs a bounded time, and the others are examined all the same.
func TestDoctorUnreachable(t *testing.T) {
	t.Parallel()
	server := ownServer(t, servers.Options{Volatile: true})
	p := &patients{T: t, urls: map[string]string{"a": unpooled(t, 1)[0], "frozen": database(t, server, "b"), "gone": "postgres://hare:x@127.0.0.1:1/gone"}}
	if err := server.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	report := p.examine(doctor.Options{Within: 3 * time.Second})
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v, and was to take 3s", took)
	}
	for _, alias := range []string{"frozen", "gone"} {
		p.want(report, alias, "reachable", doctor.Failure)
		if len(of(report, alias, "version")) > 0 {
			t.Errorf("%s:\n%s", alias, written(report))
		}
	}
	p.want(report, "a", "reachable", doctor.OK, "round trip")
	p.want(report, "a", "version", doctor.OK)

	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.urls["wrong"] = server.URL("missing")
	report = p.examine(doctor.Options{})
	p.want(report, "frozen", "reachable", doctor.OK)
	if f := p.want(report, "wrong", "reachable", doctor.Failure, "missing"); !strings.Contains(f.Mend, "URL") {
		t.Errorf("%+v", f)
	}
}

// What a crash of a coordinator's server could undo: commits that do not wait for the disk, standbys that nobody waits for;
// and a synchronous standby that is not there is a failure.
func TestDoctorDurability(t *testing.T) {
	t.Parallel()
	server := ownServer(t, sound(nil))
	p := &patients{T: t, urls: map[string]string{"c": database(t, server, "c"), "a": database(t, server, "a")}}
	conns, err := hare.Open(t.Context(), hare.Config{Connections: p.urls})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conns.Close)
	if err := transactions.Distributed(hare.WithConnections(t.Context(), conns), "c", []string{"a"}, func(*hare.Distributed) error { return nil }); err != nil {
		t.Fatal(err)
	}
	report := p.examine(doctor.Options{})
	p.want(report, "c", "durability", doctor.OK, "synchronous_commit = on, no standby")
	p.want(report, "a", "durability", doctor.OK)

	execAll(t, p.urls["c"], "ALTER ROLE hare SET synchronous_commit = off")
	report = p.examine(doctor.Options{})
	p.want(report, "a", "durability", doctor.OK, "synchronous_commit = off")
	p.mended(p.want(report, "c", "durability", doctor.Warning, "synchronous_commit = off"), nil)

	execAll(t, p.urls["c"], "ALTER SYSTEM SET synchronous_standby_names = 'other'", "SELECT pg_reload_conf()")
	f := &trio{T: t}
	f.eventually("the setting is read", func() bool { return of(p.examine(doctor.Options{}), "c", "durability")[0].State != doctor.OK })
	missing := p.want(p.examine(doctor.Options{}), "c", "durability", doctor.Failure, "other", "0 standbys")
	p.run(missing)
	f.eventually("it is mended", func() bool { return of(p.examine(doctor.Options{}), "c", "durability")[0].State == doctor.OK })

	// A server whose commits are not durable is a failure, also of a participant's.
	execAll(t, p.urls["a"], "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
	f.eventually("the setting is read", func() bool { return of(p.examine(doctor.Options{}), "a", "durability")[0].State != doctor.OK })
	p.run(p.want(p.examine(doctor.Options{}), "a", "durability", doctor.Failure, "fsync = off"))
	f.eventually("it is mended", func() bool { return of(p.examine(doctor.Options{}), "a", "durability")[0].State == doctor.OK })
}
