package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hare-go/hare/transactions"
)

// violation is a promise that was not kept.
type violation struct {
	Kind, Call, XID, Text string
}

// String is the violation for people.
func (v violation) String() string {
	text := v.Kind
	if v.Call != "" {
		text += ": call " + v.Call
	}
	if v.XID != "" {
		text += ", xid " + v.XID
	}
	return text + ": " + v.Text
}

// record is what is known of a call.
type record struct {
	id     string
	intent intent
	xids   []string            // of its attempts
	result *result             // nil: its process died first
	ended  time.Time           // when it was told the result
	rows   map[string][]string // xids of the rows that it has in each database
	hooks  map[string][]hook   // those that have run, by xid
}

// checker compares what was intended and told with what there is.
type checker struct {
	*evidence
	calls map[string]*record
	byXID map[string]*record
	found []violation
}

// check finds every violation.
func check(e *evidence) []violation {
	c := &checker{evidence: e, calls: map[string]*record{}, byXID: map[string]*record{}}
	c.readJournal()
	c.readLedgers()
	c.checkMoney()
	for _, id := range slices.Sorted(maps.Keys(c.calls)) {
		c.checkCall(c.calls[id])
	}
	c.checkDecisions()
	c.checkRecovery()
	if len(c.found) == 0 && !slices.ContainsFunc(c.Journal, func(l line) bool { return l.Result != nil && l.Result.committed() }) {
		c.report("nothing happened", nil, "no call committed, so that nothing was put to the test")
	}
	return c.found
}

func (c *checker) report(kind string, r *record, format string, args ...any) {
	v := violation{Kind: kind, Text: fmt.Sprintf(format, args...)}
	if r != nil {
		v.Call, v.XID = r.id, strings.Join(r.xids, ", ")
	}
	c.found = append(c.found, v)
}

func (c *checker) readJournal() {
	for _, l := range c.Journal {
		if l.Intent != nil {
			c.calls[l.Call] = &record{id: l.Call, intent: *l.Intent, rows: map[string][]string{}, hooks: map[string][]hook{}}
		}
		r := c.calls[l.Call]
		if r == nil {
			continue
		}
		switch {
		case l.Hook != "":
			r.hooks[l.XID] = append(r.hooks[l.XID], l.Hook)
		case l.XID != "":
			r.xids = append(r.xids, l.XID)
			c.byXID[l.XID] = r
		}
		if l.Result != nil {
			r.result, r.ended = l.Result, l.At
		}
	}
}

// readLedgers finds rows that nobody meant to write, and gives the others to their calls.
func (c *checker) readLedgers() {
	for name, h := range c.Databases {
		for _, row := range h.Ledger {
			r := c.calls[row.Call]
			meant := r != nil && slices.Contains(r.xids, row.XID) && slices.ContainsFunc(r.intent.Legs, func(l leg) bool {
				return l.Database == name && l.Account == row.Account && l.Amount == row.Amount
			})
			if !meant {
				c.report("a row that no call meant to write", r, "%s holds %+v", name, row)
				continue
			}
			r.rows[name] = append(r.rows[name], row.XID)
		}
	}
}

// checkMoney compares the balances with what there was and with the ledgers.
func (c *checker) checkMoney() {
	var sum int64
	for name, h := range c.Databases {
		want := map[int64]int64{}
		for account := range int64(accountsEach) {
			want[account+1] = firstBalance
		}
		for _, row := range h.Ledger {
			want[row.Account] += row.Amount
		}
		for _, account := range slices.Sorted(maps.Keys(want)) {
			if got := h.Balances[account]; got != want[account] {
				c.report("a balance is not the sum of its ledger", nil, "account %d of %s has %d, and its ledger says %d", account, name, got, want[account])
			}
			sum += h.Balances[account]
		}
	}
	if want := int64(len(c.Databases) * accountsEach * firstBalance); sum != want {
		c.report("money was made or lost", nil, "all accounts together have %d, and had %d", sum, want)
	}
}

// checkCall compares a call's rows with each other and with what its caller was told.
func (c *checker) checkCall(r *record) {
	var with, without []string
	var xids []string
	for _, l := range r.intent.Legs {
		if l.Amount == 0 {
			continue
		}
		rows := r.rows[l.Database]
		if len(rows) > 1 {
			c.report("applied more than once", r, "%s holds %d rows: %q", l.Database, len(rows), rows)
		}
		if len(rows) == 0 {
			without = append(without, l.Database)
			continue
		}
		with = append(with, l.Database)
		xids = append(xids, rows...)
	}
	if len(with) > 0 && len(without) > 0 {
		c.report("torn", r, "%s, and it is in %v and not in %v", toldOf(r), with, without)
		return
	}
	slices.Sort(xids)
	if attempts := slices.Compact(xids); len(attempts) > 1 {
		c.report("two attempts were applied", r, "%q", attempts)
	}
	c.checkOutcome(r, len(with) > 0)
	c.checkHooks(r, xids)
}

