package integration

import (
	"fmt"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

// becoming are the ways in which a function can become the tenant %s.
var becoming = map[string][]string{
	"SET LOCAL ROLE":                  {"SET LOCAL ROLE %s"},
	"SET ROLE":                        {"SET ROLE %s"},
	"SET LOCAL SESSION AUTHORIZATION": {"SET LOCAL SESSION AUTHORIZATION %s"},
	"SET SESSION AUTHORIZATION":       {"SET SESSION AUTHORIZATION %s"},
	"set_config":                      {"SELECT set_config('role', '%s', true)"},
	"a function":                      {"SELECT become('%s')"},
	"a DO block":                      {"DO $$ BEGIN SET LOCAL ROLE %s; END $$"},
	"twice":                           {"SET LOCAL SESSION AUTHORIZATION %[1]s", "SET LOCAL ROLE %[1]s"},
	"the role's own default":          nil, // it has been the tenant since it logged in
}

// tenants makes, on each database, a role that the trio logs in with from now on, and a tenant that it may become, who owns
// the notes. A deferred trigger writes down as whom it runs.
func (f *trio) tenants(superuser, always bool) (tenants map[string]string) {
	f.Helper()
	if err := f.distributed(nothing); err != nil { // the tables are the administrator's
		f.Fatal(err)
	}
	tenants = map[string]string{}
	for _, alias := range everybody {
		tenant, _ := f.role(alias)
		login, loginURL := f.role(alias)
		if superuser {
			f.exec(alias, "ALTER ROLE "+login+" SUPERUSER")
		}
		f.exec(alias, fmt.Sprintf("GRANT %s TO %s", tenant, login))
		f.exec(alias, "CREATE TABLE seen (role text); GRANT INSERT, SELECT, DELETE ON seen TO PUBLIC")
		f.atCommit(alias, "INSERT INTO seen VALUES (current_user);")
		f.exec(alias, "CREATE FUNCTION become(who text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN EXECUTE format('SET LOCAL ROLE %I', who); RETURN ''; END $$")
		if alias == coordinator {
			f.exec(alias, "GRANT SELECT, UPDATE ON public.hare_distributed_coordinator TO "+login+"; GRANT SELECT, INSERT, UPDATE, DELETE ON public.hare_distributed_decisions TO "+login)
		}
		if always {
			f.exec(alias, fmt.Sprintf("ALTER ROLE %s SET role = '%s'", login, tenant))
			f.exec(alias, fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO %s", tenant))
		}
		tenants[alias] = tenant
		f.urls[alias] = loginURL
	}
	f.reconnect()
	f.Cleanup(func() { f.conns.Close() }) // before the roles go
	return tenants
}

// A function becomes another role, in whichever database and by whatever way. What it prepares belongs to the role that the
// session began with all the same: the call finishes it, and so does recovery after a crash; the deferred triggers run as
// the role that made the changes.
//
// Fault D2.
func TestRoleOfWhatIsPrepared(t *testing.T) {
	t.Parallel()
	for name, statements := range becoming {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "&max_size=1")
			superuser := name == "SET SESSION AUTHORIZATION" || name == "SET LOCAL SESSION AUTHORIZATION" || name == "twice"
			tenants := f.tenants(superuser, statements == nil)
			become := func(d *hare.Distributed) error {
				for _, alias := range everybody {
					for _, statement := range statements {
						if _, err := d.Client(alias).Exec(d.Context(), fmt.Sprintf(statement, tenants[alias])); err != nil {
							return fmt.Errorf("%s in %s: %w", statement, alias, err)
						}
					}
				}
				return writeAll(d)
			}
			err := f.distributed(become)
			if f.pooled && (name == "SET ROLE" || name == "SET SESSION AUTHORIZATION") { // which would outlive the transaction
				as[*hare.ConfigurationError](t, err)
				f.wantCounts(0, 0, 0)
				return
			}
			if err != nil {
				t.Errorf("to commit: %v", err)
			}
			f.wantCounts(1, 1, 1)
			for _, alias := range everybody {
				if seen := f.text(alias, "SELECT string_agg(role, ' ') FROM seen"); seen != tenants[alias] {
					t.Errorf("the deferred trigger in %s has run as %q, want %q", alias, seen, tenants[alias])
				}
			}
			f.plan.Set(failOn(1, "b", contains("PREPARE TRANSACTION")), nil)
			err = f.distributed(become)
			as[*transactions.AbortError](t, err) // and nothing is pending
			f.wantNothingPrepared()
			f.plan.Set(nil, nil)
			for _, crash := range []struct {
				at   func(faults.Event) bool
				kept int64
			}{{isDecision, 1}, {isCommitPrepared, 2}} {
				f.crashing(become, crash.at)
				if report := f.recover(transactions.Finish()); !report.Clean() || len(report.Entries) == 0 {
					t.Errorf("recovery: %+v", report)
				}
				f.wantNothingPrepared()
				f.wantCounts(crash.kept, crash.kept, crash.kept)
			}
			for _, alias := range everybody {
				if statements != nil {
					f.wantCleanSession(alias)
				}
			}
		})
	}
}
