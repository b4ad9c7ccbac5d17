package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hare-go/hare/hare/backend"
)

// A guard is a setting of the URL that protects the database or says where it looks: statement_timeout, lock_timeout,
// idle_in_transaction_session_timeout, search_path, synchronous_commit. It travels as a start-up parameter, and PgBouncer does one of three
// things with those that it does not track: it refuses the connection, it drops the parameter without a word, or, by
// ALTER ROLE, the server has the value anyway. So what counts is what the server says, on a connection that came the same
// way: a guard that is not in force stops the database from being used.

// question asks for the server process, the role, the guards and, where a direct address is to be compared, the identity
// of the database, in one statement, which a pooler gives to one server process.
func question(o options) string {
	columns := []string{"pg_catalog.pg_backend_pid()", "pg_catalog.quote_ident(session_user)", "''"}
	if o.directHost != "" {
		columns[2] = identitySQL
	}
	for _, name := range slices.Sorted(maps.Keys(o.guards)) {
		columns = append(columns, "pg_catalog.current_setting("+backend.Literal(name)+")") // pg_settings makes a row of each setting there is
	}
	return "SELECT " + strings.Join(columns, ", ")
}

// guardsFound pairs what the URL asks for with what the server answered to the question.
func guardsFound(o options, found []string) []backend.Guard {
	var guards []backend.Guard
	for i, name := range slices.Sorted(maps.Keys(o.guards)) {
		g := backend.Guard{Name: name, Asked: o.guards[name], Found: found[i]}
		if strings.HasSuffix(name, "_timeout") {
			g.Found = inMilliseconds(g.Found)
		}
		guards = append(guards, g)
	}
	return guards
}

// inMilliseconds reads a time-out as the server shows it: a whole number and the largest unit that fits.
func inMilliseconds(shown string) string {
	units := map[string]int64{"": 1, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
	digits := len(shown) - len(strings.TrimLeft(shown, "0123456789"))
	n, err := strconv.ParseInt(shown[:digits], 10, 64)
	unit, known := units[shown[digits:]]
	if err != nil || !known {
		return shown
	}
	return strconv.FormatInt(n*unit, 10)
}

// notInForce is the error for a guard that the server does not have.
func notInForce(g backend.Guard, role string) *backend.Error {
	found := g.Found
	if found == "" {
		found = "none"
	}
	instead := "by transactions.StatementTimeout, transactions.LockTimeout or SET LOCAL"
	if !strings.HasSuffix(g.Name, "_timeout") {
		instead = "by SET LOCAL"
	}
	return misconfigured(g.Name, "is %s in the URL and %s on the server: what was sent did not reach it, as behind a pooler, and it is not, or no longer, a default of the role. "+
		"Make it a default of the role, ALTER ROLE %s SET %s = %s, and let the pooler open new server connections (RECONNECT in PgBouncer's console); "+
		"or set it %s in each transaction that needs it; or take it out of the URL",
		g.Asked, found, role, g.Name, g.Asked, instead)
}

// startupRefused reports whether a connection may have been refused because of a start-up parameter, as poolers do that
// have no list of those to ignore. The same SQLSTATE has other causes, so that only another try without the guards tells.
func startupRefused(err error) bool {
	if err == nil { // the usual case, without an allocation
		return false
	}
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "08P01"
}

// sendsGuards reports whether connections ask for the guards, until a pooler refuses them.
func (o options) sendsGuards() bool { return len(o.guards) > 0 && (o.pooled == nil || !*o.pooled) }

// bareKey marks, in a ctx, that a connection is to be opened without the guards, and in the connection's custom data that it
// was: what the pool gives may have been there before.
const bareKey = bareMark("hare bare")

type bareMark string

// bareFor reports whether a connection is to be opened without the guards.
func (d *database) bareFor(ctx context.Context) bool {
	return d.bare.Load() || ctx.Value(bareKey) != nil
}

// dropGuards takes the guards out of a configuration.
func (o options) dropGuards(config *pgx.ConnConfig) {
	for name := range o.guards {
		delete(config.RuntimeParams, name)
	}
}

// misconfigured is the error for an option that only a connection shows to be wrong. Nothing of the caller's was sent.
func misconfigured(option, format string, args ...any) *backend.Error {
	wrong := &backend.OptionError{Option: option, Reason: fmt.Sprintf(format, args...)}
	return &backend.Error{Class: backend.ClassLogin, Message: wrong.Error(), NotDone: true, Err: wrong}
}

// needsSession is the error for a statement that needs a session of its own, behind a pooler that does not give one.
func needsSession(what string) error {
	return misconfigured("transaction_pooling", "the way to the server leads through a pooler that may give each transaction another session, where %s would hit a stranger's session or be lost, so it was not sent "+
		"(should the pooler keep sessions and its mode not have been seen, say transaction_pooling=false). %s", what, instead(what))
}

// instead says what can be done in place of a statement that needs a session.
func instead(what string) string {
	const own = "a connection with an alias of its own, to the server's own address"
	switch {
	case what == "SET" || what == "RESET" || strings.HasPrefix(what, "set_config"):
		return "Use SET LOCAL inside transactions.Atomic; for every transaction a default of the role, ALTER ROLE ... SET; else " + own
	case strings.HasPrefix(what, "pg_"):
		return "Use pg_advisory_xact_lock inside transactions.Atomic, which the end of the transaction unlocks, or a lease (package leases), which lasts; else " + own
	case strings.Contains(what, "TEMP") || strings.Contains(what, "pg_temp"):
		return "Use CREATE TEMPORARY TABLE ... ON COMMIT DROP inside transactions.Atomic; else " + own
	case what == "LISTEN" || what == "UNLISTEN":
		return "NOTIFY works. To hear it takes a session: ask the database now and then instead, or use " + own
	case strings.HasPrefix(what, "DECLARE"):
		return "Leave WITH HOLD out and read the cursor inside transactions.Atomic; else use " + own
	}
	return "Use " + own
}
