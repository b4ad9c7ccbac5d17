package transactions

import (
	"context"
	"encoding/json"
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

// durable makes the transaction's COMMIT wait for its flush, whatever the role's default: a decision that a crash of the
// server could undo is worth nothing once a participant has been told, nor is an id once a participant has prepared under
// it.
const durable = `SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'`

// prepared is what a participant prepared, as the row of the decision keeps it.
type prepared struct {
	Alias string `json:"alias"`
	GID   string `json:"gid"`
	identity
	XactID   string `json:"xact"`               // its transaction id there, pg_current_xact_id
	Timeline string `json:"timeline,omitempty"` // of the server's log, by which a promoted standby is recognised
}

// thisCoordinator is the coordinator's alias if the database is still the one that has the id, and NULL where the
// connection leads elsewhere by now. The column takes no NULL, so that a decision never lands in another database, where
// nobody would look for it.
func thisCoordinator(alias, id string) string {
	return fmt.Sprintf(`(SELECT %s FROM %s k, pg_control_system() c, pg_database d WHERE k.id = %s AND k.system_identifier = c.system_identifier::text AND k.database_oid = d.oid::text AND d.datname = current_database())`,
		backend.Literal(alias), coordinatorTable, backend.Literal(id))
}

// insertDecision writes the decision to commit.
func insertDecision(xid, coordinator, id string, participants []prepared) (string, error) {
	aliases := make([]string, len(participants))
	for i, p := range participants {
		aliases[i] = p.Alias
	}
	row, err := json.Marshal(participants)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`INSERT INTO %s (xid, coordinator_alias, participant_aliases, created_at, outcome, participants) VALUES (%s, %s, %s, clock_timestamp(), 'commit', %s)`,
		decisionsTable, backend.Literal(xid), thisCoordinator(coordinator, id), backend.Literal(strings.Join(aliases, ",")), backend.Literal(string(row))), nil
}

// insertAbort writes the abort row of the fence, or waits for and yields to a decision under the same key. It returns the
// outcome of the row that is there then, in the same statement: the call may take its decision away a moment later.
func insertAbort(xid, coordinator string) string {
	return fmt.Sprintf(`INSERT INTO %s AS d (xid, coordinator_alias, participant_aliases, created_at, resolved_at, outcome) VALUES (%s, %s, '', clock_timestamp(), clock_timestamp(), 'abort')
ON CONFLICT (xid) DO UPDATE SET outcome = d.outcome RETURNING d.outcome`,
		decisionsTable, backend.Literal(xid), backend.Literal(coordinator))
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
// fence may be tried again. The connection must be idle, and is idle afterwards unless the error says otherwise.
func fence(ctx context.Context, conn backend.Conn, xid, coordinator string, wait time.Duration) (committed bool, err error) {
	answer, err := conn.Control(ctx, beginWrite, tables.Path,
		fmt.Sprintf("SET LOCAL lock_timeout = %d", wait.Milliseconds()), "SET LOCAL synchronous_commit = on",
		insertAbort(xid, coordinator), "COMMIT")
	if err != nil {
		_, _ = conn.Control(ctx, "ROLLBACK")
		return false, err
	}
	if answer.Tag != "COMMIT" || len(answer.Row) != 1 {
		return false, fmt.Errorf("the server answered COMMIT of the abort row with %s and %d columns", answer.Tag, len(answer.Row))
	}
	return answer.Row[0] == "commit", nil
}
