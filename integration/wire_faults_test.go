package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/transactions"
)

// brief is the time of the phase whose message is struck, and late is after it and what follows it in the call.
const (
	brief = 300 * time.Millisecond
	late  = 3 * brief
)

// decisionSQL is in the message of a decision alone: the rows of its participants.
const decisionSQL = "'commit', '["

// The ends that a call may tell of. On a busy machine a phase may be over before what was lost is found out.
var (
	isRolledBack    = []transactions.Outcome{transactions.RolledBack}
	isCommitted     = []transactions.Outcome{transactions.Committed, transactions.PartiallyCommitted}
	isNotDecided    = append(isRolledBack, transactions.Ambiguous)
	isDecidedOrLost = append(isCommitted, transactions.Ambiguous)
)

// protocol are the messages of a distributed commit, each as it comes to be sent.
var protocol = []struct {
	name, alias, statement string
	before                 []proxy.Fault // strike earlier messages to the alias, so that this one comes
	refused                bool          // b refuses to prepare
	phases                 transactions.Phases
	lost, done             []transactions.Outcome // without, and with, the message's effect
}{
	{name: "PREPARE TRANSACTION in a", alias: "a", statement: "PREPARE TRANSACTION",
		phases: transactions.Phases{Prepare: brief}, lost: isRolledBack, done: isRolledBack},
	{name: "PREPARE TRANSACTION in b", alias: "b", statement: "PREPARE TRANSACTION",
		phases: transactions.Phases{Prepare: brief}, lost: isRolledBack, done: isRolledBack},
	{name: "the decision", alias: "c", statement: decisionSQL,
		phases: transactions.Phases{Decide: brief}, lost: isNotDecided, done: isDecidedOrLost},
	{name: "the fence that finds the decision", alias: "c", statement: "'abort'",
		before: []proxy.Fault{{Statement: decisionSQL, Answer: true, Do: proxy.Cut}},
		phases: transactions.Phases{Decide: brief}, lost: isDecidedOrLost, done: isDecidedOrLost},
	{name: "the fence that prevents the decision", alias: "c", statement: "'abort'",
		before: []proxy.Fault{{Statement: decisionSQL, Do: proxy.Cut}},
		phases: transactions.Phases{Decide: brief}, lost: isNotDecided, done: isNotDecided},
	{name: "the fence of a late decision", alias: "c", statement: "'abort'",
		before: []proxy.Fault{{Statement: decisionSQL, Do: proxy.Delay, Delay: late}},
		phases: transactions.Phases{Decide: brief}, lost: isNotDecided, done: isNotDecided},
	{name: "COMMIT PREPARED in a", alias: "a", statement: "COMMIT PREPARED",
		phases: transactions.Phases{Deliver: brief}, lost: isCommitted, done: isCommitted},
	{name: "COMMIT PREPARED in b", alias: "b", statement: "COMMIT PREPARED",
		phases: transactions.Phases{Deliver: brief}, lost: isCommitted, done: isCommitted},
	{name: "ROLLBACK PREPARED in a", alias: "a", statement: "ROLLBACK PREPARED", refused: true,
		phases: transactions.Phases{Rollback: brief}, lost: isRolledBack, done: isRolledBack},
	{name: "ROLLBACK PREPARED after a lost answer", alias: "a", statement: "ROLLBACK PREPARED",
		before: []proxy.Fault{{Statement: "PREPARE TRANSACTION", Answer: true, Do: proxy.Cut}},
		phases: transactions.Phases{Rollback: brief}, lost: isRolledBack, done: isRolledBack},
}

// wireFaults are what a network does to a message.
var wireFaults = map[string]proxy.Fault{
	"cut":              {Do: proxy.Cut},
	"answer cut":       {Do: proxy.Cut, Answer: true},
	"swallowed":        {Do: proxy.Swallow},
	"answer swallowed": {Do: proxy.Swallow, Answer: true},
	"late":             {Do: proxy.Delay, Delay: late},
	"answer late":      {Do: proxy.Delay, Delay: late, Answer: true},
}

// Each message of the protocol is cut off, lost or late, and so is its answer. The call tells the truth; with recovery
// all databases have its writes or none has, then and after what is late has come; the pools of one connection are as
// good as before.
//
// Field case 14. Field case 24. Field case 25. Field case 35.
func TestEachMessageFailsOnTheWire(t *testing.T) {
	t.Parallel()
	for _, message := range protocol {
		t.Run(message.name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "&max_size=1")
			network := f.through(message.alias)[message.alias]
			if err := f.distributed(func(*hare.Distributed) error { return nil }); err != nil { // first use
				t.Fatal(err)
			}
			if message.refused {
				f.atCommit("b", "IF NEW.text <> 'all' THEN RAISE EXCEPTION 'no'; END IF;")
			}
			for name, fault := range wireFaults {
				t.Run(name, func(t *testing.T) {
					f := f.in(t)
					fault.Statement = message.statement
					var armed []*proxy.Armed
					for _, each := range append([]proxy.Fault{fault}, message.before...) {
						armed = append(armed, network.Arm(each))
					}
					err := f.distributed(func(d *hare.Distributed) error { return write(d, name, everybody...) }, transactions.PhaseTimeouts(message.phases))
					want := message.lost
					if fault.Answer {
						want = message.done
					}
					if told := transactions.OutcomeOf(err); !slices.Contains(want, told) {
						t.Errorf("told %s, want one of %s: %v", told, want, err)
					}
					f.wait("the fault strikes", armed[0].Struck())
					for _, each := range armed {
						if each.Do == proxy.Delay { // recovery comes first
							f.recover(transactions.Finish())
							f.wait("it passes", each.Passed())
						}
					}
					network.Heal()
					f.wantSettled(name, err)
				})
			}
		})
	}
}
