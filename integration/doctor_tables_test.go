package integration

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/internal/doctor"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

// A role that may neither use nor create hare's tables is told what it lacks, and the proposed statements give it that; where
// another database has the tables it is fine.
func TestDoctorRights(t *testing.T) {
	t.Parallel()
	urls := unpooled(t, 2)
	execAll(t, urls[0], "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	p := &patients{T: t, urls: map[string]string{"c": asRole(t, urls[0]), "a": urls[1]}, mender: map[string]string{"c": urls[0]}}
	created := p.want(p.examine(doctor.Options{}), "c", "tables", doctor.Warning, "may not create public.hare_distributed_decisions")

	distribute := func(coordinator, participant string, urls map[string]string) error {
		conns, err := hare.Open(t.Context(), hare.Config{Connections: urls})
		if err != nil {
			t.Fatal(err)
		}
		defer conns.Close()
		return transactions.Distributed(hare.WithConnections(t.Context(), conns), coordinator, []string{participant}, func(*hare.Distributed) error { return nil })
	}
	// The rights of the role are those that a coordinator needs: it says so itself.
	if err := distribute("c", "a", p.urls); err == nil {
		t.Fatal("it coordinates without rights")
	}
	p.mended(created, nil, "may create public.hare_distributed_decisions")
	execAll(t, urls[0], "REVOKE CREATE ON SCHEMA public FROM "+roleOf(t, p.urls["c"]))

	// Another role has made the tables.
	if err := distribute("c", "a", map[string]string{"c": urls[0], "a": urls[1]}); err != nil {
		t.Fatal(err)
	}
	report := p.examine(doctor.Options{})
	lacking := p.want(report, "c", "tables", doctor.Failure, "public.hare_distributed_decisions: no SELECT, INSERT, UPDATE, DELETE", "public.hare_distributed_coordinator: no SELECT")
	p.want(report, "c", "coordinator", doctor.Failure, "may not look")
	p.want(report, "c", "decisions", doctor.Failure, "may not look")
	p.run(lacking)
	report = p.examine(doctor.Options{})
	if f := p.want(report, "c", "tables", doctor.Warning, "may use public.hare_distributed_decisions, public.hare_distributed_coordinator; may not create public.hare_leases"); !strings.HasPrefix(f.Why, "it cannot have leases") {
		t.Errorf("%+v", f)
	}
	p.want(report, "c", "coordinator", doctor.OK)
	p.want(report, "c", "decisions", doctor.OK)
	if err := distribute("c", "a", p.urls); err != nil {
		t.Errorf("with the rights: %v", err)
	}

	// A participant needs none of them.
	execAll(t, urls[1], "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	p.urls["a"] = asRole(t, urls[1])
	report = p.examine(doctor.Options{})
	p.want(report, "a", "tables", doctor.Warning, "may not create") // leases, which no database has
	holdLease(t, urls[0], "any")
	execAll(t, urls[0], "GRANT SELECT ON public.hare_leases TO "+roleOf(t, p.urls["c"]))
	report = p.examine(doctor.Options{})
	p.want(report, "a", "tables", doctor.OK, "may not create")
	p.mended(p.want(report, "c", "tables", doctor.Failure, "public.hare_leases: no INSERT, UPDATE"), nil)

	execAll(t, urls[0], "REVOKE USAGE ON SCHEMA public FROM PUBLIC")
	p.mended(p.want(p.examine(doctor.Options{}), "c", "tables", doctor.Failure, "schema public: no USAGE"), nil)
}

func roleOf(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	return u.User.Username()
}

// A right that was taken away from everybody is a finding of its own.
func TestDoctorMayNotLook(t *testing.T) {
	t.Parallel()
	database := unpooled(t, 1)[0]
	execAll(t, database, "REVOKE EXECUTE ON FUNCTION pg_catalog.pg_control_system() FROM PUBLIC", "REVOKE SELECT ON pg_catalog.pg_prepared_xacts FROM PUBLIC")
	p := &patients{T: t, urls: map[string]string{"a": asRole(t, database)}, mender: map[string]string{"a": database}}
	report := p.examine(doctor.Options{})
	p.want(report, "a", "prepared_slots", doctor.Warning, "may not look", "pg_prepared_xacts")
	p.want(report, "a", "prepared_transactions", doctor.Warning, "may not look")
	p.want(report, "a", "statement_timeout", doctor.Warning)
	p.mended(p.want(report, "a", "identity", doctor.Failure, "may not look", "pg_control_system"), nil, `database "hare_test_`)
}

// A table that somebody has locked holds the doctor up for a moment, and nothing else.
func TestDoctorLockedTable(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.crash(isCommitPrepared)
	conn := pgxConnect(t, f.urls["c"])
	for _, sql := range []string{"BEGIN", "LOCK TABLE public.hare_distributed_decisions"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	p := &patients{T: t, urls: f.urls}
	report := p.examine(doctor.Options{})
	p.want(report, "c", "decisions", doctor.Warning, "not known", "55P03")
	p.want(report, "c", "coordinator", doctor.OK)
	p.want(report, "a", "prepared_transactions", doctor.Failure)
	if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	p.want(p.examine(doctor.Options{}), "c", "decisions", doctor.Failure, "1 unresolved")
}

// A copy of a coordinator's database is a failure until it gets an id of its own.
func TestDoctorCopiedCoordinator(t *testing.T) {
	t.Parallel()
	server := ownServer(t, servers.Options{Volatile: true})
	p := &patients{T: t, urls: map[string]string{"c": database(t, server, "c"), "a": database(t, server, "a")}}
	conns, err := hare.Open(t.Context(), hare.Config{Connections: p.urls})
	if err != nil {
		t.Fatal(err)
	}
	if err := transactions.Distributed(hare.WithConnections(t.Context(), conns), "c", []string{"a"}, func(*hare.Distributed) error { return nil }); err != nil {
		t.Fatal(err)
	}
	conns.Close()
	f := &trio{T: t}
	f.eventually("nobody uses the original", func() bool { return server.Exec(t.Context(), "postgres", "CREATE DATABASE copy TEMPLATE c") == nil })
	p.urls["c"] = server.URL("copy")
	p.mended(p.want(p.examine(doctor.Options{}), "c", "coordinator", doctor.Failure, "a copy"), nil, "no id yet")
}

// holdLease takes a lease for half an hour and keeps it; the table is made if need be.
func holdLease(t *testing.T, database, name string) *leases.Term {
	t.Helper()
	conns, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"a": database}})
	if err != nil {
		t.Fatal(err)
	}
	client, err := conns.Client("a")
	if err != nil {
		t.Fatal(err)
	}
	lease := leases.New(client, name, leases.Options{TTL: 30 * time.Minute, Holder: "worker-1"})
	term, err := lease.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lease.Stop(context.Background()); err != nil {
			t.Log(err) // it may have been ended by somebody else
		}
		conns.Close()
	})
	return term
}

