package leases

import (
	"fmt"
	"strings"
	"time"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/serverview"
	"github.com/hare-go/hare/internal/tables"
)

// The table stands in the schema public whatever the search_path: two processes that look in two schemas would both hold.
const table = `public.hare_leases`

// createTable makes the table, and fails where there is something of its name: that may be a stranger's. The second index makes a change of the token a change of a key, which FOR KEY SHARE
// conflicts with: fences and takeovers meet at every isolation level, fences and renewals never (PostgreSQL documentation,
// Explicit Locking, Row-Level Locks). Renewals change no indexed column, and the fillfactor leaves them room in the page.
var createTable = []string{
	`CREATE TABLE ` + table + ` (
	name text PRIMARY KEY,
	holder text NOT NULL,
	token bigint NOT NULL,
	acquired_at timestamptz NOT NULL,
	renewed_at timestamptz NOT NULL,
	expires_at timestamptz NOT NULL
) WITH (fillfactor = 50)`,
	`CREATE UNIQUE INDEX hare_leases_term ON ` + table + ` (name, token)`,
}

// remaining is how long a lease is still held, in milliseconds. Somebody may have written a time into the row that is
// infinite, or too far away for a time.Duration: it counts as a century.
const remaining = `ceil(extract(epoch FROM greatest(least(expires_at, clock_timestamp() + interval '100 years'), clock_timestamp()) - clock_timestamp()) * 1000)::bigint`

// portion is how many rows are read at once: as many as fit into little memory whatever the table holds.
const portion = 1000

// listSQL is what the next portion of rows says, as a JSON array of Info with the remaining time in milliseconds: the rows
// after a name, or the first ones. Infinite times become ones that programs can have.
func listSQL(after string, first bool) string {
	where := ""
	if !first {
		where = ` WHERE name > ` + backend.Literal(after)
	}
	return fmt.Sprintf(`SELECT coalesce(json_agg(json_build_object('Name', name, 'Holder', holder, 'Token', token, 'Acquired', %s,
	'Renewed', %s, 'Expires', %s, 'Now', clock_timestamp(), 'MS', %s) ORDER BY name), '[]') FROM (SELECT * FROM %s%s ORDER BY name LIMIT %d) AS portion`,
		finite("acquired_at"), finite("renewed_at"), finite("expires_at"), remaining, table, where, portion)
}

func finite(column string) string {
	return `least(greatest(` + column + `, timestamptz '0001-01-01 00:00Z'), timestamptz '9999-12-31 00:00Z')`
}

// lookSQL finds one lease.
func lookSQL(name string) string {
	return `SELECT holder, token, ` + remaining + ` FROM ` + table + ` WHERE name = ` + backend.Literal(name)
}

// acquireSQL takes a lease whose token is seen, if it is free or left over by the same holder, and returns the new token.
//
// The row is locked before the clock is read, in a statement of its own: a time read before a wait for the lock is stale,
// and PostgreSQL does not look at a WHERE clause again when the transaction that was waited for has changed nothing. The
// insert comes first, because a row that is not there cannot be locked; a single upsert would report conflicts of the
// second index now and then. That the token is the one seen keeps a message that arrives late from taking the lease again.
func acquireSQL(name, holder string, seen int64, ttl time.Duration) []string {
	return []string{
		fmt.Sprintf(`INSERT INTO %s VALUES (%s, '', 0, 'epoch', 'epoch', 'epoch') ON CONFLICT DO NOTHING`, table, backend.Literal(name)),
		lockSQL(`WHERE name = `+backend.Literal(name), "FOR UPDATE"),
		fmt.Sprintf(`UPDATE %s l SET holder = %s, token = token + 1, acquired_at = t.now, renewed_at = t.now, expires_at = t.now + %s
FROM clock_timestamp() AS t(now) WHERE l.name = %s AND l.token = %d AND (l.expires_at <= t.now OR l.holder = %[2]s) RETURNING l.token`,
			table, backend.Literal(holder), interval(ttl), backend.Literal(name), seen),
	}
}

