package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hare-go/hare/internal/plaintext"
	"github.com/hare-go/hare/transactions"
)

// watch does round after round until it is interrupted, and returns the status of the last one. A round that was
// interrupted does not count.
//
// People see each change, with its time, and for a round that found what the one before had found one line, which a
// terminal rewrites: at any time the screen tells what happened when, and that the watch goes on.
func (c *recovering) watch() int {
	status := exitFound // as long as nothing is known
	w := watching{recovering: c}
	for {
		r := c.round()
		if c.ctx.Err() != nil {
			w.leave(r)
			return status
		}
		status = r.status()
		if err := w.show(r); err != nil {
			c.complain(err)
			return exitFound
		}
		select {
		case <-time.After(time.Duration(c.opts.watch)):
		case <-c.ctx.Done():
			w.leave(round{})
			return status
		}
	}
}

// watching is what the rounds so far have shown.
type watching struct {
	*recovering
	last  string // what the last round found, without ages
	since time.Time
	line  bool // the cursor is at the end of a line that the next round rewrites
}

// show tells what a round found.
func (w *watching) show(r round) error {
	if w.opts.format == "json" {
		return writeJSON(w.out, r, w.opts, "")
	}
	return w.tell(screenOf(w.out, os.Getenv), r)
}

// tell is show for people.
func (w *watching) tell(to screen, r round) error {
	if found := essence(r); found != w.last || w.since.IsZero() || r.wrote() {
		w.last, w.since = found, r.at
		return w.block(to, r)
	}
	text := fmt.Sprintf("%s unchanged for %s: %s", stamp(r.at), short(r.at.Sub(w.since)), w.brief(r))
	if !to.terminal {
		_, err := fmt.Fprintln(to, text)
		return err
	}
	w.line = true
	_, err := fmt.Fprint(to, rewrite+to.cut(text))
	return err
}

// block tells all that a round found.
func (w *watching) block(to screen, r round) error {
	if w.line {
		w.line = false
		fmt.Fprint(to, rewrite)
	}
	fmt.Fprintln(to, to.paint(bold, "== "+stamp(r.at)))
	if r.err != nil {
		fmt.Fprintln(to, to.paint(red, "! "+w.brief(r)))
		if next := w.opts.next(r.err); next != "" {
			fmt.Fprintf(to, "  next: %s\n", next)
		}
		if len(r.report.Entries) == 0 {
			return nil
		}
	}
	return writeReport(to, r, w.opts)
}

// brief is a round in a line.
func (w *watching) brief(r round) string {
	if r.err != nil {
		return "failed: " + plaintext.Line(r.err.Error())
	}
	return plaintext.Line(summary(r.report, w.opts))
}

// leave tells what an interrupted round had done before, and ends the line.
func (w *watching) leave(r round) {
	to := screenOf(w.out, os.Getenv)
	if r.wrote() {
		if err := w.show(r); err != nil {
			w.complain(err)
		}
	}
	if w.line {
		fmt.Fprintln(to)
	}
}

// wrote reports whether the round has finished anything.
func (r round) wrote() bool {
	for _, e := range r.report.Entries {
		if e.State == transactions.StateDone {
			return true
		}
	}
	return false
}

// essence is what a round found, without what changes from one to the next by itself: ages, the ports in errors, calls at
// work.
func essence(r round) string {
	var b strings.Builder
	for _, e := range r.report.Entries {
		fmt.Fprintln(&b, e.GID, e.Alias, e.Action, e.State, withoutDigits(message(e.Err)))
	}
	for _, u := range r.report.Unreachable {
		fmt.Fprintln(&b, u.Alias, withoutDigits(message(u.Err)))
	}
	for _, d := range r.report.Databases {
		fmt.Fprintln(&b, d.Alias, d.SlotsUsed > 0 && d.SlotsUsed >= d.SlotsMax)
	}
	fmt.Fprintln(&b, withoutDigits(message(r.err)))
	return b.String()
}

func withoutDigits(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// stamp is a time as logs have it, so that both can be laid side by side.
func stamp(t time.Time) string { return t.Format(time.RFC3339) }
