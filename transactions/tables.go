package transactions

import (
	"context"
	"fmt"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/tables"
)

// The tables of a coordinator's database. They stand in the schema public whatever the search_path, because a decision
// that is written in one schema and looked for in another is a lost decision. Nothing in them is read or written before the
// catalogue has said that they are hare's (internal/tables).
//
// hare_distributed_decisions has the columns of the Python hare, which both can share, and two of its own: the outcome
// (a row of the Python hare is always a commit), and what each participant prepared. An abort is written with resolved_at
// set, since the Python hare reads every unresolved row as a commit.
//
// hare_distributed_coordinator has one row: the random id that this database goes by in GIDs, and what the database was
// when the row was made, so that a copy is recognised.
const (
	decisionsTable   = `public.hare_distributed_decisions`
	coordinatorTable = `public.hare_distributed_coordinator`
)

const (
	outcomeColumn      = `outcome text NOT NULL DEFAULT 'commit' CHECK (outcome IN ('commit', 'abort'))`
	participantsColumn = `participants jsonb NOT NULL DEFAULT '[]'`
)

// What makes a table says nothing of "if not exists": what comes to be there meanwhile may be a stranger's.
var (
	createDecisions = []string{`CREATE TABLE ` + decisionsTable + ` (
	xid text PRIMARY KEY,
	coordinator_alias text NOT NULL,
	participant_aliases text NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now(),
	resolved_at timestamptz NULL,
	` + outcomeColumn + `,
	` + participantsColumn + `
)`}
	completeDecisions = []string{
		`ALTER TABLE ` + decisionsTable + ` ADD COLUMN IF NOT EXISTS ` + outcomeColumn,
		`ALTER TABLE ` + decisionsTable + ` ADD COLUMN IF NOT EXISTS ` + participantsColumn,
	}
	indexDecisions = []string{
		`CREATE INDEX IF NOT EXISTS hare_distributed_decisions_unresolved ON ` + decisionsTable + ` (created_at) WHERE resolved_at IS NULL`,
		`CREATE INDEX IF NOT EXISTS hare_distributed_decisions_resolved ON ` + decisionsTable + ` (resolved_at) WHERE resolved_at IS NOT NULL`,
	}
	createCoordinator = []string{`CREATE TABLE ` + coordinatorTable + ` (
	singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
	id text NOT NULL,
	system_identifier text NOT NULL,
	database_oid text NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now()
)`}
)

const readCoordinator = `SELECT id, system_identifier, database_oid FROM ` + coordinatorTable

// makeTries is how often the tables are made again when another process was at it at the same time, and makePause how long
// it waits in between.
const (
	makeTries = 10
	makePause = 20 * time.Millisecond
)

// coordinatorID is the id of a coordinator's database, which is made on first use, together with the tables. The
// connection must be idle.
func coordinatorID(ctx context.Context, alias string, db backend.Database, conn backend.Conn, is identity) (string, error) {
	id, err := readCoordinatorID(ctx, alias, db, conn, is)
	for try := 1; err == nil && id == "" && try <= makeTries; try++ {
		err = makeTables(ctx, alias, db, conn, is)
		if err != nil && try < makeTries && tables.MadeMeanwhile(err) && sleep(ctx, makePause) == nil {
			err = nil
		}
		if err == nil {
			id, err = readCoordinatorID(ctx, alias, db, conn, is)
		}
	}
	if err == nil && id == "" {
		err = &hare.ConfigurationError{Alias: alias, Reason: "the row of " + coordinatorTable + " is taken away whenever it is written"}
	}
	return id, err
}

