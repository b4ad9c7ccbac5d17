package leases_test

import (
	"context"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

// TestFenceOfAnOlderSnapshot: a transaction whose snapshot is older than the acquisition does not see the term's row. That is
// no takeover: the term goes on, and a new transaction succeeds.
func TestFenceOfAnOlderSnapshot(t *testing.T) {
	p := newPlace(t)
	conns, client := p.connect(p.url)
	a := p.lease(client, "job", long)
	if err := p.acquire(a).Release(); err != nil { // the table is there
		t.Fatal(err)
	}
	for _, level := range []transactions.IsolationLevel{transactions.RepeatableRead, transactions.Serializable} {
		var term *leases.Term
		err := transactions.Atomic(within(t, conns), func(ctx context.Context) error {
			if err := takeSnapshot(ctx, client); err != nil {
				return err
			}
			if term == nil {
				term = p.acquire(a)
			}
			return term.Fence(ctx)
		}, transactions.Isolation(level))
		as[*hare.RetryableError](t, err)
		if term.Err() != nil {
			t.Errorf("%s: %v", level, term.Err())
		}
		err = transactions.Atomic(within(t, conns), term.Fence, transactions.Isolation(level))
		if err != nil {
			t.Errorf("%s, in a new transaction: %v", level, err)
		}
		term.Release()
	}
}

// takeSnapshot is a first read of a transaction.
func takeSnapshot(ctx context.Context, c *hare.Client) error {
	rows, err := c.Query(ctx, "SELECT count(*) FROM pg_class")
	if err != nil {
		return err
	}
	return rows.Close()
}
