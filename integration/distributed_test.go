package integration

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

func contains(part string) func(string) bool {
	return func(sql string) bool { return strings.Contains(sql, part) }
}

// The numbers are the rows of the acceptance list of the original's distributed transactions.

func TestAcceptance01And03Commit(t *testing.T) {
	for _, chosen := range [][]string{{"a", "b"}, {"a"}} {
		t.Run(fmt.Sprint(len(chosen), " participants"), func(t *testing.T) {
			f := newTrio(t, "")
			err := transactions.Distributed(f.ctx, coordinator, chosen, func(d *hare.Distributed) error {
				return write(d, "x", append([]string{coordinator}, chosen...)...)
			})
			if err != nil {
				t.Fatal(err)
			}
			f.wantCounts(1, 1, int64(len(chosen)-1))
			f.wantNothingPrepared()
		})
	}
}

// Aliases with whatever PostgreSQL could take for something else, in a call and in recovery.
//
// Field case 19. W7.
func TestAcceptance02HostileNames(t *testing.T) {
	f := newTrio(t, "")
	hostile := map[string]string{
		"c'; DROP TABLE note; --": f.urls["c"],
		`a' \ " %_`:               f.urls["a"],
		"b';b":                    f.urls["b"],
	}
	conns := f.connect(hostile)
	ctx := hare.WithConnections(t.Context(), conns)
	names := []string{"c'; DROP TABLE note; --", `a' \ " %_`, "b';b"}
	run := func() error {
		return transactions.Distributed(ctx, names[0], names[1:], func(d *hare.Distributed) error { return write(d, "x", names...) },
			transactions.PhaseTimeouts(transactions.Phases{Deliver: time.Second}))
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	f.wantCounts(1, 1, 1)
	f.plan.Set(failOn(1, "b';b", contains("PREPARE TRANSACTION")), nil)
	err := run()
	wantOutcome(t, err, transactions.RolledBack)
	f.wantCounts(1, 1, 1)
	f.wantNothingPrepared()
	f.plan.Set(func(_ context.Context, e faults.Event) error {
		if isCommitPrepared(e) {
			return faults.ErrInjected
		}
		return nil
	}, nil)
	as[*transactions.PartiallyCommittedError](t, run())
	f.plan.Set(nil, nil)
	report, err := transactions.Recover(ctx, names[0], transactions.OlderThan(0), transactions.Finish())
	if err != nil || !report.Clean() || len(report.Entries) != 2 || report.Resolved != 1 {
		t.Errorf("recovery: %+v, %v", report, err)
	}
	f.wantCounts(2, 2, 2)
	f.wantNothingPrepared()
}

// A distributed call inside a transaction on one of its databases would wait for itself, and is refused.
//
// Field case 23.
func TestAcceptance04And05InsideAtomic(t *testing.T) {
	f := newTrio(t, "")
	for _, alias := range everybody {
		f.plan.Reset()
		err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
			return transactions.Distributed(ctx, coordinator, participants, writeAll)
		}, transactions.Using(alias))
		if e := as[*hare.QueryError](t, err); !strings.Contains(e.Error(), "already in an open transaction") {
			t.Errorf("inside Atomic(%s): %v", alias, e)
		}
		for _, e := range f.plan.Events() {
			if e.Op != "acquire" || e.Alias != alias {
				t.Errorf("inside Atomic(%s): %+v was called", alias, e)
			}
		}
	}
	err := f.distributed(func(d *hare.Distributed) error {
		return transactions.Distributed(d.Context(), coordinator, participants, writeAll)
	})
	as[*hare.QueryError](t, err)
	f.wantCounts(0, 0, 0)
}

func TestAcceptance06ErrorPanicAndGoexit(t *testing.T) {
	f := newTrio(t, "")
	for name, end := range map[string]func() error{
		"error":  func() error { return errStop },
		"panic":  func() error { panic(errStop) },
		"goexit": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			hooks := 0
			var err error
			var panicked any
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { panicked = recover() }()
				err = f.distributed(func(d *hare.Distributed) error {
					if err := transactions.OnRollback(d.Context(), func(context.Context) error { hooks++; return nil }, transactions.Using("a")); err != nil {
						return err
					}
					if err := writeAll(d); err != nil {
						return err
					}
					return end()
				})
			}()
			<-done
			if name == "error" && err != errStop {
				t.Errorf("got %v, want the callback's own error", err)
			}
			if name == "panic" && panicked != errStop {
				t.Errorf("recovered %v, want the callback's own panic", panicked)
			}
			if hooks != 1 {
				t.Errorf("the rollback hook ran %d times, want once", hooks)
			}
			f.wantCounts(0, 0, 0)
			f.wantNothingPrepared()
		})
	}
	f.wantUsable()
}

