package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/transactions"
)

// The xids of the calls of good.
const (
	xid1 = "hare_dtx_a:0:1"
	xid2 = "hare_dtx_b:0:2"
)

// good is the evidence of a run without fault: call 1 committed in all three databases, call 2 was killed before its decision, its
// participant finished by recovery,
// and call 3 was rolled back before it began.
func good() *evidence {
	at := time.Unix(1000, 0)
	e := &evidence{Databases: map[string]*holdings{}}
	for _, name := range databases {
		h := &holdings{Balances: map[int64]int64{}}
		for account := range int64(accountsEach) {
			h.Balances[account+1] = firstBalance
		}
		e.Databases[name] = h
	}
	one := &intent{Coordinator: "a", Fate: fateCommit, Legs: []leg{{Database: "b", Account: 2, Amount: 5}, {Database: "a", Account: 1, Amount: -7}, {Database: "c", Account: 3, Amount: 2}}}
	for _, l := range one.Legs {
		h := e.Databases[l.Database]
		h.Balances[l.Account] += l.Amount
		h.Ledger = append(h.Ledger, row{Call: "1", XID: xid1, Account: l.Account, Amount: l.Amount})
	}
	e.Databases["a"].Decisions = []verdict{{XID: xid1, Outcome: "commit", Resolved: true}}
	e.Databases["b"].Decisions = []verdict{{XID: xid2, Outcome: "abort", Resolved: true}}
	two := &intent{Coordinator: "b", Fate: fateCommit, Legs: []leg{{Database: "b", Account: 1, Amount: 1}, {Database: "c", Account: 1, Amount: -1}}}
	e.Journal = []line{
		{At: at, Call: "1", Intent: one},
		{At: at, Call: "1", XID: xid1},
		{At: at, Call: "1", XID: xid1, Hook: hookCommit},
		{At: at.Add(time.Second), Call: "1", Result: &result{Outcome: transactions.PartiallyCommitted.String(), Pending: []string{xid1 + ":c"}}},
		{At: at, Call: "2", Intent: two},
		{At: at, Call: "2", XID: xid2},
		{At: at.Add(3 * time.Second), Recovered: &recovered{GID: xid1 + ":c", Action: "commit", State: "done", Began: at.Add(2 * time.Second)}},
		{At: at.Add(3 * time.Second), Recovered: &recovered{GID: xid2 + ":c", Action: "rollback", State: "done", Began: at.Add(2 * time.Second)}},
		{At: at, Call: "3", Intent: two},
		{At: at, Call: "3", Result: &result{Outcome: transactions.RolledBack.String(), Error: "no connection"}},
	}
	return e
}

// remove takes call 1's row out of a database, with its money.
func (h *holdings) remove() {
	for _, row := range h.Ledger {
		h.Balances[row.Account] -= row.Amount
	}
	h.Ledger = nil
}

