package transactions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/tables"
)

// decision is a row of the decisions table.
type decision struct {
	xid          string
	commit       bool
	resolved     bool
	complete     bool          // every participant was found to have committed
	age          time.Duration // by the coordinator's clock
	participants []prepared
	unreadable   error // why participants are not known
}

func (d *decision) participant(gid string) (prepared, bool) {
	for _, p := range d.participants {
		if p.GID == gid {
			return p, true
		}
	}
	return prepared{}, false
}

const lookUpSQL = `SELECT xid, outcome, resolved_at IS NOT NULL, extract(epoch FROM clock_timestamp() - created_at)::float8, participants::text
FROM ` + decisionsTable + ` WHERE resolved_at IS NULL AND $2 OR xid = ANY($1::text[])`

// lookUp reads every decision that is not resolved, and those of everything that is prepared, by key.
func (r *recovery) lookUp(ctx context.Context) error {
	var xids []any
	for _, f := range r.found {
		for _, e := range f.prepared {
			xids = append(xids, e.XID)
		}
	}
	one := cmp.Or(r.only, r.forget)
	if one != "" {
		xids = []any{one}
	}
	ctx, cancel := context.WithTimeout(ctx, r.participantTime)
	defer cancel()
	rows, err := queryValues(ctx, r.conn, backend.Call{SQL: lookUpSQL, Args: []any{textList(xids), one == ""}})
	if err != nil {
		return hare.ErrorFrom(r.alias, lookUpSQL, err)
	}
	r.decisions = map[string]*decision{}
	for _, row := range rows {
		d := &decision{}
		var outcome, participants string
		var age float64
		d.xid, _ = row[0].(string)
		outcome, _ = row[1].(string)
		d.resolved, _ = row[2].(bool)
		age, _ = row[3].(float64)
		participants, _ = row[4].(string)
		if _, ours := splitXID(r.id, d.xid); !ours {
			continue // the Python hare's, or a copied row of another coordinator
		}
		d.commit, d.age = outcome == "commit", seconds(age)
		if err := json.Unmarshal([]byte(participants), &d.participants); err != nil {
			d.unreadable = fmt.Errorf("its row in %s has participants that hare cannot read (%w): %w", decisionsTable, err, errUnknowable)
		}
		r.decisions[d.xid] = d
		if d.commit && !d.resolved {
			r.report.Unresolved++
		}
	}
	return r.missingXID()
}

// missingXID notes what is decided about the one transaction that was asked for, and refuses one of another coordinator.
func (r *recovery) missingXID() error {
	xid := cmp.Or(r.only, r.forget)
	if xid == "" {
		return nil
	}
	if _, ours := splitXID(r.id, xid); !ours {
		maker, _ := ParseXID(xid)
		return &hare.QueryError{Reason: fmt.Sprintf("%s is not of the coordinator %q: it was made by another database, whose alias was %q: name a connection that leads there", xid, r.alias, maker)}
	}
	switch d := r.decisions[xid]; {
	case d == nil:
		r.report.Decided = "none"
	case d.commit:
		r.report.Decided = "commit"
	default:
		r.report.Decided = "abort"
	}
	return nil
}

func textList(values []any) backend.List {
	return backend.List{Elem: backend.ColumnType{Kind: backend.KindText}, Values: values}
}

// resolveSQL passes by a row that another session holds: that is somebody who tidies it up, too, and who may have been stopped in
// the middle of it.
const resolveSQL = `UPDATE ` + decisionsTable + ` SET resolved_at = clock_timestamp() WHERE xid = ANY(ARRAY(
	SELECT xid FROM ` + decisionsTable + ` WHERE resolved_at IS NULL AND xid = ANY($1::text[]) FOR UPDATE SKIP LOCKED))`

// resolve marks the decisions as resolved whose participants were all reached and hold nothing any more. What keeps a
// decision open stands in the report.
func (r *recovery) resolve(ctx context.Context) error {
	var complete []any
	for _, d := range r.decisions {
		if !d.commit || d.resolved {
			continue
		}
		if !r.verified(ctx, d) {
			if !r.young(d.age, false) {
				r.report.Undelivered++
			}
			continue
		}
		d.complete = true
		r.report.Resolved++
		if complete = append(complete, d.xid); len(complete) == rowBatch {
			if err := r.markResolved(ctx, complete); err != nil {
				return err
			}
			complete = nil
		}
	}
	return r.markResolved(ctx, complete)
}

func (r *recovery) markResolved(ctx context.Context, xids []any) error {
	if !r.finish || len(xids) == 0 {
		return nil
	}
	_, err := r.write(ctx, resolveSQL, textList(xids))
	return err
}

// rowBatch is how many rows one statement changes.
const rowBatch = 1000

// write changes rows of the decisions table, within the time of one step.
func (r *recovery) write(ctx context.Context, sql string, args ...any) (rows int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.participantTime)
	defer cancel()
	rows, err = r.conn.Exec(ctx, backend.Call{Before: []string{beginWrite, tables.Path}, SQL: sql, Args: args})
	return rows, hare.ErrorFrom(r.alias, sql, endOwn(ctx, r.conn, err))
}

