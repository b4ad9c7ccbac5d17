package transactions

import (
	"fmt"

	"github.com/hare-go/hare/internal/session"
)

// EndedByHandError says that the server on Alias has answered a statement of the function's own with the tag in Statement: it
// ended the transaction there, or may have. What ran before it may be committed, and what ran after it may not be; the other
// databases of a distributed transaction are rolled back. No hook has run. hare refuses such statements before they
// are sent, by reading them, so that this takes one which it does not know. Look what is in the database, and
// repair it, before anything is run again.
type EndedByHandError struct {
	XID       string // empty for Atomic
	Alias     string
	Statement string // COMMIT, ROLLBACK, PREPARE TRANSACTION, ...
	Err       error  // what else is known: the error of the function, or of the end
}

// Error names the connection and the statement.
func (e *EndedByHandError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return fmt.Sprintf("a statement of the program's on %q was %s, so a part of %s may be committed: look before running it again: %v",
		e.Alias, e.Statement, theTransaction(e.XID), e.Err)
}

// Unwrap gives what else is known.
func (e *EndedByHandError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// endedByHand is the error of a transaction that was to end with err, if a statement in it has ended it before; else nil.
func endedByHand(xid, alias string, tx *session.Session, err error) error {
	if tx == nil || tx.EndedByHand() == nil {
		return nil
	}
	return &EndedByHandError{XID: xid, Alias: alias, Statement: tx.EndedByHand().Statement, Err: err}
}
