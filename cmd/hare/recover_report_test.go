package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/internal/plaintext"
	"github.com/hare-go/hare/transactions"
)

const (
	someXID  = "hare_dtx_library:b88b0a6608fa9140:6ea7c41cfaa081487da2713a561b2ec7"
	otherXID = "hare_dtx_library:b88b0a6608fa9140:97eaf7be453a1828562bca80fdce648d"
)

// stuck is what two crashes have left: one before and one after the decision.
func stuck() transactions.Report {
	entry := func(xid, alias string, age time.Duration, action transactions.Action, reason string, tables ...string) transactions.Entry {
		return transactions.Entry{XID: xid, Alias: alias, GID: xid + ":" + alias, Owner: "hare", Age: age, Action: action, Reason: reason, State: transactions.StateNeeded, Tables: tables, XactAge: 12}
	}
	const decided, open = "the decision to commit is durable", "no decision: its call died before it decided, and recovery makes sure that it never will"
	return transactions.Report{
		Coordinator: "library", ID: "b88b0a6608fa9140", Unresolved: 1,
		Entries: []transactions.Entry{
			entry(otherXID, "billing", 9*time.Minute, transactions.ActionRollback, open, "deposit"),
			entry(someXID, "billing", 75*time.Minute, transactions.ActionCommit, decided, "account", "deposit"),
			entry(otherXID, "inventory", 9*time.Minute, transactions.ActionRollback, open, "inventory"),
			entry(someXID, "inventory", 75*time.Minute, transactions.ActionCommit, decided, "inventory"),
		},
		Databases: []transactions.DatabaseState{
			{Alias: "library", SlotsMax: 64},
			{Alias: "billing", SlotsUsed: 2, SlotsMax: 64, Oldest: 75 * time.Minute, OldestGID: someXID + ":billing", XactAge: 12},
			{Alias: "inventory", SlotsUsed: 60, SlotsMax: 64, Oldest: 26 * time.Hour, OldestGID: "erp_4711", Others: 58},
		},
	}
}

// library are the options of most calls.
func library(change func(o *recoverOptions)) recoverOptions {
	o := recoverOptions{coordinator: "library", config: defaultConfig, format: "table", olderThan: defaultAge}
	if change != nil {
		change(&o)
	}
	return o
}

func finishing(o *recoverOptions) { o.finish = true }

