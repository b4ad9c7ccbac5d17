package hare_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/internal/session"
)

func TestDistributedHandle(t *testing.T) {
	c := sqliteConnections(t, "library", "billing", "other")
	ctx := hare.WithConnections(t.Context(), c)
	inside, ends := ctx, map[string]func() error{}
	for _, alias := range []string{"library", "billing"} {
		client, err := c.Client(alias)
		if err != nil {
			t.Fatal(err)
		}
		if err := hare.CreateTables(ctx, client, Reader{}); err != nil {
			t.Fatal(err)
		}
		tx, err := session.Open(ctx, alias, client.Database(), session.Options{})
		if err != nil {
			t.Fatal(err)
		}
		inside = session.With(inside, tx.Root())
		ends[alias] = func() error { _, err := tx.Commit(ctx); return err }
	}
	d := hare.NewDistributed(inside, "hare_dtx_1", "library", []string{"billing"})
	if diff := cmp.Diff([]string{"library", "billing", "hare_dtx_1"}, []string{d.Coordinator().Alias(), d.Client("billing").Alias(), d.XID()}); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if d.Client("library") != d.Coordinator() || !d.Coordinator().InTransaction() || !d.Client("billing").InTransaction() {
		t.Error("the clients are not bound to their transactions")
	}

	// A client stays in its transaction, whatever context it is called with; d.Context carries them all.
	if err := Readers.Using(d.Client("billing")).Create(ctx, &Reader{Name: "bound"}); err != nil {
		t.Fatal(err)
	}
	if err := Readers.UsingAlias("library").Create(d.Context(), &Reader{Name: "routed"}); err != nil {
		t.Fatal(err)
	}
	for _, alias := range []string{"library", "billing"} {
		if n, err := Readers.UsingAlias(alias).Count(ctx); n != 0 || err != nil {
			t.Errorf("%s shows %d rows before the end, %v", alias, n, err)
		}
		if n, err := Readers.Using(d.Client(alias)).Count(ctx); n != 1 || err != nil {
			t.Errorf("%s has %d rows inside, %v", alias, n, err)
		}
	}

	// Inside a savepoint that the caller opened, a bound client joins the savepoint.
	outer := session.From(inside, d.Coordinator().Database())
	level, err := outer.Nest(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := Readers.Using(d.Coordinator()).Create(session.With(ctx, level), &Reader{Name: "undone"}); err != nil {
		t.Fatal(err)
	}
	if err := level.RollbackTo(ctx); err != nil {
		t.Fatal(err)
	}

	stranger := d.Client("other")
	for name, err := range map[string]error{
		"Exec":         second(stranger.Exec(ctx, "SELECT 1")),
		"Query":        second(stranger.Query(ctx, "SELECT 1")),
		"All":          second(Readers.Using(stranger).All(ctx)),
		"Create":       Readers.Using(stranger).Create(ctx, &Reader{}),
		"BulkCreate":   Readers.Using(stranger).BulkCreate(ctx, make([]Reader, 3)),
		"CreateTables": hare.CreateTables(ctx, stranger, Reader{}),
		"unknown":      second(Readers.Using(d.Client("nowhere")).Count(ctx)),
		"control":      second(d.Coordinator().Exec(ctx, "COMMIT")),
	} {
		if !isA[*hare.QueryError](err) {
			t.Errorf("%s: got %v, want a QueryError", name, err)
		}
	}
	if stranger.InTransaction() || stranger.Alias() != "other" {
		t.Errorf("the stranger is %q, in a transaction: %v", stranger.Alias(), stranger.InTransaction())
	}

	for alias, end := range ends {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if n, err := Readers.UsingAlias(alias).Count(ctx); n != 1 || err != nil {
			t.Errorf("%s has %d rows afterwards, %v", alias, n, err)
		}
	}
	if d.Coordinator().InTransaction() {
		t.Error("the coordinator is in a transaction that has ended")
	}
	if err := Readers.Using(d.Coordinator()).Create(ctx, &Reader{Name: "late"}); !isA[*hare.TransactionError](err) {
		t.Errorf("a late statement: %v, want a TransactionError", err)
	}
}

func TestDistributedDefaultAlias(t *testing.T) {
	c := sqliteConnections(t, "default", "billing")
	ctx := hare.WithConnections(t.Context(), c)
	client, err := c.Client("")
	if err != nil {
		t.Fatal(err)
	}
	tx, err := session.Open(ctx, "default", client.Database(), session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	d := hare.NewDistributed(session.With(ctx, tx.Root()), "x", "", nil)
	if d.Coordinator().Alias() != "default" || d.Client("") != d.Coordinator() || d.Client("default") != d.Coordinator() {
		t.Errorf("the default alias is not the coordinator: %q", d.Coordinator().Alias())
	}
	without := hare.NewDistributed(t.Context(), "x", "", []string{"billing"})
	if _, err := without.Coordinator().Exec(ctx, "SELECT 1"); !isA[*hare.ConfigurationError](err) {
		t.Errorf("without connections: %v", err)
	}
}
