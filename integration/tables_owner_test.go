package integration

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/internal/doctor"
	"github.com/hare-go/hare/transactions"
)

// Who may own a table of hare's: the role itself, what an administrator made it a member of, a superuser, the database's
// owner, and whom the URL names. Before PostgreSQL 16 anybody can make the role a member of himself: that counts for nothing.
// For a superuser, whom the server calls a member of every role, the same rule holds.
//
// Fault S1.
func TestWhoMayOwnTheTables(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	team, owner, accomplice := roleOf(t, s.role("team")), roleOf(t, s.role("owner")), s.role("accomplice")
	service, stranger := roleOf(t, s.service), roleOf(t, s.stranger)
	root := roleOf(t, s.super)
	var name string
	if err := pgxConnect(t, s.super).QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	execAll(t, s.super, "ALTER DATABASE "+name+" OWNER TO "+owner)
	defer execAll(t, s.super, "ALTER DATABASE "+name+" OWNER TO "+root)
	execAll(t, s.super, "GRANT "+team+" TO "+service)
	unasked := func(by string, statements ...string) { // from PostgreSQL 16 on the server refuses it
		conn := pgxConnect(t, by)
		for _, sql := range statements {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Logf("%s: %v", sql, err)
			}
		}
	}
	unasked(s.stranger, "GRANT "+stranger+" TO "+service, "GRANT "+stranger+" TO "+roleOf(t, accomplice)+" WITH ADMIN OPTION")
	unasked(accomplice, "GRANT "+stranger+" TO "+service)
	execAll(t, s.super, plain["hare_leases"]...)
	for _, test := range []struct {
		name, owner, as, options string
		trusted                  bool
	}{
		{"itself", service, s.service, "", true},
		{"a role that it is a member of", team, s.service, "", true},
		{"a superuser", root, s.service, "", true},
		{"the database's owner", owner, s.service, "", true},
		{"named in the URL", stranger, s.service, "tables_owner=dba," + stranger, true},
		{"another one is named in the URL", stranger, s.service, "tables_owner=dba", false},
		{"a stranger who made it a member of himself", stranger, s.service, "", false},
		{"the service, for a superuser", service, s.super, "", false},
		{"the service, named by a superuser", service, s.super, "tables_owner=" + service, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			execAll(t, s.super, "ALTER TABLE public.hare_leases OWNER TO "+test.owner, "GRANT SELECT, INSERT, UPDATE ON public.hare_leases TO "+service)
			ctx := s.open(t, withOptions(test.as, test.options))
			for _, use := range uses["hare_leases"] {
				err := use.run(ctx, sceneClient(ctx, t))
				var wrong *hare.ConfigurationError
				refused := errors.As(err, &wrong) && strings.Contains(wrong.Reason, "belongs to the role \""+test.owner+"\"") && strings.Contains(wrong.Reason, "tables_owner="+test.owner)
				var query *hare.QueryError // there is no term to release
				if fine := err == nil || errors.As(err, &query); fine != test.trusted || refused == test.trusted {
					t.Errorf("%s: %v, trusted: %v", use.name, err, test.trusted)
				}
			}
			execAll(t, s.super, "DELETE FROM public.hare_leases")
		})
	}
}

// withOptions adds options to a URL.
func withOptions(url, options string) string {
	switch {
	case options == "":
		return url
	case strings.Contains(url, "?"):
		return url + "&" + options
	}
	return url + "?" + options
}

