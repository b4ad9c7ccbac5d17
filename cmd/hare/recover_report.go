package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/internal/plaintext"
	"github.com/hare-go/hare/transactions"
)

// writeReport prints a report for people: the prepared transactions under their distributed one, why each needs what it
// needs, what could not be looked at, and in the end how much is left and what to run next.
//
// Of a round that ended early it prints what there is, and no conclusions.
func writeReport(to screen, r round, opts recoverOptions) error {
	p := page{screen: to, opts: opts}
	for _, u := range r.report.Unreachable {
		p.unanswered = append(p.unanswered, u.Alias)
	}
	p.entries(r.report.Entries)
	p.unreachable(r.report.Unreachable)
	switch {
	case r.err != nil:
	case opts.xid != "" || opts.forget != "":
		p.one(r.report)
	default:
		p.databases(r.report)
	}
	if r.err == nil {
		p.text(0, "", summary(r.report, opts))
		label, command := nextStep(r.report, opts)
		p.command(0, label, command)
	}
	_, err := io.WriteString(to, p.String())
	return err
}

// page is a report being written.
type page struct {
	screen
	strings.Builder
	opts       recoverOptions
	unanswered []string // the aliases that have a line of their own
}

// Write is that of the page, not of the screen.
func (p *page) Write(text []byte) (int, error) { return p.Builder.Write(text) }

// text writes lines that begin after the indent, the first one with a mark.
func (p *page) text(indent int, mark, text string) {
	for i, line := range p.wrap(indent, plaintext.Line(text)) {
		start := spaces(indent)
		if i == 0 && mark != "" {
			start = p.paint(markColour(mark), mark) + spaces(indent-columns(mark))
		}
		fmt.Fprintf(p, "%s%s\n", start, line)
	}
}

// command writes a command in one line, however long, so that it can be copied. One that no shell can be told (see
// plaintext.Command) is not written.
func (p *page) command(indent int, label, command string) {
	if command != "" {
		fmt.Fprintf(p, "%s%s%s\n", spaces(indent), label, command)
	}
}

// The columns of an entry's line. The tables come last, since nobody knows how many there are.
var headings = []string{"", "DATABASE", "AGE", "OWNER", "ACTION", "STATE", "LOCKED TABLES"}

func cells(e transactions.Entry) []string {
	tables := strings.Join(e.Tables, ", ")
	return []string{mark(e.State), plaintext.Line(e.Alias), short(e.Age), plaintext.Line(cmp.Or(e.Owner, "-")), statement(e.Action), string(e.State), plaintext.Line(tables)}
}

// entries writes the prepared transactions, those of one distributed transaction together, the oldest first.
func (p *page) entries(entries []transactions.Entry) {
	if len(entries) == 0 {
		return
	}
	widths := make([]int, len(headings)-1)
	for i := range widths {
		widths[i] = columns(headings[i])
		for _, e := range entries {
			widths[i] = max(widths[i], columns(cells(e)[i]))
		}
	}
	p.row(widths, headings, "")
	for _, group := range together(entries) {
		fmt.Fprintln(p, p.paint(bold, plaintext.Line(group[0].XID)))
		for i, e := range group {
			p.row(widths, cells(e), markColour(mark(e.State)))
			details := p.details(e)
			if i+1 < len(group) && slices.Equal(details, p.details(group[i+1])) {
				continue // they are told once, below the last that they are about
			}
			for _, detail := range details {
				p.text(4, "", detail)
			}
			p.command(6, "", p.opts.toForget(e))
		}
	}
}

// together groups entries by their distributed transaction.
func together(entries []transactions.Entry) [][]transactions.Entry {
	var groups [][]transactions.Entry
	at := map[string]int{}
	for _, e := range entries {
		i, known := at[e.XID]
		if !known {
			i, at[e.XID] = len(groups), len(groups)
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], e)
	}
	oldest := func(group []transactions.Entry) (age time.Duration) {
		for _, e := range group {
			age = max(age, e.Age)
		}
		return age
	}
	slices.SortStableFunc(groups, func(a, b []transactions.Entry) int { return cmp.Compare(oldest(b), oldest(a)) })
	return groups
}

// row writes cells in columns, the mark and the state in a colour.
func (p *page) row(widths []int, cells []string, c colour) {
	line, indent := "", 0
	for i, width := range widths {
		text := cells[i]
		if i == 0 || i == len(widths)-1 {
			text = p.paint(c, text)
		}
		line += text + spaces(width-columns(cells[i])+2)
		indent += width + 2
	}
	for i, text := range p.wrap(indent, cells[len(cells)-1]) {
		if i > 0 {
			line = spaces(indent)
		}
		fmt.Fprintln(p, strings.TrimRight(line+text, " "))
	}
}

// worthVacuum is the number of transactions behind a prepared one from which on it is worth a word that VACUUM cannot
// clean up: a twentieth of the default of autovacuum_freeze_max_age.
const worthVacuum = 10_000_000

// details tell about an entry what its columns do not.
func (p *page) details(e transactions.Entry) (lines []string) {
	lines = append(lines, "why: "+e.Reason)
	if e.Err != nil && !slices.Contains(p.unanswered, e.Alias) {
		lines = append(lines, "error: "+e.Err.Error())
	}
	if e.XactAge >= worthVacuum {
		lines = append(lines, fmt.Sprintf("VACUUM cannot clean up what %d million later transactions have left", e.XactAge/1_000_000))
	}
	if next := p.opts.nextFor(e); next != "" && p.opts.forget == "" {
		lines = append(lines, "next: "+next)
	}
	return lines
}

// nextFor is what to do about an entry that --finish does not help.
func (o recoverOptions) nextFor(e transactions.Entry) string {
	var refused *hare.DatabaseError
	switch {
	case e.State == transactions.StateMixed:
		return "repair the data, then give the transaction up. This tells how, and changes nothing:"
	case e.CanForget():
		return "if that cannot be mended, the transaction can be given up. This tells how, and changes nothing:"
	case e.Action != transactions.ActionNone && errors.As(e.Err, &refused) && refused.SQLState == "42501":
		return fmt.Sprintf("in %s let %q log in as %q, and run this again", o.config, e.Alias, e.Owner)
	}
	return ""
}

// toForget is the command that explains how to give the entry's transaction up, where that can be done.
func (o recoverOptions) toForget(e transactions.Entry) string {
	if !e.CanForget() || o.forget != "" {
		return ""
	}
	return o.command("--forget", e.XID)
}

// unreachable writes the databases that could not be looked at.
func (p *page) unreachable(list []transactions.Unreachable) {
	for _, u := range list {
		p.text(2, "!", fmt.Sprintf("%q could not be looked at: %v", u.Alias, u.Err))
	}
	if len(list) > 0 {
		p.text(4, "", "next: run this again when it can be; what is prepared there stays prepared, and keeps its locks")
	}
}

func mark(s transactions.State) string {
	switch s {
	case transactions.StateNeeded:
		return "~"
	case transactions.StateDone, transactions.StateGone, transactions.StateForgotten:
		return "+"
	}
	return "!"
}

func markColour(mark string) colour {
	switch mark {
	case "~":
		return yellow
	case "+":
		return green
	}
	return red
}

func statement(a transactions.Action) string {
	switch a {
	case transactions.ActionCommit:
		return "COMMIT PREPARED"
	case transactions.ActionRollback:
		return "ROLLBACK PREPARED"
	}
	return "none"
}
