package transactions

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hare-go/hare/hare"
)

// The pauses between attempts.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

// retry runs attempt, and runs it again up to n times while again says that this is safe and of use.
func retry(ctx context.Context, n int, again func(error) bool, attempt func() error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := attempt()
		if n == 0 || !again(err) || sleep(ctx, pause) != nil {
			return err
		}
		n--
	}
}

// retryable reports whether a transaction may be run again: it was rolled back for sure, and because the database asks
// for another try.
func retryable(err error) bool { return again(err, isRetryable) }

// retryableAnywhere is the same for a distributed transaction. A lock time-out counts there, for it is how a deadlock over
// two databases ends; what is still to be rolled back does not, for the next try would wait for its locks.
func retryableAnywhere(err error) bool {
	if isRollbackPending(err) {
		return false
	}
	return again(err, func(err error) bool {
		timeout, ok := err.(*hare.TimeoutError) //nolint:errorlint // wanted walks the tree
		return ok && timeout.SQLState == "55P03" || isRetryable(err)
	})
}

func isRetryable(err error) bool {
	_, ok := err.(*hare.RetryableError) //nolint:errorlint // wanted walks the tree
	return ok
}

// again never runs a function twice that has brought another transaction to an end that is not a rollback, for it would do
// that once more.
func again(err error, asks func(error) bool) bool {
	var (
		mixed     *MixedOutcomeError
		byHand    *EndedByHandError
		partial   *PartiallyCommittedError
		ambiguous *CommitAmbiguousError
		unknown   *CommitUnknownError
		hook      *HookError
	)
	ended := errors.As(err, &mixed) || errors.As(err, &partial) || errors.As(err, &ambiguous) || errors.As(err, &unknown) ||
		errors.As(err, &byHand) || errors.As(err, &hook) && hook.Committed
	return err != nil && !ended && OutcomeOf(err) == RolledBack && wanted(err, asks)
}

// wanted looks for the database's wish for another try. What hooks returned does not count, whatever it looks like, so
// that errors.As is of no use here.
func wanted(err error, asks func(error) bool) bool {
	if asks(err) {
		return true
	}
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *HookError:
		return false
	case interface{ Unwrap() error }:
		return e.Unwrap() != nil && wanted(e.Unwrap(), asks)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(err error) bool { return wanted(err, asks) })
	}
	return false
}

// sleep waits for d with jitter, half of it to all of it, so that those who met once do not meet again.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
