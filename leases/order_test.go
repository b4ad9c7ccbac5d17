package leases_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

// fenced is a database with a term that nobody renews, and a table for what it writes.
type fenced struct {
	*place
	ctx    context.Context
	client *hare.Client
	watch  *pgx.Conn
	term   *leases.Term
	next   *leases.Lease
}

func newFenced(t *testing.T) *fenced {
	t.Helper()
	p := newPlace(t)
	p.table()
	conns, client := p.connect(p.url)
	f := &fenced{place: p, ctx: within(t, conns), client: client, watch: p.session()}
	p.do(f.watch, "CREATE TABLE note (token bigint)")
	f.term = p.plant(f.watch, p.lease(client, "job", long), "job", 10*time.Minute)
	f.next = p.lease(p.client(), "job", long)
	return f
}

// atomic runs fn in a transaction of a level.
func (f *fenced) atomic(level string, fn func(ctx context.Context) error, opts ...transactions.Option) error {
	return transactions.Atomic(f.ctx, fn, append(opts, transactions.Isolation(transactions.IsolationLevel(level)))...)
}

func (f *fenced) write(ctx context.Context) error {
	_, err := f.client.Exec(ctx, "INSERT INTO note VALUES ($1)", f.term.Token())
	return err
}

func (f *fenced) notes() int {
	f.Helper()
	return get[int](f.place, f.watch, "SELECT count(*) FROM note")
}

// A takeover waits for a fenced transaction that is under way, at every level, and renewals do not.
//
// Lease field case 17.
func TestFenceThenTakeover(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			f := newFenced(t)
			var taken <-chan error
			err := f.atomic(level, func(ctx context.Context) error {
				if err := errors.Join(f.term.Fence(ctx), f.write(ctx)); err != nil {
					return err
				}
				f.expire(f.watch, "job")
				taken = background(func() error { return second(f.next.TryAcquire(t.Context())) })
				f.waits(f.watch, 1)
				pending(t, "the takeover", taken)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := <-taken; err != nil {
				t.Fatal(err)
			}
			if n := f.notes(); n != 1 {
				t.Errorf("%d notes", n)
			}
			as[*leases.LeaseLostError](t, f.atomic(level, f.term.Fence))
		})
	}
}

// A fence after a takeover fails, also in a transaction whose snapshot is from before it, and nothing of the transaction
// stays.
func TestTakeoverThenFence(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			f := newFenced(t)
			err := f.atomic(level, func(ctx context.Context) error {
				if err := f.write(ctx); err != nil { // takes the snapshot
					return err
				}
				f.expire(f.watch, "job")
				f.acquire(f.next)
				return f.term.Fence(ctx)
			}, transactions.Retries(3))
			as[*leases.LeaseLostError](t, err)
			as[*leases.LeaseLostError](t, f.term.Err())
			if n := f.notes(); n != 0 {
				t.Errorf("%d notes", n)
			}
		})
	}
}

// A fence waits for a takeover that is under way, and then fails; it passes if the takeover is rolled back.
func TestFenceBesideATakeover(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		for _, end := range []string{"COMMIT", "ROLLBACK"} {
			t.Run(level+", "+end, func(t *testing.T) {
				t.Parallel()
				f := newFenced(t)
				other := f.session()
				f.do(other, "BEGIN", "SELECT FROM public.hare_leases WHERE name = 'job' FOR UPDATE",
					"UPDATE public.hare_leases SET holder = 'other', token = token + 1 WHERE name = 'job'")
				done := background(func() error {
					return f.atomic(level, func(ctx context.Context) error { return errors.Join(f.term.Fence(ctx), f.write(ctx)) })
				})
				f.waits(f.watch, 1)
				pending(t, "the fence", done)
				f.do(other, end)
				err, notes := <-done, 0
				if end == "COMMIT" {
					as[*leases.LeaseLostError](t, err)
				} else if notes = 1; err != nil {
					t.Error(err)
				}
				if n := f.notes(); n != notes {
					t.Errorf("%d notes, want %d", n, notes)
				}
			})
		}
	}
}

// Neither a renewal nor a fence waits for the other, at any level and in either order.
func TestFencesAndRenewals(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			f := newFenced(t)
			hurry, cancel := context.WithTimeout(f.ctx, 15*time.Second) // below the long LockTimeout
			defer cancel()
			f.ctx = hurry
			err := f.atomic(level, func(ctx context.Context) error {
				if err := f.term.Fence(ctx); err != nil {
					return err
				}
				start := time.Now()
				err := leases.Renew(f.term)
				if took := time.Since(start); took > 15*time.Second {
					t.Errorf("the renewal took %v", took)
				}
				return errors.Join(err, f.term.Fence(ctx), f.write(ctx))
			})
			if err != nil {
				t.Fatal(err)
			}
			other := f.session()
			f.do(other, "BEGIN", "SELECT FROM public.hare_leases WHERE name = 'job' FOR NO KEY UPDATE",
				"UPDATE public.hare_leases SET renewed_at = clock_timestamp(), expires_at = clock_timestamp() + interval '1 minute'")
			if err := f.atomic(level, func(ctx context.Context) error { return errors.Join(f.term.Fence(ctx), f.write(ctx)) }); err != nil {
				t.Errorf("beside a renewal that is under way: %v", err)
			}
			f.do(other, "ROLLBACK")
			if n := f.notes(); n != 2 {
				t.Errorf("%d notes", n)
			}
		})
	}
}

