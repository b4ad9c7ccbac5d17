package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	open "github.com/hare-go/hare/internal/session"
	"github.com/hare-go/hare/transactions"
)

// controlling are texts in which a statement ends a transaction, begins one or makes a savepoint, or may do so: what a
// backslash means is for the session's settings to say.
var controlling = []string{
	"COMMIT", "END", "END WORK", "END AND CHAIN", "end transaction", "ABORT", "ROLLBACK", "ROLLBACK AND CHAIN", "COMMIT AND CHAIN",
	"SAVEPOINT s", "RELEASE s", "ROLLBACK TO s", "BEGIN", "START TRANSACTION", "PREPARE TRANSACTION 'stray'",
	"CREATE TABLE x (); END", "CREATE TABLE x (); END AND CHAIN", "CREATE TABLE x (); END WORK", "CREATE TABLE x (); COMMIT; BEGIN", "CREATE TABLE x ();;\n; END",
	"CREATE VIEW v AS SELECT 1; /* /* */ ; */ END", "CREATE TABLE x (); -- why\nEND", "CREATE TABLE x (); -- why\rEND", "SELECT 1; --\rCOMMIT",
	"CREATE TABLE x (); PREPARE TRANSACTION 'stray'", "SELECT 1; RELEASE hare_1", "DROP TABLE IF EXISTS x; ROLLBACK; BEGIN",
	"SELECT E'\\\\'; COMMIT", "SELECT E'a''b\\\\'; COMMIT --'", "SELECT E'a'\n'b\\\\'; COMMIT --'", "SELECT E'a' -- c\n'b\\'' ; COMMIT; SELECT ''", "SELECT 'a\\'; COMMIT --'",
	`SELECT U&'a\\'; COMMIT --'`, `SELECT U&'!0061' UESCAPE '!'; COMMIT`, `SELECT U&"a" FROM (SELECT 1 AS a) s; COMMIT`, `SELECT 1 AS "a""b;"; COMMIT`, "SELECT B'1''0'; COMMIT",
	"SELECT $$;$$; COMMIT", "SELECT $a$ $$ $b$ $a$; COMMIT", "SELECT 1 AS a$$; COMMIT; SELECT 2 AS b$$", "SELECT 1+/* ; */1; COMMIT", "SELECT 5 */* ; */-1; COMMIT",
	"DO $$ BEGIN NULL; END $$; COMMIT", "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'; END",
	"CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END; END", "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC; SELECT CASE WHEN true THEN 1 END; END; COMMIT",
	"CREATE SCHEMA begin; CREATE DOMAIN begin.atomic AS int; CREATE FUNCTION f() RETURNS begin.atomic LANGUAGE sql AS 'SELECT 1::begin.atomic'; END",
	"CREATE DOMAIN atomic AS int; CREATE FUNCTION f(begin atomic) RETURNS int LANGUAGE sql AS 'SELECT 1'; END", "CREATE TABLE begin (atomic int); END",
	"CREATE DOMAIN atomic AS int; CREATE FUNCTION f() RETURNS TABLE (begin atomic) LANGUAGE sql AS 'SELECT 1'; END", "CREATE FUNCTION f() RETURNS int RETURN (SELECT 1 begin); END",
	`CREATE TABLE x (a int); CREATE RULE r AS ON INSERT TO x DO ALSO (SELECT 1; SELECT 2); END`, "CREATE SCHEMA s CREATE TABLE x () CREATE VIEW v AS SELECT 1; END",
	"PREPARE q AS SELECT 1; EXECUTE q; END", "EXPLAIN ANALYZE SELECT 1; END", "COPY (SELECT 1) TO '/dev/null'; END", "DECLARE c CURSOR FOR SELECT 1; END",
}

