package sqlite

import (
	"container/list"
	"slices"
	"strconv"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/hare-go/hare/hare/backend"
)

// statement is a prepared statement.
type statement struct {
	engine *sqlite3.Stmt
	writes bool
	slots  []int // the engine's parameter i+1 takes argument slots[i]
	args   int   // how many arguments the text has places for

	columns    []column // filled by describe
	reprepared int      // how often the engine had prepared it again when the columns were described

	at      *list.Element     // in the cache; nil outside
	scratch [longestText]byte // of texts to bind
}

// column is a column of a statement's rows.
type column struct {
	name string
	kind backend.Kind // by its declared type; KindInvalid where SQLite knows none
}

// cache keeps the statements of one connection prepared, the most recently used first.
type cache struct {
	size   int
	byText map[string]*statement
	order  *list.List // of the texts
}

func newCache(size int) *cache {
	return &cache{size: size, byText: map[string]*statement{}, order: list.New()}
}

// statement takes the statement of the text from the cache or prepares it; done must follow. tail is what comes after it
// in the text, other than comments.
func (s *session) statement(sql string) (st *statement, tail string, err error) {
	if st, ok := s.statements.byText[sql]; ok {
		s.statements.order.MoveToFront(st.at)
		return st, "", nil
	}
	engine, tail, err := s.compile(sql, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, "", err
	}
	if engine == nil {
		return nil, "", errEmpty
	}
	acts := s.verdict.acts
	st = &statement{engine: engine, writes: !engine.ReadOnly()}
	if err := st.parameters(); err != nil {
		_ = engine.Close()
		return nil, "", err
	}
	if tail = strings.TrimSpace(tail); tail != "" && s.isComment(tail) {
		tail = ""
	}
	if tail == "" && !acts { // each use of one that acts is judged
		s.statements.put(sql, st)
	}
	return st, tail, nil
}

// isComment: there is no statement in the text.
func (s *session) isComment(text string) bool {
	next, _, err := s.compile(text, 0)
	_ = next.Close()
	return next == nil && err == nil
}

func (c *cache) put(sql string, st *statement) {
	if c.size == 0 {
		return
	}
	if c.order.Len() == c.size {
		oldest := c.order.Remove(c.order.Back()).(string)
		_ = c.byText[oldest].engine.Close() // repeats the error of its last run
		delete(c.byText, oldest)
	}
	st.at = c.order.PushFront(sql)
	c.byText[sql] = st
}

// done ends the use of a statement. One that is not in the cache is closed.
func (c *cache) done(st *statement) {
	if st.at == nil {
		_ = st.engine.Close() // repeats the error of its last run
	}
}

// parameters finds out which argument each of the engine's parameters takes. The engine numbers "$2" and "$1" in the
// order in which they stand; only their names say which is which.
func (st *statement) parameters() error {
	st.slots = make([]int, st.engine.BindCount())
	for i := range st.slots {
		number, ok := strings.CutPrefix(st.engine.BindName(i+1), "$")
		n, err := strconv.Atoi(number)
		if !ok || err != nil || n < 1 {
			return errParameter
		}
		st.slots[i] = n - 1
	}
	if len(st.slots) > 0 {
		st.args = slices.Max(st.slots) + 1
	}
	return nil
}

// describe reads the columns. The engine prepares a statement again when the schema has changed, and then SELECT * may
// have others: it must have been stepped once.
func (st *statement) describe() []column {
	if n := st.engine.Status(sqlite3.STMTSTATUS_REPREPARE, false); st.columns == nil || n != st.reprepared {
		st.reprepared = n
		st.columns = make([]column, st.engine.ColumnCount())
		for i := range st.columns {
			st.columns[i] = column{name: st.engine.ColumnName(i), kind: declared(st.engine.ColumnDeclType(i))}
		}
	}
	return st.columns
}

// clear lets go of the arguments, which may be large.
func (st *statement) clear() {
	if len(st.slots) > 0 {
		_ = st.engine.ClearBindings()
	}
}

// reset ends a run and returns its error.
func (st *statement) reset() error {
	err := st.engine.Reset()
	st.clear()
	return err
}
