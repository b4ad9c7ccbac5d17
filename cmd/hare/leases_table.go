package main

import (
	"fmt"
	"io"
	"slices"
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

// writeTable prints the leases for people, those of each database together, as they are read, and what a release means.
func (f *foundLeases) writeTable(to screen) error {
	p := page{screen: to}
	seen, err := f.rows(&p)
	if err != nil {
		return err
	}
	if lease := f.toRelease(); lease != nil && (f.err == nil || f.released) {
		f.meaning(&p, lease)
	}
	if f.err == nil {
		p.text(0, "", f.summary(seen))
	}
	if f.err == nil && f.toRelease() != nil && !f.released {
		p.command(0, "to release: ", f.opts.command("--release", f.opts.release, "--token", strconv.FormatInt(f.opts.token, 10), "--finish"))
	}
	return p.flush()
}

// flush writes the page as far as it has come.
func (p *page) flush() error {
	_, err := io.WriteString(p.screen, p.String())
	p.Reset()
	return err
}

// seenLeases is how many leases there were.
type seenLeases struct{ held, free int }

// rows writes the leases. The columns are as wide as the first leases of each database need, and grow with the others.
func (f *foundLeases) rows(p *page) (seen seenLeases, err error) {
	widths := make([]int, len(leaseHeadings)-1)
	widen := func(cells []string) {
		for i := range widths {
			widths[i] = max(widths[i], columns(cells[i]))
		}
	}
	widen(leaseHeadings)
	for _, d := range f.databases {
		for _, lease := range d.list {
			widen(leaseCells(lease))
		}
	}
	if slices.ContainsFunc(f.databases, func(d leasesOf) bool { return len(d.list) > 0 }) {
		p.row(widths, leaseHeadings, "")
	}
	for i := range f.databases {
		d := &f.databases[i]
		if len(d.list) > 0 {
			fmt.Fprintln(p, p.paint(bold, plaintext.Line(d.alias)))
		}
		for list := range d.portions() {
			for _, lease := range list {
				cells := leaseCells(lease)
				widen(cells)
				p.lease(widths, cells, lease)
				if seen.free++; lease.Held() {
					seen.free, seen.held = seen.free-1, seen.held+1
				}
			}
			if err := p.flush(); err != nil {
				return seen, err
			}
		}
		if d.err != nil {
			p.text(2, "!", fmt.Sprintf("%q could not be looked at", d.alias))
		}
	}
	return seen, nil
}

// lease writes one.
func (p *page) lease(widths []int, cells []string, lease leases.Info) {
	p.row(widths, cells, markColour(cells[0]))
	if late(lease) {
		p.text(4, "", fmt.Sprintf("why: it was not renewed for %s of the %s that it lasts: its holder is dead, stopped or cut off, or renews seldom",
			short(lease.Now.Sub(lease.Renewed)), short(ttl(lease))))
	}
}

// summary says in a line what there is.
func (f *foundLeases) summary(seen seenLeases) string {
	switch {
	case f.released:
		return fmt.Sprintf("lease %q: term %d is ended", f.opts.release, f.opts.token)
	case f.toRelease() != nil:
		return fmt.Sprintf("lease %q: nothing is released yet", f.opts.release)
	case f.opts.release != "" && f.status() == exitOK:
		return fmt.Sprintf("lease %q: it is free, and there is nothing to release", f.opts.release)
	}
	answered, silent := "", 0
	for _, d := range f.databases {
		if d.err != nil {
			answered = " in the databases that answered"
			silent++
		}
	}
	nothing := seen == seenLeases{}
	switch {
	case nothing && silent > 0 && silent == len(f.databases):
		return "nothing could be looked at"
	case nothing:
		return "there are no leases" + answered
	}
	return fmt.Sprintf("%d held, %d free", seen.held, seen.free) + answered
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
