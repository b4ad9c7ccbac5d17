package integration

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/transactions"
)

// sweep is the databases in which a distributed transaction is disturbed at its first step, at its second, and so on,
// and what must hold after each. The connections of its trio are those of the one who looks.
type sweep struct {
	*trio
	databases []string // the coordinator first
	writers   []string // those that the transaction writes in
	rounds    int
}

// newSweep makes the databases of a coordinator and n participants.
func newSweep(t *testing.T, n int) *sweep {
	t.Helper()
	databases := append([]string{coordinator}, []string{"a", "b", "d"}[:n]...)
	return &sweep{trio: newDatabases(t, "&application_name="+looking, databases), databases: databases, writers: databases}
}

func (s *sweep) participants() []string { return s.databases[1:] }

func (s *sweep) last() string { return s.databases[len(s.databases)-1] }

// looking is the application_name of those who look; every other session belongs to what is looked at.
const looking = "looking"

// subjectURLs lead to the databases for what is looked at, with pools of one connection: one that is lost, or given back
// in a bad state, is missed at once.
func (s *sweep) subjectURLs() map[string]string {
	s.Helper()
	urls := map[string]string{}
	for alias, databaseURL := range s.urls {
		urls[alias] = with(s.T, databaseURL, func(u *url.URL) {
			q := u.Query()
			q.Del("application_name")
			q.Set("max_size", "1")
			q.Set("pool_acquire_timeout", "20s")
			u.RawQuery = q.Encode()
		})
	}
	return urls
}

// next is the text of the notes of the next round.
func (s *sweep) next() string {
	s.rounds++
	return fmt.Sprint("round ", s.rounds)
}

// end is what a call told of its end. It travels from a process to the test as JSON.
type end struct {
	Outcome transactions.Outcome
	Error   string
	GIDs    []string // which the error says may be prepared still
}

// endOf is the end that an error tells of.
func endOf(err error) *end {
	e := &end{Outcome: transactions.OutcomeOf(err)}
	if err == nil {
		return e
	}
	e.Error = err.Error()
	var pending []transactions.ParticipantState
	var rollback *transactions.RollbackPendingError
	var partial *transactions.PartiallyCommittedError
	var ambiguous *transactions.CommitAmbiguousError
	if errors.As(err, &rollback) {
		pending = append(pending, rollback.Pending...)
	}
	if errors.As(err, &partial) {
		pending = append(pending, partial.Pending...)
	}
	if errors.As(err, &ambiguous) {
		e.GIDs = append(e.GIDs, ambiguous.GIDs...)
	}
	for _, p := range pending {
		e.GIDs = append(e.GIDs, p.GID)
	}
	return e
}

// seen is what the databases show of a round.
type seen struct {
	notes    map[string]int64 // by alias
	prepared []string         // GIDs
}

// look asks every database.
func (s *sweep) look(text string) seen {
	s.Helper()
	now := seen{notes: map[string]int64{}}
	for _, alias := range s.databases {
		now.notes[alias] = s.count(alias, "SELECT count(*) FROM note WHERE text = '"+text+"'")
		now.prepared = append(now.prepared, s.prepared(alias)...)
	}
	return now
}

// keptIn counts the writers that keep the transaction, and fails where one keeps what it should not.
func (s *sweep) keptIn(at string, now seen) int {
	s.Helper()
	kept := 0
	for _, alias := range s.databases {
		n := now.notes[alias]
		if n > 1 || n > 0 && !slices.Contains(s.writers, alias) {
			s.Errorf("%s: %d notes in %s", at, n, alias)
		}
		kept += int(min(n, 1))
	}
	return kept
}

// check is what must hold after every round, whatever has happened in it: what the call told, if it lived to tell, is what
// the databases hold, at once and after recovery; recovery leaves all writers with the transaction or none, nothing
// prepared, and no decision open. It tells whether the transaction is kept.
func (s *sweep) check(at, text string, told *end) (kept bool) {
	s.Helper()
	if told != nil {
		s.compareAtOnce(at, told, s.look(text))
	}
	s.settle(at)
	return s.verify(at, text, told)
}

