package leases_test

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A client that stands still in a fenced transaction holds the next term up for FenceIdleTimeout, and then nothing of its
// transaction is written. A session with a time-out of its own keeps that.
func TestFencedTransactionThatStandsStill(t *testing.T) {
	t.Parallel()
	const setting = "SELECT current_setting('idle_in_transaction_session_timeout')"
	f := newFenced(t, time.Minute)
	opts := long
	opts.FenceIdleTimeout = 300 * time.Millisecond
	f.do(f.watch, "DELETE FROM public.hare_leases")
	f.term = f.plant(f.watch, f.lease(f.client, "job", opts), "job", 2*time.Second)
	err := f.atomic("read committed", func(ctx context.Context) error {
		if err := errors.Join(f.term.Fence(ctx), f.write(ctx)); err != nil {
			return err
		}
		f.lapse(f.watch, "job")
		bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		return second(f.next.Acquire(bounded))
	})
	if err == nil || f.notes() != 0 {
		t.Errorf("the transaction that stood still: %v, %d notes", err, f.notes())
	}

	f.do(f.watch, "DELETE FROM public.hare_leases")
	f.term = f.plant(f.watch, f.lease(f.client, "job", opts), "job", time.Minute)
	for _, own := range []string{"", "SET LOCAL idle_in_transaction_session_timeout = '77s'"} {
		want := map[string]string{"": "300ms"}[own]
		err = f.atomic("read committed", func(ctx context.Context) error {
			if own != "" {
				want = "77s"
				if _, err := f.client.Exec(ctx, own); err != nil {
					return err
				}
			}
			if err := f.term.Fence(ctx); err != nil {
				return err
			}
			got, err := scan[string](ctx, f.client, setting)
			if got != want {
				t.Errorf("%q after %q, want %q", got, own, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
