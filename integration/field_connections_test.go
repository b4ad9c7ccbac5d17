package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

const inBranches = "FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'hare_dtx:%'"

// The server process of a database is terminated at each step of the protocol.
//
// Field case 15.
func TestFieldTerminatedBackends(t *testing.T) {
	t.Parallel()
	const waiting = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
	for _, test := range []struct {
		name, alias string
		before      string // a call on the alias with this text
		kill        string
		commits     bool
	}{
		{"a participant before PREPARE", "a", "PREPARE TRANSACTION", "SELECT pg_terminate_backend(pid) " + inBranches, false},
		{"a participant while it waits", "a", "COMMIT PREPARED", waiting, true},
		{"the other one while it waits", "b", "COMMIT PREPARED", waiting, true},
		{"the coordinator before the decision", "c", "INSERT INTO public.hare_distributed_decisions", "SELECT pg_terminate_backend(pid) " + inBranches, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "&max_size=1")
			if err := f.distributed(func(*hare.Distributed) error { return nil }); err != nil { // first use
				t.Fatal(err)
			}
			var once sync.Once
			f.plan.Set(func(_ context.Context, e faults.Event) error {
				if e.Alias == test.alias && strings.Contains(e.SQL, test.before) {
					once.Do(func() { f.asOwner(f.urls[test.alias], "", test.kill) })
				}
				return nil
			}, nil)
			err := f.distributed(writeAll)
			f.plan.Set(nil, nil)
			if test.commits {
				if err != nil {
					t.Errorf("got %v, want a commit", err)
				}
				f.wantCounts(1, 1, 1)
				f.wantNothingPrepared()
			} else {
				wantOutcome(t, err, transactions.RolledBack)
				as[*transactions.AbortError](t, err)
				if e := as[*hare.DatabaseError](t, err); e.Alias != test.alias {
					t.Errorf("the error is about %q: %v", e.Alias, e)
				}
				f.wantNothingLeft()
			}
			f.wantUsable()
		})
	}
}

// The server ends the session of a database that has been quiet for too long while the function was busy elsewhere. The
// error says why.
//
// Field case 16.
func TestFieldIdleInTransaction(t *testing.T) {
	t.Parallel()
	for _, alias := range []string{"c", "b"} {
		t.Run(alias, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			if err := f.distributed(writeAll); err != nil { // the tables of the coordinator are there
				t.Fatal(err)
			}
			name, limited := f.role(alias, "idle_in_transaction_session_timeout = '200ms'")
			owner := f.urls[alias]
			f.urls[alias] = limited
			if alias == "c" {
				f.exec("c", "GRANT SELECT, INSERT, UPDATE, DELETE ON public.hare_distributed_decisions, public.hare_distributed_coordinator TO "+name)
			}
			f.reconnect()
			err := f.distributed(func(d *hare.Distributed) error {
				if err := write(d, "x", alias); err != nil {
					return err
				}
				_, err := d.Client("a").Exec(d.Context(), "SELECT pg_sleep(0.6)")
				return err
			})
			wantOutcome(t, err, transactions.RolledBack)
			if err == nil || !strings.Contains(err.Error(), "idle-in-transaction") {
				t.Errorf("%v does not say why", err)
			}
			f.wantCounts(1, 1, 1)
			f.wantNothingPrepared()
			f.urls[alias] = owner
			f.reconnect()
			f.wantUsable()
		})
	}
}

// No server sees a deadlock over two databases: the wait for a lock is bounded, and both calls end.
func TestFieldDeadlockOverTwoDatabases(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	if err := f.distributed(writeAll); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	var meet sync.WaitGroup
	meet.Add(2)
	errs := make(chan error, 2)
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		go func() {
			errs <- f.distributed(func(d *hare.Distributed) error {
				for i, alias := range order {
					if _, err := d.Client(alias).Exec(d.Context(), "UPDATE note SET text = 'locked'"); err != nil {
						return err
					}
					if i == 0 {
						meet.Done()
						meet.Wait()
					}
				}
				return nil
			}, transactions.LockTimeout(300*time.Millisecond))
		}()
	}
	stopped := 0
	for range 2 {
		if err := <-errs; err != nil {
			stopped++
			as[*hare.TimeoutError](t, err)
			wantOutcome(t, err, transactions.RolledBack)
		}
	}
	if stopped == 0 {
		t.Error("both calls committed")
	}
	wantQuick(t, start, 5*time.Second)
	f.wantNothingPrepared()
	f.wantUsable()
}

// Pools of one connection, twenty callers whose databases have swapped roles, and recovery beside them.
//
// Field case 49.
func TestFieldPoolsOfOneConnection(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=1&pool_acquire_timeout=20s")
	roles := [][]string{{"c", "a", "b"}, {"b", "a", "c"}, {"a", "c", "b"}, {"c", "b", "a"}}
	errs := make(chan error, 21)
	for i := range 20 {
		go func() {
			names := roles[i%len(roles)]
			errs <- transactions.Distributed(f.ctx, names[0], names[1:], func(d *hare.Distributed) error {
				return write(d, fmt.Sprint(i), names[i%3], names[(i+1)%3], names[(i+2)%3])
			}, transactions.Retries(3))
		}()
	}
	go func() {
		_, err := transactions.Recover(f.ctx, coordinator, transactions.Finish())
		errs <- err
	}()
	for range 21 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	f.wantCounts(20, 20, 20)
	f.wantNothingPrepared()
}

// A pool that has nothing left is a typed error in time, and what was taken before goes back.
//
// Field case 49. Field case 50.
func TestFieldPoolIsFull(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=1&pool_acquire_timeout=200ms")
	for _, alias := range everybody {
		held, err := f.client(alias).Database().Acquire(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		err = f.distributed(func(*hare.Distributed) error { t.Error("the function ran"); return nil })
		if e := as[*hare.DatabaseError](t, err); e.Alias != alias {
			t.Errorf("the error is about %q: %v", e.Alias, e)
		}
		if errors.Is(err, context.Canceled) {
			t.Errorf("nobody cancelled: %v", err)
		}
		wantQuick(t, start, 3*time.Second)
		held.Release()
		f.wantUsable()
	}
}
