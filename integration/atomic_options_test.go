package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
	"github.com/hare-go/hare/transactions"
)

func TestOptionsReachTheServer(t *testing.T) {
	f := newTrio(t, "")
	show := func(ctx context.Context) (settings []string) {
		rows, err := f.client("c").Query(ctx, `SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only'),
			current_setting('statement_timeout'), current_setting('lock_timeout')`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			settings = make([]string, 4)
			if err := rows.Scan(&settings[0], &settings[1], &settings[2], &settings[3]); err != nil {
				t.Fatal(err)
			}
		}
		return settings
	}
	for _, test := range []struct {
		opts []transactions.Option
		want []string
	}{
		{nil, []string{"read committed", "off", "0", "0"}},
		{[]transactions.Option{transactions.Isolation(transactions.RepeatableRead)}, []string{"repeatable read", "off", "0", "0"}},
		{[]transactions.Option{transactions.ReadOnly(), transactions.Isolation(transactions.Serializable)}, []string{"serializable", "on", "0", "0"}},
		{[]transactions.Option{transactions.StatementTimeout(1500 * time.Millisecond)}, []string{"read committed", "off", "1500ms", "1500ms"}},
		{[]transactions.Option{transactions.StatementTimeout(2 * time.Second), transactions.LockTimeout(time.Second)}, []string{"read committed", "off", "2s", "1s"}},
	} {
		err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
			if diff := cmp.Diff(test.want, show(ctx)); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			return nil
		}, test.opts...)
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"read committed", "off", "0", "0"}, show(f.ctx)); diff != "" {
		t.Errorf("settings afterwards (-want +got):\n%s", diff)
	}
	err := transactions.Atomic(f.ctx, func(ctx context.Context) error { return create(ctx, "x") }, transactions.ReadOnly())
	as[*hare.ReadOnlyError](t, err)
	err = transactions.Atomic(f.ctx, func(ctx context.Context) error {
		_, err := f.client("c").Exec(ctx, "SELECT pg_sleep(10)")
		return err
	}, transactions.StatementTimeout(100*time.Millisecond))
	as[*hare.TimeoutError](t, err)
	f.wantUsable()
}

func TestOptionsOfNestedBlocks(t *testing.T) {
	f := newTrio(t, "")
	for _, test := range []struct {
		name         string
		outer, inner []transactions.Option
		ok           bool
	}{
		{"read-only in read-write", nil, []transactions.Option{transactions.ReadOnly()}, false},
		{"read-only in read-only", []transactions.Option{transactions.ReadOnly()}, []transactions.Option{transactions.ReadOnly()}, true},
		{"a time-out", nil, []transactions.Option{transactions.StatementTimeout(time.Second)}, false},
		{"an equal time-out", []transactions.Option{transactions.LockTimeout(time.Second)}, []transactions.Option{transactions.LockTimeout(time.Second)}, false},
		{"another level", nil, []transactions.Option{transactions.Isolation(transactions.Serializable)}, false},
		{"the same level", []transactions.Option{transactions.Isolation(transactions.Serializable)}, []transactions.Option{transactions.Isolation(transactions.Serializable)}, true},
	} {
		err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
			return transactions.Atomic(ctx, func(context.Context) error { return nil }, test.inner...)
		}, test.outer...)
		var refused *hare.QueryError
		if test.ok != (err == nil) || err != nil && !errors.As(err, &refused) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestSiblingsTakeTurns(t *testing.T) {
	f := newTrio(t, "")
	err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
		errs := make(chan error, 10)
		for i := range 10 {
			go func() {
				errs <- transactions.Atomic(ctx, func(ctx context.Context) error {
					if err := create(ctx, fmt.Sprint(i)); err != nil {
						return err
					}
					if err := create(ctx, fmt.Sprint(i, "again")); err != nil {
						return err
					}
					if i%2 == 0 {
						return errStop
					}
					return nil
				})
			}()
		}
		for range 10 {
			if err := <-errs; err != nil && err != errStop {
				return err
			}
		}
		return create(ctx, "outer")
	})
	if err != nil {
		t.Fatal(err)
	}
	f.wantCounts(11, 0, 0)
}

func TestStatementBehindAStuckSibling(t *testing.T) {
	f := newTrio(t, "")
	err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
		entered, leave, left := make(chan struct{}), make(chan struct{}), make(chan error)
		go func() {
			left <- transactions.Atomic(ctx, func(context.Context) error { close(entered); <-leave; return nil })
		}()
		<-entered
		as[*hare.TransactionError](t, create(ctx, "x"))
		close(leave)
		if err := <-left; err != nil {
			return err
		}
		return create(ctx, "y")
	}, transactions.Wait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	f.wantCounts(1, 0, 0)
}

func TestStatementsWhileRowsAreRead(t *testing.T) {
	f := newTrio(t, "")
	for range 3 {
		if err := create(f.ctx, "x"); err != nil {
			t.Fatal(err)
		}
	}
	err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
		rows, err := f.client("c").Query(ctx, "SELECT id FROM note")
		if err != nil {
			return err
		}
		defer rows.Close()
		rows.Next()
		start := time.Now()
		_, err = Notes.Count(ctx)
		as[*hare.TransactionError](t, err)
		if waited := time.Since(start); waited > 5*time.Second {
			t.Errorf("it was refused after %s, want at once", waited)
		}
		if err := rows.Close(); err != nil {
			return err
		}
		_, err = Notes.Count(ctx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTwoDatabasesAreAmbientAtOnce(t *testing.T) {
	f := newTrio(t, "")
	err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
		return transactions.Atomic(ctx, func(ctx context.Context) error {
			if err := create(ctx, "in c"); err != nil {
				return err
			}
			if err := Notes.UsingAlias("a").Create(ctx, &Note{Text: "in a"}); err != nil {
				return err
			}
			n, err := Notes.UsingAlias("b").Filter(query.Q("id__gt", 0)).Count(ctx)
			if n != 0 {
				t.Errorf("%d notes in b", n)
			}
			return err
		}, transactions.Using("a"))
	})
	if err != nil {
		t.Fatal(err)
	}
	f.wantCounts(1, 1, 0)
}
