package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
)

// held is a lease whose last renewal is some time ago.
func held(name, holder string, token int64, since, renewed, ttl time.Duration) leases.Info {
	now := at.UTC()
	return leases.Info{Name: name, Holder: holder, Token: token, Acquired: now.Add(-since), Renewed: now.Add(-renewed), Expires: now.Add(ttl - renewed), Now: now, Remaining: max(0, ttl-renewed)}
}

func twoDatabases() *foundLeases {
	return &foundLeases{
		opts: leasesOptions{config: defaultConfig, format: "table"}, at: at,
		databases: []leasesOf{
			{alias: "main", list: []leases.Info{
				held("cleanup", "app-1:4711/kq2mx4tzzpa3", 7, time.Hour, 6*time.Minute, time.Minute),
				held("mail", "app-1:4711/x7dkq2mzzpa4", 3, 26*time.Hour, 17*time.Second, 20*time.Second),
				held("nightly-report", "app-2:4711/p4zzm2xqk7da", 41, 72*time.Minute, 2*time.Second, 20*time.Second),
			}},
			{alias: "archive", err: errors.New("connection refused")},
		},
	}
}

func oneRelease(finish bool) *foundLeases {
	f := twoDatabases()
	f.opts.connection, f.opts.release, f.opts.token, f.opts.finish = "main", "nightly-report", 41, finish
	f.databases = f.databases[:1]
	f.choose()
	return f
}

