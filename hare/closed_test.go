package hare_test

import (
	"context"
	"errors"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/transactions"
)

// Connections that are closed are a wrong call, and the same one whatever is asked of them.
//
// Fault D12.
func TestClosedIsAWrongCall(t *testing.T) {
	c := sqliteConnections(t, "library")
	ctx := hare.WithConnections(t.Context(), c)
	client, err := c.Client("")
	if err != nil {
		t.Fatal(err)
	}
	if err := hare.CreateTables(ctx, client, Reader{}); err != nil {
		t.Fatal(err)
	}
	c.Close()
	for name, call := range map[string]func() error{
		"a queryset":   func() error { _, err := Readers.All(ctx); return err },
		"Exec":         func() error { _, err := client.Exec(ctx, "SELECT 1"); return err },
		"CreateTables": func() error { return hare.CreateTables(ctx, client, Reader{}) },
		"a batch":      func() error { return Readers.BulkCreate(ctx, []Reader{{Name: "a"}, {Name: "b"}}, hare.BatchSize(1)) },
		"Atomic": func() error {
			return transactions.Atomic(ctx, func(ctx context.Context) error { return Readers.Create(ctx, &Reader{Name: "a"}) })
		},
		"Ping": func() error { return c.Ping(ctx) },
	} {
		var refused *hare.QueryError
		if err := call(); !errors.As(err, &refused) || refused.Reason != "the connections are closed" {
			t.Errorf("%s: %T %v", name, err, err)
		}
	}
}
