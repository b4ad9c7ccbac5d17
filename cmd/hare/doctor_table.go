package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/hare-go/hare/internal/doctor"
	"github.com/hare-go/hare/internal/plaintext"
)

// doctorHeadings are the columns. What was found comes last, since nobody knows how long it is.
var doctorHeadings = []string{"", "CHECK", "STATE", "FOUND"}

// doctorMarks are those of the report of distributed-recover: fine, waits for somebody, is broken.
var doctorMarks = map[doctor.State]string{doctor.OK: "+", doctor.Warning: "~", doctor.Failure: "!"}

// writeTable prints the findings for people, those of each database together. Why a check matters, and what mends it,
// stands below the findings that are not ok.
func (e examined) writeTable(to screen) error {
	p := page{screen: to}
	e.findings(&p)
	for _, alias := range e.report.Skipped {
		p.text(0, "", fmt.Sprintf("%q has no server to ask, and is not examined", alias))
	}
	p.text(0, "", e.summary())
	_, err := io.WriteString(to, p.String())
	return err
}

func (e examined) findings(p *page) {
	if len(e.report.Findings) == 0 {
		return
	}
	cells := func(f doctor.Finding) []string {
		return []string{doctorMarks[f.State], f.Check, string(f.State), plaintext.Line(f.Value)}
	}
	widths := make([]int, len(doctorHeadings)-1)
	for i := range widths {
		widths[i] = columns(doctorHeadings[i])
		for _, f := range e.report.Findings {
			widths[i] = max(widths[i], columns(cells(f)[i]))
		}
	}
	p.row(widths, doctorHeadings, "")
	for i, f := range e.report.Findings {
		if i == 0 || f.Alias != e.report.Findings[i-1].Alias {
			fmt.Fprintln(p, p.paint(bold, plaintext.Line(cmp.Or(f.Alias, "between the databases"))))
		}
		p.row(widths, cells(f), markColour(doctorMarks[f.State]))
		if f.State == doctor.OK {
			continue
		}
		p.text(4, "", "why: "+f.Why)
		if f.Mend != "" {
			p.text(4, "", "mend: "+f.Mend)
		}
		for _, sql := range f.SQL {
			p.command(6, "", sql+";")
		}
		p.command(6, "", e.opts.command(f.Command))
	}
}

// summary counts the findings.
func (e examined) summary() string {
	if len(e.report.Findings) == 0 {
		return "there is nothing to examine"
	}
	parts := []string{plural(e.report.Count(doctor.Failure), "failure"), plural(e.report.Count(doctor.Warning), "warning"), fmt.Sprintf("%d ok", e.report.Count(doctor.OK))}
	return strings.Join(parts, ", ")
}

// plural is a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
