package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/hare-go/hare/integration/proxy"
)

// play is what the demo shows.
func (d *demo) play() error {
	for _, scene := range []func() error{d.setUp, d.lend, d.refuse, d.crashDecided, d.report, d.finish, d.crashUndecided, d.tend} {
		if err := scene(); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) setUp() error {
	d.say("Three databases on %s", d.databases.where)
	if _, status, err := d.command("library", "setup"); err != nil || status != 0 {
		return errors.Join(err, errors.New("the tables cannot be set up"))
	}
	_, err := d.show()
	return err
}

func (d *demo) lend() error {
	d.say("A loan that succeeds: all three databases have it")
	_, status, err := d.command("library", "lend", "Watership Down", "R-1")
	if err != nil {
		return err
	}
	tables, err := d.show()
	d.expect(status == 0, "exit status 0")
	d.expect(has(tables, "book 1, reader 1", "book 1: 2", "reader 1: 5"), "the loan, one copy less, the deposit")
	return err
}

func (d *demo) refuse() error {
	d.say("A loan that is refused: nothing anywhere changes")
	before, _, err := d.quiet("library", "show")
	if err != nil {
		return err
	}
	output, status, err := d.command("library", "lend", "The Velveteen Rabbit", "R-1")
	if err != nil {
		return err
	}
	after, err := d.show()
	d.expect(status == 1 && has(output, "not on the shelf", "rolled back"), "refused: not on the shelf, rolled back")
	d.expect(before == after, "the three tables are as they were")
	return err
}

// crash kills the example at one of its messages to a database. A proxy in front of that database holds the message for
// ever, so that the kill always meets the same instant.
func (d *demo) crash(alias, message, card string) error {
	network, err := proxy.Start(d.databases.urls[alias])
	if err != nil {
		return err
	}
	defer network.Close()
	held := network.Arm(proxy.Fault{Statement: message, Do: proxy.Hold})
	urls := maps.Clone(d.databases.urls)
	urls[alias] = network.URL()
	if err := d.configure("through-proxy.yml", urls); err != nil {
		return err
	}
	args := []string{"-config", "through-proxy.yml", "lend", "Watership Down", card}
	cmd, err := d.start("library", args...)
	if err != nil {
		return err
	}
	select {
	case <-held.Struck():
	case <-time.After(30 * time.Second):
		err = fmt.Errorf("the example never came to its %s", message)
	}
	if err == nil {
		d.expect(d.databases.prepared(d.ctx, "billing", 1), "billing is prepared and waits, holding its locks")
	}
	err = errors.Join(err, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed, which is no news
	return err
}

func (d *demo) crashDecided() error {
	d.say("A loan whose process is killed (kill -9) between the decision and the last COMMIT PREPARED")
	if err := d.crash("billing", "COMMIT PREPARED", "R-2"); err != nil {
		return err
	}
	tables, err := d.show()
	d.expect(d.databases.prepared(d.ctx, "inventory", 0) && has(tables, "book 1, reader 2", "book 1: 1"), "library and inventory have the loan: it is decided")
	d.expect(!has(tables, "reader 2: 5"), "billing does not have it yet")
	return err
}

func (d *demo) report() error {
	d.say("What is stuck")
	output, status, err := d.command("hare", "distributed-recover", "--coordinator", "library", "--older-than", "0")
	d.expect(status == 1 && has(output, "COMMIT PREPARED", "billing"), "exit status 1: one transaction waits for its COMMIT PREPARED in billing")
	return err
}

func (d *demo) finish() error {
	d.say("Recovery finishes it")
	output, status, err := d.command("hare", "distributed-recover", "--coordinator", "library", "--older-than", "0", "--finish")
	if err != nil {
		return err
	}
	d.expect(status == 0 && has(output, "1 finished, 0 not"), "exit status 0: finished")
	tables, err := d.show()
	if err != nil {
		return err
	}
	d.expect(has(tables, "book 1, reader 2", "book 1: 1", "reader 2: 5"), "all three databases have the loan")
	_, status, err = d.command("hare", "distributed-recover", "--coordinator", "library", "--older-than", "0")
	d.expect(status == 0 && d.databases.prepared(d.ctx, "billing", 0), "exit status 0: nothing is left")
	return err
}

func (d *demo) crashUndecided() error {
	d.say("A loan whose process is killed (kill -9) when all have prepared and before it is decided")
	return d.crash("library", "INSERT INTO public.hare_distributed_decisions", "R-1")
}

// tend starts the application again. Its recoverer needs no operator.
func (d *demo) tend() error {
	d.say("The application starts again: its recoverer finishes that within seconds, without an operator")
	cmd, err := d.start("library", "tend")
	if err != nil {
		return err
	}
	finished := d.databases.prepared(d.ctx, "billing", 0) && d.databases.prepared(d.ctx, "inventory", 0)
	err = cmd.Process.Signal(os.Interrupt)
	ended := cmd.Wait() == nil
	tables, showing := d.show()
	d.expect(finished && has(tables, "book 1: 1"), "rolled back: nothing waits any more, and no copy is missing from the shelf")
	d.expect(ended, "the recoverer ends when it is interrupted")
	return errors.Join(err, showing)
}

// has reports whether the text has every part.
func has(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
