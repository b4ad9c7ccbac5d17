package integration

import (
	"bytes"
	"maps"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/integration/faults"
)

// The command hare as an operator has it: the built binary, a configuration file, and what a crash has left in real
// databases.

// TestRecoverCommand builds the command once for all of them.
func TestRecoverCommand(t *testing.T) {
	t.Parallel()
	binary := buildCommand(t)
	for name, test := range map[string]func(c *command){
		"reports and finishes":                  commandReportsAndFinishes,
		"leaves young ones alone":               commandLeavesYoungOnesAlone,
		"one transaction":                       commandOneTransaction,
		"forgets a mixed outcome":               commandForgets,
		"forgets what is in a lost database":    commandForgetsALostDatabase,
		"a participant is unreachable":          commandUnreachableParticipant,
		"another role than the owner":           commandAnotherRole,
		"the coordinator cannot be used":        commandCoordinatorCannotBeUsed,
		"JSON has the documented shape":         commandJSON,
		"watches and finishes":                  commandWatches,
		"watches on while nothing answers":      commandWatchesOn,
		"is interrupted while nobody answers":   commandIsInterrupted,
		"watches without finishing, as a table": commandWatchesAsATable,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(&command{trio: newTrio(t, ""), binary: binary})
		})
	}
}

// command is the binary with three databases.
type command struct {
	*trio
	binary string
}

// configuration writes hare.yml with the URLs of the aliases after a change.
func (c *command) configuration(change func(urls map[string]string)) string {
	c.Helper()
	urls := maps.Clone(c.urls)
	if change != nil {
		change(urls)
	}
	return writeConfiguration(c.T, urls)
}

// recoverArgs are the arguments that every call here begins with.
func recoverArgs(config string, args ...string) []string {
	return append([]string{"distributed-recover", "--coordinator", coordinator, "--config", config}, args...)
}

// run calls the command with a configuration.
func (c *command) run(config string, args ...string) result {
	c.Helper()
	return runHare(c.T, c.binary, recoverArgs(config, args...)...)
}

// want checks the exit status, and that the output and the errors say all of the parts.
func (c *command) want(r result, status int, parts ...string) {
	c.Helper()
	for _, part := range parts {
		if !strings.Contains(r.out+r.errs, part) {
			c.Errorf("it does not say %q", part)
			status = -1
		}
	}
	if r.status != status {
		c.Errorf("status %d, want %d; output:\n%s\nerrors:\n%s", r.status, status, r.out, r.errs)
	}
}

// crashed makes a crash of a kind and returns the xid of what it has left.
func (c *command) crashed(match func(e faults.Event) bool) (xid string) {
	c.Helper()
	before := c.prepared("b")
	c.crash(match)
	for _, gid := range c.prepared("b") {
		if !slices.Contains(before, gid) {
			return strings.TrimSuffix(gid, ":b")
		}
	}
	c.Fatal("the crash has left nothing in b")
	return ""
}

// unreachable makes an alias lead to a port that nothing listens on.
func unreachable(t *testing.T, alias string) func(urls map[string]string) {
	return func(urls map[string]string) {
		urls[alias] = with(t, urls[alias], func(u *url.URL) { u.Host = "127.0.0.1:1" })
	}
}

// start starts the command and returns its output line by line.
func (c *command) start(config string, args ...string) *running {
	c.Helper()
	cmd := exec.Command(c.binary, recoverArgs(config, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		c.Fatal(err)
	}
	r := &running{command: c, cmd: cmd, errs: &errs, lines: make(chan string), ended: make(chan error, 1)}
	go r.read(out)
	c.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	return r
}

// patience is how long a test waits for what comes within a second where nothing else runs.
const patience = 60 * time.Second
