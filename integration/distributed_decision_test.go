package integration

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

// The answer to the deciding COMMIT is lost. Where the coordinator answers again its row tells; where not, nothing is
// touched until it does.
//
// Field case 25. W18.
func TestAcceptance16To18LostDecision(t *testing.T) {
	isDecision := contains("INSERT INTO public.hare_distributed_decisions")
	t.Run("16 it never ran, the coordinator answers", func(t *testing.T) {
		f := newTrio(t, "")
		f.plan.Set(failOn(1, "c", isDecision), nil)
		err := f.distributed(writeAll)
		wantOutcome(t, err, transactions.RolledBack)
		if !errors.Is(err, faults.ErrInjected) {
			t.Errorf("got %v, want the cause", err)
		}
		f.wantCounts(0, 0, 0)
		f.wantNothingPrepared()
		f.wantUsable()
	})
	t.Run("17 it ran, the coordinator answers", func(t *testing.T) {
		f := newTrio(t, "")
		f.plan.Set(nil, failOn(1, "c", isDecision))
		rolledBack := false
		err := f.distributed(func(d *hare.Distributed) error {
			if err := transactions.OnRollback(d.Context(), func(context.Context) error { rolledBack = true; return nil }); err != nil {
				return err
			}
			return writeAll(d)
		})
		if err != nil || rolledBack {
			t.Errorf("got %v, rollback hook %v; want a commit: the fence finds the decision", err, rolledBack)
		}
		f.wantCounts(1, 1, 1)
		f.wantNothingPrepared()
		f.wantUsable()
	})
	for name, ran := range map[string]bool{"16 never ran": false, "17 ran": true} {
		t.Run(name+", the coordinator is gone", func(t *testing.T) {
			f := newTrio(t, "")
			lost := func(_ context.Context, e faults.Event) error {
				if e.Alias == "c" && (isDecision(e.SQL) || e.Op == "dial") {
					return faults.ErrInjected
				}
				return nil
			}
			if ran {
				f.plan.Set(nil, lost)
			} else {
				f.plan.Set(lost, nil)
			}
			hooks := 0
			hook := func(context.Context) error { hooks++; return nil }
			err := f.distributed(func(d *hare.Distributed) error {
				if err := transactions.OnRollback(d.Context(), hook); err != nil {
					return err
				}
				if err := transactions.OnCommit(d.Context(), hook); err != nil {
					return err
				}
				return writeAll(d)
			}, transactions.PhaseTimeouts(transactions.Phases{Decide: 1e9}))
			ambiguous := as[*transactions.CommitAmbiguousError](t, err)
			if diff := cmp.Diff(participants, ambiguous.Participants); diff != "" || ambiguous.Coordinator != "c" || ambiguous.XID == "" {
				t.Errorf("got %+v\n%s", ambiguous, diff)
			}
			wantOutcome(t, err, transactions.Ambiguous)
			if hooks != 0 {
				t.Errorf("%d hooks ran, want none while nobody knows", hooks)
			}
			f.plan.Set(nil, nil)
			if diff := cmp.Diff([]string{ambiguous.GIDs[0]}, f.prepared("a")); diff != "" {
				t.Errorf("prepared in a (-want +got):\n%s", diff)
			}
			want := transactions.ActionRollback
			if ran {
				want = transactions.ActionCommit
			}
			report := f.recover(transactions.Finish())
			if diff := cmp.Diff([]string{"a", "b"}, aliasesOf(report.Entries)); diff != "" || !report.Clean() {
				t.Errorf("recovery: %+v\n%s", report, diff)
			}
			for _, e := range report.Entries {
				if e.Action != want || e.State != transactions.StateDone {
					t.Errorf("recovery of %s: %s %s, want %s done", e.Alias, e.Action, e.State, want)
				}
			}
			n := int64(0)
			if ran {
				n = 1
			}
			f.wantCounts(n, n, n)
			f.wantNothingPrepared()
			f.wantUsable()
		})
	}
}