// makeTables makes what is missing and gives the database its id. What is there is looked at in the same transaction, before
// anything is done with it, and all of it once more before the first row is written.
func makeTables(ctx context.Context, alias string, db backend.Database, conn backend.Conn, is identity) (err error) {
	defer func() {
		if err != nil && conn.Status() != backend.StatusClosed {
			_, _ = conn.Control(ctx, "ROLLBACK")
		}
	}()
	question := tables.Question(tables.Owners(db), tables.Decisions, tables.Coordinator)
	look := func(statements ...string) (tables.Found, error) {
		answer, err := conn.Control(ctx, append(statements, question)...)
		if err != nil {
			return nil, notMade(alias, err)
		}
		return tables.Read(alias, answer.Row, tables.Decisions, tables.Coordinator)
	}
	found, err := look(beginWrite, tables.Path)
	if err != nil {
		return err
	}
	if missing := missingTables(found); len(missing) > 0 {
		if found, err = look(missing...); err != nil {
			return err
		}
	}
	if !complete(found) {
		return &hare.ConfigurationError{Alias: alias, Reason: "its tables are not as they were made a moment ago: somebody else changes them"}
	}
	answer, err := conn.Control(ctx, durable,
		fmt.Sprintf(`INSERT INTO %s (id, system_identifier, database_oid) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING`,
			coordinatorTable, backend.Literal(randomHex(coordinatorHex)), backend.Literal(is.System), backend.Literal(is.OID)),
		"COMMIT")
	switch {
	case backend.SQLState(err) == "42501":
		return &hare.ConfigurationError{Alias: alias, Err: err, Reason: "the role may not write the id of this database: let the table's owner or a superuser run GRANT SELECT, INSERT ON " + coordinatorTable + " TO it"}
	case err == nil && answer.Tag != "COMMIT":
		return &hare.ConfigurationError{Alias: alias, Reason: "the server answered COMMIT of the coordinator's id with " + answer.Tag}
	}
	return hare.ErrorFrom(alias, "INSERT INTO "+coordinatorTable, err)
}

// notMade says what to do where the role may not make the tables.
func notMade(alias string, err error) error {
	if backend.SQLState(err) == "42501" {
		return &hare.ConfigurationError{Alias: alias, Err: err, Reason: "the role may not create " + decisionsTable + " and " + coordinatorTable +
			": let an administrator make them, docs/operations.md has the statements"}
	}
	return hare.ErrorFrom(alias, "CREATE TABLE "+decisionsTable, err)
}

// missingTables are the statements that make what is not there.
func missingTables(found tables.Found) (statements []string) {
	switch {
	case found.Table(tables.Decisions) == nil:
		statements = append(createDecisions[:1:1], indexDecisions...)
	case !found.Complete(tables.Decisions):
		statements = append(completeDecisions[:2:2], indexDecisions...)
	}
	if found.Table(tables.Coordinator) == nil {
		statements = append(statements, createCoordinator...)
	}
	return statements
}

// complete reports whether the tables are there in today's form: a role without CREATE can coordinate then.
func complete(found tables.Found) bool {
	return found.Complete(tables.Decisions) && found.Complete(tables.Coordinator)
}

// readCoordinatorID is the id of the database behind the connection, or empty when the tables are not there yet. A
// database that is a copy of the one that was given the id is refused: it must not finish what belongs to the original. So are
// tables that are not hare's.
func readCoordinatorID(ctx context.Context, alias string, db backend.Database, conn backend.Conn, is identity) (string, error) {
	found, err := tables.Check(ctx, alias, db, conn, tables.Decisions, tables.Coordinator)
	if err != nil || !complete(found) {
		return "", err
	}
	answer, err := conn.Control(ctx, beginRead, tables.Path, readCoordinator, "COMMIT")
	if err != nil {
		return "", hare.ErrorFrom(alias, readCoordinator, endOwn(ctx, conn, err))
	}
	if len(answer.Row) != 3 {
		return "", nil
	}
	if made := (identity{System: answer.Row[1], OID: answer.Row[2]}); !made.same(is) {
		return "", &hare.ConfigurationError{Alias: alias, Reason: fmt.Sprintf(
			"its coordinator id was given to the database with OID %s of the cluster with system identifier %s, and this is %s: it is a copy, or the original was moved. "+
				"A copy must not finish the original's transactions. If this is to be a coordinator of its own, delete the row of %s: it gets a new id, and leaves what the old one prepared alone (docs/operations.md, Moving a database, says what to finish first)",
			made.OID, made.System, is, coordinatorTable)}
	}
	return answer.Row[0], nil
}
