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
	f := newFenced(t)
	opts := long
	opts.FenceIdleTimeout = 3 * time.Second
	f.do(f.watch, "DELETE FROM public.hare_leases")
	f.term = f.plant(f.watch, f.lease(f.client, "job", opts), "job", time.Minute)
	stood := false
	err := f.atomic("read committed", func(ctx context.Context) error {
		if err := errors.Join(f.term.Fence(ctx), f.write(ctx)); err != nil {
			return err
		}
		f.expire(f.watch, "job")
		bounded, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		next, err := f.next.Acquire(bounded)
		stood = err == nil && next.Token() == f.term.Token()+1
		return err
	})
	if err == nil || !stood || f.notes() != 0 {
		t.Errorf("the transaction that stood still: %v, %d notes; the next one leads: %t", err, f.notes(), stood)
	}

	f.do(f.watch, "DELETE FROM public.hare_leases")
	opts.FenceIdleTimeout = 33 * time.Second
	f.term = f.plant(f.watch, f.lease(f.client, "job", opts), "job", time.Minute)
	for _, own := range []string{"", "SET LOCAL idle_in_transaction_session_timeout = '77s'"} {
		want := map[string]string{"": "33s"}[own]
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
