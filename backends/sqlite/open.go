package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/array"

	"github.com/hare-go/hare/hare/backend"
)

// open opens a connection and prepares it: time-out, functions, pragmas.
func (d *database) open(ctx context.Context) (*session, error) {
	engine, err := sqlite3.OpenContext(ctx, d.uri)
	if err != nil {
		return nil, d.connectFailure(ctx, err)
	}
	s := &session{
		engine:      engine,
		statements:  newCache(int(d.options.statements)),
		busyTimeout: d.options.busyTimeout,
	}
	engine.SetInterrupt(ctx)
	defer engine.SetInterrupt(context.Background())
	if err := d.prepare(ctx, s); err != nil {
		err = d.connectFailure(ctx, err)
		s.close()
		return nil, err
	}
	return s, nil
}

func (d *database) prepare(ctx context.Context, s *session) error {
	if err := s.engine.BusyTimeout(d.options.busyTimeout); err != nil {
		return err
	}
	if err := errors.Join(array.Register(s.engine), s.register(), s.engine.SetAuthorizer(s.authorize)); err != nil {
		return err
	}
	if err := s.engine.Exec(d.options.script()); err != nil {
		return err
	}
	if d.options.mode == "ro" && !d.options.asked["journal_mode"] {
		// Changing the journal writes to the file. What else would read it for the first time is made to do so here,
		// where a file that is no database is still an error of the connection.
		return s.engine.Exec("PRAGMA schema_version")
	}
	return d.journal(ctx, s)
}

// journal sets the journal mode. The first connection to a new file changes it, which takes a lock that SQLite does not
// wait for.
func (d *database) journal(ctx context.Context, s *session) error {
	want := d.options.pragmas["journal_mode"]
	for end := time.Now().Add(d.options.busyTimeout); ; {
		rows, err := s.answer("PRAGMA journal_mode=" + want)
		switch {
		case errors.Is(err, sqlite3.BUSY) && time.Now().Before(end) && ctx.Err() == nil:
			time.Sleep(5 * time.Millisecond)
			continue
		case err != nil:
			return err
		case d.memory == "" && d.options.asked["journal_mode"] && rows[0] != want:
			return fmt.Errorf("journal_mode=%s is not possible where the file lies: it stays %s", want, rows[0])
		}
		return nil
	}
}

// connectFailure makes the error of a connection that could not be opened.
func (d *database) connectFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return unsent(ctx)
	}
	e := &backend.Error{
		Class: backend.ClassConnection, SQLState: "08001", NotDone: true, Err: err,
		Message: "cannot open the SQLite database " + d.path + ": " + message(err),
	}
	if errors.Is(err, sqlite3.BUSY) {
		e.Class, e.SQLState = backend.ClassRetryable, "40001"
	}
	return e
}