// checkOutcome compares what a caller was told with whether the call is in the databases.
func (c *checker) checkOutcome(r *record, there bool) {
	if there && r.intent.Fate != fateCommit {
		c.report("applied although it was to fail", r, "its fate is %q, and it is in the databases; %s", r.intent.Fate, toldOf(r))
	}
	if r.result == nil {
		return
	}
	switch told := toldOf(r); {
	case r.result.committed():
		if !there {
			c.report("a false report", r, "%s, and it is in no database", told)
		}
	case r.result.Outcome == transactions.RolledBack.String():
		if there {
			c.report("a false report", r, "%s, and it is in the databases", told)
		}
	case r.result.Outcome != transactions.Ambiguous.String(): // nobody interferes by hand here
		c.report("an outcome that cannot be", r, "%s", told)
	}
}

// checkHooks makes sure that hooks ran at most once, for the end that there was, and that the hook of an end that was reported
// has run. xids are those of the rows that the call has.
func (c *checker) checkHooks(r *record, xids []string) {
	for n, xid := range r.xids {
		ran, there := r.hooks[xid], slices.Contains(xids, xid)
		want := hookRollback
		if there {
			want = hookCommit
		}
		due := n == len(r.xids)-1 && r.result != nil && r.result.Outcome != transactions.Ambiguous.String()
		if due && len(ran) == 0 || len(ran) > 1 || len(ran) == 1 && ran[0] != want {
			c.report("a wrong hook", r, "%s, and the hooks of %s that ran are %q, want %q", toldOf(r), xid, ran, want)
		}
	}
}

// committed says that a caller was told that its call is kept.
func (r *result) committed() bool {
	return r.Outcome == transactions.Committed.String() || r.Outcome == transactions.PartiallyCommitted.String()
}

// toldOf is what a caller was told, for messages.
func toldOf(r *record) string {
	if r.result == nil {
		return "its process died before it was told anything"
	}
	return fmt.Sprintf("its caller was told %q (%s)", r.result.Outcome, r.result.Error)
}

// checkDecisions makes sure that nothing is left open, and that what was decided is what happened. An abort row says
// nothing of what happened: recovery may write one for a call that it has listed and that has since ended in order.
func (c *checker) checkDecisions() {
	for name, h := range c.Databases {
		for _, gid := range h.Prepared {
			c.report("left prepared", c.recordOf(gid), "%s holds %s", name, gid)
		}
		for _, d := range h.Decisions {
			r := c.byXID[d.XID]
			if !d.Resolved && !d.unknowable(c.FailedOver) {
				c.report("left undone", r, "%s holds the decision %+v", name, d)
			}
			if r == nil || d.Outcome != "commit" {
				continue
			}
			for _, l := range r.intent.Legs {
				if l.Amount != 0 && !slices.Contains(r.rows[l.Database], d.XID) {
					c.report("decided and not done", r, "%s holds the decision %+v, and %s has no row of it", name, d, l.Database)
				}
			}
		}
	}
	for name, h := range c.Twins {
		if len(h.Prepared)+len(h.Decisions) > 0 {
			c.report("led astray", nil, "the twin of %s, where nothing can happen, holds %+v", name, *h)
		}
	}
	if c.Unfinished > 0 {
		c.report("recovery did not come to its end", nil, "%d transactions were prepared, or decisions not resolved, when the workers had had %v of peace", c.Unfinished, peaceTime)
	}
}

// recordOf is the call that a GID belongs to, or nil.
func (c *checker) recordOf(gid string) *record {
	return c.byXID[gid[:max(0, strings.LastIndexByte(gid, ':'))]]
}

// checkRecovery makes sure that recovery found no more than what callers were told that it might find: a call that has
// returned leaves nothing prepared, or its error says so.
func (c *checker) checkRecovery() {
	seen := map[string]bool{}
	for _, l := range c.Journal {
		e := l.Recovered
		if e == nil || seen[e.GID+e.State] {
			continue
		}
		seen[e.GID+e.State] = true
		r := c.recordOf(e.GID)
		switch {
		case r == nil:
			c.report("recovery found what no call has left", nil, "%+v", *e)
		case e.State == string(transactions.StateMixed):
			c.report("recovery found an outcome that cannot be", r, "%+v", *e)
		case e.State != string(transactions.StateDone) || e.Began.IsZero() || r.result == nil || !strings.HasPrefix(e.GID, r.xids[len(r.xids)-1]):
		case c.FailedOver[e.GID[strings.LastIndexByte(e.GID, ':')+1:]]: // a rollback need not have reached the standby
		case e.Began.After(r.ended) && !slices.Contains(r.result.Pending, e.GID):
			c.report("left prepared without a word", r, "%s; recovery that began %v later found %s and has done: %s", toldOf(r), e.Began.Sub(r.ended), e.GID, e.Action)
		}
	}
}
