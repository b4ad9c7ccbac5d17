package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		{[]string{"distributed-recover", "--coordinator", "c", "--watch", "10"}, "such as 10s"},
		{[]string{"distributed-recover", "--coordinator", "c", "--watch", "999ms"}, "1s at least"},
		{[]string{"distributed-recover", "--coordinator", "c", "--watch", "-10s"}, "1s at least"},
		{[]string{"distributed-recover", "--coordinator", "c", "--xid", "hare_dtx_c"}, "no xid"},
		{[]string{"distributed-recover", "--coordinator", "c", "--xid", ""}, "no xid"},
		{[]string{"distributed-recover", "--coordinator", "c", "--xid", someXID + ":billing"}, "its xid is " + someXID},
		{[]string{"distributed-recover", "--coordinator", "c", "--forget", ""}, "no xid"},
		{[]string{"distributed-recover", "--coordinator", "c", "--forget", someXID, "--watch", "10s"}, "do not go together"},
		{[]string{"distributed-recover", "--coordinator", "c", "--forget", someXID, "--xid", otherXID}, "two transactions"},
		{[]string{"leases", "--connection", ""}, "--connection is empty"},
		{[]string{"leases", "--format", "xml"}, "table or json"},
		{[]string{"leases", "--finish"}, "go with --release LEASE"},
		{[]string{"leases", "--token", "3"}, "go with --release LEASE"},
		{[]string{"leases", "--token", "0"}, "1 at least"},
		{[]string{"leases", "--token", "1.5"}, "1 at least"},
		{[]string{"leases", "--token", "99999999999999999999"}, "1 at least"},
		{[]string{"leases", "--connection", "c", "--release", "", "--token", "3"}, "--release is empty"},
		{[]string{"leases", "--release", "job", "--token", "3"}, "--connection ALIAS"},
		{[]string{"leases", "--connection", "c", "--release", "job"}, "--token N"},
		{[]string{"leases", "--relase", "job"}, "relase"},
		{[]string{"leases", "x", "extra"}, "unexpected"},
		{[]string{"doctor", "--format", "xml"}, "table or json"},
		{[]string{"doctor", "--alias", "library,,billing"}, "an alias is empty"},
		{[]string{"doctor", "--older-than", "-1"}, "between 0 and"},
		{[]string{"doctor", "extra"}, "extra"},
		{[]string{"help", "distributed-recovery"}, "distributed-recovery"},
		{[]string{"help", "distributed-recover", "extra"}, "extra"},
		{[]string{"distributed-recover", "--coordinator", "c", "extra"}, "extra"},
	} {
		args := test.args
		if len(args) > 2 {
			args = append(args, "--config", filepath.Join(t.TempDir(), "missing.yml"))
			if args[0] == "help" || args[len(args)-3] == "extra" {
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
	for _, args := range [][]string{{"help"}, {"--help"}, {"version"}, {"distributed-recover", "--help"}, {"distributed-recover", "-h"}, {"help", "distributed-recover"}, {"doctor", "--help"}, {"help", "doctor"}, {"leases", "--help"}, {"help", "leases"}} {
		if out, errs, status := call(t, args...); status != exitOK || out == "" || errs != "" {
			t.Errorf("hare %q: status %d\n%s%s", args, status, out, errs)
		}
	}
}

// What cannot be read stands in the JSON, too: a program finds one object in the output unless the call was wrong.
func TestFailureAsJSON(t *testing.T) {
	out, errs, status := call(t, "distributed-recover", "--coordinator", "c", "--format", "json", "--config", filepath.Join(t.TempDir(), "missing.yml"))
	var got jsonReport
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != exitFound {
		t.Fatalf("status %d, %v\n%s%s", status, err, out, errs)
	}
	if got.Clean || got.Coordinator != "c" || !strings.Contains(got.Error, "missing.yml") || !strings.Contains(errs, got.Error) {
		t.Errorf("%+v\n%s", got, errs)
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
