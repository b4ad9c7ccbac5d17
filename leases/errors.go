package leases

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hare-go/hare/internal/plaintext"
)

// ErrStopped says that the lease has been stopped, so that it takes no more part: Acquire gave up, or was called after
// Stop. Nothing is held. A new [Lease] of the same name can be made.
var ErrStopped = errors.New("the lease has been stopped")

// ErrReleased says that the term is over because it was released.
var ErrReleased = errors.New("the term was released")

// HeldError says that somebody else holds the lease. Nothing has changed. It may be tried again; it is free after
// Remaining unless the holder renews it, as it will while it lives.
type HeldError struct {
	Name      string
	Holder    string // empty where it was free again when that was looked at
	Token     int64
	Remaining time.Duration // until it expires, by the database's clock
}

// Error names the lease and its holder.
func (e *HeldError) Error() string {
	if e == nil {
		return "<nil>"
	}
	if e.Holder == "" {
		return fmt.Sprintf("lease %q: another candidate was quicker", e.Name)
	}
	return fmt.Sprintf("lease %q is held by %q (term %d) for another %v", e.Name, e.Holder, e.Token, e.Remaining.Round(time.Millisecond))
}

// LeaseLostError says that a term is over although it was not released: it expired, was taken over, or can no longer be
// trusted because renewals did not get through. From [Term.Fence] it means that nothing was written in this transaction yet
// that will stay: return it, so that the transaction is rolled back. The term never comes back; acquire the lease again.
type LeaseLostError struct {
	Name   string
	Holder string
	Token  int64
	Reason string
	Err    error // why the last renewal failed, or nil
}

// Error names the lease, the term and the reason.
func (e *LeaseLostError) Error() string {
	if e == nil {
		return "<nil>"
	}
	text := fmt.Sprintf("lease %q: term %d of %q is over: %s", e.Name, e.Token, e.Holder, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap gives the error of the last renewal.
func (e *LeaseLostError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// BlockedError says that the lease's row was locked for longer than [Options].LockTimeout, usually by a fenced
// transaction that is still open, or that is prepared and waits for recovery. Nothing has changed. It may be tried again.
type BlockedError struct {
	Name string
	By   []string // whoever has the table in use: server processes and prepared transactions, for people
	Err  error    // the database's answer
}

// Error names the lease and who may hold its row.
func (e *BlockedError) Error() string {
	if e == nil {
		return "<nil>"
	}
	text := fmt.Sprintf("lease %q: its row is locked", e.Name)
	if len(e.By) > 0 {
		text += " (in use by " + plaintext.Line(strings.Join(e.By, "; ")) + ")"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap gives the database's answer.
func (e *BlockedError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// ElsewhereError says that a connection leads to another database than the one in which this process first asked for a lease,
// as a pooler's may after a change of its configuration. A lease there is another one: nothing has been done. It may be
// tried again, in case the connection is led back. After a move that is meant, all processes that take part are restarted, or
// open their connections anew, before any asks for leases again.
type ElsewhereError struct {
	Alias string
	Err   error // the database's answer, if there was one
}

// Error names the connection.
func (e *ElsewhereError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return fmt.Sprintf("connection %q leads to another database than when this process first asked for a lease, whose leases are other ones: "+
		"lead it back, or, if the database was moved, restart the processes that take part", e.Alias)
}

// Unwrap gives the database's answer.
func (e *ElsewhereError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}
