package transactions

import (
	"context"
	"errors"
	"math/rand/v2"
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
// for another try. A hook's error never counts, whatever it looks like, when the transaction is committed.
func retryable(err error) bool {
	var wanted *hare.RetryableError
	return err != nil && OutcomeOf(err) == RolledBack && errors.As(err, &wanted)
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
