package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/hare-go/hare/transactions"
)

// writeTable prints a report for people: one line for each transaction, what stopped it below it.
func writeTable(out io.Writer, report transactions.Report, finish bool) error {
	if len(report.Entries) > 0 {
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "\tXID\tDATABASE\tAGE\tOWNER\tACTION\tSTATE\tWHY")
		for _, e := range report.Entries {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", mark(e.State), e.XID, e.Alias, e.Age.Round(time.Second), e.Owner, statement(e.Action), e.State, e.Reason)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	for _, e := range report.Entries {
		if e.Err != nil {
			fmt.Fprintf(out, "! %s on %s: %v\n", e.XID, e.Alias, e.Err)
		}
	}
	for _, u := range report.Unreachable {
		fmt.Fprintf(out, "! %s could not be looked at: %v\n", u.Alias, u.Err)
	}
	_, err := fmt.Fprintln(out, summary(report, finish))
	return err
}

func mark(s transactions.State) string {
	switch s {
	case transactions.StateNeeded:
		return "~"
	case transactions.StateDone, transactions.StateGone:
		return "+"
	}
	return "!"
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

// summary says what is left, and what to run next.
func summary(report transactions.Report, finish bool) string {
	count := map[transactions.State]int{}
	for _, e := range report.Entries {
		count[e.State]++
	}
	text := fmt.Sprintf("coordinator %q: ", report.Coordinator)
	finished := count[transactions.StateDone] + count[transactions.StateGone]
	failed := count[transactions.StateFailed] + count[transactions.StateMixed]
	switch {
	case len(report.Entries) == 0 && len(report.Unreachable) == 0:
		text += "no distributed transaction is waiting"
	case len(report.Entries) == 0:
		text += "no distributed transaction is waiting in the databases that answered"
	case !finish:
		text += fmt.Sprintf("%d waiting; to finish: hare distributed-recover --coordinator %s --finish", len(report.Entries), report.Coordinator)
	default:
		text += fmt.Sprintf("%d finished, %d not", finished, failed)
	}
	if report.Young > 0 {
		text += fmt.Sprintf("; %d younger than --older-than, left to their calls", report.Young)
	}
	return text
}

// The JSON form of a report. Names and meanings are stable; new ones may be added.
type (
	jsonReport struct {
		Coordinator string            `json:"coordinator"`
		Clean       bool              `json:"clean"`
		Entries     []jsonEntry       `json:"entries"`
		Unreachable []jsonUnreachable `json:"unreachable"`
		Young       int               `json:"young"`
		Resolved    int               `json:"resolved"`
		Purged      int               `json:"purged"`
	}
	jsonEntry struct {
		XID        string  `json:"xid"`
		Alias      string  `json:"alias"`
		GID        string  `json:"gid"`
		Owner      string  `json:"owner"`
		AgeSeconds float64 `json:"age_seconds"`
		Action     string  `json:"action"`
		Reason     string  `json:"reason"`
		State      string  `json:"state"`
		Error      string  `json:"error,omitempty"`
	}
	jsonUnreachable struct {
		Alias string `json:"alias"`
		Error string `json:"error"`
	}
)

// writeJSON prints a report for programs.
func writeJSON(out io.Writer, report transactions.Report, _ bool) error {
	form := jsonReport{
		Coordinator: report.Coordinator, Clean: report.Clean(), Young: report.Young, Resolved: report.Resolved, Purged: report.Purged,
		Entries: []jsonEntry{}, Unreachable: []jsonUnreachable{},
	}
	for _, e := range report.Entries {
		entry := jsonEntry{XID: e.XID, Alias: e.Alias, GID: e.GID, Owner: e.Owner, AgeSeconds: e.Age.Seconds(), Action: string(e.Action), Reason: e.Reason, State: string(e.State)}
		if e.Err != nil {
			entry.Error = e.Err.Error()
		}
		form.Entries = append(form.Entries, entry)
	}
	for _, u := range report.Unreachable {
		form.Unreachable = append(form.Unreachable, jsonUnreachable{Alias: u.Alias, Error: u.Err.Error()})
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(form)
}
