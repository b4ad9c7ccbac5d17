package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
	"github.com/hare-go/hare/transactions"
)

// An operator sees what a stuck transaction costs: its age in time and in transactions, its owner, the tables that it
// locks, and what is prepared on the servers besides.
//
// Field case 47.
func TestReportTellsWhatAStuckTransactionCosts(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.crash(isDecision)
	f.exec("b", "CREATE TABLE other (n int)")
	for range 3 {
		f.exec("b", "INSERT INTO other VALUES (1)")
	}
	f.prepareByHand("b", "somebody_else")
	report := f.recover()
	for _, e := range report.Entries {
		if diff := cmp.Diff([]string{"note"}, e.Tables); diff != "" {
			t.Errorf("%s locks (-want +got):\n%s", e.Alias, diff)
		}
		if e.Owner == "" || e.Age <= 0 || e.Live {
			t.Errorf("%s: %+v", e.Alias, e)
		}
		if e.Alias == "b" && e.XactAge < 3 {
			t.Errorf("b has seen %d transactions since, want 3 at least", e.XactAge)
		}
	}
	var aliases []string
	for _, d := range report.Databases {
		aliases = append(aliases, d.Alias)
		if d.SlotsMax != 64 || d.Alias == "b" && (d.Others != 1 || d.SlotsUsed < 2 || d.OldestGID == "" || d.Oldest <= 0) || d.Alias == "a" && d.Others != 0 {
			t.Errorf("database %+v", d)
		}
	}
	if slices.Sort(aliases); !slices.Equal(aliases, []string{"a", "b", "c"}) {
		t.Errorf("databases: %q", aliases)
	}
	f.recover(transactions.Finish())
	if got := f.prepared("b"); !slices.Equal(got, []string{"somebody_else"}) {
		t.Errorf("prepared in b: %q, want what is somebody else's", got)
	}
}

func TestOnlyOneTransaction(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.crash(isDecision)
	first := strings.TrimSuffix(f.prepared("a")[0], ":a")
	f.crash(isCommitPrepared)
	both := f.prepared("a")
	second := strings.TrimSuffix(both[0], ":a")
	if second == first {
		second = strings.TrimSuffix(both[1], ":a")
	}
	report := f.recover(transactions.OnlyXID(first), transactions.Finish())
	if len(report.Entries) != 2 || !report.Clean() || report.Decided != "none" || f.decisions("resolved_at IS NULL") != 1 {
		t.Errorf("the undecided one: %+v", report)
	}
	if got := f.prepared("a"); !slices.Equal(got, []string{second + ":a"}) {
		t.Errorf("prepared in a: %q, want the other one", got)
	}
	if report := f.recover(transactions.OnlyXID(first)); report.Decided != "abort" || len(report.Entries) != 0 || !report.Clean() {
		t.Errorf("once more: %+v", report)
	}
	if report := f.recover(transactions.OnlyXID(second), transactions.Finish()); report.Decided != "commit" || !report.Clean() || report.Resolved != 1 {
		t.Errorf("the decided one: %+v", report)
	}
	f.wantCounts(1, 1, 1)
	other := strings.Replace(first, ":", ":"+strings.Repeat("0", 16)+":", 1)
	other = "hare_dtx_c:" + strings.Repeat("0", 16) + other[strings.LastIndex(other, ":"):]
	_, err := transactions.Recover(f.ctx, coordinator, transactions.OnlyXID(other))
	if e := as[*hare.QueryError](t, err); !strings.Contains(e.Error(), other) {
		t.Errorf("the error does not name the transaction: %v", e)
	}
}

