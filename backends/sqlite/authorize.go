package sqlite

import (
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/hare-go/hare/hare/backend"
)

// What a statement does is not read from its text: SQLite's own parser tells it to the authorizer while it prepares the statement,
// before anything of it takes effect (SQLite documentation, Compile-Time Authorization Callbacks). Some pragmas do take
// effect when they are prepared.
//
// What begins or ends a transaction is refused, hare's own control statements apart, which are not judged. Neither are the
// statements with which the engine does its own work while one runs: VACUUM has a transaction of its own. What changes
// the connection for longer than the transaction is refused where the URL has an option for it, and else allowed: the rest
// of the transaction may rely on it, and then the connection is closed instead of going back to the pool.

// verdict is what the authorizer has found in the statement that is being prepared.
type verdict struct {
	judging bool   // the statement is not hare's own
	text    string // of it and of what follows it
	acts    bool   // it changes the connection, perhaps when it is prepared already
	lasting bool   // and for longer than its transaction
	denied  *backend.Error
}

// compile prepares the first statement of a text that is not hare's own, and returns what comes after it.
func (s *session) compile(text string, flags sqlite3.PrepareFlag) (st *sqlite3.Stmt, tail string, err error) {
	s.verdict = verdict{judging: true, text: text}
	defer func() {
		s.soiled = s.soiled || s.verdict.lasting
		s.verdict.judging = false
	}()
	return s.engine.PrepareFlags(text, flags)
}

// authorize is the authorizer.
func (s *session) authorize(action sqlite3.AuthorizerActionCode, name, detail, schema, _ string) sqlite3.AuthorizerReturnCode {
	v := &s.verdict
	if !v.judging {
		return sqlite3.AUTH_OK
	}
	switch action {
	case sqlite3.AUTH_TRANSACTION:
		v.denied = controlRefused(name)
	case sqlite3.AUTH_SAVEPOINT:
		v.denied = controlRefused(map[string]string{"BEGIN": "SAVEPOINT", "RELEASE": "RELEASE", "ROLLBACK": "ROLLBACK TO"}[name])
	case sqlite3.AUTH_PRAGMA:
		s.judgePragma(strings.ToLower(name), detail)
	case sqlite3.AUTH_ATTACH, sqlite3.AUTH_DETACH:
		v.acts, v.lasting = true, true
	case sqlite3.AUTH_READ:
	default: // what is made in the temporary schema, by whatever words
		v.lasting = v.lasting || schema == "temp"
	}
	if v.denied != nil {
		return sqlite3.AUTH_DENY
	}
	return sqlite3.AUTH_OK
}

// passing are the pragmas that leave nothing in the connection, whatever their argument is: they ask, or act on the file.
var passing = map[string]bool{
	"table_info": true, "table_xinfo": true, "table_list": true, "index_list": true, "index_info": true, "index_xinfo": true,
	"foreign_key_list": true, "foreign_key_check": true, "integrity_check": true, "quick_check": true,
	"wal_checkpoint": true, "incremental_vacuum": true, "optimize": true, "user_version": true, "application_id": true,
}

// judgePragma judges a pragma by its name and its argument.
func (s *session) judgePragma(name, argument string) {
	_, option := optionTable[name]
	switch {
	case passing[name], argument == "" && !hasEmpty(s.verdict.text): // it asks
	case name == "defer_foreign_keys" && !s.engine.GetAutocommit(): // it ends with the transaction
		s.verdict.acts = true
	case option:
		s.verdict.denied = refused(backend.ClassQuery, "42501", fmt.Sprintf(
			"PRAGMA %s is a setting of the connection, which others use afterwards: set it in the URL, as in sqlite:path?%s=..., of an alias of its own where only some statements want it", name, name))
	default:
		s.verdict.acts, s.verdict.lasting = true, true
	}
}

// hasEmpty reports whether an empty text or name stands in the text. The authorizer cannot tell one from no argument at all,
// and PRAGMA foreign_keys=” is off.
func hasEmpty(text string) bool {
	for _, empty := range []string{"''", `""`, "``", "[]"} {
		if strings.Contains(text, empty) {
			return true
		}
	}
	return false
}

func controlRefused(word string) *backend.Error {
	return refused(backend.ClassQuery, "2D000", word+" is for package transactions: use transactions.Atomic, nested for a savepoint")
}
