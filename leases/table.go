package leases

import (
	"context"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/tables"
)

// makeTries is how often the table is looked at and made again when another process was at it at the same time, and
// makePause how long it waits in between.
const (
	makeTries = 10
	makePause = 20 * time.Millisecond
)

// ready makes sure that the table is there and hare's own (internal/tables), before anything in it is read. That stays so,
// so it is remembered. Where the table is not there it is made.
func (w *wire) ready(ctx context.Context, o Options) error {
	for try := 1; ; try++ {
		there, err := w.there(ctx, o.prompt())
		if err != nil || there {
			return err
		}
		err = create(ctx, w.alias, w, o.guards())
		if err != nil && (try == makeTries || !tables.MadeMeanwhile(err)) {
			return err
		}
		if err != nil {
			time.Sleep(makePause)
		}
	}
}

// there reports whether the table is there. One that is not hare's is an error.
func (w *wire) there(ctx context.Context, g guards) (bool, error) {
	if w.known.Load() {
		return true, nil
	}
	row, err := w.send(ctx, g, tables.Question(tables.Owners(w.db), tables.Leases))
	if err != nil {
		return false, err
	}
	found, err := tables.Read(w.alias, row, tables.Leases)
	if err != nil || found.Table(tables.Leases) == nil {
		return false, err
	}
	w.known.Store(true)
	return true, nil
}

// create makes the table.
func create(ctx context.Context, alias string, w *wire, g guards) error {
	_, err := w.send(ctx, g, createTable...)
	if backend.SQLState(err) == "42501" { // insufficient_privilege
		return &hare.ConfigurationError{Alias: alias, Err: err, Reason: "the role may not create " + table +
			": let an administrator make it, docs/operations.md has the statements"}
	}
	return err
}
