package transactions

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/serverview"
	"github.com/hare-go/hare/internal/tables"
)

// found is what one database holds.
type found struct {
	alias    string
	db       backend.Database
	is       server
	conn     backend.Conn
	prepared []*Entry // of this coordinator's database
	xacts    []string // their transaction ids, in the same order
	state    DatabaseState
	err      error    // why it could not be looked at
	same     []*found // of a primary: every alias of this database, itself among them
	lost     error    // why its connection is of no more use
}

// listSQL reads names as bytes: those of strangers may be such that this database cannot show them. Each row says what database
// it is of, and there is one at least: an empty list counts for the database that says it, and for no other.
var listSQL = `SELECT ` + serverview.Bytes("p.gid") + `, ` + serverview.Bytes("p.owner::pg_catalog.text") + `,
	pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) p.prepared), pg_catalog.age(p.transaction)::pg_catalog.int8,
	p.transaction::pg_catalog.text, p.database OPERATOR(pg_catalog.=) d.datname, c.system_identifier::pg_catalog.text, d.oid::pg_catalog.text
FROM ` + thisDatabase + ` LEFT JOIN pg_catalog.pg_prepared_xacts p ON true WHERE ` + isThisDatabase + ` ORDER BY p.prepared`

// nameSQL reads one of those names as this database shows it.
func nameSQL(column string) string {
	return `SELECT p.` + column + `::pg_catalog.text FROM pg_catalog.pg_prepared_xacts p WHERE p.transaction::pg_catalog.text OPERATOR(pg_catalog.=) $1`
}

// tablesSQL lists the tables that prepared transactions hold locks on. Their locks belong to no process; which lock is whose
// tells the virtual transaction, which is that of the lock on the transaction's own id (PostgreSQL documentation, view
// pg_locks).
var tablesSQL = `SELECT own.transactionid::pg_catalog.text, pg_catalog.json_agg(DISTINCT ` + serverview.Bytes(`pg_catalog.regexp_replace(l.relation::pg_catalog.regclass::pg_catalog.text, '^public\.', '')`) + `)::pg_catalog.text
FROM pg_catalog.pg_locks own
JOIN pg_catalog.pg_locks l ON l.virtualtransaction OPERATOR(pg_catalog.=) own.virtualtransaction AND l.pid IS NULL AND l.locktype OPERATOR(pg_catalog.=) 'relation'
JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) l.relation AND (c.relkind OPERATOR(pg_catalog.=) 'r' OR c.relkind OPERATOR(pg_catalog.=) 'p')
WHERE own.locktype OPERATOR(pg_catalog.=) 'transactionid' AND own.pid IS NULL AND own.granted
	AND l.database OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()) GROUP BY 1`

// list lists the prepared transactions of every other database, all at once, each within its own time.
func (r *recovery) list(ctx context.Context, connections *hare.Connections) {
	for _, alias := range connections.Aliases() {
		client, err := connections.Client(alias)
		if err == nil && alias != r.alias && client.Features().SupportsTwoPhaseCommit {
			r.found = append(r.found, &found{alias: alias, db: client.Database()})
		}
	}
	r.eachFound(ctx, func(ctx context.Context, f *found) { f.err = r.listOne(ctx, f) })
	r.found = slices.DeleteFunc(r.found, func(f *found) bool {
		if f.err != nil {
			r.report.Unreachable = append(r.report.Unreachable, Unreachable{Alias: f.alias, Err: f.err})
			f.release()
			return true
		}
		return false
	})
	r.sortOut()
	r.judgeStandbys()
	for _, f := range r.found {
		r.report.Databases = append(r.report.Databases, f.state)
	}
}

// eachFound runs step on all databases at once, each within its own time.
func (r *recovery) eachFound(ctx context.Context, step func(ctx context.Context, f *found)) {
	together(r.found, func(f *found) error {
		inTime, cancel := context.WithTimeout(ctx, r.participantTime)
		defer cancel()
		step(inTime, f)
		return nil
	})
}