func TestCheckFindsNothingInAGoodRun(t *testing.T) {
	if found := check(good()); len(found) > 0 {
		t.Errorf("%q", found)
	}
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	tests := []struct {
		name   string
		tamper func(e *evidence)
		want   []string // kinds
	}{
		{"a participant lost its part", func(e *evidence) { e.Databases["c"].remove() },
			[]string{"money was made or lost", "torn", "decided and not done"}},
		{"every database lost it, and the caller was told it is committed", func(e *evidence) {
			for _, h := range e.Databases {
				h.remove()
			}
			e.Databases["a"].Decisions = nil
		}, []string{"a false report", "a wrong hook"}},
		{"every database lost it, and the decision is there", func(e *evidence) {
			for _, h := range e.Databases {
				h.remove()
			}
			e.Journal[3].Result = nil
		}, []string{"a wrong hook", "decided and not done", "decided and not done", "decided and not done"}},
		{"the caller was told it is rolled back", func(e *evidence) {
			e.Journal[3].Result = &result{Outcome: transactions.RolledBack.String(), Pending: []string{xid1 + ":c"}}
		}, []string{"a false report"}},
		{"the caller was told of a mixed end", func(e *evidence) {
			e.Journal[3].Result = &result{Outcome: transactions.Mixed.String(), Pending: []string{xid1 + ":c"}}
		}, []string{"an outcome that cannot be"}},
		{"applied twice in one database", func(e *evidence) {
			h := e.Databases["b"]
			h.Ledger = append(h.Ledger, h.Ledger[0])
			h.Balances[2] += 5
		}, []string{"money was made or lost", "applied more than once"}},
		{"two attempts", func(e *evidence) {
			e.Journal = slices.Insert(e.Journal, 2, line{Call: "1", XID: "hare_dtx_a:0:3"})
			e.Databases["b"].Ledger[0].XID = "hare_dtx_a:0:3"
		}, []string{"two attempts were applied", "a wrong hook", "decided and not done"}},
		{"a statement lost, and its row kept", func(e *evidence) { e.Databases["b"].Balances[2] -= 5 },
			[]string{"a balance is not the sum of its ledger", "money was made or lost"}},
		{"another amount than was meant", func(e *evidence) {
			e.Databases["b"].Ledger[0].Amount = 4
			e.Databases["b"].Balances[2]--
		}, []string{"a row that no call meant to write", "money was made or lost", "torn", "decided and not done"}},
		{"a call that was never begun", func(e *evidence) { e.Journal[0].Intent = nil },
			[]string{"a row that no call meant to write", "a row that no call meant to write", "a row that no call meant to write",
				"recovery found what no call has left"}},
		{"a hook that ran twice", func(e *evidence) { e.Journal = append(e.Journal, e.Journal[2]) },
			[]string{"a wrong hook"}},
		{"a hook that did not run", func(e *evidence) { e.Journal = slices.Delete(e.Journal, 2, 3) },
			[]string{"a wrong hook"}},
		{"a hook of another end", func(e *evidence) { e.Journal[2].Hook = hookRollback },
			[]string{"a wrong hook"}},
		{"a call that was to fail", func(e *evidence) { e.Journal[0].Intent.Fate = fateRefuse },
			[]string{"applied although it was to fail"}},
		{"left prepared", func(e *evidence) { e.Databases["c"].Prepared = []string{xid2 + ":c"} },
			[]string{"left prepared"}},
		{"an open decision", func(e *evidence) { e.Databases["a"].Decisions[0].Resolved = false },
			[]string{"left undone"}},
		{"recovery that did not end", func(e *evidence) { e.Unfinished = 1 },
			[]string{"recovery did not come to its end"}},
		{"recovery that found a part rolled back", func(e *evidence) { e.Journal[6].Recovered.State = "mixed" },
			[]string{"recovery found an outcome that cannot be"}},
		{"a part left prepared of which the caller was not told", func(e *evidence) { e.Journal[3].Result.Pending = nil },
			[]string{"left prepared without a word"}},
		{"a run in which nothing committed", func(e *evidence) {
			for _, h := range e.Databases {
				h.remove()
				h.Decisions = nil
			}
			e.Journal = e.Journal[8:]
		}, []string{"nothing happened"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := good()
			test.tamper(e)
			var kinds []string
			for _, v := range check(e) {
				kinds = append(kinds, v.Kind)
			}
			slices.Sort(kinds)
			slices.Sort(test.want)
			if !slices.Equal(kinds, test.want) {
				t.Errorf("found %q, want %q", check(e), test.want)
			}
		})
	}
}

func TestViolationsNameCallAndXID(t *testing.T) {
	e := good()
	e.Databases["c"].remove()
	for _, v := range check(e) {
		if v.Kind == "torn" && (v.Call != "1" || v.XID != xid1 || !strings.Contains(v.Text, "[b a] and not in [c]")) {
			t.Errorf("%s", v)
		}
	}
}

func TestATornLineEndsAJournal(t *testing.T) {
	lines, err := parseJournal([]byte("{\"Call\":\"1\"}\n{\"Call\":\"2\"}\n{\"Call\":\"3"))
	if err != nil || len(lines) != 2 {
		t.Errorf("%+v, %v", lines, err)
	}
	if _, err := parseJournal([]byte("{\"Call\":\"1\n{\"Call\":\"2\"}\n")); err == nil {
		t.Error("a torn line in the middle is no error")
	}
}