// occupy makes PREPARE TRANSACTION on b fail, with a constraint that is checked there.
func (f *trio) occupy() {
	f.exec("b", "ALTER TABLE note ADD CONSTRAINT once UNIQUE (text) DEFERRABLE INITIALLY DEFERRED")
	f.exec("b", "INSERT INTO note (text) VALUES ('all')")
}

// One participant has prepared, and another one refuses to. The refusal is the call's own error, and nothing is left.
//
// Field case 11.
func TestAcceptance07And08PrepareFailsAfterAnother(t *testing.T) {
	f := newTrio(t, "")
	f.occupy()
	preparedA := make(chan struct{})
	f.plan.Set(func(_ context.Context, e faults.Event) error {
		if e.Alias == "b" && strings.Contains(e.SQL, "PREPARE TRANSACTION") {
			<-preparedA
		}
		return nil
	}, func(_ context.Context, e faults.Event) error {
		if e.Alias == "a" && strings.Contains(e.SQL, "PREPARE TRANSACTION") {
			close(preparedA)
		}
		return nil
	})
	ran := map[string]int{}
	err := f.distributed(func(d *hare.Distributed) error {
		for _, alias := range everybody {
			if err := transactions.OnRollback(d.Context(), func(context.Context) error { ran[alias]++; return nil }, transactions.Using(alias)); err != nil {
				return err
			}
		}
		return writeAll(d)
	})
	refusal := as[*hare.IntegrityError](t, err)
	if diff := cmp.Diff([]string{"23505", "once", "note"}, []string{refusal.SQLState, refusal.Constraint, refusal.Table}); diff != "" {
		t.Errorf("the refusal (-want +got):\n%s", diff)
	}
	if as[*transactions.AbortError](t, err).XID == "" {
		t.Error("the error does not name the transaction")
	}
	wantOutcome(t, err, transactions.RolledBack)
	f.wantCounts(0, 0, 1)
	f.wantNothingPrepared()
	if diff := cmp.Diff(map[string]int{"c": 1, "a": 1, "b": 1}, ran); diff != "" {
		t.Errorf("rollback hooks (-want +got):\n%s", diff)
	}
}

// A participant cannot be told: the error names it, its GID and the cause, and recovery finishes it.
//
// Field case 35. W16.
func TestAcceptance10And11CommitPreparedFails(t *testing.T) {
	f := newTrio(t, "")
	f.plan.Set(func(_ context.Context, e faults.Event) error {
		if e.Alias == "b" && strings.HasPrefix(e.SQL, "COMMIT PREPARED") {
			return faults.ErrInjected
		}
		return nil
	}, nil)
	err := f.distributed(writeAll)
	partial := as[*transactions.PartiallyCommittedError](t, err)
	if len(partial.Pending) != 1 || partial.Pending[0].Alias != "b" || partial.Coordinator != "c" || !errors.Is(err, faults.ErrInjected) {
		t.Errorf("got %+v, want b pending because of the injected fault", partial)
	}
	wantOutcome(t, err, transactions.PartiallyCommitted)
	f.plan.Set(nil, nil)
	f.wantCounts(1, 1, 0)
	if diff := cmp.Diff([]string{partial.Pending[0].GID}, f.prepared("b")); diff != "" {
		t.Errorf("prepared in b (-want +got):\n%s", diff)
	}
	// 11: a decision that seems to come from the future is found at age 0.
	f.exec("c", "UPDATE public.hare_distributed_decisions SET created_at = now() + interval '1 hour'")
	report := f.recover()
	if len(report.Entries) != 1 || report.Entries[0].Alias != "b" || report.Entries[0].Action != transactions.ActionCommit || report.Entries[0].XID != partial.XID {
		t.Errorf("found %+v, want one entry: b, commit", report.Entries)
	}
	old, err := transactions.Recover(f.ctx, coordinator, transactions.OlderThan(3600e9))
	if err != nil || len(old.Entries) != 0 {
		t.Errorf("at age 3600 found %+v, %v, want nothing", old.Entries, err)
	}
	if report := f.recover(transactions.Finish()); !report.Clean() || len(report.Entries) != 1 || report.Entries[0].State != transactions.StateDone {
		t.Errorf("finishing: %+v", report)
	}
	f.wantCounts(1, 1, 1)
	f.wantNothingPrepared()
	f.wantUsable()
}

