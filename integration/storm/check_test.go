package storm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// term is what the history says of a term.
type term struct {
	holder   string
	acquired int64
	expires  int64 // by its last row
	next     int64 // when the token changed; 0: it never did
	forced   bool  // which was by hand
}

// checker compares what the database holds with what was promised.
type checker struct {
	*evidence
	terms    map[int64]*term
	found    []string
	overlaps int // unfenced writes that committed while, or after, another term had begun
}

// check finds every violation.
func check(e *evidence) *checker {
	c := &checker{evidence: e, terms: map[int64]*term{}}
	c.checkHistory()
	c.checkJournal()
	c.checkReadings()
	c.checkWrites()
	for _, text := range e.Returns {
		c.report("Run has returned although it was not stopped: %s", text)
	}
	return c
}

func (c *checker) report(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// checkHistory follows the lease's row. A term begins when no other is unexpired; what has expired is never renewed; the
// token rises by one with every term and never goes down.
func (c *checker) checkHistory() {
	for i, s := range c.History {
		if i == 0 {
			if s.Token != 0 {
				c.report("the history begins with %+v", s)
			}
			continue
		}
		was := c.History[i-1]
		began := s.Acquired != was.Acquired
		switch {
		case began:
			if s.Token != was.Token+1 {
				c.report("a new term without the next token: %+v after %+v", s, was)
			}
			if s.Acquired < was.Expires && s.Holder != was.Holder { // a holder may take what it holds without knowing
				c.report("two terms overlap by %v: %+v after %+v", between(s.Acquired, was.Expires), s, was)
			}
			c.terms[s.Token] = &term{holder: s.Holder, acquired: s.Acquired, expires: s.Expires}
			if old := c.terms[was.Token]; old != nil {
				old.next = s.Acquired
			}
		case s.Token == was.Token+1 && s.Holder == was.Holder && s.Expires <= was.Expires:
			if old := c.terms[was.Token]; old != nil {
				old.next, old.forced = s.At, true
			}
		case s.Token != was.Token || s.Holder != was.Holder:
			c.report("the row has changed hands within a term: %+v after %+v", s, was)
		case s.Renewed != was.Renewed:
			// The trigger's clock tells of a time that was read before the wait for the lock. It runs a moment later than the
			// other, so that it may be past the expiry by as much.
			if s.Renewed >= was.Expires || s.At >= was.Expires && between(s.Renewed, s.At) > 50*time.Millisecond {
				c.report("a term was renewed %v after it had expired: %+v after %+v", between(was.Expires, s.At), s, was)
			}
			c.terms[s.Token].expires = s.Expires
		case s.Expires <= was.Expires: // released
			c.terms[s.Token].expires = s.Expires
		default:
			c.report("the expiry has risen without a renewal: %+v after %+v", s, was)
		}
	}
}

// checkJournal makes sure that no fenced write committed in another term than its own: by the order of the commits, by the
// database's clock, and by what the lease's row was at the commit.
func (c *checker) checkJournal() {
	var last entry
	for _, w := range c.Journal {
		t := c.terms[w.Token]
		if t == nil || t.holder != w.Holder {
			c.report("a write in a term that its holder never had: %+v", w)
			continue
		}
		wrong := c.outside(w, t)
		if w.Kind == unfenced {
			if len(wrong) > 0 {
				c.overlaps++
			}
			continue
		}
		for _, text := range wrong {
			c.report("a fenced write %s: %+v", text, w)
		}
		if w.Token < last.Token {
			c.report("the order of the commits is broken: %+v after %+v", w, last)
		}
		last = w
	}
}

// outside is what shows that a write committed outside its term.
func (c *checker) outside(w entry, t *term) (wrong []string) {
	if w.Top > w.Token {
		wrong = append(wrong, "came after one with a higher token")
	}
	if w.Inserted < t.acquired {
		wrong = append(wrong, "came before its term")
	}
	if t.next != 0 && w.Committing > t.next {
		wrong = append(wrong, fmt.Sprintf("committed %v after its term", between(t.next, w.Committing)))
	}
	if w.Isolation == "read committed" && w.Lease != w.Token { // above it the snapshot shows an old row
		wrong = append(wrong, fmt.Sprintf("committed when the lease had the token %d", w.Lease))
	}
	return wrong
}

// checkReadings makes sure that whoever trusted its term held the lease at that very time, and that no two trusted at once.
// A term that was ended by hand is the exception: until its next renewal its holder does not know.
func (c *checker) checkReadings() {
	spans := map[int64]*[2]int64{}
	for _, r := range c.Readings {
		t := c.terms[r.Token]
		if t == nil || t.holder != r.Holder {
			c.report("somebody trusted a term that it never had: %+v", r)
			continue
		}
		if t.forced && r.At >= t.next {
			continue
		}
		i, exact := slices.BinarySearchFunc(c.History, r.At, func(s state, at int64) int { return cmp.Compare(s.At, at) })
		if !exact {
			i--
		}
		if s := c.History[max(i, 0)]; s.Token != r.Token || s.Expires <= r.At {
			c.report("a term was trusted when the row said %+v: %+v", s, r)
		}
		if span := spans[r.Token]; span != nil {
			span[0], span[1] = min(span[0], r.At), max(span[1], r.At)
		} else {
			spans[r.Token] = &[2]int64{r.At, r.At}
		}
	}
	var until int64
	for _, token := range slices.Sorted(maps.Keys(spans)) {
		span := spans[token]
		if span[0] <= until {
			c.report("term %d was trusted %v before an earlier one had ended", token, between(span[0], until))
		}
		until = max(until, span[1])
	}
}

// checkWrites makes sure that the candidates were told the truth about their writes.
func (c *checker) checkWrites() {
	there := map[string]bool{}
	for _, w := range c.Journal {
		there[w.ID] = true
	}
	for _, w := range c.Writes {
		if w.Outcome == "committed" && !there[w.ID] || w.Outcome == "rolled back" && there[w.ID] {
			c.report("a candidate was told that its write %s is %s, and in the journal: %t", w.ID, w.Outcome, there[w.ID])
		}
	}
}

// gap is a time without a holder.
type gap struct {
	token int64 // of the term that ended it
	last  time.Duration
}

// gaps are the times without a holder, the longest first.
func (c *checker) gaps() (list []gap) {
	for i := 1; i < len(c.History); i++ {
		if s, was := c.History[i], c.History[i-1]; s.Acquired != was.Acquired && was.Token > 0 {
			list = append(list, gap{s.Token, between(was.Expires, s.Acquired)})
		}
	}
	slices.SortFunc(list, func(a, b gap) int { return cmp.Compare(b.last, a.last) })
	return list
}

// takeovers are how long it took, after a holder had been killed, until the next term began, in order; disturbed ones are
// left out: while the row was locked or the pooler cut off, nobody could take it.
func (c *checker) takeovers() (list []time.Duration) {
	for _, d := range c.Done {
		if d.kind != kill || d.whom != holder || c.terms[d.Token] == nil || c.terms[d.Token].next < d.From {
			continue
		}
		next := c.terms[d.Token].next
		disturbed := slices.ContainsFunc(c.Done, func(o deed) bool {
			return (o.whom == row || o.kind == starve || o.kind == lateStarve || o.whom == trunk || o.whom == standby) && o.From < next && o.To > d.From
		})
		if !disturbed {
			list = append(list, between(d.From, next))
		}
	}
	slices.Sort(list)
	return list
}

func between(from, to int64) time.Duration { return time.Duration(to-from) * time.Microsecond }