// renewSQL moves the expiry of those of the terms that are not over, and returns them as a JSON array of names and tokens. As
// in acquireSQL, the lock comes first and the clock afterwards. FOR NO KEY UPDATE does not wait for fenced transactions.
// Where somebody else has one of the rows locked it waits, or fails at once.
func renewSQL(terms []*Term, wait bool) []string {
	strength := "FOR NO KEY UPDATE OF l"
	if !wait {
		strength += " NOWAIT"
	}
	rows, keys := make([]string, len(terms)), make([]string, len(terms))
	for i, t := range terms {
		key := fmt.Sprintf("%s, %s, %d::bigint", backend.Literal(t.lease.name), backend.Literal(t.lease.holder), t.token)
		keys[i] = "(" + key + ")"
		rows[i] = "(" + key + ", " + interval(t.lease.opts.TTL) + ")"
	}
	return []string{
		// A join, because a list after IN takes the square of its length.
		lockSQL(`JOIN (VALUES `+strings.Join(keys, ", ")+`) AS m(name, holder, token) USING (name, holder, token)`, strength),
		fmt.Sprintf(`WITH renewed AS (UPDATE %s l SET renewed_at = t.now, expires_at = t.now + m.ttl
FROM (VALUES %s) AS m(name, holder, token, ttl), clock_timestamp() AS t(now)
WHERE l.name = m.name AND l.holder = m.holder AND l.token = m.token AND l.expires_at > t.now RETURNING l.name, l.token)
SELECT coalesce(json_agg(json_build_object('name', name, 'token', token)), '[]') FROM renewed`, table, strings.Join(rows, ", ")),
	}
}

// lockSQL locks the rows that a WHERE or JOIN selects and returns none, so that the answer has those of the next statement
// only. The order keeps two messages from locking the same rows crosswise.
func lockSQL(which, strength string) string {
	return fmt.Sprintf(`SELECT FROM (SELECT FROM %s l %s ORDER BY name %s) AS locked HAVING count(*) < 0`, table, which, strength)
}

// releaseSQL ends the expiry of a term that is not over. The token stays, so that no fenced transaction is disturbed that
// was let in before; the next term waits for it.
func releaseSQL(name, holder string, token int64) string {
	return fmt.Sprintf(`UPDATE %s SET expires_at = clock_timestamp() WHERE name = %s AND holder = %s AND token = %d AND expires_at > clock_timestamp()`,
		table, backend.Literal(name), backend.Literal(holder), token)
}

// forceSQL ends a term whoever holds it. Unlike a release it raises the token, because its holder does not know: fences
// of the term fail from then on, and those that have succeeded are waited for.
func forceSQL(name string, token int64) []string {
	return []string{
		lockSQL(`WHERE name = `+backend.Literal(name), "FOR UPDATE"),
		fmt.Sprintf(`UPDATE %s SET token = token + 1, expires_at = least(expires_at, clock_timestamp()) WHERE name = %s AND token = %d RETURNING holder`,
			table, backend.Literal(name), token),
	}
}

// fenceSQL locks the term's row for as long as the caller's transaction lasts, and then reads the clock. A lock that waited
// for a takeover finds another row, or fails with 40001 above READ COMMITTED.
// The first column is NULL where the transaction sees no such row. A client that vanishes in a fenced transaction would keep
// the next term from beginning for ever, so that a session without a time-out of its own gets one for this transaction.
//
// It runs in the application's session, whose search_path is anybody's: no name in it is looked for there.
const fenceSQL = `WITH term AS MATERIALIZED (SELECT expires_at FROM ` + table + `
	WHERE name OPERATOR(pg_catalog.=) $1 AND holder OPERATOR(pg_catalog.=) $2 AND token OPERATOR(pg_catalog.=) $3 FOR KEY SHARE)
SELECT (SELECT expires_at OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp() FROM term), pg_catalog.current_setting('transaction_isolation'),
	CASE WHEN pg_catalog.current_setting('idle_in_transaction_session_timeout') OPERATOR(pg_catalog.=) '0'
		THEN pg_catalog.set_config('idle_in_transaction_session_timeout', $4, true) END,
	(SELECT c.system_identifier::pg_catalog.text OPERATOR(pg_catalog.=) $5 AND d.oid::pg_catalog.text OPERATOR(pg_catalog.=) $6
		FROM pg_catalog.pg_control_system() c, pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())`