// A snapshot that is older than the last renewal shows an expiry that has passed. The transaction is run again then, with
// success.
func TestFenceWithAnOldSnapshot(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			inTime(t, func(rest time.Duration) bool { return fenceWithAnOldSnapshot(newFenced(t), level, rest) })
		})
	}
}

// fenceWithAnOldSnapshot says whether the renewal was in time.
func fenceWithAnOldSnapshot(f *fenced, level string, rest time.Duration) bool {
	if err := leases.Renew(f.term); err != nil { // its connection is there
		f.Fatal(err)
	}
	f.do(f.watch, fmt.Sprintf("UPDATE public.hare_leases SET expires_at = clock_timestamp() + interval '%d milliseconds'", rest.Milliseconds()))
	expiry := get[time.Time](f.place, f.watch, "SELECT expires_at FROM public.hare_leases")
	runs := 0
	err := f.atomic(level, func(ctx context.Context) error {
		runs++
		if err := f.write(ctx); err != nil { // takes the snapshot
			return err
		}
		if runs == 1 {
			if err := errors.Join(leases.Renew(f.term), f.term.Err()); err != nil {
				return err
			}
			f.eventually("the old expiry passes", func() bool {
				return get[bool](f.place, f.watch, "SELECT $1 < clock_timestamp()", expiry)
			})
		}
		err := f.term.Fence(ctx)
		if runs == 1 && level != "read committed" {
			as[*hare.RetryableError](f.T, err)
		}
		return err
	}, transactions.Retries(1))
	if late := get[bool](f.place, f.watch, "SELECT expires_at = $1 FROM public.hare_leases", expiry); late {
		as[*leases.LeaseLostError](f.T, err)
		return false
	}
	if err != nil {
		f.Fatal(err)
	}
	if want := map[string]int{"read committed": 1}[level]; runs != max(2-want, 1) || f.notes() != 1 {
		f.Errorf("%d runs, %d notes", runs, f.notes())
	}
	if err := f.term.Err(); err != nil {
		f.Error(err)
	}
	return true
}

// A takeover that only updates the row is not seen by a fence whose snapshot is from before it, unless the unique index over
// name and token makes it a change of a key. The lock that an acquisition takes first has the same effect, so that
// either is enough. This is on a copy of the table.
func TestTheIndexIsNeeded(t *testing.T) {
	t.Parallel()
	plain := func(*leases.Lease) []string { return []string{"UPDATE copy SET holder = 'other', token = token + 1"} }
	ours := func(l *leases.Lease) []string { return leases.AcquireSQL(l, 7) }
	for name, test := range map[string]struct {
		index  bool
		take   func(l *leases.Lease) []string
		passes bool
	}{
		"update":                  {false, plain, true},
		"update and index":        {true, plain, false},
		"lock, update":            {false, ours, false},
		"lock, update, and index": {true, ours, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFenced(t)
			f.do(f.watch, "CREATE TABLE copy (LIKE public.hare_leases)", "ALTER TABLE copy ADD PRIMARY KEY (name)",
				"INSERT INTO copy SELECT * FROM public.hare_leases")
			if test.index {
				f.do(f.watch, "CREATE UNIQUE INDEX ON copy (name, token)")
			}
			onCopy := func(sql string) string { return strings.ReplaceAll(sql, "public.hare_leases", "copy") }
			live := false
			err := f.atomic("repeatable read", func(ctx context.Context) error {
				if err := f.write(ctx); err != nil {
					return err
				}
				f.do(f.watch, "UPDATE copy SET expires_at = clock_timestamp()", "BEGIN")
				for _, sql := range test.take(f.next) {
					f.do(f.watch, onCopy(sql))
				}
				f.do(f.watch, "COMMIT")
				fence, _, _ := strings.Cut(onCopy(leases.FenceSQL), ", pg_catalog.current_setting('transaction_isolation')")
				var err error
				live, err = scan[bool](ctx, f.client, fence, "job", f.term.Holder(), f.term.Token())
				return err
			})
			if got := get[int64](f.place, f.watch, "SELECT token FROM copy"); got != 8 {
				t.Fatalf("token %d, want 8: nothing was taken over", got)
			}
			if passed := err == nil && live; passed != test.passes {
				t.Errorf("the fence after the takeover passes: %t, %v", passed, err)
			}
			if !test.passes {
				as[*hare.RetryableError](t, err)
			}
		})
	}
}
