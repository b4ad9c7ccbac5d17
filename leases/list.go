package leases

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/internal/tables"
)

// Info is what a lease's row says.
type Info struct {
	Name     string
	Holder   string // the last one, if it is not held
	Token    int64  // of the last term; 0 before the first
	Acquired time.Time
	Renewed  time.Time
	Expires  time.Time
	// Now is when the row was read, by the database's clock, as all times here.
	Now time.Time
	// Remaining is the time until it expires, by the database's clock. 0: it is free.
	Remaining time.Duration
}

// Held reports whether somebody held it when the row was read.
func (i Info) Held() bool { return i.Remaining > 0 }

// List lists the leases of a database by name, those that are free included. A database without the table has none. It
// only reads, on a connection that it dials outside the pool, so that it sees what leases see: past a pooler
// that is full, where the URL has a direct address.
func List(ctx context.Context, c *hare.Client) (list []Info, err error) {
	if err := cmp.Or(checkClient(c), checkContext(ctx)); err != nil {
		return nil, err
	}
	defer func() { err = hare.ErrorFrom(c.Alias(), "", err) }() // the statement is hare's own, and long
	conn, err := c.Database().Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	found, err := tables.Check(ctx, c.Alias(), c.Database(), conn, tables.Leases)
	if err != nil || found.Table(tables.Leases) == nil {
		return nil, err
	}
	answer, err := conn.Control(ctx, `BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY`, tables.Path, listSQL, `COMMIT`)
	if err != nil || len(answer.Row) != 1 {
		return nil, err
	}
	var rows []struct {
		Info
		MS int64
	}
	if err := json.Unmarshal([]byte(answer.Row[0]), &rows); err != nil {
		return nil, err
	}
	for _, row := range rows {
		row.Remaining = time.Duration(row.MS) * time.Millisecond
		list = append(list, row.Info)
	}
	return list, nil
}

// ForceRelease ends a term whoever holds it: for a holder that is gone, where the TTL is too long to wait for, or one that
// must not go on. token is that of the term, as [List] shows it, so that nobody else's term is ended by mistake; a lease
// that has another one by now is a [*hare.QueryError]. It returns the holder whose term was ended.
//
// It waits for fenced transactions of the term that are open, and gives up with a [*BlockedError]. Afterwards the term's
// fences fail. Its holder learns of it with its next renewal: until then a function that does not fence what it writes
// goes on beside the next holder's.
func ForceRelease(ctx context.Context, c *hare.Client, name string, token int64) (holder string, err error) {
	if err := cmp.Or(checkClient(c), checkContext(ctx), checkName(name)); err != nil {
		return "", err
	}
	w, g := keeperOf(c).wire, Options{}.filled().guards()
	there, err := w.there(ctx, g)
	var row []string
	if there {
		row, err = w.send(ctx, g, forceSQL(name, token)...)
	}
	switch {
	case err != nil:
		return "", explain(ctx, name, w, Options{}.filled().prompt(), err)
	case len(row) != 1:
		return "", wrong("there is no term %d of %q to end: it has another term by now, or does not exist", token, name)
	}
	return row[0], nil
}