// Whoever else prepares in the same databases is left alone, however much its names look like ours.
//
// Field case 39.
func TestAcceptance13And14OthersAreNotTouched(t *testing.T) {
	f := newTrio(t, "")
	if err := f.distributed(writeAll); err != nil { // gives the coordinator its id
		t.Fatal(err)
	}
	id := f.text("c", "SELECT id FROM public.hare_distributed_coordinator")
	unique := strings.Repeat("0123456789abcdef", 2)
	foreign := []string{
		"hare_dtx_c:" + strings.Repeat("0", 16) + ":" + unique + ":a", // another coordinator's database
		"hare_dtx_c2:" + strings.Repeat("0", 16) + ":" + id + ":a",    // of which ours is the beginning
		"hare_dtx_c:" + unique + ":a",                                 // the Python hare's
		"hare_dtx_c:" + id + ":" + unique,                             // no participant
		"hare_dtx_c:" + id + ":" + unique[1:] + "g:a",                 // not hex
		"hare_dtx_c:" + id + ":" + unique + "0:a",                     // too long
		"pg_gid_16394_741",                                            // logical replication's
		"app:1", "hare-dtx-c", "hareXdtxXc:" + id + ":" + unique + ":a",
	}
	for _, gid := range foreign {
		f.prepareByHand("a", gid)
	}
	if report := f.recover(transactions.Finish()); len(report.Entries) != 0 || !report.Clean() {
		t.Errorf("found %+v, want nothing of these", report.Entries)
	}
	got := f.prepared("a")
	slices.Sort(foreign)
	slices.Sort(got)
	if diff := cmp.Diff(foreign, got); diff != "" {
		t.Errorf("prepared afterwards (-want +got):\n%s", diff)
	}
}

// After the decision the caller cannot stop what is decided.
//
// W12.
func TestAcceptance15CancelledWhileDelivering(t *testing.T) {
	f := newTrio(t, "")
	ctx, cancel := context.WithCancel(f.ctx)
	f.plan.Set(func(_ context.Context, e faults.Event) error {
		if strings.HasPrefix(e.SQL, "COMMIT PREPARED") {
			cancel()
		}
		return nil
	}, nil)
	// The original stops delivering; here the decision is made and nothing stops it.
	if err := transactions.Distributed(ctx, coordinator, participants, writeAll); err != nil {
		t.Fatal(err)
	}
	f.wantCounts(1, 1, 1)
	f.wantNothingPrepared()
}

// Row 9: what a participant sees of a transaction that fails to prepare elsewhere is one beginning and one end.
func TestAcceptance09OneBeginningAndOneEnd(t *testing.T) {
	f := newTrio(t, "")
	if err := f.distributed(func(d *hare.Distributed) error { return write(d, "first", everybody...) }); err != nil {
		t.Fatal(err)
	}
	f.occupy()
	f.plan.Reset()
	as[*transactions.AbortError](t, f.distributed(writeAll))
	begun, ended := 0, 0
	for _, e := range f.plan.Events() {
		if e.Alias != "a" {
			continue
		}
		begun += strings.Count(e.SQL, "BEGIN")
		if strings.HasPrefix(e.SQL, "ROLLBACK PREPARED") {
			ended++
		}
		if strings.HasPrefix(e.SQL, "COMMIT") || e.SQL == "ROLLBACK" {
			t.Errorf("a was sent %q as well", e.SQL)
		}
	}
	if begun != 1 || ended != 1 {
		t.Errorf("%d beginnings and %d ends on a, want one each", begun, ended)
	}
}

// Row 32: an error of PREPARE that is no matter of configuration is returned as the server gave it.
func TestAcceptance32OtherErrorsOfPrepareAreReturnedAsTheyAre(t *testing.T) {
	f := newTrio(t, "")
	err := f.distributed(func(d *hare.Distributed) error {
		if err := writeAll(d); err != nil {
			return err
		}
		_, err := d.Client("b").Exec(d.Context(), "CREATE TEMPORARY TABLE scratch (n int) ON COMMIT DROP")
		return err
	})
	var configuration *hare.ConfigurationError
	var refused *hare.DatabaseError
	if errors.As(err, &configuration) || !errors.As(err, &refused) || refused.SQLState != "0A000" || refused.Alias != "b" {
		t.Errorf("got %v, want the server's own 0A000", err)
	}
	f.wantCounts(0, 0, 0)
	f.wantNothingPrepared()
}
