package sqlite

import (
	"context"
	"fmt"

	"github.com/hare-go/hare/hare/backend"
)

// rows are the rows of one call. The statement runs as they are read.
type rows struct {
	session *session
	conn    *conn // to leave at the end; nil until the caller has the rows
	ctx     context.Context
	st      *statement
	columns []column
	batch   [][]any // the runs to come
	scope   scope

	pending bool // the engine stands on a row that Next has not reported yet
	done    bool
	err     error
}

func (s *session) query(ctx context.Context, call backend.Call) (*rows, error) {
	if err := s.attach(ctx); err != nil {
		return nil, err
	}
	r := &rows{session: s, ctx: ctx}
	err := s.before(ctx, call.Before)
	if err == nil {
		err = r.start(call)
	}
	if err != nil {
		return nil, s.detach(ctx, err)
	}
	// The first step is taken here: a statement that fails does so now, and one that writes has done it.
	if call.Batch != nil && len(call.Batch) == 0 {
		r.finish(nil)
	} else {
		r.pending = r.advance()
	}
	if r.err != nil {
		return nil, r.err
	}
	return r, nil
}

// start prepares the statement and binds the first run.
func (r *rows) start(call backend.Call) (err error) {
	s := r.session
	defer s.guard(&err)
	st, tail, err := s.statement(call.SQL)
	if err != nil {
		return err
	}
	r.st = st
	args := call.Args
	switch {
	case tail != "":
		err = errManyStatements
	case len(call.Batch) > 0:
		args, r.batch = call.Batch[0], call.Batch[1:]
		r.scope, err = s.openScope(st.writes && len(call.Batch) > 1)
	case call.Batch != nil:
		return nil
	}
	if err == nil {
		if err = st.bind(args); err == nil {
			return nil
		}
		err = s.closeScope(r.scope, err)
	}
	s.statements.done(st)
	return err
}

// advance steps to the next row, of the next run if need be. At the end, and after an error, it finishes.
func (r *rows) advance() (ok bool) {
	var err error
	defer func() {
		if !ok {
			r.finish(err)
		}
	}()
	defer r.session.guard(&err)
	if r.gone() {
		err = errGone
		return false
	}
	for {
		if r.st.engine.Step() {
			return true
		}
		if err = r.st.engine.Err(); err != nil {
			return false
		}
		if err = r.st.reset(); err != nil || len(r.batch) == 0 {
			return false
		}
		if err = r.st.bind(r.batch[0]); err != nil {
			return false
		}
		r.batch = r.batch[1:]
	}
}

// gone: the connection was closed while the rows were open.
func (r *rows) gone() bool { return r.session.engine == nil }

// finish ends the call.
func (r *rows) finish(err error) {
	s := r.session
	r.done = true
	if !r.gone() {
		if r.columns == nil { // before the statement goes, if the cache does not keep it
			r.columns = r.st.describe()
		}
		if ended := r.st.reset(); err == nil {
			err = ended
		}
		s.statements.done(r.st)
		err = s.closeScope(r.scope, err)
	}
	r.err = s.detach(r.ctx, err)
	if r.conn != nil {
		r.conn.leave()
	}
}

// Columns are the names of the columns.
func (r *rows) Columns() []string {
	r.describe()
	names := make([]string, len(r.columns))
	for i := range names {
		names[i] = r.columns[i].name
	}
	return names
}

func (r *rows) describe() {
	if r.columns == nil && !r.done && !r.gone() {
		r.columns = r.st.describe()
	}
}

// Next moves to the next row and reports whether there is one.
func (r *rows) Next() bool {
	if r.pending {
		r.pending = false
		return true
	}
	return !r.done && r.advance()
}

// Scan decodes the current row into the struct at base.
func (r *rows) Scan(base backend.Pointer, dests []backend.Dest) error {
	r.describe()
	if r.done || r.gone() {
		return errNoRow
	}
	if len(dests) != len(r.columns) {
		return fmt.Errorf("the query has %d columns, and %d destinations are given", len(r.columns), len(dests))
	}
	for i := range dests {
		if err := r.st.scan(i, base, &dests[i]); err != nil {
			return err
		}
	}
	return nil
}

// Values decodes the current row into canonical values.
func (r *rows) Values() ([]any, error) {
	r.describe()
	if r.done || r.gone() {
		return nil, errNoRow
	}
	values := make([]any, len(r.columns))
	for i := range values {
		values[i] = r.st.value(i, r.columns[i].kind)
	}
	return values, nil
}

// Close ends the query. A statement that writes is run to its end, with the runs that are still to come: whether it takes
// effect does not depend on how many rows are read.
func (r *rows) Close() error {
	r.pending = false
	switch {
	case r.done:
	case r.st.writes, r.gone():
		for r.advance() {
			continue
		}
	default:
		r.finish(nil)
	}
	return r.err
}

// Err is the error that ended the rows, or nil.
func (r *rows) Err() error { return r.err }