// blockersSQL lists who has the table in use: sessions, and prepared transactions, which go by the same virtual
// transaction as their other locks. Of another role's session it may only be known that it is there.
//
// The names are read as bytes: those of strangers may be such that this database cannot show them.
var blockersSQL = `SELECT pg_catalog.json_agg(DISTINCT ` + serverview.Bytes(`coalesce(
	'prepared transaction ' OPERATOR(pg_catalog.||) p.gid,
	'server process ' OPERATOR(pg_catalog.||) a.pid::pg_catalog.text OPERATOR(pg_catalog.||) ' (' OPERATOR(pg_catalog.||)
	pg_catalog.concat_ws(', '::pg_catalog.text, coalesce(nullif(a.application_name, ''), 'no name'), a.usename::pg_catalog.text,
		a.state OPERATOR(pg_catalog.||) ' since ' OPERATOR(pg_catalog.||) pg_catalog.date_trunc('second', a.state_change)::pg_catalog.text) OPERATOR(pg_catalog.||) ')')`) + `)
FROM pg_catalog.pg_locks t
LEFT JOIN pg_catalog.pg_locks x ON x.locktype OPERATOR(pg_catalog.=) 'transactionid' AND x.virtualtransaction OPERATOR(pg_catalog.=) t.virtualtransaction AND t.pid IS NULL
LEFT JOIN pg_catalog.pg_prepared_xacts p ON p.transaction OPERATOR(pg_catalog.=) x.transactionid
LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) t.pid
WHERE t.locktype OPERATOR(pg_catalog.=) 'relation' AND t.relation OPERATOR(pg_catalog.=) pg_catalog.to_regclass('` + table + `')
	AND t.database OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
	AND t.granted AND t.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()`

// endSQL ends the server process of a name, if it waits for a lock, for some time or for its client.
func endSQL(name string) string {
	return `SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE application_name OPERATOR(pg_catalog.=) ` + backend.Literal(name) +
		` AND (wait_event_type OPERATOR(pg_catalog.=) 'Lock' OR wait_event_type OPERATOR(pg_catalog.=) 'Timeout' OR state OPERATOR(pg_catalog.~~) 'idle in transaction%')`
}

// guards are what the server watches over while a message's transaction is open. They belong to the transaction, so that
// they hold behind a pooler. A commit that a crash could undo would let two terms have one token.
func (g guards) begin(name string) []string {
	return []string{
		`BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE`,
		tables.Path,
		`SET LOCAL synchronous_commit = on`,
		`SET LOCAL application_name = ` + backend.Literal(name),
		fmt.Sprintf(`SET LOCAL lock_timeout = %d`, g.lock.Milliseconds()),
		fmt.Sprintf(`SET LOCAL statement_timeout = %d`, g.statement.Milliseconds()),
		fmt.Sprintf(`SET LOCAL idle_in_transaction_session_timeout = %d`, g.idle.Milliseconds()),
	}
}

// guards are the time-outs of one message.
type guards struct {
	lock, statement, idle, stall time.Duration
	prompt                       bool // the message waits for no lock of a row
}

// prompt are the guards of a message that waits for no lock of a row.
func (o Options) prompt() guards {
	g := o.guards()
	g.prompt = true
	return g
}

func (o Options) guards() guards {
	return guards{lock: o.LockTimeout, statement: o.StatementTimeout, idle: o.IdleTimeout, stall: o.StallTimeout}
}

func interval(d time.Duration) string {
	return fmt.Sprintf("interval '%d milliseconds'", d.Milliseconds())
}