// An administrator makes the tables for a role that may not, by the statements of the pages, and the role needs nothing else
// to coordinate, to recover and to hold a lease; the doctor finds nothing wrong.
//
// Fault S1.
func TestTablesOfAnAdministrator(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	service, dba := roleOf(t, s.service), s.role("dba")
	execAll(t, s.super, "REVOKE CREATE ON SCHEMA public FROM "+service+", "+roleOf(t, s.stranger), "GRANT CREATE ON SCHEMA public TO "+roleOf(t, dba))
	plain := s.open(t, s.service)
	err := transactions.Distributed(plain, "c", []string{"a"}, nothing)
	if wrong := as[*hare.ConfigurationError](t, err); !strings.Contains(wrong.Reason, "docs/operations.md") {
		t.Errorf("without tables: %v", err)
	}
	for page, heading := range map[string]string{"distributed": "The tables", "leases": "The table"} {
		sql := strings.ReplaceAll(sqlOf(t, page, heading), "TO the_role", "TO "+service)
		execAll(t, dba, strings.Split(strings.TrimSuffix(strings.TrimSpace(sql), ";"), ";\n")...)
	}
	execAll(t, s.super, strings.Split(strings.ReplaceAll(sqlOf(t, "operations", "hare's own tables"), "TO app", "TO "+service), ";\n")...)

	err = transactions.Distributed(plain, "c", []string{"a"}, nothing)
	if wrong := as[*hare.ConfigurationError](t, err); !strings.Contains(wrong.Reason, "tables_owner="+roleOf(t, dba)) {
		t.Errorf("with an owner that nobody named: %v", err)
	}
	trusting := withOptions(s.service, "tables_owner="+roleOf(t, dba))
	ctx := s.open(t, trusting)
	for _, list := range uses {
		for _, use := range list {
			var query *hare.QueryError // there is no term to release
			if err := use.run(ctx, sceneClient(ctx, t)); err != nil && !errors.As(err, &query) {
				t.Errorf("%s: %v", use.name, err)
			}
		}
	}
	p := &patients{T: t, urls: map[string]string{"c": trusting}}
	p.want(p.examine(doctor.Options{}), "c", "tables", doctor.OK, "may use public.hare_distributed_decisions, public.hare_distributed_coordinator, public.hare_leases")
}

// sqlOf are the statements in a section of a page.
func sqlOf(t *testing.T, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/" + page + ".md")
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`(?s)\n## ` + regexp.QuoteMeta(heading) + "\n.*?```sql\n(.*?)```").FindSubmatch(text)
	if match == nil {
		t.Fatalf("%s.md has no statements under %q", page, heading)
	}
	return string(match[1])
}

// The doctor warns where a stranger may create things in a schema of the session's path, and its statement mends that.
//
// Fault S2.
func TestDoctorStrangersOnThePath(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := &patients{T: t, urls: map[string]string{"c": s.service}, mender: map[string]string{"c": s.super}}
	f := p.want(p.examine(doctor.Options{}), "c", "search_path", doctor.Warning, "in public: "+roleOf(t, s.stranger))
	p.mended(f, nil, "no stranger may create things", "public")
	execAll(t, s.super, "GRANT CREATE ON SCHEMA public TO PUBLIC")
	p.mended(p.want(p.examine(doctor.Options{}), "c", "search_path", doctor.Warning, "in public: PUBLIC"), nil)
	execAll(t, s.super, "ALTER ROLE "+roleOf(t, s.service)+" SET search_path = stranger, public")
	p.want(p.examine(doctor.Options{}), "c", "search_path", doctor.Warning, "in stranger: "+roleOf(t, s.stranger))
}

// Two processes make the tables at the same time, and so do ten.
//
// Fault S1.
func TestTablesAreMadeByManyAtOnce(t *testing.T) {
	t.Parallel()
	urls := servers.Databases(t, 2)
	errs := make(chan error)
	const many = 10
	for range many {
		conns, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"c": urls[0], "a": urls[1]}, Default: "c"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conns.Close)
		ctx := hare.WithConnections(context.WithoutCancel(t.Context()), conns)
		go func() {
			errs <- errors.Join(transactions.Distributed(ctx, "c", []string{"a"}, nothing), uses["hare_leases"][1].run(ctx, sceneClient(ctx, t)))
		}()
	}
	for range many {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := len(strings.Fields(textOf(t, urls[0], "SELECT string_agg(id, ' ') FROM public.hare_distributed_coordinator"))); n != 1 {
		t.Errorf("%d ids, want 1", n)
	}
}

// textOf is the one value that a query gives.
func textOf(t *testing.T, url, sql string) (value string) {
	t.Helper()
	if err := pgxConnect(t, url).QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}
