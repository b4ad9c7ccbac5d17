package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hare-go/hare/hare/backend"
)

// flight is a call that has been sent in one round trip and whose answers are being read, run by run.
type flight struct {
	session   *session
	statement *statement
	reader    *pgconn.ResultReader      // of the current run
	several   *pgconn.MultiResultReader // nil when a single statement was sent
	begun     bool                      // next has been called
	described bool                      // the answers describe their columns
	ran       string                    // the tag of a statement that controlled the transaction
}

// send prepares the statement if need be and sends what is left of the call in one message.
func (s *session) send(ctx context.Context, call backend.Call) (*flight, error) {
	st, before, err := s.statement(ctx, call.SQL, call.Before)
	if err != nil {
		return nil, err
	}
	f := &flight{session: s, statement: st, described: s.unnamed || st.Name == ""}
	if len(before) == 0 && call.Batch == nil {
		if err := s.arguments.encode(st.ParamOIDs, call.Args); err != nil {
			return nil, err
		}
		a := &s.arguments
		if f.described {
			// Never in parts: in another round trip the unnamed statement may be a stranger's.
			f.reader = s.pg.ExecParams(ctx, st.SQL, a.values, st.ParamOIDs, a.formats, st.formats)
		} else {
			f.reader = s.pg.ExecStatement(ctx, st.StatementDescription, a.values, a.formats, st.formats)
		}
		return f, nil
	}
	batch, err := s.batch(f, before, call)
	if err != nil {
		return nil, err
	}
	f.several = s.pg.ExecBatch(ctx, batch)
	for _, control := range before {
		if !f.next() {
			return nil, ahead(control, f.several.Close())
		}
		if _, err := f.reader.Close(); err != nil {
			_ = f.several.Close() // the same error
			return nil, ahead(control, err)
		}
	}
	f.reader = nil // what hare's own statements were answered is not the call's
	return f, nil
}

// batch is the message of a call with control statements or with several runs.
func (s *session) batch(f *flight, before []string, call backend.Call) (*pgconn.Batch, error) {
	st, batch := f.statement, &pgconn.Batch{}
	for _, control := range before {
		batch.ExecParams(control, nil, nil, nil, nil)
	}
	runs := call.Batch
	if runs == nil {
		runs = [][]any{call.Args}
	}
	a := &s.arguments
	for i, args := range runs {
		if err := a.encode(st.ParamOIDs, args); err != nil {
			return nil, err
		}
		switch {
		case !f.described:
			batch.ExecStatement(st.StatementDescription, a.values, a.formats, st.formats)
		case i == 0:
			batch.ExecParams(st.SQL, a.values, st.ParamOIDs, a.formats, st.formats)
		default: // parsed just now, in the same message, of which a pooler cuts nothing off
			batch.ExecPrepared("", a.values, a.formats, st.formats)
		}
	}
	return batch, nil
}

// next moves to the answer to the next run. The one before must have been read or closed.
func (f *flight) next() bool {
	if f.several == nil {
		first := !f.begun
		f.begun = true
		return first
	}
	if !f.several.NextResult() {
		return false
	}
	f.reader = f.several.ResultReader()
	return true
}

// close reads what is left of the answer to the current run. Its error is also that of the flight.
func (f *flight) close() pgconn.CommandTag {
	tag, _ := f.reader.Close()
	if f.ran == "" {
		f.ran = controlled(tag)
	}
	return tag
}

// differs reports whether an answer has other columns than its statement was described with.
func (f *flight) differs(fields []pgconn.FieldDescription) bool {
	return f.described && len(fields) > 0 && len(f.statement.Fields) > 0 && !f.statement.gives(fields)
}

// land reads what is left of the answers, so that the connection can be used again, and returns the call's error.
func (f *flight) land() error {
	var err error
	if f.reader != nil {
		var tag pgconn.CommandTag
		if tag, err = f.reader.Close(); f.ran == "" {
			f.ran = controlled(tag)
		}
	}
	if f.several != nil {
		if closing := f.several.Close(); closing != nil {
			err = closing
		}
	}
	switch {
	case f.ran != "":
		return backend.Control(f.ran, err)
	case err != nil:
		return failure(err)
	}
	return nil
}