// Leases that are held are listed, those that are free are counted, and one that expires in a far future is worth a warning.
func TestDoctorLeases(t *testing.T) {
	t.Parallel()
	p := &patients{T: t, urls: map[string]string{"a": unpooled(t, 1)[0]}}
	if list := of(p.examine(doctor.Options{}), "a", "leases"); len(list) > 0 {
		t.Errorf("without the table: %+v", list)
	}
	term := holdLease(t, p.urls["a"], "mailer")
	p.want(p.examine(doctor.Options{}), "a", "leases", doctor.OK, `"mailer" is held by worker-1`, "(token 1) for another ")
	if err := term.Release(); err != nil {
		t.Fatal(err)
	}
	p.want(p.examine(doctor.Options{}), "a", "leases", doctor.OK, "none is held; 1 released or expired")
	holdLease(t, p.urls["a"], "mailer")
	left := func(name, expiry string) {
		holdLease(t, p.urls["a"], name)
		execAll(t, p.urls["a"], "UPDATE public.hare_leases SET expires_at = "+expiry+" WHERE name = '"+strings.ReplaceAll(name, "'", "''")+"'")
	}
	left("old", "now() - interval '3 days'")
	p.want(p.examine(doctor.Options{}), "a", "leases", doctor.OK, `"mailer" is held by worker-1`, "(token 2) for another ", "; 1 released or expired")

	left("it's far", "now() + interval '40 days 30 minutes'")
	left("for ever", "'infinity'")
	list := of(p.examine(doctor.Options{}), "a", "leases")
	if len(list) != 3 || list[0].State != doctor.Warning || !strings.Contains(list[0].Value, `"for ever" is held by worker-1`) || !strings.HasSuffix(list[0].Value, "(token 1) for ever") ||
		list[1].State != doctor.Warning || !strings.Contains(list[1].Value, "for another 40d0h") || list[2].State != doctor.OK {
		t.Fatalf("%+v", list)
	}
	binary, config := buildCommand(t), writeConfiguration(t, p.urls)
	for _, f := range list[:2] {
		if told := runHare(t, binary, append(slices.Clone(f.Command), "--config", config)...); told.status != 1 || !strings.Contains(told.out, "nothing is released yet") {
			t.Errorf("%q does it untold: status %d\n%s%s", f.Command, told.status, told.out, told.errs)
		}
		if r := runHare(t, binary, append(slices.Clone(f.Command), "--config", config, "--finish")...); r.status != 0 {
			t.Errorf("%q: status %d\n%s%s", f.Command, r.status, r.out, r.errs)
		}
	}
	p.want(p.examine(doctor.Options{}), "a", "leases", doctor.OK, "mailer", "3 released or expired")
}
