package integration

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/transactions"
)

// Statements of several goroutines, through the clients and through the context, take turns (section 5.3 of the
// original's transactions).
func TestFieldGoroutinesInTheCallback(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=1")
	err := f.distributed(func(d *hare.Distributed) error {
		errs := make(chan error, 30)
		for i := range 10 {
			for _, alias := range everybody {
				go func() {
					if i%2 == 0 {
						errs <- write(d, fmt.Sprint(i), alias)
						return
					}
					errs <- transactions.Atomic(d.Context(), func(ctx context.Context) error {
						return Notes.UsingAlias(alias).Create(ctx, &Note{Text: fmt.Sprint(i)})
					}, transactions.Using(alias))
				}()
			}
		}
		for range 30 {
			if err := <-errs; err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	f.wantCounts(10, 10, 10)
	f.wantUsable()
}

// The end waits for a goroutine that is still at work, and what that was told is true: its write is kept with the rest,
// also when it was the first in its database.
func TestFieldGoroutineOutlivesTheCallback(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=1")
	for _, alias := range everybody {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprintf("in %s, its first statement %v", alias, first), func(t *testing.T) {
				defer f.clear()
				late := make(chan error, 1)
				err := f.distributed(func(d *hare.Distributed) error {
					for _, other := range everybody {
						if first && other == alias {
							continue
						}
						if err := write(d, "x", other); err != nil {
							return err
						}
					}
					atWork := make(chan struct{})
					go func() {
						close(atWork)
						_, err := d.Client(alias).Exec(d.Context(), "INSERT INTO note (text) SELECT 'late' FROM pg_sleep(0.2)")
						late <- err
					}()
					<-atWork
					time.Sleep(50 * time.Millisecond)
					return nil
				})
				if err != nil {
					t.Errorf("got %v, want a commit", err)
				}
				if err := <-late; err != nil {
					t.Errorf("the goroutine was told %v", err)
				}
				if n := f.count(alias, "SELECT count(*) FROM note WHERE text = 'late'"); n != 1 {
					t.Errorf("%d late notes in %s, want the one whose write succeeded", n, alias)
				}
				f.wantNothingPrepared()
				f.wantUsable()
			})
		}
	}
}

// A nested block undoes its own part only, whatever the database, and may swallow its error.
func TestFieldNestedBlocks(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	err := f.distributed(func(d *hare.Distributed) error {
		for _, alias := range everybody {
			inner := transactions.Atomic(d.Context(), func(ctx context.Context) error {
				if err := Notes.UsingAlias(alias).Create(ctx, &Note{Text: "undone"}); err != nil {
					return err
				}
				_, err := d.Client(alias).Exec(ctx, "SELECT 1/0")
				return err
			}, transactions.Using(alias))
			if e := as[*hare.DatabaseError](t, inner); e.SQLState != "22012" {
				t.Errorf("the block failed with %v", inner)
			}
		}
		return writeAll(d)
	})
	if err != nil {
		t.Fatal(err)
	}
	f.wantCounts(1, 1, 1)
	f.wantNothingPrepared()
}

// ends are the ways in which a callback ends without success.
var ends = map[string]func() error{
	"nil":    func() error { return nil },
	"error":  func() error { return errStop },
	"panic":  func() error { panic(errStop) },
	"goexit": func() error { runtime.Goexit(); return nil },
}

// A callback that leaves rows open, which a panic in the middle of a loop does, cannot commit. It is rolled back: its
// locks are gone and the pool of one connection works, although nobody ever closes the rows.
//
// Field case 50.
func TestFieldRowsLeftOpen(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=1&pool_acquire_timeout=3s")
	for _, alias := range everybody {
		for name, end := range ends {
			t.Run(name+" in "+alias, func(t *testing.T) {
				defer f.clear()
				err := f.leaving(alias, end)
				wantOutcome(t, err, transactions.RolledBack)
				if name == "nil" {
					as[*hare.TransactionError](t, err)
				}
				f.wantNothingLeft()
				f.wantUsable()
			})
		}
	}
}

// leaving runs a callback that leaves rows of an alias open, and returns its error or what it panicked with.
func (f *trio) leaving(alias string, end func() error) (err error) {
	var wait sync.WaitGroup
	wait.Go(func() {
		returned := false
		defer func() {
			if panicked := recover(); !returned {
				err = fmt.Errorf("the callback did not return: %v", panicked)
			}
		}()
		err = f.distributed(func(d *hare.Distributed) error {
			if err := writeAll(d); err != nil {
				return err
			}
			rows, err := d.Client(alias).Query(d.Context(), "SELECT * FROM generate_series(1, 100000)")
			if err != nil {
				return err
			}
			if !rows.Next() {
				return errors.New("there are no rows")
			}
			return end()
		}, transactions.Wait(time.Second))
		returned = true
	})
	wait.Wait()
	return err
}

// The same for Atomic, and for a nested block, which takes the transaction around it with it.
//
// Field case 50.
func TestFieldRowsLeftOpenInAtomic(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=1&pool_acquire_timeout=3s")
	leave := func(ctx context.Context) error {
		if err := create(ctx, "x"); err != nil {
			return err
		}
		rows, err := f.client("c").Query(ctx, "SELECT * FROM generate_series(1, 100000)")
		if err == nil && !rows.Next() {
			err = errors.New("there are no rows")
		}
		return err
	}
	for name, fn := range map[string]func(ctx context.Context) error{
		"outermost": leave,
		"nested":    func(ctx context.Context) error { return transactions.Atomic(ctx, leave) },
		"nested, and the error swallowed": func(ctx context.Context) error {
			as[*hare.TransactionError](t, transactions.Atomic(ctx, leave))
			return nil
		},
	} {
		as[*hare.TransactionError](t, transactions.Atomic(f.ctx, fn))
		if n := f.counts()[0]; n != 0 {
			t.Errorf("%s: %d notes are kept", name, n)
		}
	}
	f.wantUsable()
}

// A database in which nothing ran sees nothing of the call, and one that was only read is not prepared.
//
// W28.
func TestFieldWhoPrepares(t *testing.T) {
	t.Parallel()
	read := func(alias string) func(d *hare.Distributed) error {
		return func(d *hare.Distributed) error {
			_, err := Notes.Using(d.Client(alias)).Count(d.Context())
			return err
		}
	}
	writes := func(aliases ...string) func(d *hare.Distributed) error {
		return func(d *hare.Distributed) error { return write(d, "x", aliases...) }
	}
	f := newTrio(t, "")
	if err := f.distributed(writeAll); err != nil { // what each server is gets asked once
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		do       []func(d *hare.Distributed) error
		prepares map[string]int
		decides  int
		silent   []string
	}{
		{"nothing", nil, map[string]int{}, 0, everybody},
		{"only the coordinator writes", []func(*hare.Distributed) error{writes("c")}, map[string]int{}, 0, participants},
		{"a writes", []func(*hare.Distributed) error{writes("a")}, map[string]int{"a": 1}, 1, []string{"b"}},
		{"a writes, b is read", []func(*hare.Distributed) error{writes("a"), read("b")}, map[string]int{"a": 1}, 1, nil},
		{"a is read, then written", []func(*hare.Distributed) error{read("a"), writes("a")}, map[string]int{"a": 1}, 1, []string{"b"}},
		{"all are read", []func(*hare.Distributed) error{read("c"), read("a"), read("b")}, map[string]int{}, 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			f.tidied()
			f.plan.Reset()
			err := f.distributed(func(d *hare.Distributed) error {
				for _, do := range test.do {
					if err := do(d); err != nil {
						return err
					}
				}
				return nil
			}, transactions.KeepDecision())
			if err != nil {
				t.Fatal(err)
			}
			prepares, decides, spoken := map[string]int{}, 0, map[string]bool{}
			for _, e := range f.plan.Events() {
				spoken[e.Alias] = spoken[e.Alias] || e.Op != "acquire"
				if strings.Contains(e.SQL, "PREPARE TRANSACTION") {
					prepares[e.Alias]++
				}
				if isDecision(e) {
					decides++
				}
			}
			if fmt.Sprint(prepares) != fmt.Sprint(test.prepares) || decides != test.decides {
				t.Errorf("prepared %v, %d decisions; want %v, %d", prepares, decides, test.prepares, test.decides)
			}
			for _, alias := range test.silent {
				if spoken[alias] {
					t.Errorf("%s was sent something: %+v", alias, f.plan.Events())
				}
			}
		})
	}
}