func (f *foundLeases) printed(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := f.writeTable(screen{Writer: &b}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const leasesText = `   LEASE           TOKEN  SINCE  RENEWED   EXPIRES  STATE  HOLDER
main
~  cleanup         7      5m0s   6m0s ago  -        free   app-1:4711/kq2mx4tzzpa3
~  mail            3      1d2h   17s ago   in 3s    held   app-1:4711/x7dkq2mzzpa4
    why: it was not renewed for 17s of the 20s that it lasts: its holder is dead, stopped or cut off, or renews seldom
+  nightly-report  41     1h12m  2s ago    in 18s   held   app-2:4711/p4zzm2xqk7da
! "archive" could not be looked at
2 held, 1 free in the databases that answered
`

const releaseText = `   LEASE           TOKEN  SINCE  RENEWED  EXPIRES  STATE  HOLDER
main
+  nightly-report  41     1h12m  2s ago   in 18s   held   app-2:4711/p4zzm2xqk7da
Ending term 41 of "nightly-report" would mean:
  - "app-2:4711/p4zzm2xqk7da" has held it for 1h12m. If it is dead, waiting does the same: the lease is free 20s after the last renewal
  - if it is alive, it is not stopped: it learns of the end with its next renewal, within 5s unless its options say otherwise. Until then its function goes on, and what that does without a fence it does beside the next holder
  - its fences fail from then on. Fenced transactions under way are waited for; if they last, nothing is ended
  - whoever asks first is the next holder, the same program too if it is alive. To keep that out, stop it
lease "nightly-report": nothing is released yet
to release: hare leases --connection main --release nightly-report --token 41 --finish
`

func TestLeasesTable(t *testing.T) {
	f := twoDatabases()
	wantText(t, f.printed(t), leasesText)
	if f.status() != exitFound {
		t.Errorf("status %d with a database that does not answer", f.status())
	}
	f.databases = f.databases[:1]
	if got := f.printed(t); !strings.HasSuffix(got, "\n2 held, 1 free\n") || f.status() != exitOK {
		t.Errorf("status %d:\n%s", f.status(), got)
	}
	f.databases[0].list = nil
	wantText(t, f.printed(t), "there are no leases\n")
	f.databases[0].err = errors.New("x")
	wantText(t, f.printed(t), "! \"main\" could not be looked at\nnothing could be looked at\n")
}

// A release is told twice: once as what it would mean, once as what was done.
func TestReleaseIsExplained(t *testing.T) {
	f := oneRelease(false)
	wantText(t, f.printed(t), releaseText)
	if f.status() != exitFound {
		t.Errorf("status %d of a report", f.status())
	}
	f = oneRelease(true)
	f.released = true
	got := f.printed(t)
	if !strings.Contains(got, "Ending term 41 of \"nightly-report\" means:\n") || !strings.HasSuffix(got, "\nlease \"nightly-report\": term 41 is ended\n") || f.status() != exitOK {
		t.Errorf("status %d:\n%s", f.status(), got)
	}
}

func TestWhatCannotBeReleased(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(f *foundLeases)
		status int
		says   string // the error, or the table's end
	}{
		{"a lease that is not there", func(f *foundLeases) { f.opts.release = "x" }, exitFound, `there is no lease "x" in "main"`},
		{"a later term", func(f *foundLeases) { f.opts.token = 40 }, exitFound, `the token of lease "nightly-report" is 41, not 40`},
		{"one that is free", func(f *foundLeases) { f.opts.release, f.opts.token = "cleanup", 7 }, exitOK, "it is free, and there is nothing to release\n"},
	} {
		f := twoDatabases()
		f.databases = f.databases[:1]
		f.opts.connection, f.opts.release, f.opts.token, f.opts.finish = "main", "nightly-report", 41, true
		test.change(f)
		f.choose()
		var errs bytes.Buffer
		text := f.printed(t)
		f.complain(&errs)
		if f.toRelease() != nil || f.status() != test.status || !strings.Contains(text+errs.String(), test.says) {
			t.Errorf("%s: status %d\n%s%s", test.name, f.status(), text, errs.String())
		}
		if strings.Contains(text, "mean") || test.status == exitFound && !strings.Contains(errs.String(), "next: hare leases --connection main lists what is there\n") {
			t.Errorf("%s:\n%s%s", test.name, text, errs.String())
		}
	}
}

func TestNextStepsOfLeases(t *testing.T) {
	opts := leasesOptions{connection: "main", config: defaultConfig, release: "job", token: 1}
	refused := &hare.DatabaseError{SQLState: "42501"}
	for _, test := range []struct {
		err  error
		want string
	}{
		{os.ErrNotExist, "--config FILE"},
		{&features.UnsupportedError{}, "PostgreSQL"},
		{&leases.BlockedError{Err: &hare.DatabaseError{SQLState: "55P03"}}, "hare distributed-recover"},
		{&hare.ConnectionError{DatabaseError: *refused}, `when "main" answers`},
		{refused, "SELECT on public.hare_leases"},
		{termError{errors.New("x")}, "hare leases --connection main lists"},
		{errors.New("x"), ""},
	} {
		if got := opts.next("main", test.err); test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%T: %q, want %q", test.err, got, test.want)
		}
	}
}

const leasesJSON = `{
  "version": 1,
  "at": "2026-07-30T03:12:45.678Z",
  "leases": [
    {
      "alias": "main",
      "name": "nightly-report",
      "held": true,
      "holder": "app-2:4711/p4zzm2xqk7da",
      "token": 41,
      "acquired_at": "2026-07-30T02:00:45.678Z",
      "renewed_at": "2026-07-30T03:12:43.678Z",
      "expires_at": "2026-07-30T03:13:03.678Z",
      "age_seconds": 4320,
      "renewed_seconds": 2,
      "remaining_seconds": 18,
      "free_seconds": 0
    }
  ],
  "clean": false,
  "error": "",
  "unreachable": [
    {
      "alias": "archive",
      "error": "connection refused"
    }
  ],
  "release": "",
  "token": 0,
  "finish": false,
  "released": false,
  "blocked_by": []
}
`

