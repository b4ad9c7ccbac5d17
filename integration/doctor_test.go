package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/internal/doctor"
	"github.com/hare-go/hare/transactions"
)

// What hare doctor finds in real databases, each fault really made, and that the statements which it proposes mend it.

// patients are the databases that a test examines, by alias.
type patients struct {
	*testing.T
	urls map[string]string
	// mender is what statements are run with, by alias: a superuser's way. Default: as in urls.
	mender map[string]string
}

func (p *patients) examine(options doctor.Options) doctor.Report {
	p.Helper()
	report, err := doctor.Examine(p.Context(), hare.Config{Connections: p.urls}, options)
	if err != nil {
		p.Fatal(err)
	}
	return report
}

// of are the findings of a check on an alias.
func of(report doctor.Report, alias, check string) (list []doctor.Finding) {
	for _, f := range report.Findings {
		if f.Alias == alias && f.Check == check {
			list = append(list, f)
		}
	}
	return list
}

// want makes sure that a check has one finding, in a state, whose value has all of the parts; one that is not ok says why
// it matters and what to do.
func (p *patients) want(report doctor.Report, alias, check string, state doctor.State, parts ...string) doctor.Finding {
	p.Helper()
	list := of(report, alias, check)
	if len(list) != 1 {
		p.Fatalf("%s of %q: %d findings in\n%s", check, alias, len(list), written(report))
	}
	f := list[0]
	for _, part := range parts {
		if !strings.Contains(f.Value, part) {
			p.Errorf("%s of %q does not say %q: %+v", check, alias, part, f)
		}
	}
	if f.State != state || f.Why == "" || (f.Mend == "") != (state == doctor.OK) {
		p.Errorf("%s of %q, want %s: %+v", check, alias, state, f)
	}
	return f
}

// mended runs the statements of a finding and makes sure that the check is ok afterwards.
func (p *patients) mended(f doctor.Finding, between func(), parts ...string) {
	p.Helper()
	p.run(f)
	if between != nil {
		between()
	}
	p.want(p.examine(doctor.Options{}), f.Alias, f.Check, doctor.OK, parts...)
}

// run runs the statements of a finding.
func (p *patients) run(f doctor.Finding) {
	p.Helper()
	if len(f.SQL) == 0 {
		p.Fatalf("no statements: %+v", f)
	}
	url := p.urls[f.Alias]
	if other, ok := p.mender[f.Alias]; ok {
		url = other
	}
	execAll(p.T, url, f.SQL...)
}

// execAll runs statements on a connection of their own.
func execAll(t *testing.T, url string, statements ...string) {
	t.Helper()
	conn := pgxConnect(t, url)
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%v: %s", err, sql)
		}
	}
}

// unpooled are databases without a pooler before them, also where all tests have one.
func unpooled(t *testing.T, n int) []string {
	t.Helper()
	urls := servers.Databases(t, n)
	for i := range urls {
		urls[i] = servers.Direct(urls[i])
	}
	return urls
}

// pgxConnect is a connection that knows nothing of hare.
func pgxConnect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// written is a report for the messages of tests.
func written(report doctor.Report) string {
	var b strings.Builder
	for _, f := range report.Findings {
		fmt.Fprintf(&b, "%s %s %s: %s\n", f.Alias, f.Check, f.State, f.Value)
	}
	return b.String()
}

// sound are settings of a server with which nothing is wrong.
func sound(more map[string]string) servers.Options {
	settings := map[string]string{"statement_timeout": "15s", "lock_timeout": "5s", "idle_in_transaction_session_timeout": "1min"}
	maps.Copy(settings, more)
	return servers.Options{Name: "sound", Settings: settings}
}

