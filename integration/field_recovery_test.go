package integration

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

// entryOf is the entry of an alias.
func entryOf(t *testing.T, report transactions.Report, alias string) transactions.Entry {
	t.Helper()
	for _, e := range report.Entries {
		if e.Alias == alias {
			return e
		}
	}
	t.Fatalf("no entry of %s in %+v", alias, report)
	return transactions.Entry{}
}

// A role that does not own what is prepared cannot finish it. Its entry says who can, the others are finished, the
// decision stays open until the owner comes.
//
// Field case 22. W34.
func TestFieldRecoveryByAnotherRole(t *testing.T) {
	t.Parallel()
	for name, crashed := range map[string]struct {
		at    func(e faults.Event) bool
		notes int64
	}{"to commit": {isCommitPrepared, 1}, "to roll back": {isDecision, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			f.crash(crashed.at)
			owner := f.urls["a"]
			_, f.urls["a"] = f.role("a")
			f.reconnect()
			for range 2 {
				report := f.recover(transactions.Finish())
				e := entryOf(t, report, "a")
				if e.State != transactions.StateFailed || e.Owner == "" || !strings.Contains(e.Reason, `"`+e.Owner+`"`) || report.Clean() || report.Resolved != 0 {
					t.Errorf("by another role: %+v", report)
				}
				if refusal := as[*hare.DatabaseError](t, e.Err); refusal.SQLState != "42501" {
					t.Errorf("by another role: %v", refusal)
				}
			}
			f.wantCounts(crashed.notes, 0, crashed.notes)
			f.urls["a"] = owner
			f.reconnect()
			if report := f.recover(transactions.Finish()); !report.Clean() {
				t.Errorf("by the owner: %+v", report)
			}
			f.wantCounts(crashed.notes, crashed.notes, crashed.notes)
			f.wantNothingPrepared()
		})
	}
}

// The databases are on one server, whose list of prepared transactions is one. A second coordinator goes by the same
// alias and shares the participants; neither touches what is the other's.
//
// Field case 37. Field case 39. Field case 44. W4.
func TestFieldTwoCoordinatorsOnOneServer(t *testing.T) {
	t.Parallel()
	urls := neighbours(t, 4)
	first := trioOf(t, urls[0], urls[1], urls[2])
	second := trioOf(t, urls[3], urls[1], urls[2])
	first.crash(isCommitPrepared)
	second.crash(isDecision)
	report := first.recover(transactions.Finish())
	if diff := cmp.Diff([]string{"a", "b"}, aliasesOf(report.Entries)); diff != "" || !report.Clean() || report.Resolved != 1 {
		t.Errorf("the first: %+v\n%s", report, diff)
	}
	first.wantCounts(1, 1, 1)
	if len(second.prepared("a")) != 1 || len(second.prepared("b")) != 1 {
		t.Error("the first has touched what is the second's")
	}
	report = second.recover(transactions.Finish())
	if diff := cmp.Diff([]string{"a", "b"}, aliasesOf(report.Entries)); diff != "" || !report.Clean() {
		t.Errorf("the second: %+v\n%s", report, diff)
	}
	second.wantCounts(0, 1, 1)
	first.wantNothingPrepared()
	first.wantUsable()
	second.wantUsable()
}

// A participant is gone from the configuration. The decision stays open and says what is missing.
//
// Field case 40. W33.
func TestFieldParticipantNotConfigured(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.crash(isCommitPrepared)
	b := f.urls["b"]
	delete(f.urls, "b")
	f.reconnect()
	for run := range 2 {
		report := f.recover(transactions.Finish())
		e := entryOf(t, report, "b")
		if e.State != transactions.StateFailed || !strings.Contains(e.Reason, "no configured connection") || report.Resolved != 0 || report.Clean() {
			t.Errorf("run %d without b: %+v", run, report)
		}
	}
	if n := f.decisions("resolved_at IS NULL AND outcome = 'commit'"); n != 1 {
		t.Errorf("%d open decisions, want the one", n)
	}
	f.urls["renamed"] = b // the database counts, not its alias
	f.reconnect()
	report := f.recover(transactions.Finish())
	if e := entryOf(t, report, "renamed"); e.State != transactions.StateDone || report.Resolved != 1 || !report.Clean() {
		t.Errorf("with b under another alias: %+v", report)
	}
	delete(f.urls, "renamed")
	f.urls["b"] = b
	f.reconnect()
	f.wantCounts(1, 1, 1)
	f.wantNothingPrepared()
}
