package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/transactions"
)

// Page is the table of the tests through hare. A Line cannot be without one.
type Page struct {
	ID   int64
	Text string
}

type Line struct {
	ID     int64
	PageID int64
	Page   *Page `hare:"fk=page_id"`
}

var (
	Pages = hare.Objects[Page]()
	Lines = hare.Objects[Line]()
)

var errStop = errors.New("stop")

// book is one database with a single connection in its pool, so that the next user gets what the one before has left.
func book(tb testing.TB, url string) (context.Context, *hare.Client) {
	tb.Helper()
	conns, err := hare.Open(tb.Context(), hare.Config{Connections: map[string]string{"book": url}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(conns.Close)
	client, err := conns.Client("book")
	if err != nil {
		tb.Fatal(err)
	}
	ctx := hare.WithConnections(tb.Context(), conns)
	if err := hare.CreateTables(ctx, client, Page{}, Line{}); err != nil {
		tb.Fatal(err)
	}
	return ctx, client
}

// books are the two kinds of databases.
func books(tb testing.TB) map[string]string {
	return map[string]string{"file": "sqlite:" + filepath.Join(tb.TempDir(), "book.db") + "?max_size=1", "memory": "sqlite::memory:?max_size=1"}
}

func sendExec(ctx context.Context, client *hare.Client, sql string) error {
	_, err := client.Exec(ctx, sql)
	return err
}

func sendQuery(ctx context.Context, client *hare.Client, sql string) error {
	rows, err := client.Query(ctx, sql)
	if err != nil {
		return err
	}
	for rows.Next() {
		continue
	}
	return rows.Close()
}

// controlling are texts in which a statement controls transactions, behind whatever SQLite skips.
var controlling = []string{
	"COMMIT", "END", "end transaction", "COMMIT TRANSACTION", "ROLLBACK", "ROLLBACK TRANSACTION", "ROLLBACK TO s", "ROLLBACK TRANSACTION TO SAVEPOINT s", "SAVEPOINT s", "RELEASE s", "RELEASE SAVEPOINT hare_1",
	"BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE TRANSACTION", "\ufeffCOMMIT", "\ufeffEND", "\ufeff\ufeffEND", "/* /* */ COMMIT", "/*/ */ COMMIT", "\f\v\t\r\n COMMIT", "\fCOMMIT", ";;COMMIT", " ; /* */ ; END", "-- x\nCOMMIT", "--\r\nCOMMIT", "--\r x\nCOMMIT",
	"EXPLAIN COMMIT", "EXPLAIN QUERY PLAN COMMIT", "COMMIT;", "COMMIT -- x", "\"x\"; COMMIT",
	"SELECT 1; COMMIT", "CREATE TABLE x (a); END", "CREATE TABLE x (a);\ufeffEND", "CREATE TRIGGER t AFTER INSERT ON page BEGIN DELETE FROM line; END; END", "SELECT 'it''s;'; END", `SELECT "a;b" FROM (SELECT 1 AS "a;b"); END`,
	"SELECT [a;'] FROM (SELECT 1 AS [a;']); COMMIT", "SELECT `a;'` FROM (SELECT 1 AS `a;'`); COMMIT", `SELECT 'a\'; COMMIT --'`, "SELECT x'00'; COMMIT; BEGIN", "PRAGMA user_version = 3; COMMIT", "SELECT 1; SELECT 2; SAVEPOINT hare_batch",
}

// harmless are texts with the same words in which no statement does.
var harmless = []string{
	"CREATE TRIGGER t AFTER INSERT ON page BEGIN DELETE FROM line; END", "CREATE TRIGGER t AFTER INSERT ON page BEGIN SELECT CASE WHEN 1 THEN 2 END; DELETE FROM line; END; DROP TRIGGER t",
	"SELECT ';COMMIT', 'it''s; END'", "/* ; COMMIT */ SELECT 1 -- ; COMMIT", "SELECT 1 /* COMMIT", "CREATE TABLE x (\"commit\" TEXT, [end] TEXT, `rollback` TEXT)", "SELECT CASE WHEN 1 THEN 2 END; SELECT 3", "PRAGMA table_info(page)", "PRAGMA user_version = 3", "PRAGMA foreign_keys",
	"PRAGMA defer_foreign_keys = on", "PRAGMA integrity_check(1)",
}

// Nothing that a program writes ends a transaction: SQLite's own parser says what a statement is, whatever stands before it.
//
// Fault S6.
func TestControlIsRefusedByTheParser(t *testing.T) {
	for kind, url := range books(t) {
		ctx, client := book(t, url)
		for _, sql := range controlling {
			for way, send := range map[string]func(context.Context, *hare.Client, string) error{"Exec": sendExec, "Query": sendQuery} {
				err := transactions.Atomic(ctx, func(ctx context.Context) error {
					if err := Pages.Create(ctx, &Page{Text: "marker"}); err != nil {
						return err
					}
					return transactions.Atomic(ctx, func(ctx context.Context) error {
						err := send(ctx, client, sql)
						var refused *hare.QueryError
						if err == nil || way == "Exec" && sql != "\"x\"; COMMIT" && !errors.As(err, &refused) {
							t.Errorf("%s: %s(%q): %v, want a QueryError", kind, way, sql, err)
						}
						return errStop
					})
				})
				if outcome := transactions.OutcomeOf(err); !errors.Is(err, errStop) || outcome != transactions.RolledBack {
					t.Errorf("%s: %s(%q): Atomic returned %v, %v", kind, way, sql, err, outcome)
				}
			}
		}
		if n, err := Pages.Count(ctx); n != 0 || err != nil {
			t.Errorf("%s: %d pages are there after nothing but rollbacks, %v", kind, n, err)
		}
		for _, sql := range harmless {
			err := transactions.Atomic(ctx, func(ctx context.Context) error { return errors.Join(sendExec(ctx, client, sql), errStop) })
			if err.Error() != errStop.Error() {
				t.Errorf("%s: Exec(%q): %v", kind, sql, err)
			}
		}
	}
}

// Should a statement end the transaction all the same, the engine's state tells it, and the outcome is not that of a rollback.
//
// Fault S6.
func TestEndedByHand(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE t (a)")
	if err := c.engine.SetAuthorizer(nil); err != nil {
		t.Fatal(err)
	}
	control(t, c, "BEGIN IMMEDIATE")
	var ended *backend.Error
	if _, err := c.Exec(t.Context(), backend.Call{SQL: "COMMIT"}); !errors.As(err, &ended) || ended.Class != backend.ClassControl || ended.NotDone {
		t.Errorf("Exec: %v", err)
	}
	status(t, c, backend.StatusIdle)
	control(t, c, "BEGIN IMMEDIATE")
	if _, err := c.Query(t.Context(), backend.Call{SQL: "END"}); !errors.As(err, &ended) || ended.Class != backend.ClassControl {
		t.Errorf("Query: %v", err)
	}
	exec(t, c, "INSERT INTO t VALUES (1)")
}

// left is what a connection has that a new one has not.
func left(ctx context.Context, tb testing.TB, client *hare.Client) string {
	tb.Helper()
	rows, err := client.Query(ctx, `SELECT (SELECT foreign_keys FROM pragma_foreign_keys) || (SELECT count(*) FROM pragma_database_list WHERE name NOT IN ('main', 'temp')) ||
(SELECT count(*) FROM sqlite_temp_schema) || ('a' LIKE 'A') || (SELECT ignore_check_constraints FROM pragma_ignore_check_constraints) ||
(SELECT writable_schema FROM pragma_writable_schema) || (SELECT query_only FROM pragma_query_only) || (SELECT defer_foreign_keys FROM pragma_defer_foreign_keys) ||
(SELECT reverse_unordered_selects FROM pragma_reverse_unordered_selects) || (SELECT recursive_triggers FROM pragma_recursive_triggers)`)
	if err != nil {
		tb.Fatal(err)
	}
	defer rows.Close()
	var found string
	for rows.Next() {
		if err := rows.Scan(&found); err != nil {
			tb.Fatal(err)
		}
	}
	return found
}

// What a statement of the program's leaves in its connection is refused where the URL has an option for it, or gone for the
// connection's next user. A memory database keeps its rows.
//
// Fault S7.
func TestConnectionSettingsDoNotLeak(t *testing.T) {
	for kind, url := range books(t) {
		ctx, client := book(t, url)
		if err := Pages.Create(ctx, &Page{Text: "kept"}); err != nil {
			t.Fatal(err)
		}
		clean := left(ctx, t, client)
		for _, sql := range []string{
			"PRAGMA foreign_keys = off", "PRAGMA foreign_keys(0)", "pragma FOREIGN_KEYS=no", "PRAGMA foreign_keys=''", `PRAGMA "foreign_keys" = ""`, "PRAGMA main.foreign_keys = off", "PRAGMA foreign_keys=``", "PRAGMA foreign_keys=[]", "SELECT 1; PRAGMA foreign_keys = off",
			"EXPLAIN PRAGMA foreign_keys = off", "PRAGMA journal_mode = off", "PRAGMA main.journal_mode(memory)", "PRAGMA synchronous = off", "PRAGMA trusted_schema = on", "PRAGMA recursive_triggers = on", "PRAGMA busy_timeout = 1", "\ufeffPRAGMA foreign_keys = off",
		} {
			for way, send := range map[string]func(context.Context, *hare.Client, string) error{"Exec": sendExec, "Query": sendQuery} {
				err := send(ctx, client, sql)
				var refused *hare.QueryError
				if several := strings.HasPrefix(sql, "SELECT 1;") && way == "Query"; !several && (!errors.As(err, &refused) || !strings.Contains(refused.Reason, "URL")) {
					t.Errorf("%s: %s(%q): %v, want a QueryError that names the URL", kind, way, sql, err)
				}
				if found := left(ctx, t, client); found != clean {
					t.Errorf("%s: %s(%q) leaves %q, want %q", kind, way, sql, found, clean)
				}
			}
		}
		for _, sql := range []string{
			"PRAGMA writable_schema = on", "PRAGMA ignore_check_constraints = 1", "PRAGMA query_only = on", "PRAGMA case_sensitive_like = on", "PRAGMA reverse_unordered_selects = on", "PRAGMA defer_foreign_keys = on", "PRAGMA writable_schema = on; SELECT 1",
			"ATTACH ':memory:' AS other", "CREATE TEMP TABLE x (a)", "CREATE TABLE temp.x (a)", "CREATE TEMP VIEW v AS SELECT 1", "CREATE TEMP TRIGGER t AFTER INSERT ON page BEGIN DELETE FROM page; END", "CREATE TEMP TABLE y AS SELECT 1; CREATE INDEX temp.i ON y (1)",
		} {
			for range 2 { // the second time the text is known
				if err := sendExec(ctx, client, sql); err != nil {
					t.Errorf("%s: Exec(%q): %v", kind, sql, err)
				}
				if found := left(ctx, t, client); found != clean {
					t.Errorf("%s: Exec(%q) leaves %q, want %q", kind, sql, found, clean)
				}
				if err := transactions.Atomic(ctx, func(ctx context.Context) error { return sendExec(ctx, client, sql) }); err != nil {
					t.Errorf("%s: Exec(%q) inside Atomic: %v", kind, sql, err)
				}
				if found := left(ctx, t, client); found != clean {
					t.Errorf("%s: Exec(%q) inside Atomic leaves %q, want %q", kind, sql, found, clean)
				}
			}
		}
		err := transactions.Atomic(ctx, func(ctx context.Context) error {
			return errors.Join(sendExec(ctx, client, "CREATE TEMP TABLE x (a)"), sendExec(ctx, client, "INSERT INTO x VALUES (1)"), sendExec(ctx, client, "INSERT INTO page (text) SELECT a FROM x"))
		})
		if n, counting := Pages.Count(ctx); err != nil || n != 2 || counting != nil {
			t.Errorf("%s: a temporary table inside its transaction: %v; %d pages, %v", kind, err, n, counting)
		}
		var refused *hare.IntegrityError
		if err := Lines.Create(ctx, &Line{PageID: 99}); !errors.As(err, &refused) {
			t.Errorf("%s: a line without its page: %v, want an IntegrityError", kind, err)
		}
		if err := sendExec(ctx, client, "SELECT load_extension('x')"); err == nil {
			t.Errorf("%s: an extension can be loaded", kind)
		}
	}
}