// harmless are texts with the same words and marks in which no statement controls a transaction.
var harmless = []string{
	"CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END", "CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC; SELECT 2; SELECT CASE WHEN true THEN CASE 1 WHEN 1 THEN 1 END END; END;",
	"CREATE PROCEDURE p() BEGIN /* */ ATOMIC END; CREATE FUNCTION f(begin int) RETURNS int BEGIN ATOMIC SELECT $1; END; SELECT f(1)", "CREATE PROCEDURE p() LANGUAGE sql begin atomic DELETE FROM note; INSERT INTO note (text) VALUES ('x'); end; DROP PROCEDURE p",
	"CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END; $$", "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS ' BEGIN RETURN 1; END; '", "DO $$ BEGIN PERFORM 1; END $$", "DO $x$ BEGIN NULL; END; $x$; SELECT 1",
	"CREATE TABLE x (a int); CREATE RULE r AS ON INSERT TO x DO ALSO (SELECT 1; DELETE FROM note; NOTIFY x)", "CREATE SCHEMA s CREATE TABLE x (a int) CREATE VIEW v AS SELECT 1 AS begin",
	"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$; CREATE TABLE x (); CREATE TRIGGER begin BEFORE INSERT ON x EXECUTE FUNCTION f()",
	"SELECT ';COMMIT', 'it''s; END', E'\\'; COMMIT', $$; END $$, 1 AS \"; COMMIT\" -- ; COMMIT", "SELECT E'a'\n'\\'; COMMIT'", "SELECT 'C:\\'; SELECT 1", "SELECT /* ; COMMIT /* */ ; END */ 1", "SELECT 1 AS commit", "SELECT 1 AS \"end\"; SELECT 2",
	"EXPLAIN ANALYZE SELECT 1", "SELECT CASE WHEN true THEN 1 END; SELECT CASE 1 WHEN 1 THEN 2 END", "SET LOCAL lock_timeout = 0; SET CONSTRAINTS ALL IMMEDIATE", "TABLE note;;", ";", "",
}

// ways are how a program sends SQL of its own.
var ways = map[string]func(ctx context.Context, c *hare.Client, sql string) error{
	"Exec": func(ctx context.Context, c *hare.Client, sql string) error {
		_, err := c.Exec(ctx, sql)
		return err
	},
	"Query": func(ctx context.Context, c *hare.Client, sql string) error {
		rows, err := c.Query(ctx, sql)
		if err != nil {
			return err
		}
		for rows.Next() {
			continue
		}
		return rows.Close()
	},
}

// Nothing that a program writes ends a transaction behind hare's back, whatever stands before it; what was written before
// it goes with the rollback.
//
// W10. Fault D7.
func TestControlOfTheProgramsOwnIsRefused(t *testing.T) {
	f := newTrio(t, "")
	for way, send := range ways {
		for _, sql := range controlling {
			var refused *hare.QueryError
			err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
				if err := create(ctx, "marker"); err != nil {
					return err
				}
				if err := send(ctx, f.client("c"), sql); !errors.As(err, &refused) {
					t.Errorf("%s(%q): %v, want a QueryError", way, sql, err)
				}
				return errStop
			})
			if !errors.Is(err, errStop) {
				t.Errorf("%s(%q): Atomic returned %v", way, sql, err)
			}
			wantOutcome(t, err, transactions.RolledBack)
			err = f.distributed(func(d *hare.Distributed) error {
				if err := writeAll(d); err != nil {
					return err
				}
				if err := send(d.Context(), d.Client("a"), sql); !errors.As(err, &refused) {
					t.Errorf("%s(%q) of a participant: %v, want a QueryError", way, sql, err)
				}
				return errStop
			})
			wantOutcome(t, err, transactions.RolledBack)
		}
	}
	f.wantCounts(0, 0, 0)
}

// A text that only looks like it is sent, and the transaction is the same afterwards.
//
// Fault D7.
func TestControlIsNotSeenWhereThereIsNone(t *testing.T) {
	f := newTrio(t, "")
	for _, sql := range harmless {
		err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
			before := f.xact(ctx)
			if _, err := f.client("c").Exec(ctx, sql); err != nil {
				t.Errorf("Exec(%q): %v", sql, err)
				return errStop
			}
			if after := f.xact(ctx); after != before {
				t.Errorf("Exec(%q): transaction %s has become %s", sql, before, after)
			}
			return errStop
		})
		if !errors.Is(err, errStop) {
			t.Errorf("Exec(%q): Atomic returned %v", sql, err)
		}
	}
}

// Interferer ends, by a check that it was given, the transaction in which its table is made.
type Interferer struct {
	ID   int64
	Text string `hare:"check=text <> E'\\'')); COMMIT; SELECT (1 --'"`
}

// What a model writes into its table's definition is SQL of the program's own, too.
//
// Fault D7.
func TestControlInAModelIsRefused(t *testing.T) {
	f := newTrio(t, "")
	err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
		if err := create(ctx, "marker"); err != nil {
			return err
		}
		return hare.CreateTables(ctx, f.client("c"), Interferer{})
	})
	as[*hare.QueryError](t, err)
	wantOutcome(t, err, transactions.RolledBack)
	f.wantCounts(0, 0, 0)
}

