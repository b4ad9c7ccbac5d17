package integration

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/transactions"
)

// The decision waits for its flush, whatever the role, the database or the function has set. A stronger setting stays.
//
// Field case 28. W8.
func TestFieldDecisionIsSynchronous(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.exec("c", "CREATE TABLE seen (value text)")
	f.exec("c", fmt.Sprintf("ALTER DATABASE %s SET synchronous_commit = off", f.text("c", "SELECT current_database()")))
	f.reconnect()
	if err := f.distributed(func(*hare.Distributed) error { return nil }); err != nil { // first use
		t.Fatal(err)
	}
	f.atDecision("INSERT INTO seen VALUES (current_setting('synchronous_commit'));")
	for set, want := range map[string]string{"": "on", "off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply"} {
		f.exec("c", "DELETE FROM seen")
		err := f.distributed(func(d *hare.Distributed) error {
			if err := writeAll(d); err != nil || set == "" {
				return err
			}
			_, err := d.Coordinator().Exec(d.Context(), "SET LOCAL synchronous_commit = "+set)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := f.text("c", "SELECT value FROM seen"); got != want {
			t.Errorf("set to %q, the decision's COMMIT runs with %q, want %q", set, got, want)
		}
	}
	if got := f.text("c", "SELECT current_setting('synchronous_commit')"); got != "off" {
		t.Errorf("the session has %q afterwards, want its own setting", got)
	}
}

// The decision stands in one place, whatever the search_path of the role and of the function; tables of its name
// elsewhere stay empty, and recovery, with a search_path of its own, finds it.
//
// W6.
func TestFieldSearchPath(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	if err := f.distributed(writeAll); err != nil {
		t.Fatal(err)
	}
	f.exec("c", `CREATE SCHEMA tenant;
		CREATE TABLE tenant.hare_distributed_decisions (LIKE public.hare_distributed_decisions INCLUDING ALL);
		CREATE TABLE tenant.hare_distributed_coordinator (LIKE public.hare_distributed_coordinator INCLUDING ALL);
		CREATE TABLE tenant.note (LIKE public.note INCLUDING ALL)`)
	database := f.text("c", "SELECT current_database()")
	for name, inside := range map[string]string{"the role's": "SELECT 1", "the function's": "SET LOCAL search_path = nowhere, tenant"} {
		t.Run(name, func(t *testing.T) {
			f.exec("c", fmt.Sprintf("ALTER DATABASE %s SET search_path = tenant, public", database))
			f.reconnect()
			before := f.decisions("resolved_at IS NOT NULL")
			err := f.distributed(func(d *hare.Distributed) error {
				if _, err := d.Coordinator().Exec(d.Context(), inside); err != nil {
					return err
				}
				return writeAll(d)
			}, transactions.KeepDecision())
			if err != nil {
				t.Fatal(err)
			}
			f.reconnect() // waits until the decision is resolved
			f.crash(isDecision)
			f.exec("c", fmt.Sprintf("ALTER DATABASE %s RESET search_path", database))
			f.reconnect()
			if n := f.decisions("resolved_at IS NOT NULL"); n != before+1 {
				t.Errorf("%d decisions in public, want %d", n, before+1)
			}
			if n := f.count("c", "SELECT (SELECT count(*) FROM tenant.hare_distributed_decisions) + (SELECT count(*) FROM tenant.hare_distributed_coordinator)"); n != 0 {
				t.Errorf("%d rows in the tenant's schema", n)
			}
			if report := f.recover(transactions.Finish()); !report.Clean() || len(report.Entries) != 2 {
				t.Errorf("recovery: %+v", report)
			}
			f.wantNothingPrepared()
		})
	}
}

// A role that may not create tables coordinates once they exist and it may use them; before that the error says what is
// missing, and the function does not run where nothing could come of it.
//
// W23.
func TestFieldRoleWithoutCreate(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.exec("c", "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	name, limited := f.role("c")
	owner := f.urls["c"]
	as := func(databaseURL string) { f.urls["c"] = databaseURL; f.reconnect() }
	for _, step := range []struct {
		name    string
		grant   string // by the owner, before the role tries
		says    string // the error, if there is to be one
		runs    bool
		commits bool
	}{
		{"no tables", "", "may not create public.hare_distributed_decisions", false, false},
		{"tables, and no right to them", "first use", "hare_distributed_coordinator", false, false},
		{"the id may be read", "GRANT SELECT ON public.hare_distributed_coordinator TO " + name, "hare_distributed_decisions", true, false},
		{"decisions may be written", "GRANT SELECT, INSERT, UPDATE, DELETE ON public.hare_distributed_decisions TO " + name, "", true, true},
	} {
		as(owner)
		switch step.grant {
		case "":
		case "first use":
			if err := f.distributed(func(*hare.Distributed) error { return nil }); err != nil {
				t.Fatal(err)
			}
		default:
			f.exec("c", step.grant)
		}
		as(limited)
		ran := false
		err := f.distributed(func(d *hare.Distributed) error { ran = true; return writeAll(d) })
		if ran != step.runs {
			t.Errorf("%s: the function ran: %v", step.name, ran)
		}
		if step.commits {
			if err != nil {
				t.Errorf("%s: %v", step.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), step.says) {
			t.Errorf("%s: %v does not say %q", step.name, err, step.says)
		}
		wantOutcome(t, err, transactions.RolledBack)
		as(owner)
		f.wantNothingLeft()
	}
	as(owner)
	f.wantCounts(1, 1, 1)
	f.wantNothingPrepared()
	if n := f.decisions("true"); n != 0 {
		t.Errorf("%d decisions are left", n)
	}
}

// Several processes meet a new coordinator at once. All commit, and all know it by one id.
//
// W23.
func TestFieldConcurrentFirstUse(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=1")
	const processes = 6
	var start, wait sync.WaitGroup
	start.Add(1)
	for range processes {
		ctx := hare.WithConnections(t.Context(), f.connect(f.urls))
		wait.Go(func() {
			start.Wait()
			if err := transactions.Distributed(ctx, coordinator, participants, writeAll); err != nil {
				t.Error(err)
			}
		})
	}
	start.Done()
	wait.Wait()
	f.wantCounts(processes, processes, processes)
	f.wantNothingPrepared()
	if n := f.count("c", "SELECT count(*) FROM public.hare_distributed_coordinator"); n != 1 {
		t.Errorf("%d ids, want one", n)
	}
}

// clone copies the database of an alias with CREATE DATABASE ... TEMPLATE and returns the URL of the copy.
func (f *trio) clone(alias string) string {
	f.Helper()
	original := f.text(alias, "SELECT current_database()")
	copied := original + "_copy"
	f.conns.Close() // nobody may use the original meanwhile
	f.asOwner(f.urls[alias], "postgres",
		fmt.Sprintf("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%s'", original),
		fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", copied, original))
	server := f.urls[alias]
	f.Cleanup(func() { f.asOwner(server, "postgres", "DROP DATABASE "+copied+" WITH (FORCE)") })
	f.reconnect()
	return with(f.T, f.urls[alias], func(u *url.URL) { u.Path = "/" + copied })
}

// A copy of the coordinator's database neither decides nor recovers. After its row is deleted it is a coordinator of
// its own, and leaves what the original has prepared alone.
//
// Field case 44. W4.
func TestFieldCloneOfTheCoordinator(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	if err := f.distributed(writeAll); err != nil {
		t.Fatal(err)
	}
	original := f.urls["c"]
	copied := f.clone("c")
	f.crash(isDecision)
	left := f.prepared("a")
	f.urls["c"] = copied
	f.reconnect()
	_, err := transactions.Recover(f.ctx, coordinator, transactions.OlderThan(0), transactions.Finish())
	as[*hare.ConfigurationError](t, err)
	err = f.distributed(func(*hare.Distributed) error { t.Error("the function ran"); return nil })
	as[*hare.ConfigurationError](t, err)
	f.exec("c", "DELETE FROM public.hare_distributed_coordinator")
	if err := f.distributed(writeAll); err != nil {
		t.Errorf("the copy with an id of its own: %v", err)
	}
	if report := f.recover(transactions.Finish()); len(report.Entries) != 0 {
		t.Errorf("the copy's recovery found %+v", report.Entries)
	}
	if now := f.prepared("a"); fmt.Sprint(now) != fmt.Sprint(left) || len(left) != 1 {
		t.Errorf("prepared in a: %q, want %q as before", now, left)
	}
	f.urls["c"] = original
	f.reconnect()
	if report := f.recover(transactions.Finish()); !report.Clean() || len(report.Entries) != 2 {
		t.Errorf("the original's recovery: %+v", report)
	}
	f.wantNothingPrepared()
}

// A copy of a participant is another database. It may take part beside the original, and is refused where a decision is
// about the original.
//
// Field case 23. Field case 44.
func TestFieldCloneOfAParticipant(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	copied := f.clone("a")
	original := f.urls["a"]
	f.urls["b"] = copied
	f.reconnect()
	if err := f.distributed(writeAll); err != nil {
		t.Fatalf("the original beside its copy: %v", err)
	}
	f.wantCounts(1, 1, 1)
	f.reconnect() // waits until the decision is resolved
	f.crash(isCommitPrepared)
	left := f.prepared("a")
	f.urls["a"] = copied
	delete(f.urls, "b")
	f.reconnect()
	report := f.recover(transactions.Finish())
	for _, e := range report.Entries {
		if e.State != transactions.StateDone && (e.State != transactions.StateFailed || !strings.Contains(e.Reason, "leads to")) {
			t.Errorf("with the copy in its place: %+v", e)
		}
	}
	if report.Clean() || report.Resolved != 0 {
		t.Errorf("with the copy in its place: %+v", report)
	}
	f.urls["a"], f.urls["b"] = original, copied
	f.reconnect()
	if now := f.prepared("a"); fmt.Sprint(now) != fmt.Sprint(left) {
		t.Errorf("prepared in the original: %q, want %q", now, left)
	}
	if report := f.recover(transactions.Finish()); !report.Clean() || report.Resolved != 1 {
		t.Errorf("with both again: %+v", report)
	}
	f.wantCounts(2, 2, 2)
	f.wantNothingPrepared()
}