// verified reports whether each participant of a decision was reached and has committed.
func (r *recovery) verified(ctx context.Context, d *decision) bool {
	if d.unreadable != nil {
		r.report.Entries = append(r.report.Entries, Entry{XID: d.xid, Alias: r.alias, Age: d.age, Action: ActionNone, State: StateFailed, Err: d.unreadable,
			Reason: "the decision to commit is durable, but whom it is for cannot be read"})
		return false
	}
	all := true
	for _, p := range d.participants {
		has, complete := r.verifyOne(ctx, d, p)
		all = all && complete
		if d.xid == r.only || d.xid == r.forget {
			r.report.Participants = append(r.report.Participants, Participant{Alias: p.Alias, Has: has})
		}
	}
	return all
}

// verifyOne finds out what a participant has of the transaction, and whether it needs nothing more.
func (r *recovery) verifyOne(ctx context.Context, d *decision, p prepared) (has Writes, complete bool) {
	f := r.databaseOf(p)
	if f == nil {
		r.missing(d, p)
		return WritesUnknown, false
	}
	if e := f.holding(p.GID); e != nil {
		switch e.State {
		case StateDone, StateGone:
			return WritesCommitted, true
		case StateMixed:
			return WritesLost, false
		}
		return WritesPrepared, false
	}
	if p.XactID == "" {
		return WritesUnknown, true
	}
	f, err := r.overAny(ctx, f, func(ctx context.Context, f *found) error { return gone(ctx, f.conn, p) })
	e := Entry{XID: d.xid, Alias: f.alias, GID: p.GID, Age: d.age, Action: ActionNone}
	switch {
	case err == nil:
		return WritesCommitted, true
	case errors.Is(err, errRolledBack):
		has, e.State, e.Err, e.Reason = WritesLost, StateMixed, err, "the decision to commit is durable, but its prepared transaction is gone without a commit: repair the data of this database by hand"
	case errors.Is(err, errUnknowable):
		has, e.State, e.Err, e.Reason = WritesUnknown, StateFailed, err, "the decision to commit is durable, but what became of it in this database cannot be known: look whether it has the data, repair it if not, and forget the transaction"
	case errors.Is(err, errAtWork):
		return WritesPrepared, false
	default:
		r.lost(f, err)
		return WritesUnknown, false
	}
	r.report.Entries = append(r.report.Entries, e)
	return has, false
}

// lost notes that a database that answered before does not answer any more.
func (r *recovery) lost(f *found, err error) {
	if r.unreachable(f.alias) == nil {
		r.report.Unreachable = append(r.report.Unreachable, Unreachable{Alias: f.alias, Err: hare.ErrorFrom(f.alias, "SELECT pg_xact_status", err)})
	}
}

// databaseOf finds the database that prepared p among those that were reached, by what it is.
func (r *recovery) databaseOf(p prepared) *found {
	var named *found
	for _, f := range r.found {
		if f.is.identity.same(p.identity) && !f.is.standby && (named == nil || f.alias == p.Alias) {
			named = f
		}
	}
	return named
}

// holding finds what a database holds prepared, over whichever of its aliases.
func (f *found) holding(gid string) *Entry {
	for _, same := range f.same {
		for _, e := range same.prepared {
			if e.GID == gid {
				return e
			}
		}
	}
	return nil
}

// missing reports a participant that no reached connection leads to. One that is merely unreachable has its own line.
func (r *recovery) missing(d *decision, p prepared) {
	if r.young(d.age, false) {
		r.report.Young++
		r.soon = true
		return
	}
	e := Entry{XID: d.xid, Alias: p.Alias, GID: p.GID, Age: d.age, Action: ActionNone, State: StateFailed, Err: errOtherServer}
	e.Reason = fmt.Sprintf("the decision to commit is durable, but no configured connection leads to its database, %s; configured are %s", p.identity, r.describeAliases())
	for _, f := range r.found {
		switch {
		case f.is.identity.same(p.identity): // a standby of it, or databaseOf would have found it
			e.Alias, e.Err = f.alias, f.is.fit(f.alias, false)
			e.Reason = fmt.Sprintf("the decision to commit is durable, but %q leads to a standby of its database: connect to the primary", f.alias)
			r.report.Entries = append(r.report.Entries, e)
			return
		case f.alias == p.Alias:
			e.Reason = fmt.Sprintf("the decision to commit is durable, but %q leads to %s, and the transaction was prepared in %s", p.Alias, f.is.identity, p.identity)
		}
	}
	if u := r.unreachable(p.Alias); u != nil && !r.reached(p.Alias) {
		e.Action, e.Err, e.Reason = ActionCommit, u.Err, "the decision to commit is durable, but its database does not answer"
	}
	r.report.Entries = append(r.report.Entries, e)
}

// reached reports whether an alias has answered, be it as a standby.
func (r *recovery) reached(alias string) bool {
	return slices.ContainsFunc(r.found, func(f *found) bool { return f.alias == alias })
}

// unreachable finds why an alias could not be looked at.
func (r *recovery) unreachable(alias string) *Unreachable {
	if i := slices.IndexFunc(r.report.Unreachable, func(u Unreachable) bool { return u.Alias == alias }); i >= 0 {
		return &r.report.Unreachable[i]
	}
	return nil
}