// With databases as hare wants them every check is ok, through the library and through the command, and nothing is made in
// them by looking.
func TestDoctorFindsNothing(t *testing.T) {
	t.Parallel()
	server := ownServer(t, sound(nil))
	p := &patients{T: t, urls: map[string]string{}}
	for _, alias := range everybody {
		p.urls[alias] = database(t, server, alias) + "&statement_timeout=20s"
	}
	p.urls["file"] = "sqlite:" + filepath.Join(t.TempDir(), "none.db")
	relations := func() (n int) {
		conn := pgxConnect(t, p.urls["c"])
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_class").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := relations()
	report := p.examine(doctor.Options{})
	if report.State() != doctor.OK || !slices.Equal(report.Skipped, []string{"file"}) {
		t.Errorf("%s, without %q:\n%s", report.State(), report.Skipped, written(report))
	}
	p.want(report, "c", "statement_timeout", doctor.OK, "20s", "URL")
	p.want(report, "c", "tables", doctor.OK, "may create public.hare_distributed_decisions")
	p.want(report, "", "same_database", doctor.OK)
	p.want(report, "", "clocks", doctor.OK)
	if after := relations(); after != before {
		t.Errorf("%d relations, %d before the examination", after, before)
	}

	conns, err := hare.Open(t.Context(), hare.Config{Connections: p.urls})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conns.Close)
	ctx := hare.WithConnections(t.Context(), conns)
	if err := transactions.Distributed(ctx, "c", []string{"a", "b"}, func(d *hare.Distributed) error { return nil }); err != nil {
		t.Fatal(err)
	}
	report = p.examine(doctor.Options{Aliases: []string{"c", "a"}})
	if report.State() != doctor.OK || len(of(report, "b", "reachable")) > 0 || len(report.Skipped) > 0 {
		t.Errorf("after a distributed transaction, c and a: %s without %q\n%s", report.State(), report.Skipped, written(report))
	}
	p.want(report, "c", "coordinator", doctor.OK, "id ")
	p.want(report, "c", "decisions", doctor.OK)
	p.want(report, "c", "tables", doctor.OK, "may use public.hare_distributed_decisions, public.hare_distributed_coordinator")

	binary := buildCommand(t)
	r := runHare(t, binary, "doctor", "--config", writeConfiguration(t, p.urls))
	if r.status != 0 || r.errs != "" || !strings.Contains(r.out, "0 failures, 0 warnings") || !strings.Contains(r.out, `"file" has no server to ask`) {
		t.Errorf("status %d\n%s%s", r.status, r.out, r.errs)
	}
}

// The command's exit status says whether a check failed, and its JSON has the documented shape.
func TestDoctorCommand(t *testing.T) {
	t.Parallel()
	binary := buildCommand(t)
	urls := unpooled(t, 1)
	good := writeConfiguration(t, map[string]string{"library": urls[0]})
	broken := writeConfiguration(t, map[string]string{"library": urls[0], "gone": "postgres://hare:secret@127.0.0.1:1/gone"})
	for _, test := range []struct {
		name   string
		args   []string
		config string
		status int
		says   string
	}{
		{"an unreachable database", nil, broken, 1, "reachable"},
		{"only that one", []string{"--alias", "gone"}, broken, 1, "1 failure, 0 warnings, 0 ok"},
		{"an unknown alias", []string{"--alias", "libary"}, broken, 2, `"library"`},
		{"an empty alias", []string{"--alias", "library,"}, broken, 2, "empty"},
		{"a wrong format", []string{"--format", "xml"}, broken, 2, "table or json"},
		{"no configuration", nil, filepath.Join(t.TempDir(), "none.yml"), 1, "none.yml"},
	} {
		r := runHare(t, binary, append([]string{"doctor", "--config", test.config}, test.args...)...)
		if r.status != test.status || !strings.Contains(r.out+r.errs, test.says) || strings.Contains(r.out+r.errs, "secret") {
			t.Errorf("%s: status %d\n%s%s", test.name, r.status, r.out, r.errs)
		}
	}

	r := runHare(t, binary, "doctor", "--config", good, "--format", "json")
	var got struct {
		Version  int
		State    string
		Findings []struct{ Alias, Check, State, Value string }
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || got.Version != 1 || len(got.Findings) < 10 {
		t.Fatalf("%v: status %d\n%s%s", err, r.status, r.out, r.errs)
	}
	// The shared servers' commits are not durable, unless they are somebody else's.
	if (got.State == "failure") != (r.status == 1) {
		t.Errorf("state %q, status %d", got.State, r.status)
	}
}
