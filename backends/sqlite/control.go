package sqlite

import (
	"context"
	"errors"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/hare-go/hare/hare/backend"
)

// The transaction options in SQLite are settings of the connection, and stay until they are set again: restore does it
// when the transaction has ended.
const (
	readOnlyOn  = "PRAGMA query_only=ON"
	readOnlyOff = "PRAGMA query_only=OFF"
)

func (s *session) control(ctx context.Context, statements []string) (answer backend.Answer, err error) {
	if err := s.attach(ctx); err != nil {
		return answer, err
	}
	answer, err = s.commands(statements)
	return answer, s.detach(ctx, err)
}

func (s *session) commands(statements []string) (answer backend.Answer, err error) {
	defer s.guard(&err)
	for _, sql := range statements {
		if answer.Tag, err = s.command(sql, &answer.Row); err != nil {
			return backend.Answer{}, err
		}
	}
	return answer, nil
}

// command runs one control statement and returns the tag that PostgreSQL would answer with. What PostgreSQL refuses in
// the transaction's state is refused here with its SQLSTATE: SQLite has one code for all of it.
func (s *session) command(sql string, row *[]string) (tag string, err error) {
	tag = verb(sql)
	ends := tag == "COMMIT" || tag == "ROLLBACK"
	if s.aborted {
		if !ends {
			return "", errAborted
		}
		s.aborted = false
		return "ROLLBACK", nil
	}
	outside := s.engine.GetAutocommit()
	switch {
	case outside && tag == "ROLLBACK":
		return tag, nil
	case outside && ofTransactions(tag) && tag != "BEGIN":
		return "", errNoTransaction
	case !outside && tag == "BEGIN":
		return "", errInTransaction
	case ofTransactions(tag):
		err = s.engine.Exec(sql)
	default:
		s.altered = true
		err = s.answerInto(sql, row)
	}
	if (tag == "RELEASE" || tag == "ROLLBACK TO") && isPlain(err) {
		return "", &backend.Error{SQLState: "3B001", Message: message(err), NotDone: true, Err: err}
	}
	return strings.TrimSuffix(tag, " TO"), err
}

// isPlain: the error is of the engine's general kind, which has no code of its own.
func isPlain(err error) bool {
	var code sqlite3.ExtendedErrorCode
	return errors.As(err, &code) && code == sqlite3.ExtendedErrorCode(sqlite3.ERROR)
}

// answer runs a statement outside the cache and returns its first row as text, nil if it has none.
func (s *session) answer(sql string) (row []string, err error) {
	err = s.answerInto(sql, &row)
	return row, err
}

func (s *session) answerInto(sql string, row *[]string) error {
	st, _, err := s.engine.Prepare(sql)
	if err != nil || st == nil {
		return err
	}
	defer st.Close()
	for st.Step() {
		if row == nil || *row != nil {
			continue
		}
		*row = make([]string, st.ColumnCount())
		for i := range *row {
			(*row)[i] = st.ColumnText(i)
		}
	}
	return st.Err()
}

// restore takes the options of the last transaction back.
func (s *session) restore() {
	s.altered = false
	if errors.Join(s.engine.Exec(readOnlyOff), s.engine.BusyTimeout(s.busyTimeout)) != nil {
		s.close() // better no connection than one that refuses every write of the next caller
	}
}

// verb is what kind of statement the text begins with, in capitals: its first word, ROLLBACK TO for that of a savepoint,
// COMMIT for END as well.
func verb(sql string) string {
	first, rest := firstWord(sql)
	switch first {
	case "END":
		return "COMMIT"
	case "ROLLBACK":
		second, rest := firstWord(rest)
		if second == "TRANSACTION" {
			second, _ = firstWord(rest)
		}
		if second == "TO" {
			return "ROLLBACK TO"
		}
	}
	return first
}

// ofTransactions: statements of the kind begin, end or divide transactions.
func ofTransactions(verb string) bool {
	switch verb {
	case "BEGIN", "COMMIT", "ROLLBACK", "ROLLBACK TO", "SAVEPOINT", "RELEASE":
		return true
	}
	return false
}

// firstWord is the first word of the text in capitals, and what follows it. Comments and empty statements are passed over.
func firstWord(sql string) (first, rest string) {
	sql = strings.TrimLeft(sql, " \t\r\n\f;")
	for {
		if after, ok := strings.CutPrefix(sql, "--"); ok {
			_, sql, _ = strings.Cut(after, "\n")
		} else if after, ok := strings.CutPrefix(sql, "/*"); ok {
			_, sql, _ = strings.Cut(after, "*/")
		} else {
			break
		}
		sql = strings.TrimLeft(sql, " \t\r\n\f;")
	}
	end := strings.IndexFunc(sql, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') })
	if end < 0 {
		end = len(sql)
	}
	return strings.ToUpper(sql[:end]), sql[end:]
}
