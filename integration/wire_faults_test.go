package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/transactions"
)

// brief is the time of the phase whose message is struck. What is late comes after it, and after what follows it in the
// call, which takes as long again at most.
const (
	brief = 300 * time.Millisecond
	late  = 3 // times as much
)

// The phases of which one is brief.
func preparing(d time.Duration) transactions.Phases   { return transactions.Phases{Prepare: d} }
func deciding(d time.Duration) transactions.Phases    { return transactions.Phases{Decide: d} }
func delivering(d time.Duration) transactions.Phases  { return transactions.Phases{Deliver: d} }
func rollingBack(d time.Duration) transactions.Phases { return transactions.Phases{Rollback: d} }

// decisionSQL is in the message of a decision alone: the rows of its participants.
const decisionSQL = "'commit', '["

// The ends that a call may tell of: the right one, and those of a phase that is over before all is found out and done.
var (
	isRolledBack    = []transactions.Outcome{transactions.RolledBack}
	isCommitted     = []transactions.Outcome{transactions.Committed, transactions.PartiallyCommitted}
	isNotDecided    = append(isRolledBack, transactions.Ambiguous)
	isDecidedOrLost = append(isCommitted, transactions.Ambiguous)
)

// message is one of the protocol, and how it comes to be sent.
type message struct {
	name, alias, statement string
	before                 []proxy.Fault // strike earlier messages to the alias, so that this one comes
	refused                bool          // b refuses to prepare
	phases                 func(brief time.Duration) transactions.Phases
	lost, done             []transactions.Outcome // without, and with, the message's effect
}

// protocol are the messages of a distributed commit.
var protocol = []message{
	{name: "PREPARE TRANSACTION in a", alias: "a", statement: "PREPARE TRANSACTION",
		phases: preparing, lost: isRolledBack, done: isRolledBack},
	{name: "PREPARE TRANSACTION in b", alias: "b", statement: "PREPARE TRANSACTION",
		phases: preparing, lost: isRolledBack, done: isRolledBack},
	{name: "the decision", alias: "c", statement: decisionSQL,
		phases: deciding, lost: isNotDecided, done: isDecidedOrLost},
	{name: "the fence that finds the decision", alias: "c", statement: "'abort'",
		before: []proxy.Fault{{Statement: decisionSQL, Answer: true, Do: proxy.Cut}},
		phases: deciding, lost: isDecidedOrLost, done: isDecidedOrLost},
	{name: "the fence that prevents the decision", alias: "c", statement: "'abort'",
		before: []proxy.Fault{{Statement: decisionSQL, Do: proxy.Cut}},
		phases: deciding, lost: isNotDecided, done: isNotDecided},
	{name: "the fence of a late decision", alias: "c", statement: "'abort'",
		before: []proxy.Fault{{Statement: decisionSQL, Do: proxy.Delay}},
		phases: deciding, lost: isNotDecided, done: isNotDecided},
	{name: "COMMIT PREPARED in a", alias: "a", statement: "COMMIT PREPARED",
		phases: delivering, lost: isCommitted, done: isCommitted},
	{name: "COMMIT PREPARED in b", alias: "b", statement: "COMMIT PREPARED",
		phases: delivering, lost: isCommitted, done: isCommitted},
	{name: "ROLLBACK PREPARED in a", alias: "a", statement: "ROLLBACK PREPARED", refused: true,
		phases: rollingBack, lost: isRolledBack, done: isRolledBack},
	{name: "ROLLBACK PREPARED after a lost answer", alias: "a", statement: "ROLLBACK PREPARED",
		before: []proxy.Fault{{Statement: "PREPARE TRANSACTION", Answer: true, Do: proxy.Cut}},
		phases: rollingBack, lost: isRolledBack, done: isRolledBack},
}

// wireFaults are what a network does to a message.
var wireFaults = map[string]proxy.Fault{
	"cut":              {Do: proxy.Cut},
	"answer cut":       {Do: proxy.Cut, Answer: true},
	"swallowed":        {Do: proxy.Swallow},
	"answer swallowed": {Do: proxy.Swallow, Answer: true},
	"late":             {Do: proxy.Delay},
	"answer late":      {Do: proxy.Delay, Answer: true},
}

// Each message of the protocol is cut off, lost or late, and so is its answer. The call tells the truth; with recovery
// all databases have its writes or none has, then and after what is late has come; the pools of one connection are as
// good as before.
//
// Field case 14. Field case 24. Field case 25. Field case 35.
func TestEachMessageFailsOnTheWire(t *testing.T) {
	t.Parallel()
	for _, m := range protocol {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "&max_size=1")
			network := f.through(m.alias)[m.alias]
			if err := f.distributed(func(*hare.Distributed) error { return nil }); err != nil { // first use
				t.Fatal(err)
			}
			if m.refused {
				f.atCommit("b", "IF NEW.text NOT LIKE 'after %' THEN RAISE EXCEPTION 'no'; END IF;")
			}
			for name, fault := range wireFaults {
				t.Run(name, func(t *testing.T) {
					fault.Statement = m.statement
					f.in(t).strikeInTime(m, network, fault)
				})
			}
		})
	}
}

// strikeInTime is strike with as much time as it takes: a busy machine may not come to the message within that of its phase.
func (f *trio) strikeInTime(m message, network *proxy.Proxy, fault proxy.Fault) {
	f.Helper()
	for brief := brief; !f.strike(m, network, fault, brief); brief *= 4 {
		if brief > 30*time.Second {
			f.Fatal("the message was never sent")
		}
	}
}

// strike runs a distributed call in which a fault strikes a message, and reports whether the message came.
func (f *trio) strike(m message, network *proxy.Proxy, fault proxy.Fault, brief time.Duration) (struck bool) {
	f.Helper()
	text := fmt.Sprint("fault ", fault.Do, fault.Reply.Severity, fault.Reply.Localized, fault.Reply.Code, fault.Reply.Ready, ", answer ", fault.Answer, ", within ", brief)
	want, phases := m.lost, transactions.Phases{}
	if fault.Answer {
		want = m.done
	}
	var armed []*proxy.Armed
	silent := false
	for _, each := range append([]proxy.Fault{fault}, m.before...) {
		each.Delay = late * brief
		armed = append(armed, network.Arm(each))
		silent = silent || each.Do != proxy.Cut && each.Do != proxy.MakeUp
	}
	if silent {
		phases = m.phases(brief)
	} else { // the call sees it at once, and has the time to find everything out
		want = want[:1]
	}
	err := transactions.Distributed(f.ctx, coordinator, participants, func(d *hare.Distributed) error {
		return write(d, text, everybody...)
	}, transactions.PhaseTimeouts(phases))
	if told := transactions.OutcomeOf(err); !slices.Contains(want, told) {
		f.Errorf("told %s, want one of %s: %v", told, want, err)
	}
	select {
	case <-armed[0].Struck():
		struck = true
	case <-time.After(5 * time.Second):
	}
	for _, each := range armed {
		if each.Do == proxy.Delay && struck { // recovery comes first
			f.recover(transactions.Finish())
			f.wait("it passes", each.Passed())
		}
	}
	network.Heal()
	f.wantSettled(text, err).wantWhole(text, f.conns)
	return struck
}
