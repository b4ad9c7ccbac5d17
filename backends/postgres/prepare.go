package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
)

// statement finds the prepared statement of a text or prepares it, in one round trip in which the control statements
// before go ahead. It returns the control statements that are still to be sent.
func (s *session) statement(ctx context.Context, text string, before []string) (*statement, []string, error) {
	if st := s.statements.get(text); st != nil {
		return st, before, nil
	}
	st, err := s.prepare(ctx, text, before)
	return st, nil, err
}

// prepare prepares a statement, or only asks for its description. Whatever fails, the statement itself has not been sent.
func (s *session) prepare(ctx context.Context, text string, before []string) (*statement, error) {
	s.statements.makeRoom()
	name := ""
	if !s.unnamed {
		name = s.statements.name()
	}
	if s.shared {
		s.statements.retired = nil // none of them is in this session, if it was ever known there
	}
	pipeline := s.pg.StartPipeline(ctx)
	for _, control := range before {
		pipeline.SendQueryParams(control, nil, nil, nil, nil)
	}
	for _, old := range s.statements.retired {
		pipeline.SendDeallocate(old)
	}
	pipeline.SendPrepare(name, text, nil)
	if err := pipeline.Sync(); err != nil {
		return nil, notDone(err)
	}
	described, err := s.prepared(pipeline, before)
	if closing := pipeline.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = s.unguarded() // the answer to the question has come ahead
	}
	if err != nil {
		return nil, notDone(err)
	}
	described.Name, described.SQL = name, text
	st := newStatement(described)
	s.statements.put(st)
	return st, nil
}

// prepared reads the answers to what prepare sends.
func (s *session) prepared(pipeline *pgconn.Pipeline, before []string) (*pgconn.StatementDescription, error) {
	for _, control := range before {
		answer, err := pipeline.GetResults()
		if reader, ok := answer.(*pgconn.ResultReader); ok && err == nil {
			_, err = reader.Close()
		}
		if err != nil {
			return nil, ahead(control, err)
		}
	}
	for range s.statements.retired {
		if _, err := pipeline.GetResults(); err != nil {
			return nil, err
		}
	}
	s.statements.retired = s.statements.retired[:0]
	answer, err := pipeline.GetResults()
	if err != nil {
		return nil, err
	}
	described, ok := answer.(*pgconn.StatementDescription)
	if !ok {
		return nil, unsent("the server answered a preparation with %T", answer)
	}
	return described, nil
}