// Hooks run after the last COMMIT PREPARED, in order, whatever one of them returns, and may use the connections.
//
// Field case 30. W24.
func TestAcceptance19To22Hooks(t *testing.T) {
	t.Run("19 and 20 a failing commit hook", func(t *testing.T) {
		for _, alias := range []string{"c", "a"} {
			f := newTrio(t, "")
			var order []string
			err := f.distributed(func(d *hare.Distributed) error {
				for _, name := range []string{"b", "c", "a"} {
					err := transactions.OnCommit(d.Context(), func(context.Context) error {
						order = append(order, name)
						if name == alias {
							return errStop
						}
						return nil
					}, transactions.Using(name))
					if err != nil {
						return err
					}
				}
				return writeAll(d)
			})
			if hook := as[*transactions.HookError](t, err); !hook.Committed || !errors.Is(err, errStop) {
				t.Errorf("got %+v", hook)
			}
			wantOutcome(t, err, transactions.Committed)
			if diff := cmp.Diff(everybody, order); diff != "" {
				t.Errorf("order of the hooks (-want +got):\n%s", diff)
			}
			f.wantCounts(1, 1, 1)
			f.wantUsable()
		}
	})
	t.Run("21 a commit hook writes to its own alias", func(t *testing.T) {
		f := newTrio(t, "&max_size=1")
		err := f.distributed(func(d *hare.Distributed) error {
			if err := transactions.OnCommit(d.Context(), func(ctx context.Context) error {
				return Notes.UsingAlias("a").Create(ctx, &Note{Text: "hook"})
			}, transactions.Using("a")); err != nil {
				return err
			}
			return writeAll(d)
		})
		if err != nil {
			t.Fatal(err)
		}
		f.wantCounts(1, 2, 1)
	})
	t.Run("22 a rollback hook writes to its own alias", func(t *testing.T) {
		f := newTrio(t, "&max_size=1")
		f.occupy()
		err := f.distributed(func(d *hare.Distributed) error {
			if err := transactions.OnRollback(d.Context(), func(ctx context.Context) error {
				return Notes.UsingAlias("a").Create(ctx, &Note{Text: "hook"})
			}, transactions.Using("a")); err != nil {
				return err
			}
			return writeAll(d)
		})
		as[*hare.IntegrityError](t, err)
		f.wantCounts(0, 1, 1)
	})
}

func TestAcceptance23NoConnectionIsLeaked(t *testing.T) {
	f := newTrio(t, "")
	sessions := func() int64 {
		return f.count("a", "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
	}
	if err := f.distributed(writeAll); err != nil {
		t.Fatal(err)
	}
	before := sessions()
	for range 3 {
		if err := f.distributed(writeAll); err != nil {
			t.Fatal(err)
		}
	}
	if after := sessions(); after != before {
		t.Errorf("%d sessions on a, want %d as before", after, before)
	}
}

// The session that prepared is ended before it is told: another one tells.
//
// Field case 15.
func TestAcceptance24PreparedOutlivesItsSession(t *testing.T) {
	f := newTrio(t, "")
	killed := int64(0)
	f.plan.Set(func(_ context.Context, e faults.Event) error {
		if e.Alias == "a" && strings.HasPrefix(e.SQL, "COMMIT PREPARED") && killed == 0 {
			// The session that prepared is idle now; another one of the same role ends it.
			killed = f.past().count("a", "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		}
		return nil
	}, nil)
	if err := f.distributed(writeAll); err != nil {
		t.Fatal(err)
	}
	if killed == 0 {
		t.Fatal("no session was killed")
	}
	f.wantCounts(1, 1, 1)
	f.wantNothingPrepared()
}

// A call that is cancelled while its participants prepare waits for them, and rolls back.
//
// Field case 24.
func TestAcceptance30CancelledWhilePreparing(t *testing.T) {
	f := newTrio(t, "")
	ctx, cancel := context.WithCancel(f.ctx)
	f.plan.Set(nil, func(_ context.Context, e faults.Event) error {
		if e.Alias == "a" && strings.Contains(e.SQL, "PREPARE TRANSACTION") {
			cancel()
		}
		return nil
	})
	err := transactions.Distributed(ctx, coordinator, participants, writeAll)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the cancellation", err)
	}
	wantOutcome(t, err, transactions.RolledBack)
	f.wantCounts(0, 0, 0)
	f.wantNothingPrepared()
	f.wantUsable()
}

// prepareByHand leaves a transaction prepared under a GID.
func (f *trio) prepareByHand(alias, gid string) {
	f.Helper()
	conn, err := f.client(alias).Database().Dial(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Control(f.ctx, "BEGIN", "INSERT INTO note (text) VALUES ('by hand')", "PREPARE TRANSACTION '"+strings.ReplaceAll(gid, "'", "''")+"'"); err != nil {
		f.Fatal(err)
	}
}

// Row 35: the tables of a coordinator do not get in the way of the application's own.
func TestAcceptance35TheTablesLieBesideTheApplications(t *testing.T) {
	f := newTrio(t, "")
	if err := f.distributed(writeAll, transactions.KeepDecision()); err != nil {
		t.Fatal(err)
	}
	if err := hare.CreateTables(f.ctx, f.client("c"), Note{}); err != nil {
		t.Fatal(err)
	}
	if n := f.count("c", "SELECT count(*) FROM pg_tables WHERE schemaname = 'public' AND tablename LIKE 'hare%'"); n != 2 {
		t.Errorf("%d tables of hare's own, want two", n)
	}
	if n := f.count("a", "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'hare%'"); n != 0 {
		t.Errorf("%d tables of hare's own in a participant, want none", n)
	}
}
