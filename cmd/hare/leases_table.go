package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/hare-go/hare/internal/plaintext"
	"github.com/hare-go/hare/leases"
)

// The columns of a lease's line. The holder comes last, since nobody knows how long its name is.
var leaseHeadings = []string{"", "LEASE", "TOKEN", "SINCE", "RENEWED", "EXPIRES", "STATE", "HOLDER"}

func leaseCells(i leases.Info) []string {
	ago := func(t time.Time) string {
		if i.Token == 0 {
			return "-"
		}
		return short(i.Now.Sub(t)) + " ago"
	}
	name, token, holder := plaintext.Line(i.Name), strconv.FormatInt(i.Token, 10), plaintext.Line(i.Holder)
	if !i.Held() {
		since := "-"
		if i.Token > 0 {
			since = short(i.Now.Sub(i.Expires))
		}
		return []string{"~", name, token, since, ago(i.Renewed), "-", "free", holder}
	}
	mark := "+"
	if late(i) {
		mark = "~"
	}
	return []string{mark, name, token, short(i.Now.Sub(i.Acquired)), ago(i.Renewed), "in " + short(i.Remaining), "held", holder}
}

// ttl is how long a term lasts after a renewal, as its holder has set it.
func ttl(i leases.Info) time.Duration { return i.Expires.Sub(i.Renewed) }

// late reports whether a holder has not renewed for longer than holders usually do.
func late(i leases.Info) bool { return i.Held() && i.Now.Sub(i.Renewed) > ttl(i)/2 }

// writeTable prints the leases for people, those of each database together, and what a release means.
func (f *foundLeases) writeTable(to screen) error {
	p := page{screen: to}
	f.rows(&p)
	if lease := f.toRelease(); lease != nil && (f.err == nil || f.released) {
		f.meaning(&p, lease)
	}
	if f.err == nil {
		p.text(0, "", f.summary())
	}
	if f.err == nil && f.toRelease() != nil && !f.released {
		p.command(0, "to release: ", f.opts.command("--release", f.opts.release, "--token", strconv.FormatInt(f.opts.token, 10), "--finish"))
	}
	_, err := io.WriteString(to, p.String())
	return err
}

// rows writes the leases.
func (f *foundLeases) rows(p *page) {
	widths := make([]int, len(leaseHeadings)-1)
	some := false
	for i := range widths {
		widths[i] = columns(leaseHeadings[i])
		for _, d := range f.databases {
			for _, lease := range d.list {
				some = true
				widths[i] = max(widths[i], columns(leaseCells(lease)[i]))
			}
		}
	}
	if some {
		p.row(widths, leaseHeadings, "")
	}
	for _, d := range f.databases {
		if len(d.list) > 0 {
			fmt.Fprintln(p, p.paint(bold, plaintext.Line(d.alias)))
		}
		for _, lease := range d.list {
			cells := leaseCells(lease)
			p.row(widths, cells, markColour(cells[0]))
			if late(lease) {
				p.text(4, "", fmt.Sprintf("why: it was not renewed for %s of the %s that it lasts: its holder is dead, stopped or cut off, or renews seldom",
					short(lease.Now.Sub(lease.Renewed)), short(ttl(lease))))
			}
		}
		if d.err != nil {
			p.text(2, "!", fmt.Sprintf("%q could not be looked at", d.alias))
		}
	}
}

// summary says in a line what there is.
func (f *foundLeases) summary() string {
	switch {
	case f.released:
		return fmt.Sprintf("lease %q: term %d is ended", f.opts.release, f.opts.token)
	case f.toRelease() != nil:
		return fmt.Sprintf("lease %q: nothing is released yet", f.opts.release)
	case f.opts.release != "" && f.status() == exitOK:
		return fmt.Sprintf("lease %q: it is free, and there is nothing to release", f.opts.release)
	}
	held, free, answered, silent := 0, 0, "", 0
	for _, d := range f.databases {
		for _, lease := range d.list {
			if lease.Held() {
				held++
			} else {
				free++
			}
		}
		if d.err != nil {
			answered = " in the databases that answered"
			silent++
		}
	}
	if silent > 0 && silent == len(f.databases) {
		return "nothing could be looked at"
	}
	if held+free == 0 {
		return "there are no leases" + answered
	}
	return fmt.Sprintf("%d held, %d free", held, free) + answered
}

// meaning tells what it means to end a term.
func (f *foundLeases) meaning(p *page, lease *leases.Info) {
	verb := "would mean"
	if f.released {
		verb = "means"
	}
	p.text(0, "", fmt.Sprintf("Ending term %d of %q %s:", lease.Token, lease.Name, verb))
	for _, point := range []string{
		fmt.Sprintf("%q has held it for %s. If it is dead, waiting does the same: the lease is free %s after the last renewal", lease.Holder, short(lease.Now.Sub(lease.Acquired)), short(ttl(*lease))),
		fmt.Sprintf("if it is alive, it is not stopped: it learns of the end with its next renewal, within %s unless its options say otherwise. "+
			"Until then its function goes on, and what that does without a fence it does beside the next holder", short(ttl(*lease)/4)),
		"its fences fail from then on. Fenced transactions under way are waited for; if they last, nothing is ended",
		"whoever asks first is the next holder, the same program too if it is alive. To keep that out, stop it",
	} {
		p.text(4, "  -", point)
	}
}