func TestLeasesJSON(t *testing.T) {
	f := twoDatabases()
	lease := f.databases[0].list[2]
	for _, of := range []*time.Time{&lease.Acquired, &lease.Renewed, &lease.Expires, &lease.Now} {
		*of = of.Truncate(time.Millisecond).In(time.FixedZone("", 3600))
	}
	f.databases[0].list = []leases.Info{lease}
	var b bytes.Buffer
	if err := f.writeJSON(&b); err != nil {
		t.Fatal(err)
	}
	wantText(t, b.String(), leasesJSON)

	f = oneRelease(true)
	f.err = &leases.BlockedError{Name: "nightly-report", By: []string{"prepared transaction x"}, Err: errors.New("locked")}
	b.Reset()
	if err := f.writeJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got jsonLeases
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Clean || got.Released || !got.Finish || got.Token != 41 || got.Error == "" || !slices.Equal(got.BlockedBy, []string{"prepared transaction x"}) || len(got.Leases) != 1 || len(got.Unreachable) != 0 {
		t.Errorf("%+v", got)
	}
}

// What cannot be read stands in the JSON, too: a program finds one object in the output unless the call was wrong.
func TestLeasesFailureAsJSON(t *testing.T) {
	out, errs, status := call(t, "leases", "--format", "json", "--config", filepath.Join(t.TempDir(), "missing.yml"))
	var got jsonLeases
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != exitFound {
		t.Fatalf("status %d, %v\n%s%s", status, err, out, errs)
	}
	if got.Clean || !strings.Contains(got.Error, "missing.yml") || !strings.Contains(errs, got.Error) || !strings.Contains(errs, "--config FILE") {
		t.Errorf("%+v\n%s", got, errs)
	}
}

// Names of leases and holders are others' and cannot command the terminal.
func TestNamesOfLeasesArePrintable(t *testing.T) {
	f := twoDatabases()
	f.databases[0].list[0].Name, f.databases[0].list[0].Holder = "a\x1b[2J", "b\nc"
	if got := f.printed(t); strings.Contains(got, "\x1b") || strings.Contains(got, "b\nc") {
		t.Errorf("%q", got)
	}
}

// The page of leases shows what the command prints, and explains each field of the JSON with its type, and no other.
func TestLeasesPageIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../docs/leases.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"the options": leasesUsage, "a list": leasesText, "a release": releaseText, "JSON": leasesJSON} {
		if !strings.Contains(string(page), "\n"+text+"```") {
			t.Errorf("the page does not show %s as it is:\n%s", name, text)
		}
	}
	var documented []string
	for _, match := range documentedField.FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, match[1]+" "+match[2])
	}
	written := fields("", reflect.TypeFor[jsonLeases]())
	slices.Sort(documented)
	slices.Sort(written)
	if diff := cmp.Diff(written, documented); diff != "" {
		t.Errorf("written and documented (-written +documented):\n%s", diff)
	}
}

// However many leases there are, they are printed as they are read: what is read and not yet printed stays bounded.
//
// Fault S10.
func TestLeasesAreStreamed(t *testing.T) {
	for _, format := range []string{"table", "json"} {
		const rows = 50_000
		read, printed := 0, &countingWriter{}
		d := leasesOf{alias: "main"}
		d.look(func(yield func(leases.Info, error) bool) {
			for i := range rows {
				if read++; read-printed.lines > 3*portion {
					t.Fatalf("%s: %d leases were read and %d printed", format, read, printed.lines)
				}
				if !yield(held(fmt.Sprintf("job-%d", i), "holder", int64(i+1), time.Hour, time.Second, time.Minute), nil) {
					return
				}
			}
			yield(leases.Info{}, errors.New("connection refused"))
		})
		f := &foundLeases{opts: leasesOptions{config: defaultConfig, format: format}, at: at, databases: []leasesOf{d}}
		defer f.close()
		var err error
		if format == "json" {
			err = f.writeJSON(printed)
		} else {
			err = f.writeTable(screen{Writer: printed})
		}
		if err != nil || read != rows || printed.lines < rows || f.status() != exitFound {
			t.Errorf("%s: %v, %d read, %d lines, status %d", format, err, read, printed.lines, f.status())
		}
	}
}

// countingWriter counts the lines that are written.
type countingWriter struct{ lines int }

func (w *countingWriter) Write(text []byte) (int, error) {
	w.lines += bytes.Count(text, []byte("\n"))
	return len(text), nil
}