// printed is a report as text on a screen of some width.
func printed(t *testing.T, s screen, report transactions.Report, opts recoverOptions) string {
	t.Helper()
	var b bytes.Buffer
	s.Writer = &b
	if err := writeReport(s, round{report: report}, opts); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func wantText(t *testing.T, got, want string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const stuckText = `   DATABASE   AGE    OWNER  ACTION             STATE   LOCKED TABLES
hare_dtx_library:b88b0a6608fa9140:6ea7c41cfaa081487da2713a561b2ec7
~  billing    1h15m  hare   COMMIT PREPARED    needed  account, deposit
~  inventory  1h15m  hare   COMMIT PREPARED    needed  inventory
    why: the decision to commit is durable
hare_dtx_library:b88b0a6608fa9140:97eaf7be453a1828562bca80fdce648d
~  billing    9m0s   hare   ROLLBACK PREPARED  needed  deposit
~  inventory  9m0s   hare   ROLLBACK PREPARED  needed  inventory
    why: no decision: its call died before it decided, and recovery makes sure that it never will
~ "inventory": 60 of 64 slots of its server for prepared transactions are taken; the oldest prepared transaction of its server is 1d2h old: erp_4711; 58 here are of another application or coordinator, and hare leaves them alone
coordinator "library": 4 waiting
to finish: hare distributed-recover --coordinator library --finish
`

func TestReportOfWhatIsStuck(t *testing.T) {
	wantText(t, printed(t, screen{}, stuck(), library(nil)), stuckText)
}

const finishedText = `   DATABASE   AGE    OWNER    ACTION             STATE   LOCKED TABLES
hare_dtx_library:b88b0a6608fa9140:6ea7c41cfaa081487da2713a561b2ec7
!  billing    1h15m  billing  COMMIT PREPARED    failed  account, deposit
    why: the decision to commit is durable; only its owner "billing" or a superuser may finish it: run recovery with a connection of that role
    error: connection "billing": permission denied to finish prepared transaction (SQLSTATE 42501)
    next: in hare.yml let "billing" log in as "billing", and run this again
+  inventory  1h15m  hare     COMMIT PREPARED    done    inventory
    why: the decision to commit is durable
hare_dtx_library:b88b0a6608fa9140:97eaf7be453a1828562bca80fdce648d
+  inventory  9m0s   hare     ROLLBACK PREPARED  done    inventory
    why: no decision, and there never will be: its abort is written
! "archive" could not be looked at: connection "archive": connection refused
    next: run this again when it can be; what is prepared there stays prepared, and keeps its locks
coordinator "library": 2 finished, 1 not; 2 younger than 300 s, left to their calls (--older-than 0 takes them, too, and is safe)
`

func TestReportOfWhatWasFinished(t *testing.T) {
	report := stuck()
	report.Databases = nil
	report.Entries = report.Entries[1:]
	for i := range report.Entries {
		e := &report.Entries[i]
		e.State = transactions.StateDone
		if e.Action == transactions.ActionRollback {
			e.Reason = "no decision, and there never will be: its abort is written"
		}
	}
	e := &report.Entries[0]
	e.Owner, e.State = "billing", transactions.StateFailed
	e.Err = &hare.DatabaseError{Alias: "billing", SQLState: "42501", Message: "permission denied to finish prepared transaction"}
	e.Reason += `; only its owner "billing" or a superuser may finish it: run recovery with a connection of that role`
	report.Unreachable = []transactions.Unreachable{{Alias: "archive", Err: errors.New(`connection "archive": connection refused`)}}
	report.Young = 2
	wantText(t, printed(t, screen{}, report, library(finishing)), finishedText)
}

// mixed is a transaction that somebody has rolled back by hand in billing.
func mixed() transactions.Report {
	return transactions.Report{
		Coordinator: "library", ID: "b88b0a6608fa9140", Unresolved: 1, Decided: "commit",
		Entries: []transactions.Entry{{XID: someXID, Alias: "billing", GID: someXID + ":billing", Age: 75 * time.Minute, Action: transactions.ActionNone, State: transactions.StateMixed,
			Reason: "the decision to commit is durable, but its prepared transaction is gone without a commit: repair the data of this database by hand",
			Err:    errors.New("its prepared transaction is gone without a commit although the decision is to commit")}},
		Participants: []transactions.Participant{{Alias: "inventory", Has: transactions.WritesCommitted}, {Alias: "billing", Has: transactions.WritesLost}},
	}
}

const forgetText = `   DATABASE  AGE    OWNER  ACTION  STATE  LOCKED TABLES
hare_dtx_library:b88b0a6608fa9140:6ea7c41cfaa081487da2713a561b2ec7
!  billing   1h15m  -      none    mixed
    why: the decision to commit is durable, but its prepared transaction is gone without a commit: repair the data of this database by hand
    error: its prepared transaction is gone without a commit although the decision is to commit
decision: commit; its writes are in "library", "inventory"; they are lost in "billing"
Forgetting it would mean:
  - hare repairs nothing: its writes are in "library", "inventory"; they are lost in "billing", and that stays as it is
  - to repair the data write by hand into "billing" what the transaction was to write there, or take back by hand what it has written in "library", "inventory"
  - it is not reported any more. Its row is marked as resolved, and kept; a database that comes back with the transaction still prepared gets its commit
coordinator "library": nothing is forgotten yet
to forget: hare distributed-recover --coordinator library --forget hare_dtx_library:b88b0a6608fa9140:6ea7c41cfaa081487da2713a561b2ec7 --finish
`

func TestForgettingIsExplained(t *testing.T) {
	wantText(t, printed(t, screen{}, mixed(), library(func(o *recoverOptions) { o.forget = someXID })), forgetText)

	report := mixed()
	report.Entries[0].State = transactions.StateForgotten
	report.Participants[0].Has = transactions.WritesUnknown
	got := printed(t, screen{}, report, library(func(o *recoverOptions) { o.forget, o.finish = someXID, true }))
	for _, part := range []string{"+  billing", "Forgetting it means:", `it is not known whether they are in "inventory"`, `look into "inventory"`, `has written in "library"`, "is forgotten, and not reported again"} {
		if !strings.Contains(got, part) {
			t.Errorf("it does not say %q:\n%s", part, got)
		}
	}
	if strings.Contains(got, "to forget:") {
		t.Errorf("it proposes what is done:\n%s", got)
	}
}

func TestMixedNamesTheNextCommand(t *testing.T) {
	got := printed(t, screen{}, mixed(), library(func(o *recoverOptions) { o.config, o.olderThan = "my hare.yml", 0 }))
	want := "    next: repair the data, then give the transaction up. This tells how, and changes nothing:\n" +
		"      hare distributed-recover --coordinator library --config 'my hare.yml' --older-than 0 --forget " + someXID + "\n"
	if !strings.Contains(got, want) {
		t.Errorf("it does not say\n%s\nbut\n%s", want, got)
	}
}

// On a terminal texts are wrapped between words, columns stay columns, and what is to be copied stays whole.
func TestNarrowTerminal(t *testing.T) {
	report := stuck()
	report.Entries = report.Entries[3:]
	report.Entries[0].Tables = []string{"inventory", "inventory_history", "shelf", "shelf_history"}
	report.Entries[0].XactAge = 123_456_789
	report.Databases = nil
	wantText(t, printed(t, screen{terminal: true, width: 70}, report, library(nil)), `   DATABASE   AGE    OWNER  ACTION           STATE   LOCKED TABLES
hare_dtx_library:b88b0a6608fa9140:6ea7c41cfaa081487da2713a561b2ec7
~  inventory  1h15m  hare   COMMIT PREPARED  needed  inventory,
                                                     inventory_history,
                                                     shelf,
                                                     shelf_history
    why: the decision to commit is durable
    VACUUM cannot clean up what 123 million later transactions have
    left
coordinator "library": 1 waiting
to finish: hare distributed-recover --coordinator library --finish
`)
}

func TestColoursStandForStates(t *testing.T) {
	report := stuck()
	report.Entries = report.Entries[:2]
	report.Entries[0].State = transactions.StateDone
	report.Databases = nil
	colourful := printed(t, screen{terminal: true, colours: true}, report, library(finishing))
	for _, part := range []string{"\x1b[1m" + someXID + "\x1b[0m", "\x1b[33m~\x1b[0m  billing", "\x1b[32m+\x1b[0m  billing", "\x1b[33mneeded\x1b[0m", "\x1b[32mdone\x1b[0m  "} {
		if !strings.Contains(colourful, part) {
			t.Errorf("there is no %q in\n%q", part, colourful)
		}
	}
	plain := printed(t, screen{}, report, library(finishing))
	if strings.Contains(plain, "\x1b") {
		t.Errorf("colours without a terminal: %q", plain)
	}
	for _, code := range []string{"0", "1", "32", "33"} {
		colourful = strings.ReplaceAll(colourful, "\x1b["+code+"m", "")
	}
	wantText(t, colourful, plain) // colours say nothing that the text does not, and move no column
}

// Names come from outside. None may reach a terminal as a command to it, or break a line.
func TestNamesCannotCommandTheTerminal(t *testing.T) {
	report := stuck()
	e := &report.Entries[0]
	e.Owner, e.Tables, e.Err = "eve\x1b[2J", []string{"a\nb", "\u202egro"}, errors.New("first\nsecond\x07")
	report.Databases[2].OldestGID = "\x1b]0;title\x07"
	got := printed(t, screen{terminal: true, colours: true, width: 80}, report, library(nil))
	for _, bad := range []string{"\x1b[2J", "\x1b]", "\x07", "\u202e", "a\nb"} {
		if strings.Contains(got, bad) {
			t.Errorf("%q has come through:\n%q", bad, got)
		}
	}
	if !strings.Contains(got, `eve\x1b[2J`) || !strings.Contains(got, "first second") {
		t.Errorf("the names are lost:\n%s", got)
	}
}

func TestSummary(t *testing.T) {
	one := []transactions.Entry{{State: transactions.StateNeeded}}
	unreachable := []transactions.Unreachable{{Alias: "a", Err: errors.New("x")}}
	asked := func(o *recoverOptions) { o.xid = someXID }
	for _, test := range []struct {
		name   string
		report transactions.Report
		opts   func(o *recoverOptions)
		want   string
	}{
		{"nothing", transactions.Report{}, nil, "no distributed transaction is waiting"},
		{"nothing in those that answered", transactions.Report{Unreachable: unreachable}, finishing, "no distributed transaction is waiting in the databases that were looked at"},
		{"nothing of one", transactions.Report{}, asked, "nothing of it is waiting"},
		{"one", transactions.Report{Entries: one}, nil, "1 waiting"},
		{"one more that is stuck", transactions.Report{Entries: append(one, transactions.Entry{State: transactions.StateMixed})}, nil, "1 waiting, 1 that --finish cannot finish as things are"},
		{"young", transactions.Report{Young: 3}, func(o *recoverOptions) { o.olderThan = age(time.Minute) },
			"no distributed transaction is waiting; 3 younger than 60 s, left to their calls (--older-than 0 takes them, too, and is safe)"},
		{"complete", transactions.Report{Resolved: 2}, nil, "no distributed transaction is waiting; 2 committed everywhere, whose rows --finish marks as resolved"},
		{"purged", transactions.Report{Resolved: 2, Purged: 7}, finishing, "no distributed transaction is waiting; 7 old rows removed"},
	} {
		test.report.Coordinator, test.report.ID = "c", "b88b0a6608fa9140"
		if got, want := summary(test.report, library(test.opts)), `coordinator "c": `+test.want; got != want {
			t.Errorf("%s: %q, want %q", test.name, got, want)
		}
	}
	if got := summary(transactions.Report{Coordinator: "c"}, library(nil)); !strings.Contains(got, "never coordinated") || !strings.Contains(got, "hare_dtx_ALIAS:...") {
		t.Errorf("a database that is no coordinator: %q", got)
	}
}

func TestWhatIsSaidOfOneTransaction(t *testing.T) {
	for _, test := range []struct {
		name   string
		report transactions.Report
		want   []string
	}{
		{"nothing of it", transactions.Report{Decided: "none"}, []string{"decision: none, and nothing of it is prepared", "its row was removed", "rolled back"}},
		{"no decision yet", transactions.Report{Decided: "none", Young: 1}, []string{"decision: none\n", "--older-than 0"}},
		{"aborted", transactions.Report{Decided: "abort"}, []string{"decision: abort", "never be committed"}},
		{"resolved", transactions.Report{Decided: "commit"}, []string{"decision: commit, and resolved", "or it was forgotten"}},
		{"on its way", transactions.Report{Decided: "commit", Participants: []transactions.Participant{{Alias: "a", Has: transactions.WritesPrepared}, {Alias: "b", Has: transactions.WritesUnknown}}},
			[]string{`its writes are in "library"; they wait to be committed in "a"; it is not known whether they are in "b"`}},
	} {
		test.report.Coordinator, test.report.ID = "library", "b88b0a6608fa9140"
		got := printed(t, screen{}, test.report, library(func(o *recoverOptions) { o.xid = someXID }))
		for _, part := range test.want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: it does not say %q:\n%s", test.name, part, got)
			}
		}
	}
}

