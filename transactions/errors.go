package transactions

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hare-go/hare/internal/plaintext"
)

// Outcome is what became of a transaction, as far as its error tells.
type Outcome int

// The outcomes.
const (
	// RolledBack: nothing of it is kept anywhere. It may be run again.
	RolledBack Outcome = iota
	// Committed: all of it is kept everywhere. It must not be run again.
	Committed
	// PartiallyCommitted: it is decided, some databases have it already and the others will. It must not be run
	// again; recovery finishes it.
	PartiallyCommitted
	// Ambiguous: nobody knows yet whether it was decided. It must not be run again before recovery has found out.
	Ambiguous
	// Mixed: a part of it is kept and another is not, or may not be, because somebody has ended a part by hand. An operator
	// must repair the data.
	Mixed
)

// String is the outcome in words.
func (o Outcome) String() string {
	switch o {
	case RolledBack:
		return "rolled back"
	case Committed:
		return "committed"
	case PartiallyCommitted:
		return "partially committed"
	case Ambiguous:
		return "ambiguous"
	case Mixed:
		return "mixed"
	}
	return fmt.Sprintf("Outcome(%d)", int(o))
}

// OutcomeOf answers the question that callers ask about the error of [Atomic] or [Distributed]: what is in the
// databases now? nil is Committed.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Committed
	}
	outcome, _ := end(err)
	return outcome
}

// end is the outcome in the outermost error that tells one: what it wraps may be about another transaction.
func end(err error) (outcome Outcome, told bool) {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *MixedOutcomeError, *EndedByHandError:
		return Mixed, true
	case *PartiallyCommittedError:
		return PartiallyCommitted, true
	case *CommitAmbiguousError, *CommitUnknownError:
		return Ambiguous, true
	case *AbortError, *RollbackPendingError:
		return RolledBack, true
	case *HookError:
		if e.Committed {
			return Committed, true
		}
		return RolledBack, false // what was rolled back has an error of its own
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return end(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if outcome, told = end(inner); told {
				return outcome, true
			}
		}
	}
	return RolledBack, false
}

// rolledBack is the error of a transaction that was rolled back because of cause: cause itself, unless it would be taken for
// the outcome, being the error of another transaction.
func rolledBack(xid string, cause error) error {
	if outcome, _ := end(cause); outcome == RolledBack {
		return cause
	}
	return &AbortError{XID: xid, Err: cause}
}

// ParticipantState is one participant of a distributed transaction that has not ended as it should.
type ParticipantState struct {
	Alias string
	GID   string // of its prepared transaction
	Err   error  // why it is not finished; nil where nothing was tried
}

func describe(states []ParticipantState) string {
	parts := make([]string, len(states))
	for i, s := range states {
		parts[i] = fmt.Sprintf("%s (GID %s)", s.Alias, s.GID)
		if s.Err != nil {
			parts[i] += ": " + s.Err.Error()
		}
	}
	return strings.Join(parts, "; ")
}

func causes(states []ParticipantState) []error {
	var errs []error
	for _, s := range states {
		if s.Err != nil {
			errs = append(errs, s.Err)
		}
	}
	return errs
}

// PartiallyCommittedError says that the decision to commit is durable in the coordinator's database, whose own writes are
// committed, and that the participants in Pending were not reached in time. They stay prepared, and keep their locks,
// until the background recoverer or "hare distributed-recover --finish" commits them. Do not run the call again:
// everything it wrote is, or will be, there.
type PartiallyCommittedError struct {
	XID         string
	Coordinator string
	Pending     []ParticipantState
}

// Error names the transaction, each pending participant and the next command.
func (e *PartiallyCommittedError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return fmt.Sprintf("distributed transaction %s is committed, but not yet on %s; run: %s", e.XID, describe(e.Pending), finishCommand(e.Coordinator))
}

// Unwrap gives the causes.
func (e *PartiallyCommittedError) Unwrap() []error {
	if e == nil {
		return nil
	}
	return causes(e.Pending)
}

// CommitAmbiguousError says that the answer to the deciding COMMIT was lost and that the coordinator's database could not
// be asked within the time limit. Every participant stays prepared, so that nothing can contradict the decision; as soon
// as the coordinator answers again, the recoverer or "hare distributed-recover --finish" ends them as it was decided.
// Do not run the call again before that.
type CommitAmbiguousError struct {
	XID          string
	Coordinator  string
	Participants []string
	GIDs         []string // what stays prepared, in the order of Participants
	Err          error    // what happened to the COMMIT, and to asking
}

// Error names the transaction, its databases and the next command.
func (e *CommitAmbiguousError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return fmt.Sprintf("distributed transaction %s: it is not known whether %q has committed it (%v); prepared on %s; when %q answers again run: %s",
		e.XID, e.Coordinator, e.Err, strings.Join(e.Participants, ", "), e.Coordinator, finishCommand(e.Coordinator))
}

