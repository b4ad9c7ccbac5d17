package postgres

import (
	"container/list"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// statement is a statement prepared on one connection.
type statement struct {
	*pgconn.StatementDescription
	columns []string
	formats []int16 // of the results: binary where decode.go reads it, else text
	place   *list.Element
}

func newStatement(described *pgconn.StatementDescription) *statement {
	st := &statement{
		StatementDescription: described,
		columns:              make([]string, len(described.Fields)),
		formats:              make([]int16, len(described.Fields)),
	}
	for i, field := range described.Fields {
		st.columns[i] = field.Name
		st.formats[i] = formatOf(field.DataTypeOID)
	}
	return st
}

// statements are the prepared statements of one connection, the least recently used of which makes room for a new one.
type statements struct {
	capacity int64
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
		s.retire(s.order.Back().Value.(*statement))
	}
}

// retire forgets a statement; the server forgets it with the next preparation.
func (s *statements) retire(st *statement) {
	if s.byText[st.SQL] != st {
		return
	}
	delete(s.byText, st.SQL)
	s.order.Remove(st.place)
	s.retired = append(s.retired, st.Name)
}

// name is the server's name for the next statement. The unnamed statement serves where none is kept.
func (s *statements) name() string {
	if s.capacity == 0 {
		return ""
	}
	s.named++
	return fmt.Sprintf("hare_%d", s.named)
}

// statement finds the prepared statement of a text or prepares it, in one round trip that the control statements before
// go ahead in. It returns the control statements that are still to be sent.
func (s *session) statement(ctx context.Context, before []string, text string) (st *statement, remaining []string, fresh bool, err error) {
	if st = s.statements.get(text); st != nil {
		return st, before, false, nil
	}
	st, err = s.prepare(ctx, before, text)
	return st, nil, true, err
}

// prepare prepares a statement. Whatever fails, the statement itself has not been sent.
func (s *session) prepare(ctx context.Context, before []string, text string) (*statement, error) {
	s.statements.makeRoom()
	retired, name := s.statements.retired, s.statements.name()

	pipeline := s.pg.StartPipeline(ctx)
	for _, control := range before {
		pipeline.SendQueryParams(control, nil, nil, nil, nil)
	}
	for _, old := range retired {
		pipeline.SendDeallocate(old)
	}
	pipeline.SendPrepare(name, text, nil)
	if err := pipeline.Sync(); err != nil {
		pipeline.Close()
		return nil, notDone(err)
	}
	described, err := answers(pipeline, before, len(retired))
	if closing := pipeline.Close(); err == nil && closing != nil {
		err = notDone(closing)
	}
	if err != nil {
		return nil, err
	}
	s.statements.retired = s.statements.retired[:0]
	described.Name, described.SQL = name, text
	st := newStatement(described)
	s.statements.put(st)
	return st, nil
}

// answers reads the answers to what prepare sends.
func answers(pipeline *pgconn.Pipeline, before []string, retired int) (*pgconn.StatementDescription, error) {
	for _, control := range before {
		answer, err := pipeline.GetResults()
		if reader, ok := answer.(*pgconn.ResultReader); ok && err == nil {
			_, err = reader.Close()
		}
		if err != nil {
			return nil, notDone(ahead(control, err))
		}
	}
	for range retired {
		if _, err := pipeline.GetResults(); err != nil {
			return nil, notDone(err)
		}
	}
	answer, err := pipeline.GetResults()
	if err != nil {
		return nil, notDone(err)
	}
	described, ok := answer.(*pgconn.StatementDescription)
	if !ok {
		return nil, unsent("the server answered a preparation with %T", answer)
	}
	return described, nil
}
