package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/internal/doctor"
)

// ailing is an examination that has found something of everything.
func ailing(config string) examined {
	return examined{
		opts: doctorOptions{config: config, olderThan: defaultAge},
		report: doctor.Report{
			At: time.Date(2026, 7, 30, 3, 12, 45, 678_900_000, time.UTC),
			Findings: []doctor.Finding{
				{Alias: "billing", Check: "reachable", State: doctor.OK, Value: "a round trip takes 135µs", Why: "nothing works without it"},
				{Alias: "billing", Check: "lock_timeout", State: doctor.Warning, Value: "none (PostgreSQL's default)", Why: "without it a statement waits for ever behind a lock",
					Mend: "as a default of the role:", SQL: []string{`ALTER ROLE "hare" IN DATABASE "billing" SET lock_timeout = '5s'`}},
				{Alias: "billing", Check: "prepared_transactions", State: doctor.Failure, Value: "hare's, 1h15m old, owner \"hare\", " + someXID + ":billing; locks account, deposit",
					Why: "it holds its locks", Mend: "nobody has finished it yet. At once:", Command: []string{"distributed-recover", "--coordinator", "library", "--xid", someXID, "--finish"}},
				{Alias: "inventory", Check: "reachable", State: doctor.Failure, Value: "connection refused\x1b[2J", Why: "nothing works without it", Mend: "see that the server runs"},
				{Check: "clocks", State: doctor.OK, Value: "17µs apart at most, give or take 142µs", Why: "people compare times"},
			},
			Skipped: []string{"cache"},
		},
	}
}

func (e examined) printed(t *testing.T, s screen) string {
	t.Helper()
	var b bytes.Buffer
	s.Writer = &b
	if err := e.writeTable(s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestExaminationAsATable(t *testing.T) {
	wantText(t, ailing(defaultConfig).printed(t, screen{}), `   CHECK                  STATE    FOUND
billing
+  reachable              ok       a round trip takes 135µs
~  lock_timeout           warning  none (PostgreSQL's default)
    why: without it a statement waits for ever behind a lock
    mend: as a default of the role:
      ALTER ROLE "hare" IN DATABASE "billing" SET lock_timeout = '5s';
!  prepared_transactions  failure  hare's, 1h15m old, owner "hare", hare_dtx_library:b88b0a6608fa9140:6ea7c41cfaa081487da2713a561b2ec7:billing; locks account, deposit
    why: it holds its locks
    mend: nobody has finished it yet. At once:
      hare distributed-recover --coordinator library --xid hare_dtx_library:b88b0a6608fa9140:6ea7c41cfaa081487da2713a561b2ec7 --finish
inventory
!  reachable              failure  connection refused\x1b[2J
    why: nothing works without it
    mend: see that the server runs
between the databases
+  clocks                 ok       17µs apart at most, give or take 142µs
"cache" has no server to ask, and is not examined
2 failures, 1 warning, 2 ok
`)
}

// On a terminal states have colours, and long texts are wrapped below their column; statements and commands are not, so
// that they can be copied.
func TestExaminationOnATerminal(t *testing.T) {
	got := ailing("/etc/hare.yml").printed(t, screen{terminal: true, colours: true, width: 60})
	for _, want := range []string{
		"\x1b[32m+\x1b[0m  reachable", "\x1b[33mwarning\x1b[0m", "\x1b[31mfailure\x1b[0m", "\x1b[1mbilling\x1b[0m\n",
		"\n                                   locks account, deposit\n",
		"      hare distributed-recover --config /etc/hare.yml --coordinator library --xid " + someXID + " --finish\n",
		`      ALTER ROLE "hare" IN DATABASE "billing" SET lock_timeout = '5s';` + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestExaminationAsJSON(t *testing.T) {
	var b bytes.Buffer
	e := ailing("/etc/hare.yml")
	e.report.Findings, e.report.Skipped = e.report.Findings[1:3], nil
	if err := e.writeJSON(&b); err != nil {
		t.Fatal(err)
	}
	wantText(t, b.String(), `{
  "version": 1,
  "at": "2026-07-30T03:12:45.678Z",
  "state": "failure",
  "error": "",
  "findings": [
    {
      "alias": "billing",
      "check": "lock_timeout",
      "state": "warning",
      "value": "none (PostgreSQL's default)",
      "why": "without it a statement waits for ever behind a lock",
      "mend": "as a default of the role:",
      "sql": [
        "ALTER ROLE \"hare\" IN DATABASE \"billing\" SET lock_timeout = '5s'"
      ],
      "command": ""
    },
    {
      "alias": "billing",
      "check": "prepared_transactions",
      "state": "failure",
      "value": "hare's, 1h15m old, owner \"hare\", `+someXID+`:billing; locks account, deposit",
      "why": "it holds its locks",
      "mend": "nobody has finished it yet. At once:",
      "sql": [],
      "command": "hare distributed-recover --config /etc/hare.yml --coordinator library --xid `+someXID+` --finish"
    }
  ],
  "skipped": []
}
`)
}

// The exit status is that of the worst finding: warnings are no failure.
func TestStatusOfAnExamination(t *testing.T) {
	e := ailing(defaultConfig)
	if e.status() != exitFound {
		t.Error("a failure is none")
	}
	e.report.Findings = e.report.Findings[:2]
	if e.status() != exitOK {
		t.Error("a warning is a failure")
	}
	e.err = errors.New("no report")
	if e.status() != exitFound {
		t.Error("no report is fine")
	}
}

// What cannot be read stands in the JSON, too; databases without a server are nothing to examine.
func TestDoctorWithoutAServer(t *testing.T) {
	folder := t.TempDir()
	out, errs, status := call(t, "doctor", "--format", "json", "--config", filepath.Join(folder, "missing.yml"))
	var got jsonExamination
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != exitFound {
		t.Fatalf("status %d, %v\n%s%s", status, err, out, errs)
	}
	if got.State != "unknown" || got.Findings == nil || !strings.Contains(got.Error, "missing.yml") || !strings.Contains(errs, got.Error) {
		t.Errorf("%+v\n%s", got, errs)
	}

	config, file := filepath.Join(folder, "hare.yml"), filepath.Join(folder, "cache.db")
	if err := os.WriteFile(config, []byte("connections:\n  cache: sqlite:"+file+"\n  stats: clickhouse://127.0.0.1:9000/x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, status = call(t, "doctor", "--config", config)
	if status != exitOK || errs != "" {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	wantText(t, out, "\"cache\" has no server to ask, and is not examined\n\"stats\" has no server to ask, and is not examined\nthere is nothing to examine\n")
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the examination made a file: %v", err)
	}
}

// docs/doctor.md has the usage, and every field of the JSON.
func TestDoctorsPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "doctor.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	if !strings.Contains(page, "```\n"+doctorUsage+"```\n") {
		t.Error("the usage on the page is not that of the command")
	}
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.\\[\\]]+)` \\| (string|integer|list) \\|").FindAllStringSubmatch(page, -1) {
		documented[row[1]] = true
	}
	fields := map[string]bool{}
	for prefix, form := range map[string]reflect.Type{"": reflect.TypeFor[jsonExamination](), "findings[].": reflect.TypeFor[jsonFinding]()} {
		for i := range form.NumField() {
			fields[prefix+form.Field(i).Tag.Get("json")] = true
		}
	}
	if diff := cmp.Diff(fields, documented); diff != "" {
		t.Errorf("fields (-code +page):\n%s", diff)
	}
}
