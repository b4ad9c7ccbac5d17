package postgres

import (
	"container/list"
	"crypto/rand"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// statement is a statement prepared on one connection, or, without a name, only described there.
type statement struct {
	*pgconn.StatementDescription
	columns []string
	types   []uint32 // of the columns; untyped where values come as text
	formats []int16  // of the columns
	place   *list.Element
}

func newStatement(described *pgconn.StatementDescription) *statement {
	n := len(described.Fields)
	st := &statement{StatementDescription: described}
	if n == 0 {
		return st // it has no rows, or does not know them yet
	}
	st.columns, st.types, st.formats = make([]string, n), make([]uint32, n), make([]int16, n)
	for i, field := range described.Fields {
		st.columns[i], st.formats[i] = field.Name, formatOf(field.DataTypeOID)
		if st.formats[i] == binaryFormat {
			st.types[i] = field.DataTypeOID
		}
	}
	return st
}

// statements are the prepared statements of one connection, the least recently used of which makes room for a new one.
type statements struct {
	capacity int64
	prefix   string // of the names, which nobody else uses
	byText   map[string]*statement
	order    list.List // of *statement, the most recently used in front
	retired  []string  // names that the server still has to forget
	named    uint64
}

// get finds a prepared statement.
func (s *statements) get(text string) *statement {
	st := s.byText[text]
	if st != nil {
		s.order.MoveToFront(st.place)
	}
	return st
}

// put keeps a statement.
func (s *statements) put(st *statement) {
	if s.capacity == 0 {
		return
	}
	if s.byText == nil {
		s.byText = map[string]*statement{}
	}
	st.place = s.order.PushFront(st)
	s.byText[st.SQL] = st
}

// makeRoom retires the statement that was used longest ago if there is no room for another.
func (s *statements) makeRoom() {
	if s.capacity > 0 && int64(s.order.Len()) >= s.capacity {
		s.retire(s.order.Back().Value.(*statement).SQL)
	}
}

// retire forgets a statement; the server forgets it with the next preparation.
func (s *statements) retire(text string) {
	if st, ok := s.byText[text]; ok {
		delete(s.byText, text)
		s.order.Remove(st.place)
		if st.Name != "" {
			s.retired = append(s.retired, st.Name)
		}
	}
}

// forget forgets all statements, as the server has.
func (s *statements) forget() {
	s.byText, s.retired = nil, nil
	s.order.Init()
}

// newPrefix begins the names of a connection's statements. It is random: should a server process serve another connection
// in between, unnoticed, a name means nothing there, and never another statement.
func newPrefix() string { return "hare_" + strings.ToLower(rand.Text()[:12]) + "_" }

// name is the server's name for the next statement.
func (s *statements) name() string {
	s.named++
	return s.prefix + strconv.FormatUint(s.named, 10)
}
