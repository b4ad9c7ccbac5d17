package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

// A server answers PREPARE TRANSACTION, and COMMIT, in a failed transaction with ROLLBACK and no error. Whoever
// swallows a statement's error gets it back, and nothing is left.
//
// Field case 5. Field case 26. W2.
func TestFieldSwallowedError(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=1")
	for _, alias := range everybody {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprintf("in %s, as its first statement %v", alias, first), func(t *testing.T) {
				err := f.distributed(func(d *hare.Distributed) error {
					for _, other := range everybody {
						if first && other == alias {
							continue
						}
						if err := write(d, "x", other); err != nil {
							return err
						}
					}
					_, _ = d.Client(alias).Exec(d.Context(), "INSERT INTO note (id, text) VALUES (7, 'x'), (7, 'y')")
					return nil
				})
				if e := as[*hare.TransactionError](t, err); e.Alias != alias {
					t.Errorf("the error is about %q: %v", e.Alias, e)
				}
				if e := as[*hare.IntegrityError](t, err); e.SQLState != "23505" || e.Constraint != "pk_note" {
					t.Errorf("the cause is %v, want the swallowed error", e)
				}
				wantOutcome(t, err, transactions.RolledBack)
				f.wantNothingLeft()
			})
		}
	}
	f.wantUsable()
}

// refusals are what PostgreSQL refuses at the end of a transaction and not before.
var refusals = []struct {
	name     string
	setUp    string   // SQL, once
	run      []string // SQL, in the transaction beside a note
	cleanUp  string   // SQL, once
	commits  bool     // a coordinator, which is not prepared, may do it
	sqlState string
}{
	{name: "a deferred constraint",
		setUp:   "ALTER TABLE note ADD CONSTRAINT once UNIQUE (text) DEFERRABLE INITIALLY DEFERRED",
		run:     []string{"INSERT INTO note (text) VALUES ('x')"},
		cleanUp: "ALTER TABLE note DROP CONSTRAINT once", sqlState: "23505"},
	{name: "a deferred trigger that raises",
		setUp: `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
			CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON note DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`,
		cleanUp: "DROP FUNCTION refuse CASCADE", sqlState: "P0001"},
	{name: "a temporary table", run: []string{"CREATE TEMP TABLE scratch ON COMMIT DROP AS SELECT 1"}, commits: true, sqlState: "0A000"},
	{name: "a temporary table that is gone", run: []string{"CREATE TEMP TABLE scratch AS SELECT 1", "DROP TABLE scratch"}, commits: true, sqlState: "0A000"},
	{name: "a held cursor", run: []string{"DECLARE held CURSOR WITH HOLD FOR SELECT 1", "CLOSE held", "DECLARE held CURSOR WITH HOLD FOR SELECT 1"},
		commits: true, sqlState: "0A000"},
	{name: "an exported snapshot", run: []string{"SELECT pg_export_snapshot()"}, commits: true, sqlState: "0A000"},
	{name: "LISTEN", run: []string{"LISTEN news"}, commits: true, sqlState: "0A000"},
	{name: "NOTIFY", run: []string{"NOTIFY news"}, commits: true, sqlState: "0A000"},
	{name: "a lock of the session and of the transaction on one key",
		run: []string{"SELECT pg_advisory_lock(7)", "SELECT pg_advisory_xact_lock(7)"}, commits: true, sqlState: "0A000"},
}

// A refused PREPARE, and a refused COMMIT of the decision, is a definite abort with the server's own error. The next
// user of the pool, of one connection here, finds nothing of it.
//
// Field case 7. Field case 9. Field case 10. Field case 11. Field case 13. W1.
func TestFieldRefusedAtTheEnd(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=1")
	for _, test := range refusals {
		for _, alias := range everybody {
			t.Run(test.name+" in "+alias, func(t *testing.T) {
				if test.setUp != "" {
					f.exec(alias, test.setUp)
				}
				err := f.distributed(func(d *hare.Distributed) error {
					if err := write(d, "x", everybody...); err != nil {
						return err
					}
					for _, sql := range test.run {
						if _, err := d.Client(alias).Exec(d.Context(), sql); err != nil {
							t.Errorf("%s: %v", sql, err)
						}
					}
					return nil
				})
				if test.commits && alias == coordinator {
					if err != nil {
						t.Errorf("got %v, want a commit", err)
					}
					f.wantCounts(1, 1, 1)
					for _, each := range everybody {
						f.exec(each, "DELETE FROM note")
					}
				} else {
					wantOutcome(t, err, transactions.RolledBack)
					as[*transactions.AbortError](t, err)
					if e := as[*hare.DatabaseError](t, err); e.SQLState != test.sqlState || e.Alias != alias {
						t.Errorf("got %s %q %v, want %s of %q", e.SQLState, e.Alias, err, test.sqlState, alias)
					}
					f.wantNothingLeft()
				}
				f.wantCleanSession(alias)
				if test.cleanUp != "" {
					f.exec(alias, test.cleanUp)
				}
			})
		}
	}
	f.wantUsable()
}

