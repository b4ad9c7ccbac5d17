package transactions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/tables"
)

// beginWrite opens hare's own transactions, whatever the defaults of the role are.
const beginWrite = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE`

// beginRead opens hare's own transactions that read.
const beginRead = `BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY`

// pinned keeps names in hare's own transactions from being looked up anywhere but in PostgreSQL's own catalogue.
const pinned = tables.Path

// endOwn ends a transaction of hare's own after err.
func endOwn(ctx context.Context, conn backend.Conn, err error) error {
	if err != nil && conn.Status() == backend.StatusClosed {
		return err
	}
	end := "COMMIT"
	if err != nil {
		end = "ROLLBACK"
	}
	_, ending := conn.Control(ctx, end)
	if err != nil {
		return err
	}
	return ending
}

// A level below on loses a commit when the server crashes (off), or when its standby takes over (local, remote_write). Whoever
// is told of a decision, an id or a prepared transaction acts on it, so that all of them are made durable at least as on
// makes them, whatever the role's default; remote_apply stays (PostgreSQL documentation, setting synchronous_commit).
const (
	tooWeak = `pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) ANY ('{off,local,remote_write}'::pg_catalog.text[])`
	raise   = `pg_catalog.set_config('synchronous_commit', 'on', true)`
	durable = `SELECT ` + raise + ` WHERE ` + tooWeak
	// Statements about prepared transactions flush the server's own log whatever the setting; only a standby is not waited for.
	leavesStandby = `(` + tooWeak + ` AND pg_catalog.current_setting('synchronous_standby_names') OPERATOR(pg_catalog.<>) '')`
)

// ownRole gives the transaction back to the role that its session began with, so that what it leaves can be finished by
// whoever logs in as this call did. The deferred constraints run before that, under the role that made the changes, and, as
// inside a COMMIT, without a statement_timeout.
var ownRole = []string{"SET LOCAL statement_timeout = 0", "SET CONSTRAINTS ALL IMMEDIATE", "RESET SESSION AUTHORIZATION", "RESET ROLE"}

// prepared is what a participant prepared, as the row of the decision keeps it.
type prepared struct {
	Alias string `json:"alias"`
	GID   string `json:"gid"`
	identity
	XactID   string `json:"xact"`               // its transaction id there, pg_current_xact_id
	Timeline string `json:"timeline,omitempty"` // of the server's log, by which a promoted standby is recognised
}

// thisCoordinator is the coordinator's alias if the database is still the one that has the id, and NULL where the
// connection leads elsewhere by now. The column takes no NULL, so that neither a decision nor an abort lands in another
// database, where nobody would look for it.
func thisCoordinator(alias, id string) string {
	return fmt.Sprintf(`(SELECT %s FROM %s k, %s WHERE k.id OPERATOR(pg_catalog.=) %s
	AND k.system_identifier OPERATOR(pg_catalog.=) c.system_identifier::pg_catalog.text AND k.database_oid OPERATOR(pg_catalog.=) d.oid::pg_catalog.text AND %s)`,
		backend.Literal(alias), coordinatorTable, thisDatabase, backend.Literal(id), isThisDatabase)
}

// insertDecision writes the decision to commit. Where its row does not get into the table, because a trigger that came there
// later drops it, the statement fails, and with it the COMMIT behind it: what is not written is not decided.
func insertDecision(xid, coordinator, id string, participants []prepared) (string, error) {
	aliases := make([]string, len(participants))
	for i, p := range participants {
		aliases[i] = p.Alias
	}
	row, err := json.Marshal(participants)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`WITH decision AS (INSERT INTO %s (xid, coordinator_alias, participant_aliases, created_at, outcome, participants)
	VALUES (%s, %s, %s, pg_catalog.clock_timestamp(), 'commit', %s) RETURNING xid) SELECT 1 OPERATOR(pg_catalog./) pg_catalog.count(*) FROM decision`,
		decisionsTable, backend.Literal(xid), thisCoordinator(coordinator, id), backend.Literal(strings.Join(aliases, ",")), backend.Literal(string(row))), nil
}

// insertAbort writes the abort row of the fence, or waits for and yields to a decision under the same key. It returns the
// outcome of the row that is there then, in the same statement: the call may take its decision away a moment later.
func insertAbort(xid, coordinator, id string) string {
	return fmt.Sprintf(`INSERT INTO %s AS d (xid, coordinator_alias, participant_aliases, created_at, resolved_at, outcome)
VALUES (%s, %s, '', pg_catalog.clock_timestamp(), pg_catalog.clock_timestamp(), 'abort')
ON CONFLICT (xid) DO UPDATE SET outcome = d.outcome RETURNING d.outcome`,
		decisionsTable, backend.Literal(xid), thisCoordinator(coordinator, id))
}

// fenceWait bounds one attempt of the fence at waiting for a decision in flight: half of the time that is left, so that the
// server gives up first, and the connection can be used for what comes next.
func fenceWait(ctx context.Context) time.Duration {
	const most = 5 * time.Second
	if deadline, ok := ctx.Deadline(); ok {
		return max(min(time.Until(deadline)/2, most), time.Millisecond)
	}
	return most
}

// fence makes sure that a transaction that is not decided never will be: it commits an abort row under the xid that a
// decision would need, or finds the decision there. committed says which. After it the answer can never change.
//
// A decision in flight makes the insert wait for its end, for as long as wait: then the error is a time-out, and the
// fence may be tried again. The connection must be idle, and is idle afterwards unless the error says otherwise. id is that
// of the coordinator's database: anywhere else the error is errOtherServer.
func fence(ctx context.Context, conn backend.Conn, xid, coordinator, id string, wait time.Duration) (committed bool, err error) {
	answer, err := conn.Control(ctx, beginWrite, pinned,
		fmt.Sprintf("SET LOCAL lock_timeout = %d", wait.Milliseconds()), "SET LOCAL synchronous_commit = on",
		insertAbort(xid, coordinator, id), "COMMIT")
	if err != nil {
		_, _ = conn.Control(ctx, "ROLLBACK")
		if notThere(err) {
			return false, fmt.Errorf("%w, where no abort is written: %w", errOtherServer, err)
		}
		return false, err
	}
	if answer.Tag != "COMMIT" || len(answer.Row) != 1 {
		return false, fmt.Errorf("the server answered COMMIT of the abort row with %s and %d columns", answer.Tag, len(answer.Row))
	}
	return answer.Row[0] == "commit", nil
}

// notThere reports whether a row of the decisions was refused because the database is not the coordinator's.
func notThere(err error) bool {
	var refused *backend.Error
	return errors.As(err, &refused) && refused.SQLState == "23502" && refused.Table == "hare_distributed_decisions"
}