// A round that ended early reports what it did, and concludes nothing.
func TestReportOfARoundThatEndedEarly(t *testing.T) {
	var b bytes.Buffer
	if err := writeReport(screen{Writer: &b}, round{report: stuck(), err: io.ErrUnexpectedEOF}, library(nil)); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.Contains(got, someXID) || strings.Contains(got, "coordinator \"library\"") || strings.Contains(got, "to finish") {
		t.Errorf("it says\n%s", got)
	}
}

func TestCommandsCanBeCopied(t *testing.T) {
	for word, want := range map[string]string{"library": "library", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "/etc/hare.yml": "/etc/hare.yml", "склад": "'склад'", someXID: someXID} {
		if got, _ := plaintext.Shell(word); got != want {
			t.Errorf("Shell(%q) = %s, want %s", word, got, want)
		}
	}
}

func TestNextStepsOfErrors(t *testing.T) {
	base := hare.DatabaseError{Alias: "library", Message: "x"}
	denied := base
	denied.SQLState = "42501"
	for _, test := range []struct {
		err  error
		want string
	}{
		{&hare.ConnectionError{DatabaseError: base}, "when it answers"},
		{&hare.TimeoutError{DatabaseError: base}, "when it answers"},
		{fmt.Errorf("around it: %w", &denied), "SELECT on public.hare_distributed_decisions"},
		{&base, ""},
		{&hare.QueryError{Reason: "tells itself"}, ""},
	} {
		got := library(nil).next(test.err)
		if !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
	}
}

