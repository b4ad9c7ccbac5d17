package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-go/hare/transactions"
)

// summary says in a line what is left.
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
	answered := ""
	if len(report.Unreachable) > 0 {
		answered = " in the databases that were looked at"
	}
	waiting := count(report, transactions.StateNeeded)
	stuck := count(report, transactions.StateFailed, transactions.StateMixed)
	switch {
	case report.ID == "":
		return "it has never coordinated a distributed transaction; if it should have: the coordinator's alias stands in each GID, hare_dtx_ALIAS:... in pg_prepared_xacts"
	case opts.forget != "" && opts.finish:
		return "the transaction is forgotten, and not reported again"
	case opts.forget != "":
		return "nothing is forgotten yet"
	case len(report.Entries) == 0 && opts.xid != "":
		return "nothing of it is waiting" + answered
	case len(report.Entries) == 0:
		return "no distributed transaction is waiting" + answered
	case opts.finish:
		return fmt.Sprintf("%d finished, %d not", count(report, transactions.StateDone, transactions.StateGone), waiting+stuck)
	case waiting == 0:
		return fmt.Sprintf("%d that --finish cannot finish as things are", stuck)
	case stuck > 0:
		return fmt.Sprintf("%d waiting, %d that --finish cannot finish as things are", waiting, stuck)
	}
	return fmt.Sprintf("%d waiting", waiting)
}

func count(report transactions.Report, states ...transactions.State) (n int) {
	for _, e := range report.Entries {
		if slices.Contains(states, e.State) {
			n++
		}
	}
	return n
}

// nextStep is the command that does what the report only tells, if there is one.
func nextStep(report transactions.Report, opts recoverOptions) (label, command string) {
	switch {
	case opts.finish:
		return "", ""
	case opts.forget != "":
		return "to forget: ", opts.command("--forget", opts.forget, "--finish")
	case count(report, transactions.StateNeeded) == 0:
		return "", ""
	case opts.xid != "":
		return "to finish: ", opts.command("--xid", opts.xid, "--finish")
	}
	return "to finish: ", opts.command("--finish")
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
		p.text(0, "", "decision: commit; "+whoHas(report))
	case report.Decided == "abort":
		p.text(0, "", "decision: abort; since that was written it can never be committed")
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

// holders are the aliases of the databases that have a part of the transaction's writes in a certain way. The coordinator
// has committed them: the decision is one of them.
func holders(report transactions.Report, has transactions.Writes) string {
	var aliases []string
	if has == transactions.WritesCommitted {
		aliases = append(aliases, strconv.Quote(report.Coordinator))
	}
	for _, p := range report.Participants {
		if p.Has == has {
			aliases = append(aliases, strconv.Quote(p.Alias))
		}
	}
	return strings.Join(aliases, ", ")
}

// whoHas tells which databases have the writes of a transaction that is decided as committed.
func whoHas(report transactions.Report) string {
	text := "its writes are in " + holders(report, transactions.WritesCommitted)
	for _, other := range []struct {
		has    transactions.Writes
		phrase string
	}{
		{transactions.WritesPrepared, "they wait to be committed in "},
		{transactions.WritesLost, "they are lost in "},
		{transactions.WritesUnknown, "it is not known whether they are in "},
	} {
		if aliases := holders(report, other.has); aliases != "" {
			text += "; " + other.phrase + aliases
		}
	}
	return text
}

// forgetting tells what it means to give a transaction up.
func (p *page) forgetting(report transactions.Report) {
	verb := "would mean"
	if p.opts.finish {
		verb = "means"
	}
	p.text(0, "", "Forgetting it "+verb+":")
	p.text(4, "  -", "hare repairs nothing: "+whoHas(report)+", and that stays as it is")
	if unknown := holders(report, transactions.WritesUnknown); unknown != "" {
		p.text(4, "  -", "look into "+unknown+", if that database still exists: its writes may be there")
	}
	if lost := holders(report, transactions.WritesLost); lost != "" {
		p.text(4, "  -", fmt.Sprintf("to repair the data write by hand into %s what the transaction was to write there, or take back by hand what it has written in %s",
			lost, holders(report, transactions.WritesCommitted)))
	}
	p.text(4, "  -", "it is not reported any more. Its row is marked as resolved, and kept; a database that comes back with the transaction "+
		"still prepared gets its commit")
}

// worthAge is the age from which on a prepared transaction of others is worth a word.
const worthAge = 5 * time.Minute

// databases writes what is worth saying about the databases themselves: a standby, slots that become scarce, and what is
// prepared for long and is not in this report.
func (p *page) databases(report transactions.Report) {
	freed := count(report, transactions.StateDone) > 0 // the slots were counted before
	for _, d := range report.Databases {
		var notes []string
		if d.Standby && d.Primary == "" && d.SlotsMax > 0 && !slices.Contains(p.unanswered, d.Alias) {
			notes = append(notes, "it is a standby, where nothing that is prepared can be seen; its primary may hold more")
		}
		switch {
		case freed, d.SlotsUsed == 0:
		case d.SlotsUsed >= d.SlotsMax:
			notes = append(notes, fmt.Sprintf("all %d slots of its server for prepared transactions are taken: none can be prepared until one ends", d.SlotsMax))
		case d.SlotsUsed*5 >= d.SlotsMax*4:
			notes = append(notes, fmt.Sprintf("%d of %d slots of its server for prepared transactions are taken", d.SlotsUsed, d.SlotsMax))
		}
		listed := slices.ContainsFunc(report.Entries, func(e transactions.Entry) bool { return e.GID == d.OldestGID })
		if d.Oldest >= worthAge && !listed {
			notes = append(notes, fmt.Sprintf("the oldest prepared transaction of its server is %s old: %s", short(d.Oldest), d.OldestGID))
		}
		if len(notes) > 0 && d.Others > 0 {
			notes = append(notes, fmt.Sprintf("%d here are of another application or coordinator, and hare leaves them alone", d.Others))
		}
		if len(notes) > 0 {
			p.text(2, "~", fmt.Sprintf("%q: %s", d.Alias, strings.Join(notes, "; ")))
		}
	}
}
