package transactions

import "time"

// Report is what [Recover] found and did.
type Report struct {
	Coordinator string        // the alias
	Entries     []Entry       // one for each prepared transaction, and for each decision that cannot be finished
	Unreachable []Unreachable // databases that could not be looked at: they may hold more
	Young       int           // transactions younger than OlderThan, which were left alone
	Resolved    int           // decisions found complete: marked as resolved with Finish, only counted without
	Purged      int           // rows removed because they were resolved longer ago than Retention
}

// Clean reports that nothing is left to do: there was nothing, or all of it is done, in every database.
func (r Report) Clean() bool {
	for _, e := range r.Entries {
		if e.State != StateDone && e.State != StateGone {
			return false
		}
	}
	return len(r.Unreachable) == 0
}

// Entry is one prepared transaction.
type Entry struct {
	XID    string
	Alias  string        // the connection that leads to it
	GID    string        // its name in that database
	Owner  string        // the role that prepared it, which alone may finish it, besides a superuser
	Age    time.Duration // since it was prepared, by that server's clock
	Action Action
	Reason string // why that action
	State  State
	Err    error // with StateFailed and StateMixed
}

// Action is what a prepared transaction needs.
type Action string

// The actions.
const (
	ActionCommit   Action = "commit"   // COMMIT PREPARED: the decision is there
	ActionRollback Action = "rollback" // ROLLBACK PREPARED: there is no decision, and with Finish there never will be
	ActionNone     Action = "none"     // nothing that recovery can do
)

// State is how far an entry has come.
type State string

// The states.
const (
	StateNeeded State = "needed" // found, and left as it is: Finish was not asked for
	StateDone   State = "done"   // finished by this run
	StateGone   State = "gone"   // finished meanwhile by its own call, or by another recovery
	StateFailed State = "failed" // not finished: see Err
	StateMixed  State = "mixed"  // decided as committed, but rolled back by somebody else: an operator must repair it
)

// Unreachable is a database that could not be looked at.
type Unreachable struct {
	Alias string
	Err   error
}

// RecoverOption changes how [Recover] works.
type RecoverOption func(*recovery)

// Finish makes Recover finish what it finds. Without it Recover only reports, and writes nothing anywhere.
func Finish() RecoverOption { return func(r *recovery) { r.finish = true } }

// OlderThan leaves transactions alone that are younger than d, by the clock of the server that holds them, because their
// call is probably alive. Default: 300 seconds. It is a courtesy and never decides safety; 0 is safe.
func OlderThan(d time.Duration) RecoverOption { return func(r *recovery) { r.olderThan = d } }

// ParticipantTimeout bounds the work on each database, so that one that does not answer costs only itself, and each step on
// the coordinator. Default: 30 seconds.
func ParticipantTimeout(d time.Duration) RecoverOption {
	return func(r *recovery) { r.participantTime = d }
}

// Retention is how long resolved decisions and abort rows are kept: longer than any process may stay paused and still
// come back to its COMMIT. Default: 7 days. Only Finish removes any.
func Retention(d time.Duration) RecoverOption { return func(r *recovery) { r.retention = d } }
