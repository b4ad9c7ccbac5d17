package integration

import (
	"errors"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/transactions"
)

// PREPARE is still on the network when its phase ends, and arrives when the call is over: nothing is left, also when the
// function has renamed the session by which hare finds the server process that waits for it.
//
// Field case 14. W5.
func TestPrepareArrivesAfterTheCall(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{"as it is": "SELECT 1", "renamed": "SET LOCAL application_name = 'mine'"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			if err := f.distributed(writeAll); err != nil { // first use
				t.Fatal(err)
			}
			held := f.through("a")["a"].Arm(proxy.Fault{Statement: "PREPARE TRANSACTION", Do: proxy.Hold})
			err := f.distributed(func(d *hare.Distributed) error {
				if err := writeAll(d); err != nil {
					return err
				}
				_, err := d.Client("a").Exec(d.Context(), sql)
				return err
			}, transactions.PhaseTimeouts(transactions.Phases{Prepare: time.Second}))
			wantOutcome(t, err, transactions.RolledBack)
			if pending := new(transactions.RollbackPendingError); errors.As(err, &pending) {
				t.Fatalf("got %v, want nothing pending", pending)
			}
			held.Release()
			f.wait("PREPARE arrives", held.Passed())
			f.eventually("whoever was to prepare has ended", func() bool {
				return f.others("a") == 0
			})
			f.wantNothingPrepared()
		})
	}
}
