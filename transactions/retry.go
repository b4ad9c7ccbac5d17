package transactions

import (
	"context"
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
func retryable(err error) bool {
	return err != nil && OutcomeOf(err) == RolledBack && wanted(err)
}

// wanted looks for the database's wish for another try. What hooks returned does not count, whatever it looks like, so
// that errors.As is of no use here.
func wanted(err error) bool {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *HookError:
		return false
	case *hare.RetryableError:
		return true
	case interface{ Unwrap() error }:
		return wanted(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), wanted)
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
