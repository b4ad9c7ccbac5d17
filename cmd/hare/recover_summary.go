package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hare-go/hare/transactions"
)

// summary says what is left, and what to run next.
func summary(report transactions.Report, opts recoverOptions) string {
	text := fmt.Sprintf("coordinator %q: ", report.Coordinator) + found(report, opts)
	if report.Young > 0 {
		text += fmt.Sprintf("; %d younger than %s s, left to their calls (--older-than 0 takes them, too, and is safe)", report.Young, opts.olderThan.String())
	}
	if report.Resolved > 0 && !opts.finish {
		text += fmt.Sprintf("; %d committed everywhere, whose rows --finish marks as resolved", report.Resolved)
	}
	if report.Purged > 0 {
		text += fmt.Sprintf("; %d old rows removed", report.Purged)
	}
	return text
}

// found counts the entries.
func found(report transactions.Report, opts recoverOptions) string {
	count := map[transactions.State]int{}
	for _, e := range report.Entries {
		count[e.State]++
	}
	waiting := count[transactions.StateNeeded]
	stuck := count[transactions.StateFailed] + count[transactions.StateMixed]
	switch {
	case report.ID == "":
		return fmt.Sprintf("it has never coordinated a distributed transaction; if it should have: the coordinator's alias stands in each GID, hare_dtx_ALIAS:... in pg_prepared_xacts")
	case opts.forget != "" && opts.finish:
		return "the transaction is forgotten, and not reported again"
	case opts.forget != "":
		return "nothing is forgotten yet; to do it: " + opts.command("--forget", string(opts.forget), "--finish")
	case len(report.Entries) == 0 && len(report.Unreachable) == 0:
		return "no distributed transaction is waiting"
	case len(report.Entries) == 0:
		return "no distributed transaction is waiting in the databases that answered"
	case opts.finish:
		return fmt.Sprintf("%d finished, %d not", count[transactions.StateDone]+count[transactions.StateGone], waiting+stuck)
	case waiting == 0:
		return fmt.Sprintf("%d that --finish cannot finish", stuck)
	}
	text := fmt.Sprintf("%d waiting", waiting)
	if stuck > 0 {
		text += fmt.Sprintf(", %d that --finish cannot finish", stuck)
	}
	options := []string{"--finish"}
	if opts.xid != "" {
		options = []string{"--xid", string(opts.xid), "--finish"}
	}
	return text + "; to finish: " + opts.command(options...)
}

// one tells about the one transaction that was asked for.
func (p *page) one(report transactions.Report) {
	nothing := len(report.Entries) == 0 && len(report.Unreachable) == 0 && report.Young == 0
	switch {
	case report.ID == "":
		return
	case report.Decided == "commit" && len(report.Participants) == 0:
		p.text(0, "", "decision: commit, and resolved: every participant has confirmed it, or it was forgotten")
	case report.Decided == "commit":
		p.text(0, "", "decision: commit; "+strings.Join(whoHas(report), "; "))
	case report.Decided == "abort":
		p.text(0, "", "decision: abort; it is rolled back, and can never be committed")
	case nothing:
		p.text(0, "", "decision: none, and nothing of it is prepared. Either it is committed everywhere and its row was removed, as is usual; or it was rolled back, "+
			"or its call has not come as far as to prepare: then it has left nothing")
	default:
		p.text(0, "", "decision: none")
	}
	if p.opts.forget != "" {
		p.forgetting(report)
	}
}

// whoHas tells which databases have the writes of a transaction that is decided as committed. The coordinator has: the
// decision is a part of them.
func whoHas(report transactions.Report) (phrases []string) {
	aliases := map[transactions.Writes][]string{transactions.WritesCommitted: {fmt.Sprintf("%q", report.Coordinator)}}
	for _, p := range report.Participants {
		aliases[p.Has] = append(aliases[p.Has], fmt.Sprintf("%q", p.Alias))
	}
	for _, has := range []struct {
		writes transactions.Writes
		phrase string
	}{
		{transactions.WritesCommitted, "its writes are in "},
		{transactions.WritesPrepared, "they are prepared in "},
		{transactions.WritesLost, "they are lost in "},
		{transactions.WritesUnknown, "nobody can tell about "},
	} {
		if list := aliases[has.writes]; len(list) > 0 {
			phrases = append(phrases, has.phrase+strings.Join(list, ", "))
		}
	}
	return phrases
}

// forgetting tells what it means to give a transaction up.
func (p *page) forgetting(report transactions.Report) {
	verb := "would mean"
	if p.opts.finish {
		verb = "means"
	}
	p.text(0, "", "Forgetting it "+verb+":")
	p.text(4, "  -", strings.Join(whoHas(report), "; ")+". All of that stays as it is: hare repairs nothing")
	var lost []string
	for _, participant := range report.Participants {
		if participant.Has != transactions.WritesCommitted {
			lost = append(lost, fmt.Sprintf("%q", participant.Alias))
		}
	}
	p.text(4, "  -", fmt.Sprintf("To repair the data, write by hand into %s what the transaction was to write there, or take back by hand what it has written elsewhere", strings.Join(lost, ", ")))
	p.text(4, "  -", "It is not reported any more. Its row is marked as resolved now and removed after seven days; "+
		"a database that comes back within them with the transaction still prepared gets its commit")
}

// databases writes what is worth saying about the databases themselves.
func (p *page) databases(report transactions.Report) {
	for _, d := range report.Databases {
		var notes []string
		if full := d.SlotsUsed >= d.SlotsMax; d.SlotsMax > 0 && full {
			notes = append(notes, fmt.Sprintf("all %d slots of its server for prepared transactions are taken: none can be prepared until one ends", d.SlotsMax))
		} else if d.SlotsUsed*5 >= d.SlotsMax*4 && d.SlotsUsed > 0 {
			notes = append(notes, fmt.Sprintf("%d of %d slots of its server for prepared transactions are taken", d.SlotsUsed, d.SlotsMax))
		}
		if d.Others > 0 {
			notes = append(notes, fmt.Sprintf("%d prepared by another application or coordinator, which hare leaves alone", d.Others))
		}
		listed := slices.ContainsFunc(report.Entries, func(e transactions.Entry) bool { return e.GID == d.OldestGID })
		if d.Oldest >= worthAge && !listed {
			notes = append(notes, fmt.Sprintf("the oldest of its server is %s old: %s", short(d.Oldest), d.OldestGID))
		}
		if len(notes) > 0 {
			p.text(2, "~", fmt.Sprintf("%q: %s", d.Alias, strings.Join(notes, "; ")))
		}
	}
}

// worthAge is the age from which on a prepared transaction of others is worth a word.
const worthAge = 5 * time.Minute
