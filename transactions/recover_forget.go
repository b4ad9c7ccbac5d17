package transactions

import (
	"context"
	"fmt"

	"github.com/hare-go/hare/hare"
)

// How rows of the decisions table are let go: old ones, and the one that an operator gives up.

// forgetSQL marks a decision as resolved for good: the row never becomes old.
const forgetSQL = `UPDATE ` + decisionsTable + ` SET resolved_at = 'infinity' WHERE resolved_at IS NULL AND xid = $1`

// giveUp is Forget. The row is marked as resolved and kept for ever: should a database that was thought to be gone come back
// with the transaction still prepared, its decision is still there to be followed.
func (r *recovery) giveUp(ctx context.Context) error {
	d := r.decisions[r.forget]
	if d == nil || !d.commit || d.resolved {
		return &hare.QueryError{Reason: fmt.Sprintf("there is no unresolved decision to commit %s on %q, so there is nothing to forget", r.forget, r.alias)}
	}
	r.grace, r.olderThan = 0, 0
	r.settle(ctx, false)
	r.verified(ctx, d)
	for _, e := range r.report.Entries {
		if !e.CanForget() {
			return &hare.QueryError{Reason: fmt.Sprintf("%s can still be finished on %q (%s): run: hare distributed-recover --coordinator %s --xid %s --older-than 0 --finish", r.forget, e.Alias, e.Reason, r.alias, r.forget)}
		}
	}
	if len(r.report.Unreachable) > 0 {
		return &hare.QueryError{Reason: fmt.Sprintf("%q cannot be looked at (%v), and may still be able to finish %s: try again when it answers", r.report.Unreachable[0].Alias, r.report.Unreachable[0].Err, r.forget)}
	}
	if len(r.report.Entries) == 0 {
		return &hare.QueryError{Reason: fmt.Sprintf("%s is committed everywhere, and only its row is left: run: hare distributed-recover --coordinator %s --xid %s --older-than 0 --finish", r.forget, r.alias, r.forget)}
	}
	for i := range r.report.Entries {
		e := &r.report.Entries[i]
		e.Reason += "; forgetting it repairs nothing: its writes stay in the databases that have committed, the coordinator's among them, and stay missing in this one"
	}
	if !r.finish {
		return nil
	}
	if _, err := r.write(ctx, forgetSQL, d.xid); err != nil {
		return err
	}
	for i := range r.report.Entries {
		r.report.Entries[i].State = StateForgotten
	}
	return nil
}

// purgeSQL finds both what to remove and the rows to remove by an index: now() may be looked up in one, clock_timestamp()
// not, and a sub-select is joined to the whole table where an array is not. It passes by what another session holds, see resolveSQL.
const purgeSQL = `DELETE FROM ` + decisionsTable + ` WHERE xid = ANY(ARRAY(
	SELECT xid FROM ` + decisionsTable + ` WHERE resolved_at < now() - make_interval(secs => $1) AND xid LIKE $2 AND NOT xid = ANY($3::text[]) LIMIT $4 FOR UPDATE SKIP LOCKED))`

// purge removes rows that were resolved long ago, while every database was looked at and none holds their GIDs any more.
func (r *recovery) purge(ctx context.Context) error {
	if !r.finish || r.keepOld || r.only != "" || len(r.report.Unreachable) > 0 {
		return nil
	}
	var held []any
	for _, f := range r.found {
		for _, e := range f.prepared {
			held = append(held, e.XID)
		}
	}
	for {
		n, err := r.write(ctx, purgeSQL, r.retention.Seconds(), `hare\_dtx\_%:`+r.id+`:%`, textList(held), int64(rowBatch))
		if err != nil {
			return err
		}
		r.report.Purged += int(n)
		if n < rowBatch {
			return nil
		}
	}
}
