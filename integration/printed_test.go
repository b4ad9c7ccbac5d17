package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/hare-go/hare/internal/plaintext"
)

// hostileNames are as strangers may choose them for what the command prints.
var hostileNames = []string{
	"esc\x1b[2Jbel\a", "del\x7fc1\u0085\u009b31m", "\u202egnp.exe\u202c\u2066\u200f\u061c", "zero\u200b\u200d\ufeff", "two\nlines\r\u2028\u2029",
	"it's $(id) `id` \\ \x1b", "-x\x1b%s", "tag\U000e0041\U0001f600",
}

// printsNoName fails where a command's output holds anything that does not print itself.
func printsNoName(t *testing.T, what string, r result) {
	t.Helper()
	for stream, text := range map[string]string{"stdout": r.out, "stderr": r.errs} {
		raw := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) })
		if raw >= 0 || !utf8.ValidString(text) {
			t.Errorf("%s prints to %s, at %d: %q", what, stream, raw, text)
		}
	}
}

// line is the rest of the output's line that holds a text.
func (r result) line(t *testing.T, after string) string {
	t.Helper()
	_, rest, found := strings.Cut(r.out, after)
	if !found {
		t.Fatalf("no line with %q:\n%s%s", after, r.out, r.errs)
	}
	rest, _, _ = strings.Cut(rest, "\n")
	return rest
}

// pasted runs a command line in a shell, with a hare that only tells its arguments.
func pasted(t *testing.T, line string) []string {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "hare"), []byte("#!/bin/sh\nfor a in \"$@\"; do printf '%s\\000' \"$a\"; done\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c", line)
	shell.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// TestWhatStrangersNamedIsPrintable: no name of a lease, a holder, a prepared transaction, a table or an option reaches the
// output raw, in any format, and a command that is meant to be pasted names exactly what it is about.
//
// Fault S11.
func TestWhatStrangersNamedIsPrintable(t *testing.T) {
	t.Parallel()
	c := &leasesCommand{command: &command{trio: newTrio(t, ""), binary: buildCommand(t)}}
	c.hold("a")
	for i, name := range hostileNames {
		if _, err := c.client("a").Exec(c.ctx, `INSERT INTO public.hare_leases VALUES ($1, $2, $3, now(), now(), now() + interval '1 hour')`, name, "holder "+name, 100+i); err != nil {
			t.Fatal(err)
		}
	}
	config := c.configuration(nil)
	table, asJSON := c.call(nil), c.call(nil, "--format", "json")
	printsNoName(t, "the list", table)
	printsNoName(t, "the list as JSON", asJSON)
	listed := map[string]bool{}
	for _, lease := range c.parseLeases(asJSON).Leases {
		listed[lease.Name], listed[lease.Holder] = true, true
	}
	for i, name := range hostileNames {
		if !listed[name] || !listed["holder "+name] {
			t.Errorf("%q is not in the JSON", name)
		}
		told := c.call(nil, "--connection", "a", "--release="+name, "--token", strconv.Itoa(100+i))
		printsNoName(t, "a release", told)
		args := pasted(t, told.line(t, "to release: "))
		if at := len(args) - 4; at < 0 || args[at] != name || args[at+2] != strconv.Itoa(100+i) {
			t.Errorf("%q is pasted as %q", name, args)
		}
		for _, args := range [][]string{
			{"leases", "--" + name}, {"leases", name}, {"leases", "--config", config, "--connection", name}, {"doctor", "--" + name}, {"doctor", "--config", name},
			{"distributed-recover", "--config", config, "--coordinator", name}, {"distributed-recover", "--config", config, "--coordinator", "c", "--xid", name}, {name}, {"help", name},
		} {
			printsNoName(t, fmt.Sprintf("%q", args), runHare(t, c.binary, args...))
		}
	}
}

// TestDoctorsSQLIsExact: what the doctor gives to be pasted into psql ends the prepared transaction that it is about,
// whatever its GID, and nothing of the GID or of the tables that it locks reaches the output raw.
//
// Fault S11.
func TestDoctorsSQLIsExact(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	binary := buildCommand(t)
	url := unpooled(t, 1)[0]
	config := writeConfiguration(t, map[string]string{"a": url})
	for _, name := range hostileNames {
		gid := "stranger's " + name
		prepare(t, url, `"`+name+`"`, gid)
		found := runHare(t, binary, "doctor", "--config", config, "--older-than", "0")
		printsNoName(t, "the doctor", found)
		asJSON := runHare(t, binary, "doctor", "--config", config, "--older-than", "0", "--format", "json")
		printsNoName(t, "the doctor's JSON", asJSON)
		var report struct{ Findings []struct{ SQL []string } }
		if err := json.Unmarshal([]byte(asJSON.out), &report); err != nil {
			t.Fatal(err)
		}
		sql := "ROLLBACK PREPARED " + strings.TrimSuffix(found.line(t, "ROLLBACK PREPARED "), ";")
		same := false
		for _, finding := range report.Findings {
			for _, other := range finding.SQL {
				same = same || other == sql
			}
		}
		if !same {
			t.Errorf("the JSON has another SQL than %s", sql)
		}
		execAll(t, url, sql)
	}
	if found := runHare(t, binary, "doctor", "--config", config, "--older-than", "0"); strings.Contains(found.out, "ROLLBACK PREPARED") {
		t.Errorf("something is left:\n%s", found.out)
	}
	for _, name := range append(hostileNames, `q"uote`, `back\slash'`, "plain") {
		rows, err := f.client("c").Query(f.ctx, "SELECT "+plaintext.Literal(name)+" AS "+plaintext.Name(name))
		if err != nil {
			t.Fatal(err)
		}
		for values, err := range rows.All() {
			if err != nil || values[0] != name || rows.Columns()[0] != name {
				t.Errorf("%q is %q and %q, %v", name, values, rows.Columns(), err)
			}
		}
	}
}
