package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/internal/doctor"
	"github.com/hare-go/hare/transactions"
)

// The environment of leavingProgram.
const (
	leavingHow  = "HARE_TEST_LEAVES"
	leavingURLs = "HARE_TEST_LEAVES_URLS"
)

// leavingProgram makes one distributed transaction and ends without closing its connections.
func leavingProgram() {
	urls := map[string]string{}
	plan := &faults.Plan{}
	how := os.Getenv(leavingHow)
	err := json.Unmarshal([]byte(os.Getenv(leavingURLs)), &urls)
	var conns *hare.Connections
	if err == nil {
		conns, err = connectThrough(context.Background(), plan, urls)
	}
	if err == nil {
		var delivered atomic.Int32
		plan.Set(nil, func(_ context.Context, e faults.Event) error {
			if isCommitPrepared(e) && delivered.Add(1) == int32(len(participants)) && how == "is killed" {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // until it has come
			}
			return nil
		})
		err = transactions.Distributed(hare.WithConnections(context.Background(), conns), coordinator, participants, writeAll)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if how == "exits" {
		os.Exit(0)
	}
}

// A program ends right after its last distributed transaction and leaves the decision's row, with nothing prepared anywhere: that
// is housekeeping for recovery and no failure, for the report, the command and the doctor. One that somebody waits for still is one.
//
// Fault D15.
func TestARowAloneIsHousekeeping(t *testing.T) {
	t.Parallel()
	binary := buildCommand(t)
	for _, how := range []string{"returns", "exits", "is killed"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			urls, err := json.Marshal(f.urls)
			if err != nil {
				t.Fatal(err)
			}
			// Under the race detector a program sleeps at its end, in which the row would be taken away.
			p := launch(t, "leaves", leavingHow+"="+how, leavingURLs+"="+string(urls), "GORACE=atexit_sleep_ms=0")
			if ended := p.cmd.Wait(); (ended == nil) != (how != "is killed") {
				p.fail("the program: %v", ended)
			}
			f.wantCounts(1, 1, 1)
			f.wantNothingPrepared()
			if n := f.decisions("resolved_at IS NULL"); n != 1 {
				t.Fatalf("the program has left %d decisions, want one", n)
			}
			if report := f.recover(); !report.Clean() || report.Resolved != 1 || report.Unresolved != 1 || report.Undelivered != 0 || len(report.Entries) != 0 {
				t.Errorf("the report: %+v", report)
			}
			config := writeConfiguration(t, f.urls)
			if r := runHare(t, binary, recoverArgs(config, "--older-than", "0")...); r.status != 0 || !strings.Contains(r.out, "1 committed everywhere, whose rows --finish marks as resolved") {
				t.Errorf("the command: status %d\n%s%s", r.status, r.out, r.errs)
			}
			examined := &patients{T: t, urls: f.urls}
			examined.want(examined.examine(doctor.Options{}), coordinator, "decisions", doctor.OK, "1 unresolved, committed in all of their databases")

			f.crash(isCommitPrepared)
			examined.want(examined.examine(doctor.Options{}), coordinator, "decisions", doctor.Failure, "2 unresolved")
			f.exec("b", "COMMIT PREPARED '"+f.prepared("b")[0]+"'")
			examined.want(examined.examine(doctor.Options{}), coordinator, "decisions", doctor.Failure, "2 unresolved")
			if report := f.recover(); report.Undelivered != 1 || report.Resolved != 1 {
				t.Errorf("one is waited for: %+v", report)
			}
			f.exec("a", "COMMIT PREPARED '"+f.prepared("a")[0]+"'")
			examined.want(examined.examine(doctor.Options{}), coordinator, "decisions", doctor.OK, "2 unresolved, committed in all")
			if report := f.recover(transactions.Finish()); !report.Clean() || report.Resolved != 2 {
				t.Errorf("finishing: %+v", report)
			}
			examined.want(examined.examine(doctor.Options{}), coordinator, "decisions", doctor.OK, "none")

			// Whether a participant that does not answer has followed is not known.
			f.crash(isCommitPrepared)
			f.recoverByHand()
			unreachable(t, "b")(examined.urls)
			examined.want(examined.examine(doctor.Options{}), coordinator, "decisions", doctor.Failure, "1 unresolved")
		})
	}
}

// recoverByHand commits what is prepared and leaves the rows.
func (f *trio) recoverByHand() {
	f.Helper()
	for _, alias := range participants {
		for _, gid := range f.prepared(alias) {
			f.exec(alias, "COMMIT PREPARED '"+gid+"'")
		}
	}
}
