package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/transactions"
)

// The rounds of a watch are told at length when something has changed, and in a line otherwise.
func TestWatchTellsChanges(t *testing.T) {
	start := time.Date(2026, 7, 30, 3, 12, 45, 0, time.UTC)
	var out bytes.Buffer
	w := watching{recovering: &recovering{opts: library(nil), out: &out, errs: &out}}
	next := func(after time.Duration, report transactions.Report, err error) string {
		t.Helper()
		out.Reset()
		if err := w.show(round{at: start.Add(after), report: report, err: err}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	long := func(name, text, stamp string, parts ...string) {
		t.Helper()
		if !strings.HasPrefix(text, "== "+stamp+"\n") {
			t.Errorf("%s: no block of %s:\n%s", name, stamp, text)
		}
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s: there is no %q in\n%s", name, part, text)
			}
		}
	}
	long("the first", next(0, stuck(), nil), "2026-07-30T03:12:45Z", stuckText)

	older := stuck()
	for i := range older.Entries {
		older.Entries[i].Age += 70 * time.Second
	}
	older.Young = 3
	wantText(t, next(70*time.Second, older, nil), `2026-07-30T03:13:55Z unchanged for 1m10s: coordinator "library": 4 waiting; 3 younger than 300 s, left to their calls (--older-than 0 takes them, too, and is safe)
`)

	less := stuck()
	less.Entries = less.Entries[:1]
	long("less", next(80*time.Second, less, nil), "2026-07-30T03:14:05Z", `"library": 1 waiting`)

	lost := errors.New("dial tcp 127.0.0.1:5432: connection refused")
	long("a failure", next(90*time.Second, transactions.Report{}, lost), "2026-07-30T03:14:15Z", "! failed: dial tcp 127.0.0.1:5432: connection refused\n")
	lost = errors.New("dial tcp 127.0.0.1:5433: connection refused")
	wantText(t, next(100*time.Second, transactions.Report{}, lost), "2026-07-30T03:14:25Z unchanged for 10s: failed: dial tcp 127.0.0.1:5433: connection refused\n")

	// What was done is always told, be it the same again.
	for i := range less.Entries {
		less.Entries[i].State = transactions.StateDone
	}
	long("done", next(110*time.Second, less, nil), "2026-07-30T03:14:35Z", "done")
	long("done again", next(120*time.Second, less, nil), "2026-07-30T03:14:45Z", "done")
	long("nothing", next(130*time.Second, transactions.Report{Coordinator: "library", ID: "1"}, nil), "2026-07-30T03:14:55Z", "no distributed transaction is waiting")
}

func TestWatchRewritesALineOfTheTerminal(t *testing.T) {
	var out bytes.Buffer
	w := watching{recovering: &recovering{opts: library(nil), out: &out}}
	to := screen{Writer: &out, terminal: true, width: 40}
	start := time.Date(2026, 7, 30, 3, 12, 45, 0, time.UTC)
	tell := func(seconds int, report transactions.Report) {
		t.Helper()
		if err := w.tell(to, round{at: start.Add(time.Duration(seconds) * time.Second), report: report}); err != nil {
			t.Fatal(err)
		}
	}
	nothing := transactions.Report{Coordinator: "c", ID: "1"}
	tell(0, nothing)
	out.Reset()
	tell(10, nothing)
	tell(20, nothing)
	wantText(t, out.String(), rewrite+"2026-07-30T03:12:55Z unchanged for 10s…"+rewrite+"2026-07-30T03:13:05Z unchanged for 20s…")
	out.Reset()
	tell(30, transactions.Report{Coordinator: "c", ID: "1", Unreachable: []transactions.Unreachable{{Alias: "a", Err: errors.New("x")}}})
	if got := out.String(); !strings.HasPrefix(got, rewrite+"== 2026-07-30T03:13:15Z\n") {
		t.Errorf("the line is still there: %q", got)
	}
}
