package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

// leftovers are what a transaction can leave in its session for the next user of the pool: what shows it, on a pool of
// one connection.
var leftovers = map[string]string{
	"held cursors":     "SELECT count(*) FROM pg_cursors WHERE is_holdable",
	"channels":         "SELECT count(*) FROM pg_listening_channels()",
	"temporary tables": "SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND pg_table_is_visible(oid)",
	"locks":            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
	"changed settings": "SELECT count(*) FROM pg_settings WHERE source = 'session' AND name <> 'transaction_isolation' AND" +
		" (name, setting) NOT IN (('TimeZone', 'UTC'), ('client_encoding', 'UTF8'), ('application_name', 'hare'))", // which a pooler sets as the client has asked for,
	"roles not its own": "SELECT (current_user <> session_user)::int",
}

func (f *trio) wantCleanSession(alias string) {
	f.Helper()
	for what, sql := range leftovers {
		if n := f.count(alias, sql); n != 0 {
			f.Errorf("the next user of %s finds %d %s", alias, n, what)
		}
	}
}

// What a function leaves in the session, in whichever database and whatever the end, nobody else finds.
//
// Field case 9. Field case 10. Field case 50.
func TestFieldSessionIsCleaned(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=1")
	for _, sql := range []string{
		"DECLARE held CURSOR WITH HOLD FOR SELECT 1", "LISTEN news", "CREATE TEMP TABLE scratch (n int)",
		"SELECT pg_advisory_lock(7)", "SET search_path = pg_catalog", "SELECT set_config('lock_timeout', '1s', false)", "SET ROLE pg_monitor",
	} {
		for _, alias := range everybody {
			for _, end := range []error{nil, errStop} {
				err := f.distributed(func(d *hare.Distributed) error {
					if err := writeAll(d); err != nil {
						return err
					}
					if _, err := d.Client(alias).Exec(d.Context(), sql); err != nil {
						t.Errorf("%s: %v", sql, err)
					}
					return end
				})
				if got := transactions.OutcomeOf(err); got != transactions.RolledBack && (end != nil || got != transactions.Committed) {
					t.Errorf("%s in %s: %v", sql, alias, err)
				}
				f.wantCleanSession(alias)
			}
		}
	}
	// The same where there is no transaction, and in one on a single database.
	f.exec("a", "SELECT pg_advisory_lock(7)")
	f.wantCleanSession("a")
	err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
		_, err := f.client("a").Exec(ctx, "SET search_path = pg_catalog; SELECT pg_advisory_lock(7)")
		return err
	}, transactions.Using("a"))
	if err != nil {
		t.Fatal(err)
	}
	f.wantCleanSession("a")
	f.wantNothingPrepared()
	f.wantUsable()
}

// A temporary table that somebody else has left in the session is as good as one of the function's own: even reading it is
// refused, with the server's own error and nothing left. One that a program leaves through hare is gone before that.
//
// Field case 7.
func TestFieldTemporaryTableLeftInTheSession(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=1")
	read := func(d *hare.Distributed) error {
		if err := writeAll(d); err != nil {
			return err
		}
		_, err := d.Client("b").Exec(d.Context(), "INSERT INTO note (text) SELECT 'read' FROM scratch")
		return err
	}
	conn, err := f.client("b").Database().Acquire(f.ctx) // past hare's checks
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Control(f.ctx, "CREATE TEMP TABLE scratch AS SELECT 1 AS n")
	conn.Release()
	if err != nil {
		t.Fatal(err)
	}
	err = f.distributed(read)
	as[*transactions.AbortError](t, err)
	if e := as[*hare.DatabaseError](t, err); e.SQLState != "0A000" || e.Alias != "b" {
		t.Errorf("got %v, want the server's refusal", err)
	}
	f.wantNothingLeft()
	f.exec("b", "DROP TABLE scratch")
	f.exec("b", "CREATE TEMP TABLE scratch AS SELECT 1 AS n")
	if e := as[*hare.DatabaseError](t, f.distributed(read)); e.SQLState != "42P01" {
		t.Errorf("got %v, want no such table", e)
	}
	f.wantNothingLeft()
	f.wantUsable()
}

// A lock of the transaction is part of what is prepared: it is held without any session until the second phase.
//
// Field case 10.
func TestFieldTransactionLockOutlivesItsSession(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=1")
	f.plan.Set(func(_ context.Context, e faults.Event) error {
		if e.Alias == "b" && strings.HasPrefix(e.SQL, "COMMIT PREPARED") {
			return faults.ErrInjected
		}
		return nil
	}, nil)
	err := f.distributed(func(d *hare.Distributed) error {
		if err := writeAll(d); err != nil {
			return err
		}
		_, err := d.Client("b").Exec(d.Context(), "SELECT pg_advisory_xact_lock(7)")
		return err
	}, transactions.PhaseTimeouts(transactions.Phases{Deliver: 200 * time.Millisecond}))
	as[*transactions.PartiallyCommittedError](t, err)
	f.plan.Set(nil, nil)
	if free := scalar[bool](f, "b", "SELECT pg_try_advisory_xact_lock(7)"); free {
		t.Error("the lock is free although its transaction is prepared")
	}
	if report := f.recover(transactions.Finish()); !report.Clean() {
		t.Errorf("recovery: %+v", report)
	}
	if free := scalar[bool](f, "b", "SELECT pg_try_advisory_xact_lock(7)"); !free {
		t.Error("the lock is still held after recovery")
	}
	f.wantCounts(1, 1, 1)
}

// A process that is suspended in its commit finds its time over, and nobody at the other end of its connection: the ROLLBACK
// on it is bounded, too.
func TestRollbackOfADeadConnectionIsBounded(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.plan.Set(func(ctx context.Context, e faults.Event) error {
		switch {
		case e.Alias != coordinator:
		case isDecision(e):
			<-ctx.Done() // and goes on, too late
		case e.SQL == "ROLLBACK":
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Minute):
				t.Error("the ROLLBACK has no bound")
			}
		}
		return nil
	}, nil)
	err := f.distributed(writeAll, transactions.PhaseTimeouts(transactions.Phases{Decide: time.Second}))
	f.plan.Set(nil, nil)
	wantOutcome(t, err, transactions.RolledBack)
	f.wantNothingPrepared()
	f.wantCounts(0, 0, 0)
}