// Section 3.2 of the original's transactions: what Atomic refuses, in which order, before anything is sent.
func TestFieldAtomicValidation(t *testing.T) {
	t.Parallel()
	ctx := hare.WithConnections(t.Context(), unopened(t))
	for _, test := range []struct {
		name string
		opts []transactions.Option
		want any
		says string
	}{
		{"statement time-out of 0", []transactions.Option{transactions.StatementTimeout(0)}, new(*hare.QueryError), "StatementTimeout"},
		{"statement time-out too long", []transactions.Option{transactions.StatementTimeout(transactions.MaxTimeout + 1)}, new(*hare.QueryError), "StatementTimeout"},
		{"negative lock time-out", []transactions.Option{transactions.LockTimeout(-time.Second)}, new(*hare.QueryError), "LockTimeout"},
		{"unknown level", []transactions.Option{transactions.Isolation("SERIALIZABLE")}, new(*hare.QueryError), "repeatable read"},
		{"-1 retries", []transactions.Option{transactions.Retries(-1)}, new(*hare.QueryError), "-1"},
		{"101 retries", []transactions.Option{transactions.Retries(101)}, new(*hare.QueryError), "101"},
		{"the option goes before the alias", []transactions.Option{transactions.Using("nowhere"), transactions.Retries(-1)}, new(*hare.QueryError), "-1"},
		{"unknown alias", []transactions.Option{transactions.Using("nowhere")}, new(*hare.ConfigurationError), "nowhere"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := transactions.Atomic(ctx, func(context.Context) error { t.Error("the block ran"); return nil }, test.opts...)
			if !errors.As(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %T %v, want %T that says %q", err, err, test.want, test.says)
			}
		})
	}
}
