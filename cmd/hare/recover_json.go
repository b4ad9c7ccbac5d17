package main

import (
	"encoding/json"
	"io"
	"time"

	"github.com/hare-go/hare/internal/plaintext"
)

// The JSON form of a report, which docs/recover-command.md documents. Names and meanings are stable, and every field is
// always there; a later version may add some. jsonVersion changes when one changes its meaning or goes.
const jsonVersion = 1

type (
	jsonReport struct {
		Version       int               `json:"version"`
		At            time.Time         `json:"at"`
		Coordinator   string            `json:"coordinator"`
		CoordinatorID string            `json:"coordinator_id"`
		Finish        bool              `json:"finish"`
		Clean         bool              `json:"clean"`
		Error         string            `json:"error"`
		Entries       []jsonEntry       `json:"entries"`
		Unreachable   []jsonUnreachable `json:"unreachable"`
		Databases     []jsonDatabase    `json:"databases"`
		Young         int               `json:"young"`
		Unresolved    int               `json:"unresolved"`
		Resolved      int               `json:"resolved"`
		Purged        int               `json:"purged"`
		Decided       string            `json:"decided"`
		Participants  []jsonParticipant `json:"participants"`
	}
	jsonEntry struct {
		XID        string   `json:"xid"`
		Alias      string   `json:"alias"`
		GID        string   `json:"gid"`
		Owner      string   `json:"owner"`
		AgeSeconds float64  `json:"age_seconds"`
		XactAge    int64    `json:"xact_age"`
		Tables     []string `json:"tables"`
		Live       bool     `json:"live"`
		Action     string   `json:"action"`
		Reason     string   `json:"reason"`
		State      string   `json:"state"`
		Error      string   `json:"error"`
	}
	jsonUnreachable struct {
		Alias string `json:"alias"`
		Error string `json:"error"`
	}
	jsonDatabase struct {
		Alias         string  `json:"alias"`
		SlotsUsed     int     `json:"slots_used"`
		SlotsMax      int     `json:"slots_max"`
		OldestSeconds float64 `json:"oldest_seconds"`
		OldestGID     string  `json:"oldest_gid"`
		XactAge       int64   `json:"xact_age"`
		Others        int     `json:"others"`
		Standby       bool    `json:"standby"`
		Primary       string  `json:"primary"`
	}
	jsonParticipant struct {
		Alias string `json:"alias"`
		Has   string `json:"has"`
	}
)

// writeJSON prints a round for programs, as one object. Without an indent it is one line.
func writeJSON(out io.Writer, r round, opts recoverOptions, indent string) error {
	form := jsonReport{
		Version: jsonVersion, At: r.at.UTC().Truncate(time.Millisecond),
		Coordinator: opts.coordinator, CoordinatorID: r.report.ID, Finish: opts.finish, Clean: r.status() == exitOK, Error: message(r.err),
		Young: r.report.Young, Unresolved: r.report.Unresolved, Resolved: r.report.Resolved, Purged: r.report.Purged, Decided: r.report.Decided,
		Entries: []jsonEntry{}, Unreachable: []jsonUnreachable{}, Databases: []jsonDatabase{}, Participants: []jsonParticipant{},
	}
	for _, e := range r.report.Entries {
		form.Entries = append(form.Entries, jsonEntry{XID: e.XID, Alias: e.Alias, GID: e.GID, Owner: e.Owner, AgeSeconds: e.Age.Seconds(), XactAge: e.XactAge,
			Tables: append([]string{}, e.Tables...), Live: e.Live, Action: string(e.Action), Reason: e.Reason, State: string(e.State), Error: message(e.Err)})
	}
	for _, u := range r.report.Unreachable {
		form.Unreachable = append(form.Unreachable, jsonUnreachable{Alias: u.Alias, Error: message(u.Err)})
	}
	for _, d := range r.report.Databases {
		form.Databases = append(form.Databases, jsonDatabase{Alias: d.Alias, SlotsUsed: d.SlotsUsed, SlotsMax: d.SlotsMax, OldestSeconds: d.Oldest.Seconds(), OldestGID: d.OldestGID, XactAge: d.XactAge,
			Others: d.Others, Standby: d.Standby, Primary: d.Primary})
	}
	for _, p := range r.report.Participants {
		form.Participants = append(form.Participants, jsonParticipant{Alias: p.Alias, Has: string(p.Has)})
	}
	encoder := json.NewEncoder(plaintext.JSON(out))
	encoder.SetIndent("", indent)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(form)
}

// message is the text of an error, if there is one.
func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
