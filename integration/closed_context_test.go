package integration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/query"
	"github.com/hare-go/hare/transactions"
)

// outsider is an alias that takes no part in the transactions of these tests, whose coordinator is c and whose participant is a; e
// is another.
const outsider = "b"

// aside are the ways to use an alias that takes no part, with a ctx of the transaction.
var aside = map[string]func(f *trio, ctx context.Context) error{
	"Create by alias": func(_ *trio, ctx context.Context) error {
		return Notes.UsingAlias(outsider).Create(ctx, &Note{Text: "aside"})
	},
	"Create by client": func(f *trio, ctx context.Context) error {
		return Notes.Using(f.client(outsider)).Create(ctx, &Note{Text: "aside"})
	},
	"Save": func(_ *trio, ctx context.Context) error {
		return Notes.UsingAlias(outsider).Save(ctx, &Note{ID: 7, Text: "aside"})
	},
	"BulkCreate": func(_ *trio, ctx context.Context) error {
		return Notes.UsingAlias(outsider).BulkCreate(ctx, []Note{{Text: "aside"}, {Text: "aside"}})
	},
	"BulkCreate in batches": func(_ *trio, ctx context.Context) error {
		return Notes.UsingAlias(outsider).BulkCreate(ctx, []Note{{Text: "aside"}, {Text: "aside"}}, hare.BatchSize(1))
	},
	"Update": func(_ *trio, ctx context.Context) error {
		_, err := Notes.UsingAlias(outsider).Unfiltered().Update(ctx, query.Set("text", "aside"))
		return err
	},
	"Delete": func(_ *trio, ctx context.Context) error {
		_, err := Notes.UsingAlias(outsider).Unfiltered().Delete(ctx)
		return err
	},
	"All": func(_ *trio, ctx context.Context) error {
		_, err := Notes.UsingAlias(outsider).All(ctx)
		return err
	},
	"Iterate": func(_ *trio, ctx context.Context) (err error) {
		for _, err = range Notes.UsingAlias(outsider).Iterate(ctx) {
		}
		return err
	},
	"Exec": func(f *trio, ctx context.Context) error {
		_, err := f.client(outsider).Exec(ctx, "INSERT INTO note (text) VALUES ('aside')")
		return err
	},
	"Query": func(f *trio, ctx context.Context) error {
		_, err := f.client(outsider).Query(ctx, "INSERT INTO note (text) VALUES ('aside') RETURNING id")
		return err
	},
	"CreateTables": func(f *trio, ctx context.Context) error {
		return hare.CreateTables(ctx, f.client(outsider), Note{})
	},
	"Atomic": func(_ *trio, ctx context.Context) error {
		return transactions.Atomic(ctx, func(ctx context.Context) error {
			return Notes.UsingAlias(outsider).Create(ctx, &Note{Text: "aside"})
		}, transactions.Using(outsider))
	},
	"Distributed": func(_ *trio, ctx context.Context) error {
		return transactions.Distributed(ctx, outsider, []string{"e"}, func(d *hare.Distributed) error { return write(d, "aside", outsider, "e") })
	},
	"OnCommit": func(f *trio, ctx context.Context) error {
		return transactions.OnCommit(ctx, func(context.Context) error { f.exec(outsider, "INSERT INTO note (text) VALUES ('aside')"); return nil },
			transactions.Using(outsider))
	},
	"OnRollback": func(f *trio, ctx context.Context) error {
		return transactions.OnRollback(ctx, func(context.Context) error { f.exec(outsider, "INSERT INTO note (text) VALUES ('aside')"); return nil },
			transactions.Using(outsider))
	},
}

// contexts are what a function makes of the Context of its transaction.
var contexts = map[string]func(ctx context.Context, use func(context.Context) error) error{
	"itself": func(ctx context.Context, use func(context.Context) error) error { return use(ctx) },
	"with a time limit": func(ctx context.Context, use func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		return use(ctx)
	},
	"without cancellation": func(ctx context.Context, use func(context.Context) error) error {
		return use(context.WithoutCancel(ctx))
	},
	"of a nested block": func(ctx context.Context, use func(context.Context) error) error {
		return transactions.Atomic(ctx, use, transactions.Using("a"))
	},
}

