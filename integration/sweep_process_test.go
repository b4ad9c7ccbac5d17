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

// beforeAndAfter sweeps the calls before they have run, and after.
func beforeAndAfter(s *sweep, round func(after bool, i int64) (reached bool)) {
	s.Helper()
	for _, after := range []bool{false, true} {
		i := int64(1)
		for ; !s.Failed() && round(after, i); i++ {
			if i > 100 {
				s.Fatal("the sweep does not end")
			}
		}
		s.Logf("%d calls, after they ran: %t", i-1, after)
	}
}

// Field 46: a process is killed (SIGKILL) at each of its calls, those that meet the databases and those that tidy up after
// the end included. Recovery runs in another process, at once.
func TestKillAtEveryCall(t *testing.T) {
	t.Parallel()
	eachNumber(t, func(s *sweep) {
		beforeAndAfter(s, func(after bool, i int64) bool {
			if len(s.participants()) == 1 {
				s.neverUsed()
			}
			text := s.next()
			c := s.start()
			c.order(order{Text: text, Call: i, After: after, Background: true})
			var told *end
			at := ""
			for at == "" {
				w, more := c.heard()
				switch {
				case !more:
					c.kill()
					s.check("not killed", text, told)
					return false
				case w.End != nil:
					told = w.End
					if err := c.orders.Close(); err != nil { // it closes its connections
						s.Fatal(err)
					}
				default:
					at = fmt.Sprintf("killed at call %d (%s), after it ran: %t", i, w.Waits, after)
				}
			}
			c.kill()
			s.recover(transactions.Finish()) // beside what the servers have not noticed yet
			s.check(at, text, told)
			s.await(at+": the end of the sessions of the dead", func() bool { return s.sessions("true") == 0 })
			return true
		})
	})
}

// Field 31, W3: a process is stopped (SIGSTOP) at each of its calls. Another one recovers, at age 0 and to the end, and then
// the first goes on as if nothing had been.
func TestStopAtEveryCall(t *testing.T) {
	t.Parallel()
	eachNumber(t, func(s *sweep) {
		c := s.start()
		c.order(order{Text: s.next(), Call: never}) // first use
		if w, _ := c.heard(); w.End == nil || w.End.Outcome != transactions.Committed {
			s.Fatalf("undisturbed: %+v\n%s", w, &c.stderr)
		}
		beforeAndAfter(s, func(after bool, i int64) bool {
			text := s.next()
			c.order(order{Text: text, Call: i, After: after})
			w, more := c.heard()
			if !more {
				s.Fatalf("the program has ended\n%s", &c.stderr)
			}
			if w.End != nil {
				s.check("not stopped", text, w.End)
				return false
			}
			at := fmt.Sprintf("stopped at call %d (%s), after it ran: %t", i, w.Waits, after)
			c.pause()
			finished := s.finish(at)
			kept := s.verify(at+", recovered", text, nil)
			c.resume()
			c.goOn()
			if w, _ = c.heard(); w.End == nil {
				s.Fatalf("%s: the program has ended\n%s", at, &c.stderr)
			}
			if now := s.check(at+", gone on", text, w.End); kept && !now || finished && now != kept {
				s.Errorf("%s: kept: %t, and before it went on: %t, after a recovery that finished it: %t", at, now, kept, finished)
			}
			return true
		})
	})
}

// finish recovers until nothing is prepared, while a call stands still whose last words may be on their way to the
// servers yet. It tells whether there was anything to finish.
func (s *sweep) finish(at string) (some bool) {
	s.Helper()
	s.await(at+": recovery beside it", func() bool {
		report := s.recover(transactions.Finish())
		for _, e := range report.Entries {
			some = some || e.State == transactions.StateDone
		}
		return report.Clean() && len(s.look("").prepared) == 0 && s.sessions("state = 'active'") == 0
	})
	return some
}

// Field 46: a program that cancels its context on SIGTERM gets the signal at each of its calls. It comes to an end of its
// own within a bound, with an error that tells the truth, or none; the next recovery finds nothing it did not tell of.
func TestTerminateAtEveryCall(t *testing.T) {
	t.Parallel()
	eachNumber(t, func(s *sweep) { s.terminate(false) })
}

// The same, while the network is lost for good at that call.
func TestTerminateWithoutNetwork(t *testing.T) {
	t.Parallel()
	s := newSweep(t, 2)
	s.terminate(true)
}

func (s *sweep) terminate(gone bool) {
	s.Helper()
	s.wantWhole("first use", s.connect(s.subjectURLs()))
	for i := int64(1); !s.Failed(); i++ {
		text := s.next()
		c := s.start()
		o := order{Text: text, Call: i, Gone: gone, TillSIGTERM: true}
		if gone {
			o.PhaseTimeout = 2 * shortest
		}
		c.order(o)
		w, _ := c.heard()
		if w.Waits == "" {
			s.check("not terminated", text, w.End)
			return
		}
		at := fmt.Sprintf("SIGTERM at call %d (%s)", i, w.Waits)
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
		s.check(at, text, w.End)
		if !gone && (w.End.Outcome != transactions.Committed && !w.Canceled || len(w.End.GIDs) > 0) {
			s.Errorf("%s: told %+v", at, w)
		}
	}
}