// A statement time-out, here the role's, does not bound what triggers do inside COMMIT and PREPARE TRANSACTION, and the
// pool of one connection is as good as before.
//
// Field case 17.
func TestFieldSlowTriggers(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=1")
	for _, alias := range everybody {
		f.atCommit(alias, "PERFORM pg_sleep(0.3);")
		f.exec(alias, fmt.Sprintf("ALTER DATABASE %s SET statement_timeout = '150ms'", f.text(alias, "SELECT current_database()")))
	}
	f.reconnect()
	if got := f.text("a", "SELECT current_setting('statement_timeout')"); got != "150ms" {
		t.Fatalf("statement_timeout is %s", got)
	}
	if err := f.distributed(writeAll); err != nil {
		t.Fatal(err)
	}
	f.wantCounts(1, 1, 1)
	err := f.distributed(func(d *hare.Distributed) error {
		if err := writeAll(d); err != nil {
			return err
		}
		_, err := d.Client("b").Exec(d.Context(), "SELECT pg_sleep(5)")
		return err
	})
	as[*hare.TimeoutError](t, err)
	f.wantCounts(1, 1, 1)
	f.wantNothingPrepared()
	f.wantUsable()
}

// Serialization failures of PREPARE and of the decision run the whole call again. Two calls that read both notes and
// delete one each cannot both see two.
//
// Field case 12. Field case 13. W30.
func TestFieldWriteSkew(t *testing.T) {
	t.Parallel()
	for _, alias := range []string{"c", "b"} {
		t.Run("in "+alias, func(t *testing.T) {
			f := newTrio(t, "")
			for _, text := range []string{"one", "two"} {
				if err := Notes.UsingAlias(alias).Create(f.ctx, &Note{Text: text}); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.distributed(func(*hare.Distributed) error { return nil }); err != nil { // first use
				t.Fatal(err)
			}
			var mu sync.Mutex
			runs := 0
			meet := sync.WaitGroup{}
			meet.Add(2)
			errs := make(chan error, 2)
			for _, own := range []string{"one", "two"} {
				first := true
				go func() {
					errs <- f.distributed(func(d *hare.Distributed) error {
						mu.Lock()
						runs++
						mu.Unlock()
						if err := write(d, own, "a"); err != nil {
							return err
						}
						n, err := Notes.UsingAlias(alias).Count(d.Context())
						if err != nil {
							return err
						}
						if first {
							first = false
							meet.Done()
							meet.Wait()
						}
						if n < 2 {
							return nil
						}
						_, err = Notes.UsingAlias(alias).Filter(noteWith(own)).Delete(d.Context())
						return err
					}, transactions.Isolation(transactions.Serializable), transactions.Retries(20))
				}()
			}
			for range 2 {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
			if runs < 3 {
				t.Errorf("%d runs, want one call to run again", runs)
			}
			if n := f.count(alias, "SELECT count(*) FROM note WHERE text IN ('one', 'two')"); n != 1 {
				t.Errorf("%d notes are left, want one", n)
			}
			if n := f.count("a", "SELECT count(*) FROM note"); n != 2 {
				t.Errorf("%d notes in a, want one of each call", n)
			}
			f.wantNothingPrepared()
		})
	}
}

// What is retried, and how often. The error of the last run is the call's.
//
// Field case 12.
func TestFieldRetriesAreBounded(t *testing.T) {
	t.Parallel()
	for _, alias := range []string{"c", "a"} {
		f := newTrio(t, "")
		f.atCommit(alias, "RAISE EXCEPTION 'again' USING ERRCODE = '40001';")
		for retries, want := range map[int]int{0: 1, 2: 3} {
			runs := 0
			err := f.distributed(func(d *hare.Distributed) error { runs++; return writeAll(d) }, transactions.Retries(retries))
			as[*hare.RetryableError](t, err)
			if runs != want {
				t.Errorf("%s: %d runs, want %d", alias, runs, want)
			}
		}
		f.wantNothingLeft()
	}
}

// The time of the phase ends while the server still prepares, and would prepare a moment later. The call ends with
// nothing left, then and afterwards, also when its function has renamed the session by which hare finds the server
// process that is still at work.
//
// Field case 14. W5.
func TestFieldPrepareOutlivesItsPhase(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"as it is":            "SELECT 1",
		"renamed":             "SET LOCAL application_name = 'mine'",
		"all settings as new": "RESET ALL",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			// pgx asks the server to cancel what it gives up; this trigger does not listen, as a lost request is not heard.
			f.atCommit("a", "FOR i IN 1..20 LOOP BEGIN PERFORM pg_sleep(0.05); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP;")
			start := time.Now()
			err := f.distributed(func(d *hare.Distributed) error {
				if err := writeAll(d); err != nil {
					return err
				}
				_, err := d.Client("a").Exec(d.Context(), sql)
				return err
			}, transactions.PhaseTimeouts(transactions.Phases{Prepare: 200 * time.Millisecond}))
			wantOutcome(t, err, transactions.RolledBack)
			as[*hare.TimeoutError](t, err)
			if pending := new(transactions.RollbackPendingError); errors.As(err, &pending) {
				t.Errorf("got %v, want nothing pending", pending)
			}
			f.wantNothingLeft()
			time.Sleep(time.Until(start.Add(1500 * time.Millisecond)))
			f.wantNothingLeft()
			f.clear() // which waits for whoever holds a lock
			f.wantUsable()
		})
	}
}

