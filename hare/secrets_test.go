package hare_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

// secretive is a model whose columns refuse what they are given.
type secretive struct {
	ID    int64
	Token string `hare:"size=30,unique"`
	Kind  string `hare:"choices=a|b"`
	Price string `hare:"decimal=4:2"`
	Count int16
}

// hare's errors name the model, the field and the statement, and never show a value: neither what it refuses itself nor what the
// database refuses.
func TestErrorsShowNoValues(t *testing.T) {
	const secret = "4321-hunter2-5678"
	c := sqliteConnections(t, "library")
	ctx := hare.WithConnections(t.Context(), c)
	client, err := c.Client("")
	if err != nil {
		t.Fatal(err)
	}
	if err := hare.CreateTables(ctx, client, secretive{}); err != nil {
		t.Fatal(err)
	}
	set := hare.Objects[secretive]()
	right := func() *secretive { return &secretive{Token: secret, Kind: "a", Price: "1.00"} }
	if err := set.Create(ctx, right()); err != nil {
		t.Fatal(err)
	}
	with := func(change func(s *secretive)) error { s := right(); change(s); return set.Create(ctx, s) }
	for name, err := range map[string]error{
		"a value that is there":    with(func(*secretive) {}),
		"too long":                 with(func(s *secretive) { s.Token = strings.Repeat(secret, 3) }),
		"not a choice":             with(func(s *secretive) { s.Kind = secret }),
		"not a number":             with(func(s *secretive) { s.Price = secret }),
		"not UTF-8":                with(func(s *secretive) { s.Token = secret + "\xff" }),
		"a filter":                 last(set.Filter(query.Q("count", secret)).All(ctx)),
		"a lookup":                 last(set.Filter(query.Q("token__isnull", secret)).All(ctx)),
		"an assignment":            last(set.Unfiltered().Update(ctx, query.Set("count", secret))),
		"a statement":              last(client.Exec(ctx, "INSERT INTO secretive (token) VALUES ($1)", secret)),
		"a statement that is none": last(client.Exec(ctx, "INSERT INTO nothing VALUES ($1)", secret)),
		"too few arguments":        last(client.Exec(ctx, "SELECT $1, $2", secret)),
		"a value of no type":       last(client.Exec(ctx, "SELECT $1", struct{ Password string }{secret})),
		"a bulk":                   set.BulkCreate(ctx, []secretive{*right(), *right()}),
	} {
		if err == nil {
			t.Errorf("%s is accepted", name)
			continue
		}
		for _, text := range []string{err.Error(), fmt.Sprintf("%v", err), fmt.Sprintf("%q", err)} {
			if strings.Contains(text, "hunter2") {
				t.Errorf("%s: the error shows the value: %s", name, text)
			}
		}
	}
}

// last is the error of a call.
func last[T any](_ T, err error) error { return err }
