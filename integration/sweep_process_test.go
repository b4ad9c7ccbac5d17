package integration

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/hare-go/hare/transactions"
)

// eachNumber runs a test for 1, 2 and 3 participants.
func eachNumber(t *testing.T, test func(s *sweep)) {
	for n := 1; n <= 3; n++ {
		t.Run(fmt.Sprintf("%d participants", n), func(t *testing.T) {
			t.Parallel()
			test(newSweep(t, n))
		})
	}
}

// hitEvery runs a round for every call, as the order is for each, until a call is not reached any more.
func (s *sweep) hitEvery(o order, round func(o order) (reached bool)) {
	s.Helper()
	for o.Call = 1; !s.Failed(); o.Call++ {
		o.Text = s.next()
		if !round(o) {
			break
		}
		if o.Call > 100 {
			s.Fatal("the sweep does not end")
		}
	}
	s.Logf("%d calls; after they ran: %t, lost: %t", o.Call-1, o.After, o.Lost)
}

// A process is killed (SIGKILL) at each of its calls, those that meet the databases and those that tidy up after the
// end included. Recovery runs in another process, at once.
//
// Field case 20. Field case 46.
func TestKillAtEveryCall(t *testing.T) {
	t.Parallel()
	eachNumber(t, func(s *sweep) {
		for _, after := range []bool{false, true} {
			s.hitEvery(order{After: after, Background: true}, s.killed)
		}
	})
}

func (s *sweep) killed(o order) (reached bool) {
	s.Helper()
	if len(s.participants()) == 1 {
		s.neverUsed()
	}
	c := s.start()
	c.order(o)
	var told *end
	for {
		w, more := c.heard()
		switch {
		case !more:
			c.kill()
			s.check("not killed", o.Text, told)
			return false
		case w.End != nil:
			told = w.End
			if err := c.orders.Close(); err != nil { // it closes its connections
				s.Fatal(err)
			}
			continue
		}
		c.kill()
		at := o.at("killed", w)
		s.check(at, o.Text, told)
		s.await(at+": the end of the sessions of the dead", func() bool { return s.sessions("true") == 0 })
		return true
	}
}

// at describes a round, for messages.
func (o order) at(what string, w word) string {
	return fmt.Sprintf("%s at call %d (%s), after it ran: %t, lost: %t", what, o.Call, w.Waits, o.After, o.Lost)
}

// A process is stopped (SIGSTOP) at each of its calls. Another one recovers, at age 0 and to the end, and then the
// first goes on as if nothing had been, or finds that this very call is lost.
//
// Field case 31. W3.
func TestStopAtEveryCall(t *testing.T) {
	t.Parallel()
	eachNumber(t, func(s *sweep) {
		c := s.startUsed()
		for _, after := range []bool{false, true} {
			s.hitEvery(order{After: after}, c.stopped)
			if len(s.participants()) == 2 {
				s.hitEvery(order{After: after, Lost: true}, c.stopped)
			}
		}
	})
}

func (c *child) stopped(o order) (reached bool) {
	c.Helper()
	c.order(o)
	w, more := c.heard()
	if !more {
		c.Fatalf("the program has ended\n%s", &c.stderr)
	}
	if w.End != nil {
		c.check("not stopped", o.Text, w.End)
		return false
	}
	at := o.at("stopped", w)
	c.pause()
	finished := c.finish(at)
	kept := c.verify(at+", recovered", o.Text, nil)
	c.resume()
	c.goOn()
	if w, _ = c.heard(); w.End == nil {
		c.Fatalf("%s: the program has ended\n%s", at, &c.stderr)
	}
	if now := c.check(at+", gone on", o.Text, w.End); kept && !now || finished && now != kept {
		c.Errorf("%s: kept: %t, and before it went on: %t, after a recovery that finished it: %t", at, now, kept, finished)
	}
	if len(w.End.GIDs) > 0 || w.End.Outcome != transactions.Committed && w.End.Outcome != transactions.RolledBack {
		c.Errorf("%s: told %+v, though the servers can be reached", at, *w.End)
	}
	return true
}

// finish recovers until nothing is prepared, while a call stands still whose last words may be on their way to the
// servers yet. It tells whether there was anything to finish.
func (s *sweep) finish(at string) (some bool) {
	s.Helper()
	s.await(at+": recovery beside it", func() bool {
		report := s.finishing()
		for _, e := range report.Entries {
			some = some || e.State == transactions.StateDone
		}
		return report.Clean() && len(s.look("").prepared) == 0 && s.sessions("state = 'active'") == 0
	})
	return some
}

// A program that cancels its context on SIGTERM gets the signal at each of its calls. It comes to an end of its own
// within a bound, with an error that tells the truth, or none; the next recovery finds nothing that it did not tell of.
//
// Field case 46.
func TestTerminateAtEveryCall(t *testing.T) {
	t.Parallel()
	eachNumber(t, func(s *sweep) { s.hitEvery(order{TillSIGTERM: true}, s.terminated) })
}

// The same, while the network is lost for good at that call.
func TestTerminateWithoutNetwork(t *testing.T) {
	t.Parallel()
	s := newSweep(t, 2)
	s.hitEvery(order{TillSIGTERM: true, Lost: true, Gone: true, PhaseTimeout: 2 * shortest}, s.terminated)
}

func (s *sweep) terminated(o order) (reached bool) {
	s.Helper()
	c := s.startUsed()
	c.order(o)
	w, _ := c.heard()
	if w.Waits == "" {
		s.check("not terminated", o.Text, w.End)
		return false
	}
	at := o.at("SIGTERM", w)
	start := time.Now()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.Fatal(err)
	}
	w, more := c.heard()
	if !more {
		s.Fatalf("%s: the program has told no end\n%s", at, &c.stderr)
	}
	if _, more := c.heard(); more {
		s.Errorf("%s: it says more", at)
	}
	if err := c.cmd.Wait(); err != nil {
		s.Errorf("%s: %v\n%s", at, err, &c.stderr)
	}
	wantQuick(s.T, start, 30*time.Second)
	s.check(at, o.Text, w.End)
	if !o.Lost && (len(w.End.GIDs) > 0 || w.End.Outcome != transactions.Committed && !w.Canceled) {
		s.Errorf("%s: told %+v, about the cancelled context: %t", at, *w.End, w.Canceled)
	}
	return true
}