// verify is the part of check that comes after recovery.
func (s *sweep) verify(at, text string, told *end) (kept bool) {
	s.Helper()
	now := s.look(text)
	n := s.keptIn(at, now)
	if kept = n > 0; kept && n != len(s.writers) {
		s.Errorf("%s: %d of %d databases keep the transaction: %v (it told %+v)", at, n, len(s.writers), now.notes, told)
	}
	if len(now.prepared) > 0 {
		s.Errorf("%s: prepared after recovery: %q", at, now.prepared)
	}
	if n := s.openDecisions(); n != 0 {
		s.Errorf("%s: %d decisions are open after recovery", at, n)
	}
	if told == nil {
		return kept
	}
	switch told.Outcome {
	case transactions.Committed, transactions.PartiallyCommitted:
		if !kept {
			s.Errorf("%s: told %+v, and nothing is there", at, *told)
		}
	case transactions.RolledBack:
		if kept {
			s.Errorf("%s: told %+v, and it is there", at, *told)
		}
	case transactions.Ambiguous: // either
	default:
		s.Errorf("%s: told %+v", at, *told)
	}
	return kept
}

// compareAtOnce compares what a call told with what the databases hold right after it, before any recovery.
func (s *sweep) compareAtOnce(at string, told *end, now seen) {
	s.Helper()
	kept := s.keptIn(at, now)
	switch {
	case told.Outcome == transactions.Committed && kept != len(s.writers),
		told.Outcome == transactions.PartiallyCommitted && now.notes[coordinator] != 1,
		told.Outcome == transactions.RolledBack && kept != 0:
		s.Errorf("%s: told %+v, and the notes are %v", at, *told, now.notes)
	}
	for _, gid := range now.prepared {
		if !slices.Contains(told.GIDs, gid) {
			s.Errorf("%s: told %+v, which does not name %s, and it is prepared", at, *told, gid)
		}
	}
}

// finishing is a recovery that finishes what it finds.
func (s *sweep) finishing() transactions.Report {
	s.Helper()
	return s.recover(transactions.Finish(), silentRecovery)
}

// settle recovers at once. That is enough, unless the call has left a server process at work, whose last word a recovery
// may have come too early for: then the next one is.
func (s *sweep) settle(at string) {
	s.Helper()
	atRest := func() bool { return s.sessions("application_name LIKE 'hare_dtx:%'") == 0 }
	enough := atRest()
	report := s.finishing()
	if !enough {
		s.await(at+": the sessions of the call to end", atRest)
		report = s.finishing()
	}
	if !report.Clean() {
		s.Errorf("%s: recovery: %+v", at, report)
	}
}

// sessions counts the sessions of all databases that are not of those who look, nor of a pooler with nobody at the other
// end.
func (s *sweep) sessions(where string) (n int64) {
	s.Helper()
	for _, alias := range s.databases {
		n += s.count(alias, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"+
			" AND application_name <> '"+looking+"' AND "+where+s.atWork())
	}
	return n
}

// openDecisions counts the decisions that are not resolved.
func (s *sweep) openDecisions() int64 {
	s.Helper()
	if s.text(coordinator, "SELECT coalesce(to_regclass('public.hare_distributed_decisions')::text, '')") == "" {
		return 0
	}
	return s.decisions("resolved_at IS NULL")
}

// await waits until a condition holds, for as long as even a busy machine may need.
func (s *sweep) await(what string, holds func() bool) {
	s.Helper()
	for deadline := time.Now().Add(60 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("waited in vain for %s", what)
		}
	}
}

// wantWhole makes sure that the pools of the subject are as good as new: a plain write and a distributed one work on
// each, and there are no more sessions than the pools may have.
func (s *sweep) wantWhole(at string, subject *hare.Connections) {
	s.Helper()
	ctx := hare.WithConnections(s.Context(), subject)
	text := "after " + at
	for _, alias := range s.databases {
		if err := Notes.UsingAlias(alias).Create(ctx, &Note{Text: text}); err != nil {
			s.Fatalf("%s: a plain write afterwards: %v", at, err)
		}
	}
	err := transactions.Distributed(ctx, coordinator, s.participants(), func(d *hare.Distributed) error { return write(d, text, s.databases...) })
	if err != nil {
		s.Fatalf("%s: a distributed transaction afterwards: %v", at, err)
	}
	for alias, n := range s.look(text).notes {
		if n != 2 {
			s.Errorf("%s: %d of the two writes afterwards are in %s", at, n, alias)
		}
	}
	s.await(at+": no more sessions than the pools have", func() bool { return s.sessions("true") <= int64(len(s.databases)) })
}