func (r *recovery) listOne(ctx context.Context, f *found) error {
	conn, err := f.db.Dial(ctx)
	if err != nil {
		return hare.ErrorFrom(f.alias, "", err)
	}
	f.conn = conn
	if f.is, err = ask(ctx, f.alias, conn); err != nil {
		return err
	}
	if err := r.listPrepared(ctx, f); err != nil {
		return err
	}
	if f.is.standby && len(f.prepared) > 0 {
		return f.is.fit(f.alias, false)
	}
	if len(f.prepared) == 0 || r.background {
		return nil
	}
	if err := f.findTables(ctx); err != nil && f.conn.Status() == backend.StatusClosed {
		return err
	}
	return nil // the tables are for the eye only
}

// own are the rows of what is prepared, if it was the database itself that listed them.
func (f *found) own(rows [][]any) ([][]any, error) {
	if len(rows) == 0 {
		return nil, &hare.ConfigurationError{Alias: f.alias, Reason: "the server does not say what it is (pg_control_system)"}
	}
	var lists identity
	lists.System, _ = rows[0][6].(string)
	lists.OID, _ = rows[0][7].(string)
	if !lists.same(f.is.identity) {
		return nil, hare.ErrorFrom(f.alias, "", fmt.Errorf("%w than a moment ago, with OID %s in the cluster with system identifier %s: it was %s",
			errOtherServer, lists.OID, lists.System, f.is.identity))
	}
	if rows[0][0] == nil {
		return nil, nil
	}
	return rows, nil
}

// listPrepared reads what is prepared on the server: this coordinator's in this database one by one, all others in sum.
func (r *recovery) listPrepared(ctx context.Context, f *found) error {
	rows, err := queryValues(ctx, f.conn, backend.Call{SQL: listSQL})
	if err != nil {
		return hare.ErrorFrom(f.alias, listSQL, err)
	}
	if rows, err = f.own(rows); err != nil {
		return err
	}
	f.state = DatabaseState{Alias: f.alias, SlotsUsed: len(rows), SlotsMax: f.is.slots, Standby: f.is.standby}
	for i, row := range rows {
		e, xact, here := readPrepared(row)
		if i == 0 {
			f.state.Oldest, f.state.OldestGID = e.Age, strings.ToValidUTF8(e.GID, "\uFFFD")
		}
		f.state.XactAge = max(f.state.XactAge, e.XactAge)
		if !here {
			continue
		}
		ours := r.id != "" && belongsTo(r.id, e)
		if ours {
			if ours, err = f.rename(ctx, e, xact); err != nil {
				return err
			}
			ours = ours && belongsTo(r.id, e)
		}
		switch {
		case !ours:
			f.state.Others++
		case r.wants(e.XID):
			e.Alias = f.alias
			f.prepared, f.xacts = append(f.prepared, e), append(f.xacts, xact)
		}
	}
	return nil
}

// readPrepared reads a row of listSQL.
func readPrepared(row []any) (e *Entry, xact string, here bool) {
	gid, _ := row[0].(string)
	owner, _ := row[1].(string)
	age, _ := row[2].(float64)
	e = &Entry{GID: serverview.Text(gid), Owner: serverview.Text(owner), Age: seconds(age), State: StateNeeded}
	e.XactAge, _ = row[3].(int64)
	xact, _ = row[4].(string)
	here, _ = row[5].(bool)
	return e, xact, here
}

// belongsTo fills in the xid of an entry of this coordinator's database.
func belongsTo(id string, e *Entry) (ours bool) {
	e.XID, _, ours = splitGID(id, e.GID)
	return ours
}

// plain reports whether a name is the same bytes in every encoding.
func plain(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf })
}

// rename gives an entry its names as this session writes them. It is not ours if the server cannot tell the GID: no call of
// hare's has made one that it cannot. The owner's name is for the eye only.
func (f *found) rename(ctx context.Context, e *Entry, xact string) (ours bool, err error) {
	if e.GID, err = f.shown(ctx, "gid", e.GID, xact); err != nil {
		return false, err
	}
	owner, err := f.shown(ctx, "owner", e.Owner, xact)
	e.Owner = cmp.Or(owner, strings.ToValidUTF8(e.Owner, "\uFFFD"))
	return e.GID != "", err
}