func TestStandby(t *testing.T) {
	report := transactions.Report{ID: "1", Databases: []transactions.DatabaseState{{Alias: "reports", SlotsMax: 64, Standby: true}}}
	if got := printed(t, screen{}, report, library(nil)); !strings.Contains(got, `~ "reports": it is a standby`) {
		t.Errorf("it says\n%s", got)
	}
}

func TestSlots(t *testing.T) {
	for _, test := range []struct {
		used, most int
		want       string
	}{{0, 0, ""}, {0, 64, ""}, {51, 64, ""}, {52, 64, "52 of 64 slots"}, {64, 64, "all 64 slots"}, {1, 1, "none can be prepared"}} {
		report := transactions.Report{ID: "1", Databases: []transactions.DatabaseState{{Alias: "billing", SlotsUsed: test.used, SlotsMax: test.most}}}
		got := printed(t, screen{}, report, library(nil))
		if strings.Contains(got, "slots") != (test.want != "") || !strings.Contains(got, test.want) {
			t.Errorf("%d of %d: it says\n%s", test.used, test.most, got)
		}
		report.Entries = []transactions.Entry{{State: transactions.StateDone}}
		if got := printed(t, screen{}, report, library(finishing)); strings.Contains(got, "slots") {
			t.Errorf("%d of %d, before some were freed: it says\n%s", test.used, test.most, got)
		}
	}
}
