package transactions

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
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
	err      error // why it could not be looked at
}

const listSQL = `SELECT gid, owner::text, extract(epoch FROM clock_timestamp() - prepared)::float8, age(transaction)::bigint, transaction::text, database = current_database()
FROM pg_prepared_xacts ORDER BY prepared`

// tablesSQL lists the tables that prepared transactions hold locks on. Their locks belong to no process; which lock is whose
// tells the virtual transaction, which is that of the lock on the transaction's own id (PostgreSQL documentation, view
// pg_locks).
const tablesSQL = `SELECT own.transactionid::text, json_agg(DISTINCT regexp_replace(l.relation::regclass::text, '^public\.', ''))::text
FROM pg_locks own
JOIN pg_locks l ON l.virtualtransaction = own.virtualtransaction AND l.pid IS NULL AND l.locktype = 'relation'
JOIN pg_class c ON c.oid = l.relation AND c.relkind IN ('r', 'p')
WHERE own.locktype = 'transactionid' AND own.pid IS NULL AND own.granted
	AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) GROUP BY 1`

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
		r.report.Databases = append(r.report.Databases, f.state)
		return false
	})
	// Two aliases may lead to one database: what it holds is there once.
	seen := map[identity]bool{}
	for _, f := range r.found {
		key := identity{System: f.is.System, OID: f.is.OID}
		if seen[key] {
			f.prepared = nil
		}
		seen[key] = true
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

// listPrepared reads what is prepared on the server: this coordinator's in this database one by one, all others in sum.
func (r *recovery) listPrepared(ctx context.Context, f *found) error {
	rows, err := queryValues(ctx, f.conn, backend.Call{SQL: listSQL})
	if err != nil {
		return hare.ErrorFrom(f.alias, listSQL, err)
	}
	f.state = DatabaseState{Alias: f.alias, SlotsUsed: len(rows), SlotsMax: f.is.slots, Standby: f.is.standby}
	for i, row := range rows {
		gid, _ := row[0].(string)
		owner, _ := row[1].(string)
		age, _ := row[2].(float64)
		xactAge, _ := row[3].(int64)
		xact, _ := row[4].(string)
		here, _ := row[5].(bool)
		if i == 0 {
			f.state.Oldest, f.state.OldestGID = seconds(age), gid
		}
		f.state.XactAge = max(f.state.XactAge, xactAge)
		xid, _, ours := splitGID(r.id, gid)
		switch {
		case !here:
		case !ours || r.id == "":
			f.state.Others++
		case r.wants(xid):
			f.prepared = append(f.prepared, &Entry{XID: xid, Alias: f.alias, GID: gid, Owner: owner, Age: seconds(age), XactAge: xactAge, State: StateNeeded})
			f.xacts = append(f.xacts, xact)
		}
	}
	return nil
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
			if err := json.Unmarshal([]byte(tables), &f.prepared[i].Tables); err != nil {
				return hare.ErrorFrom(f.alias, tablesSQL, err)
			}
		}
	}
	return nil
}

const liveSQL = `SELECT DISTINCT application_name FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'hare\_dtx:%'`

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