// Unwrap gives the cause.
func (e *CommitAmbiguousError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// MixedOutcomeError says that a transaction was decided as committed and that the participants in RolledBack lost their
// part all the same: somebody rolled their prepared transaction back by hand, or the server lost it. Nothing can repair
// that automatically. The row of the decision is kept until an operator has repaired the data and forgets it.
type MixedOutcomeError struct {
	XID         string
	Coordinator string
	RolledBack  []ParticipantState
	Pending     []ParticipantState // not reached yet, as in [PartiallyCommittedError]
}

// Error names the transaction, the participants that lost their part, and the command for when they are repaired.
func (e *MixedOutcomeError) Error() string {
	if e == nil {
		return "<nil>"
	}
	text := fmt.Sprintf("distributed transaction %s is committed on %q, but was rolled back by somebody else on %s", e.XID, e.Coordinator, describe(e.RolledBack))
	if len(e.Pending) > 0 {
		text += "; not yet committed on " + describe(e.Pending)
	}
	return text + "; repair the data by hand, then run: " + forgetCommand(e.Coordinator, e.XID)
}

// Unwrap gives the causes.
func (e *MixedOutcomeError) Unwrap() []error {
	if e == nil {
		return nil
	}
	return append(causes(e.RolledBack), causes(e.Pending)...)
}

// RollbackPendingError says that a distributed transaction is rolled back, for the reason in Err, but that the
// participants in Pending could not be reached to say so: they may still hold a prepared transaction and its locks. It can
// never commit; the recoverer or "hare distributed-recover --finish" rolls it back. The call may be run again, though it
// may have to wait for those locks.
type RollbackPendingError struct {
	XID         string
	Coordinator string
	Pending     []ParticipantState
	Err         error
}

// Error gives the reason, the participants and the next command.
func (e *RollbackPendingError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return fmt.Sprintf("%v (distributed transaction %s is rolled back, but may still be prepared on %s; run: %s)",
		e.Err, e.XID, describe(e.Pending), finishCommand(e.Coordinator))
}

// Unwrap gives the reason of the rollback and the causes of what is pending.
func (e *RollbackPendingError) Unwrap() []error {
	if e == nil {
		return nil
	}
	return append([]error{e.Err}, causes(e.Pending)...)
}

func isRollbackPending(err error) bool {
	if err == nil {
		return false
	}
	var pending *RollbackPendingError
	return errors.As(err, &pending)
}

// AbortError says that a transaction was rolled back everywhere, for the reason in Err: a distributed one after its
// function had returned nil, or any because its function returned the error of another transaction, whose outcome is not to
// be taken for this one's. Nothing is left; it may be run again if the reason allows.
type AbortError struct {
	XID string // empty for Atomic
	Err error
}

// Error gives the reason and the transaction.
func (e *AbortError) Error() string {
	if e == nil {
		return "<nil>"
	}
	if e.XID == "" {
		return fmt.Sprintf("%v (the transaction in which this happened is rolled back)", e.Err)
	}
	return fmt.Sprintf("%v (distributed transaction %s is rolled back)", e.Err, e.XID)
}

// Unwrap gives the reason.
func (e *AbortError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// CommitUnknownError says that the answer to the COMMIT of [Atomic] was lost, or to that of [Distributed] when no participant
// had anything to commit: the connection broke, or the time limit ended, after it was sent. The transaction is either kept whole or not at all, and the database alone knows. Look there
// before running it again; hare never does.
type CommitUnknownError struct {
	XID   string // empty for Atomic
	Alias string
	Err   error
}

// Error names the connection and the cause.
func (e *CommitUnknownError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return fmt.Sprintf("the answer to COMMIT on %q was lost, so %s may or may not be committed: look before running it again: %v", e.Alias, theTransaction(e.XID), e.Err)
}

// Unwrap gives the cause.
func (e *CommitUnknownError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// HookError carries what hooks returned. Hooks run after the transaction has ended and never change how: Committed says
// which end it was. Every hook has run.
type HookError struct {
	XID       string // empty for Atomic
	Committed bool
	Errs      []error
}

// Error gives the errors of the hooks.
func (e *HookError) Error() string {
	if e == nil {
		return "<nil>"
	}
	end := "rolled back"
	if e.Committed {
		end = "committed"
	}
	return fmt.Sprintf("%s is %s, but a hook failed: %v", theTransaction(e.XID), end, errors.Join(e.Errs...))
}

// Unwrap gives the errors of the hooks.
func (e *HookError) Unwrap() []error {
	if e == nil {
		return nil
	}
	return e.Errs
}

// theTransaction names a transaction in a sentence.
func theTransaction(xid string) string {
	if xid == "" {
		return "the transaction"
	}
	return "distributed transaction " + xid
}

// finishCommand finishes whatever is left of a coordinator's transactions.
func finishCommand(coordinator string) string {
	return plaintext.Command("hare", "distributed-recover", "--coordinator", coordinator, "--finish")
}

// forgetCommand tells what giving a transaction up would mean, and how to do it.
func forgetCommand(coordinator, xid string) string {
	return plaintext.Command("hare", "distributed-recover", "--coordinator", coordinator, "--forget", xid)
}

// nextCommand is what an operator runs after an end that leaves something; empty where there is nothing to run.
func nextCommand(err error) string {
	var (
		mixed     *MixedOutcomeError
		partial   *PartiallyCommittedError
		ambiguous *CommitAmbiguousError
		pending   *RollbackPendingError
	)
	switch {
	case errors.As(err, &mixed):
		return forgetCommand(mixed.Coordinator, mixed.XID)
	case errors.As(err, &partial):
		return finishCommand(partial.Coordinator)
	case errors.As(err, &ambiguous):
		return finishCommand(ambiguous.Coordinator)
	case errors.As(err, &pending):
		return finishCommand(pending.Coordinator)
	}
	return ""
}
