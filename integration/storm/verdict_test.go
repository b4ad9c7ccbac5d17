package storm

import (
	"strings"
	"testing"
	"time"
)

// at is a time of the evidence below, in milliseconds.
func at(ms int64) int64 { return ms * time.Millisecond.Microseconds() }

// good is the evidence of a short storm without fault: A holds term 1, renews it once and dies; B takes term 2, which is ended
// by hand, and A's next life holds term 3 and releases it.
func good() *evidence {
	return &evidence{
		History: []state{
			{At: at(1), Token: 0},
			{At: at(11), Holder: "A", Token: 1, Acquired: at(10), Renewed: at(10), Expires: at(2010)},
			{At: at(501), Holder: "A", Token: 1, Acquired: at(10), Renewed: at(500), Expires: at(2500)},
			{At: at(2601), Holder: "B", Token: 2, Acquired: at(2600), Renewed: at(2600), Expires: at(4600)},
			{At: at(3000), Holder: "B", Token: 3, Acquired: at(2600), Renewed: at(2600), Expires: at(2999)},
			{At: at(3101), Holder: "A2", Token: 4, Acquired: at(3100), Renewed: at(3100), Expires: at(5100)},
			{At: at(4000), Holder: "A2", Token: 4, Acquired: at(3100), Renewed: at(3100), Expires: at(4000)},
		},
		Journal: []entry{
			{ID: "a", Kind: fenced, Token: 1, Holder: "A", Isolation: "read committed", Seq: 0, Top: 0, Inserted: at(20), Committing: at(21), Lease: 1},
			{ID: "b", Kind: fenced, Token: 1, Holder: "A", Isolation: "repeatable read", Seq: 1, Top: 1, Inserted: at(2530), Committing: at(2590), Lease: 1},
			{ID: "c", Kind: fenced, Token: 2, Holder: "B", Isolation: "read committed", Seq: 2, Top: 1, Inserted: at(2700), Committing: at(2701), Lease: 2},
			{ID: "d", Kind: fenced, Token: 4, Holder: "A2", Isolation: "repeatable read", Seq: 3, Top: 2, Inserted: at(3200), Committing: at(3300), Lease: 2},
			{ID: "e", Kind: unfenced, Token: 2, Holder: "B", Isolation: "read committed", Seq: 0, Top: 0, Inserted: at(3200), Committing: at(3201), Lease: 4},
		},
		Readings: []reading{{1, "A", at(30)}, {1, "A", at(2200)}, {2, "B", at(2650)}, {2, "B", at(3150)}, {4, "A2", at(3120)}},
		Writes:   []write{{ID: "a", Outcome: "committed", Kind: fenced}, {ID: "x", Outcome: "rolled back", Kind: fenced}, {ID: "b", Outcome: "ambiguous", Kind: fenced}},
		Done:     []deed{{event: event{kind: kill, whom: holder}, From: at(700), To: at(800), Token: 1}},
	}
}

// TestVerdict gives the checks what must not be, one thing at a time.
func TestVerdict(t *testing.T) {
	t.Parallel()
	c := check(good())
	if len(c.found) > 0 || c.overlaps != 1 || c.forced() != 1 {
		t.Errorf("of good evidence: %q, %d overlaps, %d ended by hand, want none, 1, 1", c.found, c.overlaps, c.forced())
	}
	if took := c.takeovers(); len(took) != 1 || took[0] != 1900*time.Millisecond {
		t.Errorf("takeovers %v, want one of 1.9s", took)
	}
	if gaps := c.gaps(); len(gaps) != 2 || gaps[0].last != 101*time.Millisecond {
		t.Errorf("times without a holder: %v, want the longest of 101 ms", gaps)
	}
	for name, wrong := range map[string]struct {
		do   func(e *evidence)
		want string
	}{
		"a takeover too early":                {func(e *evidence) { e.History[3].Acquired = at(2400) }, "two terms overlap"},
		"a late renewal":                      {func(e *evidence) { e.History[2].Renewed = at(2100) }, "was renewed"},
		"a renewal by a stale clock":          {func(e *evidence) { e.History[2].At, e.History[2].Renewed = at(2060), at(2000) }, "was renewed"},
		"the same token twice":                {func(e *evidence) { e.History[3].Token = 1 }, "without the next token"},
		"another holder in a term":            {func(e *evidence) { e.History[2].Holder = "B" }, "changed hands"},
		"an expiry out of nowhere":            {func(e *evidence) { e.History[6].Expires = at(9000) }, "risen without a renewal"},
		"a second holder of a token":          {func(e *evidence) { e.Journal[1].Holder = "B" }, "its holder never had"},
		"a write after a later term's":        {func(e *evidence) { e.Journal[1].Top = 2 }, "higher token"},
		"tokens go down":                      {func(e *evidence) { e.Journal[2].Token, e.Journal[2].Holder = 4, "A2" }, "came before its term"},
		"commits in another order":            {func(e *evidence) { e.Journal[0], e.Journal[2] = e.Journal[2], e.Journal[0] }, "order of the commits"},
		"a commit in the next term":           {func(e *evidence) { e.Journal[1].Committing = at(2601) }, "after its term"},
		"a commit with a stranger's row":      {func(e *evidence) { e.Journal[0].Lease = 2 }, "had the token 2"},
		"trust after the expiry":              {func(e *evidence) { e.Readings[1].At = at(2550) }, "was trusted when"},
		"trust in the next term":              {func(e *evidence) { e.Readings[1].At = at(2650) }, "before an earlier one had ended"},
		"trust in somebody else's term":       {func(e *evidence) { e.Readings[0].Holder = "B" }, "that it never had"},
		"a commit that was told and is not":   {func(e *evidence) { e.Writes[1].Outcome = "committed" }, "was told"},
		"a commit that was denied and there":  {func(e *evidence) { e.Writes[0].Outcome = "rolled back" }, "was told"},
		"a candidate that takes no more part": {func(e *evidence) { e.Returns = []string{"0.1: no reason"} }, "Run has returned"},
	} {
		e := good()
		wrong.do(e)
		found := strings.Join(check(e).found, "\n")
		if !strings.Contains(found, wrong.want) {
			t.Errorf("%s: found %q, want one with %q", name, found, wrong.want)
		}
	}
}