// A mixed outcome is reported until an operator forgets it, and what can still be finished cannot be forgotten.
func TestForget(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.crash(isCommitPrepared)
	xid := strings.TrimSuffix(f.prepared("b")[0], ":b")
	forget := func(opts ...transactions.RecoverOption) (transactions.Report, error) {
		return transactions.Recover(f.ctx, coordinator, append(opts, transactions.Forget(xid))...)
	}
	refused := func(step string) {
		t.Helper()
		report, err := forget(transactions.Finish())
		if e := as[*hare.QueryError](t, err); !strings.Contains(e.Error(), xid) {
			t.Errorf("%s: the error does not name the transaction: %v", step, e)
		}
		if f.decisions("resolved_at IS NULL") != 1 {
			t.Errorf("%s: it was forgotten: %+v", step, report)
		}
	}
	refused("prepared in both")
	f.exec("b", fmt.Sprintf("ROLLBACK PREPARED '%s:b'", xid))
	refused("prepared in a")
	if len(f.prepared("a")) != 1 {
		t.Error("forgetting has finished what is in a")
	}
	f.recover(transactions.Finish())

	report, err := forget()
	if err != nil || len(report.Entries) != 1 || report.Entries[0].State != transactions.StateMixed || report.Clean() || f.decisions("resolved_at IS NULL") != 1 {
		t.Errorf("what it would mean: %+v, %v", report, err)
	}
	report, err = forget(transactions.Finish())
	if err != nil || len(report.Entries) != 1 || report.Entries[0].State != transactions.StateForgotten || report.Entries[0].Alias != "b" || !report.Clean() {
		t.Errorf("forgetting: %+v, %v", report, err)
	}
	if report := f.recover(transactions.Finish()); len(report.Entries) != 0 || !report.Clean() {
		t.Errorf("it is still reported: %+v", report)
	}
	if _, err := forget(transactions.Finish()); err == nil {
		t.Error("it was forgotten twice")
	}
	f.wantCounts(1, 1, 0)
}

// What fn returned about another transaction's end is not taken for this one's.
func TestOutcomeOfATransactionAroundAnother(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	for name, inner := range map[string]error{
		"partially committed": &transactions.PartiallyCommittedError{XID: "x"},
		"ambiguous":           &transactions.CommitAmbiguousError{XID: "x"},
		"unknown":             &transactions.CommitUnknownError{Alias: "x", Err: errStop},
		"mixed":               &transactions.MixedOutcomeError{XID: "x"},
		"a committed hook":    &transactions.HookError{Committed: true, Errs: []error{errStop}},
	} {
		calls := 0
		fail := func() error {
			calls++
			return errors.Join(inner, &hare.RetryableError{})
		}
		outer := map[string]error{
			"Distributed": f.distributed(func(d *hare.Distributed) error {
				if err := writeAll(d); err != nil {
					return err
				}
				return fail()
			}, transactions.Retries(3)),
			"Atomic": transactions.Atomic(f.ctx, func(ctx context.Context) error {
				if err := Notes.Create(ctx, &Note{Text: "x"}); err != nil {
					return err
				}
				return fail()
			}, transactions.Retries(3)),
		}
		for function, err := range outer {
			wantOutcome(t, err, transactions.RolledBack)
			if !errors.Is(err, inner) {
				t.Errorf("%s, %s: the error of fn is lost: %v", function, name, err)
			}
		}
		if calls != 2 {
			t.Errorf("%s: fn ran %d times for two calls, and must not run again", name, calls)
		}
	}
	f.wantCounts(0, 0, 0)
}

// A deadlock over two databases ends by a lock time-out, and both calls go through when they may try again.
//
// W30.
func TestRetriesAfterALockTimeout(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	for _, alias := range participants {
		if err := Notes.UsingAlias(alias).Create(f.ctx, &Note{ID: 7, Text: "0"}); err != nil {
			t.Fatal(err)
		}
	}
	touch := func(d *hare.Distributed, alias, text string) error {
		_, err := Notes.Using(d.Client(alias)).Filter(query.Q("id", 7)).Update(d.Context(), query.Set("text", text))
		return err
	}
	met := make(chan struct{}, 2)
	both := make(chan struct{})
	call := func(first, second string) error {
		tries := 0
		return f.distributed(func(d *hare.Distributed) error {
			tries++
			if err := touch(d, first, first); err != nil {
				return err
			}
			if tries == 1 { // both hold one row, and want the other's
				met <- struct{}{}
				<-both
			}
			return touch(d, second, first)
		}, transactions.Retries(20), transactions.LockTimeout(200e6))
	}
	errs := make(chan error, 2)
	go func() { errs <- call("a", "b") }()
	go func() { errs <- call("b", "a") }()
	<-met
	<-met
	close(both)
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if a, b := f.text("a", "SELECT text FROM note"), f.text("b", "SELECT text FROM note"); a != b {
		t.Errorf("a has %q and b %q, of different calls", a, b)
	}
}