// shown is a name as this session writes it, or empty if the server cannot tell.
func (f *found) shown(ctx context.Context, column, raw, xact string) (string, error) {
	if plain(raw) {
		return raw, nil
	}
	rows, err := queryValues(ctx, f.conn, backend.Call{SQL: nameSQL(column), Args: []any{xact}})
	if state := backend.SQLState(err); state == "22021" || state == "22P05" { // character_not_in_repertoire, untranslatable_character
		return "", nil
	}
	if err != nil {
		return "", hare.ErrorFrom(f.alias, nameSQL(column), err)
	}
	if len(rows) != 1 {
		return "", nil // it has ended meanwhile
	}
	name, _ := rows[0][0].(string)
	if !utf8.ValidString(name) {
		return "", nil
	}
	return name, nil
}

// wants reports whether a transaction is within what was asked for.
func (r *recovery) wants(xid string) bool {
	return r.only == "" && r.forget == "" || xid == r.only || xid == r.forget
}

// findTables fills in which tables each entry locks.
func (f *found) findTables(ctx context.Context) error {
	rows, err := queryValues(ctx, f.conn, backend.Call{SQL: tablesSQL})
	if err != nil {
		return hare.ErrorFrom(f.alias, tablesSQL, err)
	}
	for _, row := range rows {
		holder, _ := row[0].(string)
		tables, _ := row[1].(string)
		if i := slices.Index(f.xacts, holder); i >= 0 {
			var names []string
			if err := json.Unmarshal([]byte(tables), &names); err != nil {
				return hare.ErrorFrom(f.alias, tablesSQL, err)
			}
			for _, name := range names {
				f.prepared[i].Tables = append(f.prepared[i].Tables, strings.ToValidUTF8(serverview.Text(name), "\uFFFD"))
			}
			slices.Sort(f.prepared[i].Tables)
		}
	}
	return nil
}

// liveSQL finds the sessions of calls. Anybody may name a session so: it counts when its role may write decisions and its
// transaction is open, as far as this role may see that.
var liveSQL = `SELECT DISTINCT a.application_name FROM pg_catalog.pg_stat_activity a
WHERE a.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() AND pg_catalog.starts_with(a.application_name, 'hare_dtx:')
	AND (a.xact_start IS NOT NULL OR a.state IS NULL) AND ` + serverview.Entitled("a.usesysid", decisionsTable)

// findLive finds out which calls are still at work. While a call is undecided its transaction on the coordinator is open,
// under the name that it gave its sessions. It is a courtesy to living calls; safety is the fence's.
func (r *recovery) findLive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.participantTime)
	defer cancel()
	rows, err := queryValues(ctx, r.conn, backend.Call{SQL: liveSQL})
	if err != nil {
		return hare.ErrorFrom(r.alias, liveSQL, err)
	}
	live := map[string]bool{}
	for _, row := range rows {
		name, _ := row[0].(string)
		live[name] = true
	}
	for _, f := range r.found {
		for _, e := range f.prepared {
			e.Live = live[applicationName(e.XID[len(e.XID)-uniqueHex:])]
		}
	}
	return nil
}

// close gives all connections back at once: each may take a while to find that nobody answers.
func (r *recovery) close() {
	together(r.found, func(f *found) error {
		f.release()
		return nil
	})
}

func (f *found) release() {
	if f.conn != nil {
		f.conn.Release()
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// queryValues reads all rows of a query on one connection, in a transaction of its own: a pooler in between then takes it to one
// server from its preparation to its end.
func queryValues(ctx context.Context, conn backend.Conn, call backend.Call) ([][]any, error) {
	call.Before = []string{beginRead, tables.Path}
	all, err := readAll(ctx, conn, call)
	return all, endOwn(ctx, conn, err)
}

func readAll(ctx context.Context, conn backend.Conn, call backend.Call) ([][]any, error) {
	rows, err := conn.Query(ctx, call)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all [][]any
	for rows.Next() {
		row, err := rows.Values()
		if err != nil {
			return nil, err
		}
		all = append(all, slices.Clone(row))
	}
	return all, rows.Close()
}

// describeAliases lists the aliases of branches, for messages.
func (r *recovery) describeAliases() string {
	aliases := make([]string, len(r.found))
	for i, f := range r.found {
		aliases[i] = fmt.Sprintf("%q", f.alias)
	}
	return strings.Join(aliases, ", ")
}