// A DO block or a procedure that commits is refused by the server inside a transaction.
//
// Fault D7.
func TestProcedureCannotCommitInsideATransaction(t *testing.T) {
	f := newTrio(t, "")
	client := f.client("c")
	if _, err := client.Exec(f.ctx, "CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN COMMIT; END $$"); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"CALL p()", "DO $$ BEGIN COMMIT; END $$", "SELECT 1; DO $$ BEGIN ROLLBACK; END $$"} {
		err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
			if err := create(ctx, "marker"); err != nil {
				return err
			}
			_, err := client.Exec(ctx, sql)
			return err
		})
		if refused := as[*hare.DatabaseError](t, err); refused.SQLState != "2D000" {
			t.Errorf("%q: %v", sql, err)
		}
		wantOutcome(t, err, transactions.RolledBack)
	}
	f.wantCounts(0, 0, 0)
}

// xact is the id of the transaction of ctx, on the coordinator.
func (f *trio) xact(ctx context.Context) (id string) {
	f.Helper()
	rows, err := f.client("c").Query(ctx, "SELECT pg_current_xact_id()::text")
	if err != nil {
		f.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&id); err != nil {
			f.Fatal(err)
		}
	}
	return id
}

// unread sends a text that hare's own reading of it has let through, as a server would have to understand it that knows more
// statements than hare.
func (f *trio) unread(ctx context.Context, alias, way, sql string) error {
	level := open.From(ctx, f.client(alias).Database())
	if way == "Exec" {
		_, err := level.Exec(ctx, backend.Call{SQL: sql})
		return err
	}
	rows, err := level.Query(ctx, backend.Call{SQL: sql})
	if err != nil {
		return err
	}
	for rows.Next() {
		continue
	}
	return rows.Close()
}

// Should a statement end the transaction all the same, the server's answer tells: nothing more runs in it, whatever its end
// would have been, and the error does not say that it was rolled back.
//
// Fault D7.
func TestTransactionEndedByHand(t *testing.T) {
	f := newTrio(t, "")
	for i, c := range []struct{ way, sql, statement string }{
		{"Exec", "COMMIT", "COMMIT"}, {"Query", "COMMIT", "COMMIT"}, {"Exec", "COMMIT AND CHAIN", "COMMIT"}, {"Query", "COMMIT AND CHAIN", "COMMIT"},
		{"Exec", "COMMIT; BEGIN", "COMMIT"}, {"Exec", "SELECT 1; END; BEGIN; SELECT 1/0", "COMMIT"}, {"Exec", "ROLLBACK; BEGIN", "ROLLBACK"},
		{"Query", "PREPARE TRANSACTION 'stray'", "PREPARE TRANSACTION"},
	} {
		for _, last := range []error{nil, errStop} {
			name := fmt.Sprintf("%d %s(%q), %v", i, c.way, c.sql, last)
			err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
				if err := create(ctx, name); err != nil {
					return err
				}
				if err := f.unread(ctx, "c", c.way, c.sql); err == nil {
					t.Errorf("%s: the statement returned nil", name)
				}
				if err := create(ctx, name); err == nil {
					t.Errorf("%s: the next statement was taken", name)
				}
				return last
			}, transactions.Retries(3))
			byHand := as[*transactions.EndedByHandError](t, err)
			if byHand.Alias != "c" || byHand.Statement != c.statement || last != nil && !errors.Is(err, last) {
				t.Errorf("%s: %+v", name, byHand)
			}
			wantOutcome(t, err, transactions.Mixed)
			if err := f.rollBackStray("c"); err != nil {
				t.Error(err)
			}
			err = f.distributed(func(d *hare.Distributed) error {
				if err := writeAll(d); err != nil {
					return err
				}
				if err := f.unread(d.Context(), "a", c.way, c.sql); err == nil {
					t.Errorf("%s: the participant's statement returned nil", name)
				}
				return last
			})
			if byHand := as[*transactions.EndedByHandError](t, err); byHand.Alias != "a" || byHand.XID == "" {
				t.Errorf("%s: %+v", name, byHand)
			}
			wantOutcome(t, err, transactions.Mixed)
			if err := f.rollBackStray("a"); err != nil {
				t.Error(err)
			}
		}
	}
	if counts := f.counts(); counts[0] == 0 || counts[1] == 0 || counts[2] != 0 {
		t.Errorf("rows in c, a, b: %v; the first two were committed by hand, the last never", counts)
	}
	f.wantUsable()
}

// rollBackStray ends what a test's statement has prepared by hand.
func (f *trio) rollBackStray(alias string) error {
	_, err := f.client(alias).Exec(f.ctx, "ROLLBACK PREPARED 'stray'")
	var refused *hare.DatabaseError
	if errors.As(err, &refused) && refused.SQLState == "42704" {
		return nil
	}
	return err
}
