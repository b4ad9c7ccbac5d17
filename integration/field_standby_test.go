package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/transactions"
)

// A participant's server has a standby that does not know what was prepared. While it is a standby nothing is done there,
// by calls and by recovery alike, and the error says what it is. Promoted, it is the participant, and has lost its part:
// that is reported as long as nobody forgets it, also when the server has given the transaction's id to another one, which
// has committed.
//
// Field case 36.
func TestFieldStandbyAndItsPromotion(t *testing.T) {
	t.Parallel()
	urls := servers.Databases(t, 2)
	primary := ownServer(t, servers.Options{Volatile: true})
	database, err := primary.CreateDatabase(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	f := trioOf(t, urls[0], urls[1], database)
	if err := f.distributed(writeAll); err != nil {
		t.Fatal(err)
	}
	standby := ownServer(t, servers.Options{Volatile: true, StandbyOf: primary})
	f.crash(isCommitPrepared)
	left := f.prepared("b")
	lead := func(server *servers.Server) { f.urls["b"] = server.URL("b"); f.reconnect() }

	lead(standby)
	for _, names := range [][]string{{"c", "a", "b"}, {"b", "a"}} {
		err := transactions.Distributed(f.ctx, names[0], names[1:], func(*hare.Distributed) error { t.Error("the function ran"); return nil })
		if e := as[*hare.ConfigurationError](t, err); e.Alias != "b" || !strings.Contains(e.Error(), "standby") {
			t.Errorf("%q: %v", names, e)
		}
	}
	_, err = transactions.Recover(f.ctx, "b", transactions.Finish())
	as[*hare.ConfigurationError](t, err)
	report := f.recover(transactions.Finish())
	if e := entryOf(t, report, "b"); e.State != transactions.StateFailed || !strings.Contains(e.Reason, "a standby of its database") || report.Clean() || report.Resolved != 0 {
		t.Errorf("recovery with a standby of b: %+v", report)
	}
	for _, d := range report.Databases {
		if d.Standby != (d.Alias == "b") {
			t.Errorf("database %+v", d)
		}
	}
	_, err = transactions.Recover(f.ctx, coordinator, transactions.Forget(entryOf(t, report, "b").XID), transactions.Finish())
	if e := as[*hare.QueryError](t, err); !strings.Contains(e.Error(), "can still be finished") {
		t.Errorf("forgetting what waits for its primary: %v", e)
	}
	f.wantCounts(2, 2, 1)
	lead(primary)
	if now := f.prepared("b"); fmt.Sprint(now) != fmt.Sprint(left) || len(left) != 1 {
		t.Errorf("prepared in the primary: %q, want %q", now, left)
	}

	// The primary dies while a call is about to tell it, and the standby takes over.
	f.urls["b"] = strings.Replace(primary.URL("b"), host(t, primary.URL("b")), host(t, primary.URL("b"))+","+host(t, standby.URL("b")), 1)
	f.reconnect()
	f.plan.Set(once("b", "COMMIT PREPARED", func(faults.Event) {
		if err := errors.Join(primary.Kill(t.Context()), standby.Exec(t.Context(), "b", "SELECT pg_promote()")); err != nil {
			t.Error(err)
		}
	}), nil)
	err = f.distributed(writeAll, transactions.PhaseTimeouts(transactions.Phases{Deliver: time.Minute})) // which need not pass
	mixed := as[*transactions.MixedOutcomeError](t, err)
	if len(mixed.RolledBack) != 1 || mixed.RolledBack[0].Alias != "b" || !strings.Contains(err.Error(), "set back") {
		t.Errorf("got %v, want b to have lost it", err)
	}
	wantOutcome(t, err, transactions.Mixed)
	wantLost := func(state transactions.State, part string) {
		t.Helper()
		report := f.recover(transactions.Finish())
		if len(report.Entries) != 2 || report.Clean() || report.Resolved != 0 {
			t.Errorf("recovery after the promotion: %+v", report)
		}
		for _, e := range report.Entries {
			if e.Alias != "b" || e.State != state || !strings.Contains(e.Err.Error(), part) {
				t.Errorf("recovery after the promotion: %+v, want %s", e, state)
			}
		}
	}
	wantLost(transactions.StateMixed, "set back")
	last := f.count("c", `SELECT max((p->>'xact')::bigint) FROM public.hare_distributed_decisions, jsonb_array_elements(participants) p
		WHERE resolved_at IS NULL AND p->>'alias' = 'b'`)
	for f.count("b", "SELECT pg_current_xact_id()::text::bigint") < last { // somebody else has the ids now
	}
	if status := f.text("b", fmt.Sprintf("SELECT pg_xact_status('%d'::xid8)", last)); status != "committed" {
		t.Fatalf("transaction %d is %s", last, status)
	}
	for range 2 {
		wantLost(transactions.StateFailed, "another server has taken over")
	}
	for _, e := range f.recover().Entries {
		if report := f.recover(transactions.Forget(e.XID), transactions.Finish()); !report.Clean() {
			t.Errorf("forgetting: %+v", report)
		}
	}
	if report := f.recover(); !report.Clean() || len(report.Entries) != 0 {
		t.Errorf("after they were forgotten: %+v", report)
	}
	f.wantCounts(3, 3, 1)
	f.wantNothingPrepared()
	f.wantUsable()
}
