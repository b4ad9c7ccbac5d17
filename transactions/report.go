package transactions

import "time"

// Report is what [Recover] found and did.
type Report struct {
	Coordinator string        // the alias
	ID          string        // of the coordinator's database, the middle of its xids; empty when it has never coordinated any
	Entries     []Entry       // one for each prepared transaction, and for each decision that cannot be finished
	Unreachable []Unreachable // databases that could not be looked at, standbys without their primary among them: they may hold more
	Young       int           // transactions younger than OlderThan, which were left alone
	Resolved    int           // decisions found complete: marked as resolved with Finish, only counted without
	Purged      int           // rows removed because they were resolved longer ago than Retention
	Unresolved  int           // decisions to commit that are not resolved, before this run
	Undelivered int           // of those, the ones older than OlderThan that some participant has not followed, or that was not found out
	Decided     string        // with OnlyXID: "commit" or "abort" if there is a row of it, else "none"

	// Participants are, with OnlyXID or Forget, those of a transaction whose decision to commit is not resolved.
	Participants []Participant

	// Databases are those that were looked at, the coordinator's first.
	Databases []DatabaseState
}

// DatabaseState is what a database has of prepared transactions, whoever made them.
type DatabaseState struct {
	Alias     string
	SlotsUsed int           // of the whole server, which shares its slots among its databases
	SlotsMax  int           // max_prepared_transactions
	Oldest    time.Duration // age of the server's oldest prepared transaction: it keeps VACUUM from its work
	OldestGID string
	XactAge   int64 // transactions that the server has begun since its oldest prepared one
	Others    int   // prepared in this database by somebody else than this coordinator
	Standby   bool  // it is one, and does not show what is prepared on its primary: look there

	// Primary is, of a standby, the alias that leads to its primary, which was looked at. Where no alias does, the standby
	// is among Report.Unreachable, unless max_prepared_transactions is 0 and its primary can hold nothing.
	Primary string
}

// Clean reports that nothing is left to do: there was nothing, or all of it is done, in every database. It says so only of
// databases whose primary was looked at: a standby never stands for it.
func (r Report) Clean() bool {
	for _, e := range r.Entries {
		if e.State != StateDone && e.State != StateGone && e.State != StateForgotten {
			return false
		}
	}
	return len(r.Unreachable) == 0
}

// Entry is one prepared transaction.
type Entry struct {
	XID   string
	Alias string        // the connection that leads to it
	GID   string        // its name in that database
	Owner string        // the role that prepared it, which alone may finish it, besides a superuser
	Age   time.Duration // since it was prepared, by that server's clock

	XactAge int64    // transactions that the server has begun since; VACUUM cannot clean up behind them
	Tables  []string // that it holds locks on
	Live    bool     // its call is still connected to the coordinator and has not decided yet

	Action Action
	Reason string // why that action
	State  State
	Err    error // with StateFailed and StateMixed
}

// CanForget reports that recovery can do nothing about the entry, so that [Forget] may give its transaction up.
func (e Entry) CanForget() bool {
	return e.State == StateMixed || final(e.Err)
}

// Participant is what one participant has of a transaction that is decided as committed.
type Participant struct {
	Alias string
	Has   Writes
}

// Writes is whether a database has the writes of a transaction.
type Writes string

// What a database may have.
const (
	WritesCommitted Writes = "committed" // it has them
	WritesPrepared  Writes = "prepared"  // it will have them
	WritesLost      Writes = "lost"      // somebody rolled them back
	WritesUnknown   Writes = "unknown"   // it was not reached, or cannot tell
)

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
	// StateForgotten: mixed, or of a database that is gone for good, and given up with Forget.
	StateForgotten State = "forgotten"
)

// Unreachable is a database that could not be looked at.
type Unreachable struct {
	Alias string
	Err   error
}