// The time of the phase ends while the server is still at the decision's COMMIT, and it does not listen to being
// cancelled. Neither the call nor recovery takes that for an abort: both wait, say that it is open, and leave all
// participants prepared. What can be finished meanwhile is.
//
// Field case 25. Field case 31.
func TestFieldDecisionHangsInItsCommit(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=1")
	if err := f.distributed(func(*hare.Distributed) error { return nil }); err != nil { // first use
		t.Fatal(err)
	}
	f.atDecision("LOOP BEGIN PERFORM pg_advisory_xact_lock(1); EXIT; EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP;")
	gate, err := f.client("c").Database().Dial(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Control(f.ctx, "BEGIN", "SELECT pg_advisory_xact_lock(1)"); err != nil {
		t.Fatal(err)
	}
	hangs := f.distributed(writeAll, transactions.PhaseTimeouts(transactions.Phases{Decide: 500 * time.Millisecond}))
	as[*transactions.CommitAmbiguousError](t, hangs)
	f.crash(isDecision) // this one can be rolled back
	report, err := transactions.Recover(f.ctx, coordinator, transactions.OlderThan(0), transactions.Finish(), transactions.ParticipantTimeout(4*time.Second))
	if err != nil || report.Clean() {
		t.Errorf("recovery: %+v, %v", report, err)
	}
	for _, alias := range participants {
		if n := len(f.prepared(alias)); n != 1 {
			t.Errorf("%d transactions are prepared in %s, want the one", n, alias)
		}
	}
	gate.Release()
	f.wantSettled("all", hangs).wantWhole("it hung", f.conns)
	f.wantCounts(3, 3, 3) // with the two of the last line
}

// PREPARE ran, and its answer and the next three connections are lost.
//
// Field case 14.
func TestFieldLostAnswerAndABadNetwork(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	badDials := failOn(3, "a", func(sql string) bool { return sql == "" })
	f.plan.Set(func(ctx context.Context, e faults.Event) error {
		if e.Op == "dial" {
			return badDials(ctx, e)
		}
		return nil
	}, failOn(1, "a", contains("PREPARE TRANSACTION")))
	err := f.distributed(writeAll)
	as[*transactions.AbortError](t, err)
	if !errors.Is(err, faults.ErrInjected) {
		t.Errorf("got %v, want the cause", err)
	}
	f.wantNothingLeft()
	f.wantUsable()
}

// A deadline that ends in each phase: before the decision the call is rolled back, after it nothing stops it.
//
// Field case 24. W12.
func TestFieldDeadlineInEachPhase(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		slow    func(f *trio)
		commits bool
	}{
		{"waiting for a connection", func(f *trio) {
			conn, err := f.client("b").Database().Acquire(f.ctx)
			if err != nil {
				f.Fatal(err)
			}
			time.AfterFunc(time.Second, conn.Release)
		}, false},
		{"in a statement", func(f *trio) {
			f.exec("b", "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1); RETURN NEW; END $$")
			f.exec("b", "CREATE TRIGGER slow BEFORE INSERT ON note FOR EACH ROW EXECUTE FUNCTION slow()")
		}, false},
		{"preparing", func(f *trio) { f.atCommit("b", "PERFORM pg_sleep(1);") }, false},
		{"deciding", func(f *trio) { f.atCommit("c", "PERFORM pg_sleep(1);") }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "&max_size=1")
			if err := f.distributed(func(*hare.Distributed) error { return nil }); err != nil { // first use
				t.Fatal(err)
			}
			test.slow(f)
			ctx, cancel := context.WithTimeout(f.ctx, 400*time.Millisecond)
			defer cancel()
			err := transactions.Distributed(ctx, coordinator, participants, writeAll, shortPhases)
			if test.commits {
				if err != nil {
					t.Errorf("got %v, want a commit", err)
				}
				f.wantCounts(1, 1, 1)
				f.wantNothingPrepared()
				return
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the deadline", err)
			}
			wantOutcome(t, err, transactions.RolledBack)
			f.wantNothingLeft()
		})
	}
}
