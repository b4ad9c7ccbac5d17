package integration

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/hare-go/hare/hare"
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
	primary := ownServer(t, servers.Options{Fast: true})
	database, err := primary.CreateDatabase(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	f := trioOf(t, urls[0], urls[1], database)
	if err := f.distributed(writeAll); err != nil {
		t.Fatal(err)
	}
	standby := ownServer(t, servers.Options{Fast: true, StandbyOf: primary})
	f.crash(isDelivery)
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
	_, err = transactions.Recover(f.ctx, coordinator, transactions.Forget(entryOf(t, report, "b").XID), transactions.Finish())
	if e := as[*hare.QueryError](t, err); !strings.Contains(e.Error(), "can still be finished") {
		t.Errorf("forgetting what waits for its primary: %v", e)
	}
	f.wantCounts(2, 2, 1)
	lead(primary)
	if now := f.prepared("b"); fmt.Sprint(now) != fmt.Sprint(left) || len(left) != 1 {
		t.Errorf("prepared in the primary: %q, want %q", now, left)
	}

	if err := primary.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := standby.Exec(t.Context(), "b", "SELECT pg_promote()"); err != nil {
		t.Fatal(err)
	}
	lead(standby)
	report = f.recover(transactions.Finish())
	lost := entryOf(t, report, "b")
	if lost.State != transactions.StateMixed || !strings.Contains(lost.Err.Error(), "set back") || report.Clean() || report.Resolved != 0 {
		t.Errorf("recovery after the promotion: %+v", report)
	}
	var decided []struct{ Xact string }
	if err := json.Unmarshal([]byte(f.text("c", "SELECT participants::text FROM public.hare_distributed_decisions WHERE resolved_at IS NULL")), &decided); err != nil || len(decided) != 2 {
		t.Fatalf("%v, %v", decided, err)
	}
	id, err := strconv.ParseInt(decided[1].Xact, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for f.count("b", "SELECT pg_current_xact_id()::text::bigint") < id { // somebody else has it now
	}
	if status := f.text("b", fmt.Sprintf("SELECT pg_xact_status('%d'::xid8)", id)); status != "committed" {
		t.Fatalf("transaction %d is %s", id, status)
	}
	for range 2 {
		report = f.recover(transactions.Finish())
		if e := entryOf(t, report, "b"); e.State != transactions.StateFailed || !strings.Contains(e.Reason, "took over") || report.Clean() || report.Resolved != 0 {
			t.Errorf("recovery when its id was given away: %+v", report)
		}
	}
	if report := f.recover(transactions.Forget(lost.XID), transactions.Finish()); !report.Clean() {
		t.Errorf("forgetting: %+v", report)
	}
	if report := f.recover(); !report.Clean() || len(report.Entries) != 0 {
		t.Errorf("after it was forgotten: %+v", report)
	}
	f.wantCounts(2, 2, 1)
	f.wantNothingPrepared()
	f.wantUsable()
}
