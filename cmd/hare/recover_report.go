package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/transactions"
)

// writeReport prints a report for people: the prepared transactions under their distributed one, why each needs what it
// needs, what could not be looked at, and in the end how much is left and what to run next.
func writeReport(to screen, report transactions.Report, opts recoverOptions) error {
	p := page{screen: to, opts: opts}
	p.entries(report.Entries)
	p.unreachable(report.Unreachable)
	if opts.xid != "" || opts.forget != "" {
		p.one(report)
	} else {
		p.databases(report)
	}
	p.text(0, "", summary(report, opts))
	_, err := io.WriteString(to, p.String())
	return err
}

// page is a report being written.
type page struct {
	screen
	strings.Builder
	opts recoverOptions
}

// Write is that of the page, not of the screen.
func (p *page) Write(text []byte) (int, error) { return p.Builder.Write(text) }

// text writes lines that begin after the indent, the first one with a mark.
func (p *page) text(indent int, mark, text string) {
	for i, line := range p.wrap(indent, printable(text)) {
		start := pad("", indent)
		if i == 0 && mark != "" {
			start = p.paint(markColour(mark), mark) + pad("", indent-columns(mark))
		}
		fmt.Fprintf(p, "%s%s\n", start, line)
	}
}

// The columns of an entry's line. The tables come last, since nobody knows how many there are.
var headings = []string{"", "DATABASE", "AGE", "OWNER", "ACTION", "STATE", "LOCKED TABLES"}

func cells(e transactions.Entry) []string {
	tables := strings.Join(e.Tables, ", ")
	return []string{mark(e.State), printable(e.Alias), short(e.Age), printable(e.Owner), statement(e.Action), string(e.State), printable(tables)}
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
		fmt.Fprintln(p, p.paint(bold, printable(group[0].XID)))
		for i, e := range group {
			p.row(widths, cells(e), markColour(mark(e.State)))
			details := p.details(e)
			if i+1 < len(group) && slices.Equal(details, p.details(group[i+1])) {
				continue // they are told once, below the last that they are about
			}
			for _, detail := range details {
				p.text(4, "", detail)
			}
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
	slices.SortStableFunc(groups, func(a, b []transactions.Entry) int { return int(oldest(b)/time.Second - oldest(a)/time.Second) })
	return groups
}

// row writes cells in columns; mark and state, the first and the last but one, in a colour.
func (p *page) row(widths []int, cells []string, c colour) {
	indent := 0
	for i, width := range widths {
		text := pad(cells[i], width)
		if i == 0 || i == len(widths)-1 {
			text = p.paint(c, text)
		}
		if i > 0 {
			fmt.Fprint(p, "  ")
			indent += 2
		}
		fmt.Fprint(p, text)
		indent += width
	}
	for i, line := range p.wrap(indent+2, cells[len(cells)-1]) {
		if i > 0 {
			fmt.Fprint(p, pad("", indent))
		}
		if line != "" {
			fmt.Fprint(p, "  "+line)
		}
		fmt.Fprintln(p)
	}
}

// worthVacuum is the number of transactions behind a prepared one from which on it is worth a word that VACUUM cannot
// clean up: a twentieth of the default of autovacuum_freeze_max_age.
const worthVacuum = 10_000_000

// details tell about an entry what its columns do not.
func (p *page) details(e transactions.Entry) (lines []string) {
	lines = append(lines, "why: "+e.Reason)
	if e.Err != nil {
		lines = append(lines, "error: "+e.Err.Error())
	}
	if e.XactAge >= worthVacuum {
		lines = append(lines, fmt.Sprintf("VACUUM cannot clean up what %d million later transactions have left", e.XactAge/1_000_000))
	}
	if next := p.opts.nextFor(e); next != "" {
		lines = append(lines, "next: "+next)
	}
	return lines
}

// nextFor is what to do about an entry that --finish alone does not help.
func (o recoverOptions) nextFor(e transactions.Entry) string {
	var refused *hare.DatabaseError
	switch {
	case o.forget != "":
		return ""
	case e.State == transactions.StateMixed:
		return fmt.Sprintf("repair the data; what giving the transaction up means is told by: %s", o.command("--forget", e.XID))
	case e.CanForget():
		return fmt.Sprintf("configure a connection to its database and run this again; if that database is gone for good: %s", o.command("--forget", e.XID))
	case e.Action != transactions.ActionNone && errors.As(e.Err, &refused) && refused.SQLState == "42501":
		return fmt.Sprintf("in %s let %q log in as %q, and run this again", o.config, e.Alias, e.Owner)
	}
	return ""
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
