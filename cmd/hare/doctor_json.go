package main

import (
	"encoding/json"
	"io"
	"time"

	"github.com/hare-go/hare/internal/plaintext"
)

// The JSON form of an examination, which docs/doctor.md documents. Names and meanings are stable, and every field is always
// there; a later version may add some, and checks. doctorVersion changes when one changes its meaning or goes.
const doctorVersion = 1

type (
	jsonExamination struct {
		Version  int           `json:"version"`
		At       time.Time     `json:"at"`
		State    string        `json:"state"`
		Error    string        `json:"error"`
		Findings []jsonFinding `json:"findings"`
		Skipped  []string      `json:"skipped"`
	}
	jsonFinding struct {
		Alias   string   `json:"alias"`
		Check   string   `json:"check"`
		State   string   `json:"state"`
		Value   string   `json:"value"`
		Why     string   `json:"why"`
		Mend    string   `json:"mend"`
		SQL     []string `json:"sql"`
		Command string   `json:"command"`
	}
)

// writeJSON prints the findings for programs, as one object.
func (e examined) writeJSON(out io.Writer) error {
	form := jsonExamination{
		Version: doctorVersion, At: e.report.At.UTC().Truncate(time.Millisecond), State: string(e.report.State()), Error: message(e.err),
		Findings: []jsonFinding{}, Skipped: append([]string{}, e.report.Skipped...),
	}
	if e.err != nil {
		form.State = "unknown"
	}
	for _, f := range e.report.Findings {
		form.Findings = append(form.Findings, jsonFinding{Alias: f.Alias, Check: f.Check, State: string(f.State), Value: f.Value, Why: f.Why, Mend: f.Mend,
			SQL: append([]string{}, f.SQL...), Command: e.opts.command(f.Command)})
	}
	encoder := json.NewEncoder(plaintext.JSON(out))
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(form)
}
