package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/transactions"
)

func call(t *testing.T, args ...string) (out, errs string, status int) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(t.Context(), args, &o, &e)
	return o.String(), e.String(), status
}

// Rows 33 and 34 of the original's list: a wrong call is told before the configuration is even read.
func TestWrongCalls(t *testing.T) {
	for _, test := range []struct {
		args []string
		says string
	}{
		{nil, "usage"},
		{[]string{"distributed-recovery"}, "distributed-recovery"},
		{[]string{"distributed-recover"}, "--coordinator"},
		{[]string{"distributed-recover", "--coordinator"}, "coordinator"},
		{[]string{"distributed-recover", "--coordinator", "c", "--older-than", "-1"}, "between 0 and 315360000"},
		{[]string{"distributed-recover", "--coordinator", "c", "--older-than=-5"}, "older-than"},
		{[]string{"distributed-recover", "--coordinator", "c", "--older-than", "-99999999999999999999"}, "between 0 and"},
		{[]string{"distributed-recover", "--coordinator", "c", "--older-than", "315360001"}, "between 0 and"},
		{[]string{"distributed-recover", "--coordinator", "c", "--older-than", "99999999999999999999"}, "between 0 and"},
		{[]string{"distributed-recover", "--coordinator", "c", "--older-than", "abc"}, "older-than"},
		{[]string{"distributed-recover", "--coordinator", "c", "--older-than", "1.5"}, "whole number"},
		{[]string{"distributed-recover", "--coordinator", "c", "--format", "xml"}, "table or json"},
		{[]string{"distributed-recover", "--coordinator", "c", "--finnish"}, "finnish"},
		{[]string{"distributed-recover", "--coordinator", "c", "extra"}, "extra"},
	} {
		args := test.args
		if len(args) > 2 {
			args = append(args, "--config", filepath.Join(t.TempDir(), "missing.yml"))
			if args[len(args)-3] == "extra" {
				args = test.args
			}
		}
		out, errs, status := call(t, args...)
		if status != exitUsage || out != "" || !strings.Contains(errs, test.says) || strings.Contains(errs, "missing.yml") {
			t.Errorf("hare %q: status %d\n%s%s", test.args, status, out, errs)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"--help"}, {"version"}, {"distributed-recover", "--help"}, {"distributed-recover", "-h"}} {
		if out, errs, status := call(t, args...); status != exitOK || out == "" || errs != "" {
			t.Errorf("hare %q: status %d\n%s%s", args, status, out, errs)
		}
	}
}

func TestConfigurationThatCannotBeUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hare.yml")
	if out, errs, status := call(t, "distributed-recover", "--coordinator", "c", "--config", path); status != exitFound || !strings.Contains(errs, path) {
		t.Errorf("no file: status %d\n%s%s", status, out, errs)
	}
	if err := os.WriteFile(path, []byte("connections:\n  library: postgres://hare:secret@127.0.0.1:1/library\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errs, status := call(t, "distributed-recover", "--coordinator", "libary", "--config", path); status != exitUsage || !strings.Contains(errs, `"library"`) {
		t.Errorf("unknown alias: status %d\n%s%s", status, out, errs)
	}
	if out, errs, status := call(t, "distributed-recover", "--coordinator", "library", "--config", path); status != exitFound || strings.Contains(errs, "secret") || errs == "" {
		t.Errorf("unreachable coordinator: status %d\n%s%s", status, out, errs)
	}
}

var sample = transactions.Report{
	Coordinator: "library",
	Entries: []transactions.Entry{
		{XID: "hare_dtx_library:1:2", Alias: "billing", GID: "hare_dtx_library:1:2:billing", Owner: "hare", Age: 90 * time.Second, Action: transactions.ActionCommit, Reason: "the decision is durable", State: transactions.StateDone},
		{XID: "hare_dtx_library:1:3", Alias: "inventory", GID: "hare_dtx_library:1:3:inventory", Owner: "hare", Age: time.Hour, Action: transactions.ActionRollback, Reason: "no decision", State: transactions.StateFailed, Err: errors.New("refused")},
	},
	Unreachable: []transactions.Unreachable{{Alias: "archive", Err: errors.New("no answer")}},
	Young:       2,
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	if err := writeTable(&b, sample, true); err != nil {
		t.Fatal(err)
	}
	want := `   XID                   DATABASE   AGE     OWNER  ACTION             STATE   WHY
+  hare_dtx_library:1:2  billing    1m30s   hare   COMMIT PREPARED    done    the decision is durable
!  hare_dtx_library:1:3  inventory  1h0m0s  hare   ROLLBACK PREPARED  failed  no decision
! hare_dtx_library:1:3 on inventory: refused
! archive could not be looked at: no answer
coordinator "library": 1 finished, 1 not; 2 younger than --older-than, left to their calls
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestSummarySaysWhatToRun(t *testing.T) {
	for _, test := range []struct {
		name   string
		report transactions.Report
		finish bool
		want   string
	}{
		{"nothing", transactions.Report{Coordinator: "c"}, false, `coordinator "c": no distributed transaction is waiting`},
		{"found", transactions.Report{Coordinator: "c", Entries: []transactions.Entry{{State: transactions.StateNeeded}}}, false, `coordinator "c": 1 waiting; to finish: hare distributed-recover --coordinator c --finish`},
		{"unreachable", transactions.Report{Coordinator: "c", Unreachable: []transactions.Unreachable{{}}}, true, `coordinator "c": no distributed transaction is waiting in the databases that answered`},
	} {
		if got := summary(test.report, test.finish); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := writeJSON(&b, sample, true); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"coordinator": "library", "clean": false, "young": 2.0, "resolved": 0.0, "purged": 0.0,
		"entries": []any{
			map[string]any{"xid": "hare_dtx_library:1:2", "alias": "billing", "gid": "hare_dtx_library:1:2:billing", "owner": "hare", "age_seconds": 90.0, "action": "commit", "reason": "the decision is durable", "state": "done"},
			map[string]any{"xid": "hare_dtx_library:1:3", "alias": "inventory", "gid": "hare_dtx_library:1:3:inventory", "owner": "hare", "age_seconds": 3600.0, "action": "rollback", "reason": "no decision", "state": "failed", "error": "refused"},
		},
		"unreachable": []any{map[string]any{"alias": "archive", "error": "no answer"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	b.Reset()
	if err := writeJSON(&b, transactions.Report{Coordinator: "c"}, false); err != nil || !strings.Contains(b.String(), `"entries": []`) {
		t.Errorf("an empty report: %s, %v", b.String(), err)
	}
}