// With the Context of a distributed transaction, and every ctx made of it, nothing can be written that the transaction would
// not undo: an alias that takes no part is refused before anything is sent, by an error that names it, the transaction's members and
// the ways out; also where a transaction on it is open outside. What takes part goes on.
//
// Fault D14.
func TestContextIsClosedToOthers(t *testing.T) {
	t.Parallel()
	f := newDatabases(t, "", []string{"c", "a", outsider, "e"})
	run := func(ctx context.Context, name string, in func(context.Context, func(context.Context) error) error, way func(*trio, context.Context) error) {
		err := transactions.Distributed(ctx, "c", []string{"a"}, func(d *hare.Distributed) error {
			ctx := d.Context()
			if err := write(d, "inside", "c", "a"); err != nil {
				return err
			}
			err := in(ctx, func(ctx context.Context) error { return way(f, ctx) })
			var refused *hare.QueryError
			if !errors.As(err, &refused) || !named(refused, `"b" takes no part`, d.XID(), `"a" "c"`, "participant", "the ctx that Distributed was called with") {
				t.Errorf("%s: %v", name, err)
			}
			if err := Notes.UsingAlias("a").Create(ctx, &Note{Text: "inside"}); err != nil {
				t.Errorf("%s: afterwards, on a participant: %v", name, err)
			}
			return errStop
		})
		if !errors.Is(err, errStop) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for derived, in := range contexts {
		for way, use := range aside {
			run(f.ctx, way+", "+derived, in, use)
		}
	}
	f.wantCounts(0, 0, 0)
	err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
		run(ctx, "in an open transaction outside", contexts["itself"], aside["Create by alias"])
		return nil
	}, transactions.Using(outsider))
	if err != nil {
		t.Error(err)
	}
	f.wantCounts(0, 0, 0)
}

func named(err error, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			return false
		}
	}
	return true
}

// The same aliases of other Connections are other databases to the transaction, and what outlives it stays out, too. A lease is
// acquired all the same, which is hare's own business, and fences no transaction that its database takes no part in.
//
// Fault D14.
func TestContextIsClosedToOtherConnections(t *testing.T) {
	t.Parallel()
	f := newDatabases(t, "", everybody)
	others := f.connect(f.urls)
	var kept context.Context
	err := transactions.Distributed(f.ctx, "c", []string{"a"}, func(d *hare.Distributed) error {
		kept = d.Context()
		for _, alias := range []string{"c", "a", outsider} {
			err := Notes.UsingAlias(alias).Create(hare.WithConnections(kept, others), &Note{Text: "aside"})
			if as[*hare.QueryError](t, err); !named(err, `"`+alias+`" takes no part`) {
				t.Errorf("%s of other connections: %v", alias, err)
			}
		}
		lease := leases.New(f.client(outsider), "closed context", leases.Options{})
		term, err := lease.TryAcquire(kept)
		if err != nil {
			return err
		}
		as[*hare.QueryError](t, term.Fence(kept))
		return errors.Join(term.Release(), write(d, "inside", "c", "a"))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, alias := range everybody {
		if err := Notes.UsingAlias(alias).Create(kept, &Note{Text: "late"}); err == nil {
			t.Errorf("%s: a write with the ctx of a transaction that has ended", alias)
		}
	}
	f.wantCounts(1, 1, 0)
}

// Outside the transaction everything is open: with the ctx of the caller, whose writes stay, and in hooks.
//
// Fault D14.
func TestContextOutsideIsOpen(t *testing.T) {
	t.Parallel()
	f := newDatabases(t, "", everybody)
	note := func(ctx context.Context, alias string) error {
		return Notes.UsingAlias(alias).Create(ctx, &Note{Text: "outside"})
	}
	for _, result := range []error{nil, errStop} {
		err := transactions.Distributed(f.ctx, "c", []string{"a"}, func(d *hare.Distributed) error {
			ctx := d.Context()
			hook := func(ctx context.Context) error { return errors.Join(note(ctx, outsider), note(ctx, "a")) }
			return errors.Join(write(d, "inside", "c", "a"), transactions.OnCommit(ctx, hook), transactions.OnRollback(ctx, hook),
				note(f.ctx, outsider), result)
		})
		if !errors.Is(err, result) {
			t.Error(err)
		}
	}
	f.wantCounts(1, 3, 4)
}
