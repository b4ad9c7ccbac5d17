package integration

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/hare-go/hare/integration/servers"
)

// running is a command that has not ended.
type running struct {
	*command
	cmd   *exec.Cmd
	errs  *bytes.Buffer // complete when it has ended
	lines chan string
	ended chan error
}

func (r *running) read(out io.Reader) {
	scanner := bufio.NewScanner(out)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		r.lines <- scanner.Text()
	}
	close(r.lines)
	r.ended <- r.cmd.Wait()
}

// until reads lines up to one that has what is looked for, and returns it.
func (r *running) until(what string, found func(line string) bool) string {
	r.Helper()
	timeout := time.After(patience)
	var seen []string
	for {
		select {
		case line, more := <-r.lines:
			if !more {
				r.Fatalf("it ended before %s; it said\n%s\n%s", what, strings.Join(seen, "\n"), r.errs)
			}
			if found(line) {
				return line
			}
			seen = append(seen, line)
		case <-timeout:
			r.Fatalf("there is no %s in\n%s", what, strings.Join(seen, "\n"))
		}
	}
}

// signal sends a signal and returns the exit status, and the lines after it.
func (r *running) signal(s os.Signal) (status int, rest []string) {
	r.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.Fatal(err)
	}
	timeout := time.After(patience)
	for {
		select {
		case line, more := <-r.lines:
			if more {
				rest = append(rest, line)
				continue
			}
			<-r.ended
			return r.cmd.ProcessState.ExitCode(), rest
		case <-timeout:
			r.Fatalf("%s has not ended it", s)
		}
	}
}

// In the meantime a crash leaves something: the next round finishes it. The status is that of the last round.
func commandWatches(c *command) {
	config := c.configuration(nil)
	r := c.start(config, "--finish", "--older-than", "0", "--watch", "1s", "--format", "json")
	nothing := func(line string) bool {
		report := c.parse(line)
		return report.Clean && len(report.Entries) == 0
	}
	r.until("round that finds nothing", nothing)
	c.crash(isCommitPrepared) // or the watch is faster and rolls back, and the crash is made again
	r.until("round that finishes something", func(line string) bool {
		report := c.parse(line)
		return report.Clean && len(report.Entries) > 0
	})
	r.until("round that finds nothing any more", nothing)
	if status, _ := r.signal(os.Interrupt); status != 0 {
		c.Errorf("status %d, want that of the last round: 0\n%s", status, r.errs)
	}
	c.wantNothingPrepared()
	if counts := c.counts(); counts[0] != counts[1] || counts[0] != counts[2] || counts[0] == 0 {
		c.Errorf("notes in c, a, b: %v, want the same everywhere", counts)
	}
}

// The coordinator is away for some rounds: each is told as a failure, and the watch goes on.
func commandWatchesOn(c *command) {
	xid := c.crashed(isCommitPrepared)
	database := c.text("c", "SELECT current_database()")
	allow := func(yes bool) {
		c.asOwner(c.urls["c"], "postgres", fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS %t", database, yes))
		servers.Renew(c, c.urls["c"])
	}
	allow(false)
	c.Cleanup(func() { allow(true) })
	r := c.start(c.configuration(nil), "--older-than", "0", "--watch", "1s", "--format", "json")
	for range 2 {
		r.until("round that failed", func(line string) bool {
			report := c.parse(line)
			return !report.Clean && report.Error != "" && len(report.Entries) == 0
		})
	}
	allow(true)
	r.until("round that reports", func(line string) bool {
		report := c.parse(line)
		return report.Error == "" && len(report.Entries) == 2 && report.Entries[0].XID == xid
	})
	if status, _ := r.signal(syscall.SIGTERM); status != 1 {
		c.Errorf("status %d, want that of the last round: 1", status)
	}
	if len(c.prepared("a")) != 1 || len(c.prepared("b")) != 1 {
		c.Error("watching without --finish has finished something")
	}
}

// People see a round that found nothing new in one line.
func commandWatchesAsATable(c *command) {
	xid := c.crashed(isDecision)
	r := c.start(c.configuration(nil), "--older-than", "0", "--watch", "1s")
	r.until("time of the first round", func(line string) bool { return strings.HasPrefix(line, "== 20") })
	r.until("transaction", func(line string) bool { return line == xid })
	line := r.until("round without news", func(line string) bool { return strings.Contains(line, " unchanged for ") })
	if !strings.HasSuffix(line, `coordinator "c": 2 waiting`) || strings.Contains(line, "\x1b") {
		c.Errorf("it says %q", line)
	}
	c.want(c.run(c.configuration(nil), "--older-than", "0", "--finish"), 0)
	r.until("news", func(line string) bool { return strings.HasPrefix(line, "== 20") })
	r.until("end", func(line string) bool { return line == `coordinator "c": no distributed transaction is waiting` })
	if status, _ := r.signal(os.Interrupt); status != 0 {
		c.Errorf("status %d, want 0", status)
	}
}

// A database swallows everything. A signal ends the command all the same, long before the time limit of that database, and
// with a status that promises nothing.
func commandIsInterrupted(c *command) {
	c.crash(isDecision)
	for _, args := range [][]string{{"--finish"}, {"--finish", "--watch", "1s"}} {
		p := newProxy(c.T, c.urls["a"])
		p.Swallow()
		config := c.configuration(func(urls map[string]string) { urls["a"] = p.URL() + "&connect_timeout=300" })
		r := c.start(config, args...)
		c.eventually("the command has dialled a", func() bool { return p.Clients() > 0 })
		start := time.Now()
		status, _ := r.signal(os.Interrupt)
		wantQuick(c.T, start, 25*time.Second)
		if status != 1 {
			c.Errorf("%q: status %d, want 1\n%s", args, status, r.errs)
		}
		if len(args) == 1 && !strings.Contains(r.errs.String(), "interrupted") {
			c.Errorf("it says %q", r.errs)
		}
	}
}
