package sqlite

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/hare-go/hare/hare/backend"
)

// session is a connection to the engine with what hare keeps beside it.
//
// The engine looks at its interrupt context while a statement runs, and never between two. A call lends it the caller's
// context from attach to detach; in between, every error is the engine's own, and detach turns it into a
// backend.Error.
type session struct {
	engine      *sqlite3.Conn // nil: closed
	statements  *cache
	marks       map[string]*sqlite3.Stmt // see mark
	busyTimeout time.Duration

	open    bool           // a transaction was open when the call's statement began
	aborted bool           // the engine ended the transaction by itself, and its owner has not ended it yet
	altered bool           // a transaction's options are in force that outlive it in SQLite
	soiled  bool           // a statement has left something that the next user must not find
	verdict verdict        // of the authorizer, on the statement prepared last
	raised  *backend.Error // what a function of ours failed with during the call
}

func (s *session) status() backend.Status {
	switch {
	case s.engine == nil:
		return backend.StatusClosed
	case s.aborted:
		return backend.StatusFailed
	case s.engine.GetAutocommit():
		return backend.StatusIdle
	}
	return backend.StatusInTransaction
}

// attach begins a call. What it refuses has no SQLSTATE: no statement of the call has run, those of Before included.
func (s *session) attach(ctx context.Context) error {
	if s.engine == nil {
		return errGone
	}
	if ctx.Err() != nil {
		return unsent(ctx)
	}
	s.raised = nil
	s.verdict = verdict{}
	s.open = false
	s.engine.SetInterrupt(ctx)
	return nil
}

// detach ends a call that ended with err.
func (s *session) detach(ctx context.Context, err error) error {
	if err != nil {
		err = s.failure(ctx, err)
	}
	if s.engine == nil {
		return err
	}
	s.engine.SetInterrupt(context.Background())
	ended := s.engine.GetAutocommit()
	if err == nil && s.open && ended {
		err = backend.Control("COMMIT", nil) // the authorizer lets none through; the engine's state has the last word
		s.open = false
	}
	s.aborted = s.aborted || err != nil && s.open && ended
	if ended && s.altered {
		s.restore()
	}
	return err
}

// before runs what a call sends ahead. The first of them, BEGIN, waits for locks and can be cancelled; the others cannot,
// so that they stand all or none.
func (s *session) before(ctx context.Context, statements []string) (err error) {
	defer s.guard(&err)
	if s.aborted {
		return errAborted
	}
	for _, sql := range statements {
		if _, err := s.command(sql, nil); err != nil {
			return err
		}
		if !s.engine.GetAutocommit() {
			s.engine.SetInterrupt(context.Background())
		}
	}
	s.engine.SetInterrupt(ctx)
	s.open = !s.engine.GetAutocommit()
	return nil
}

func (s *session) exec(ctx context.Context, call backend.Call) (written int64, err error) {
	if err := s.attach(ctx); err != nil {
		return 0, err
	}
	if err = s.before(ctx, call.Before); err == nil {
		written, err = s.execute(call)
	}
	return written, s.detach(ctx, err)
}

func (s *session) execute(call backend.Call) (written int64, err error) {
	defer s.guard(&err)
	st, tail, err := s.statement(call.SQL)
	if err != nil {
		return 0, err
	}
	defer s.statements.done(st)
	switch {
	case tail != "" && (len(call.Args) > 0 || call.Batch != nil):
		return 0, errManyStatements
	case tail != "":
		return s.script(call.SQL)
	case call.Batch == nil:
		return s.run(st, call.Args)
	}
	scope, err := s.openScope(st.writes && len(call.Batch) > 1)
	if err != nil {
		return 0, err
	}
	for _, args := range call.Batch {
		n, err := s.run(st, args)
		if err != nil {
			return 0, s.closeScope(scope, err)
		}
		written += n
	}
	return written, s.closeScope(scope, nil)
}

// run runs a statement to its end and counts the rows that it wrote itself, not those of its triggers and foreign keys.
func (s *session) run(st *statement, args []any) (int64, error) {
	if err := st.bind(args); err != nil {
		return 0, err
	}
	before := s.engine.TotalChanges()
	err := st.engine.Exec()
	st.clear()
	// Changes is about the last statement that changed anything, which may have been another.
	if err != nil || s.engine.TotalChanges() == before {
		return 0, err
	}
	return s.engine.Changes(), nil
}

// script runs several statements as one, as PostgreSQL does with several in one message.
func (s *session) script(text string) (written int64, err error) {
	scope, err := s.openScope(true)
	if err != nil {
		return 0, err
	}
	for text != "" {
		var n int64
		if n, text, err = s.scripted(text); err != nil {
			return 0, s.closeScope(scope, err)
		}
		written += n
	}
	return written, s.closeScope(scope, nil)
}

// scripted runs the first statement of the text and returns the rest.
func (s *session) scripted(text string) (written int64, rest string, err error) {
	engine, rest, err := s.compile(text, 0)
	if err != nil || engine == nil {
		return 0, "", err
	}
	defer engine.Close()
	written, err = s.run(&statement{engine: engine}, nil)
	return written, rest, err
}

// scope makes several runs take effect together. The zero value does nothing.
type scope struct{ end, undo string }

func (s *session) openScope(needed bool) (scope, error) {
	switch {
	case !needed:
		return scope{}, nil
	case s.engine.GetAutocommit():
		return scope{"COMMIT", "ROLLBACK"}, s.mark("BEGIN IMMEDIATE")
	default:
		return scope{"RELEASE hare_batch", "ROLLBACK TO hare_batch; RELEASE hare_batch"}, s.mark("SAVEPOINT hare_batch")
	}
}

// mark runs a statement that begins or ends a scope. It stays prepared: the authorizer is called once for it.
func (s *session) mark(sql string) error {
	st, ok := s.marks[sql]
	if !ok {
		var err error
		if st, _, err = s.engine.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT); err != nil {
			return err
		}
		if s.marks == nil {
			s.marks = map[string]*sqlite3.Stmt{}
		}
		s.marks[sql] = st
	}
	return st.Exec()
}

func (s *session) closeScope(sc scope, err error) error {
	if sc.end == "" {
		return err
	}
	s.engine.SetInterrupt(context.Background())
	if err == nil {
		if err = s.mark(sc.end); err == nil {
			return nil
		}
	}
	if !s.engine.GetAutocommit() { // else the engine has rolled everything back already
		if undone := s.engine.Exec(sc.undo); undone != nil {
			s.close()
		}
	}
	return err
}

// guard turns a panic of the engine into an error: it panics when it needs more memory than it may have. The connection
// is given up, as nobody knows what state the engine is in; its transaction, if any, is rolled back.
func (s *session) guard(err *error) {
	switch p := recover().(type) {
	case nil:
	case runtime.Error:
		panic(p)
	case error:
		s.close()
		*err = &backend.Error{SQLState: "53200", Message: message(p) + ": the connection is closed", NotDone: true, Err: p}
	default:
		panic(p)
	}
}

// close closes the connection and rolls its transaction back.
func (s *session) close() {
	if s.engine == nil {
		return
	}
	engine := s.engine
	s.engine = nil
	engine.SetInterrupt(context.Background())
	for _, st := range slices.Collect(engine.Stmts()) {
		quietly(st.Close) // repeats the error of its last run
	}
	quietly(engine.Close) // fails for open statements only
}

// quietly passes over the failure of a step that is taken to clean up, a panic of an engine out of memory included: the
// steps after it still count.
func quietly(step func() error) {
	defer func() { _ = recover() }()
	_ = step()
}
