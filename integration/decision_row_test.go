package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/transactions"
)

// What keeps the row of a decision out of its table, after hare has looked at the table and found nothing, keeps the decision
// from being made: everything is rolled back, and the error says why. The same holds for the abort row of the fence.
//
// Fault D8. Fault S3.
func TestDecisionThatIsNotWritten(t *testing.T) {
	t.Parallel()
	const table = "public.hare_distributed_decisions"
	for name, swallow := range map[string]string{
		"a trigger that drops the row": "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;" +
			"CREATE TRIGGER swallow BEFORE INSERT ON " + table + " FOR EACH ROW EXECUTE FUNCTION swallow()",
		"a rule that does nothing":   "CREATE RULE swallow AS ON INSERT TO " + table + " DO INSTEAD NOTHING",
		"a rule that sends it away":  "CREATE TABLE away (LIKE " + table + "); CREATE RULE swallow AS ON INSERT TO " + table + " DO INSTEAD INSERT INTO away VALUES (NEW.*)",
		"a rule for some rows alone": "CREATE RULE swallow AS ON INSERT TO " + table + " WHERE NEW.outcome = 'commit' DO INSTEAD NOTHING",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			if err := f.distributed(nothing); err != nil { // first use
				t.Fatal(err)
			}
			f.exec("c", swallow)
			err := f.distributed(writeAll)
			as[*transactions.AbortError](t, err)
			wantOutcome(t, err, transactions.RolledBack)
			f.wantNothingLeft()
		})
	}
}

// A table of decisions that takes NULL for the coordinator's alias would take a decision in any database that the connection
// leads to, since it is this column that refuses one elsewhere. It is not used, and the error says how to mend it.
//
// Fault D6.
func TestDecisionsTableThatTakesNull(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	if err := f.distributed(nothing); err != nil { // first use
		t.Fatal(err)
	}
	const alter = "ALTER TABLE public.hare_distributed_decisions ALTER COLUMN coordinator_alias "
	f.exec("c", alter+"DROP NOT NULL")
	f.reconnect()
	err := f.distributed(writeAll)
	if refused := as[*hare.ConfigurationError](t, err); !strings.Contains(refused.Reason, alter+"SET NOT NULL") {
		t.Errorf("the error does not say how to mend it: %v", err)
	}
	f.wantCounts(0, 0, 0)
	f.exec("c", alter+"SET NOT NULL")
	if err := f.distributed(writeAll); err != nil {
		t.Errorf("after it was mended: %v", err)
	}
}

// notice is a row of a view that sends a notification to whoever reads it.
type notice struct {
	ID int64
}

// TableName is the view's name.
func (notice) TableName() string { return "told" }

// A participant that only reads sends a notification, by a function in a view. It goes out when the whole has committed, and
// not when it is rolled back.
//
// Fault D9.
func TestNotificationOfAReader(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.exec("a", "CREATE FUNCTION tell() RETURNS int8 LANGUAGE plpgsql AS $$ BEGIN NOTIFY told, 'x'; RETURN 1; END $$; CREATE VIEW told AS SELECT tell() AS id")
	listener, err := pgx.Connect(t.Context(), servers.Direct(f.urls["a"]))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close(context.Background()) }()
	if _, err := listener.Exec(t.Context(), "LISTEN told"); err != nil {
		t.Fatal(err)
	}
	heard := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := listener.WaitForNotification(ctx)
		return err == nil
	}
	read := func(d *hare.Distributed) error {
		if _, err := hare.Objects[notice]().Using(d.Client("a")).All(d.Context()); err != nil {
			return err
		}
		return write(d, "x", "c", "b")
	}
	f.plan.Set(failOn(1, "c", func(sql string) bool { return strings.Contains(sql, decisionSQL) }), nil)
	wantOutcome(t, f.distributed(read), transactions.RolledBack)
	f.plan.Set(nil, nil)
	if heard() {
		t.Error("the notification of a transaction that was rolled back went out")
	}
	listener, err = pgx.Connect(t.Context(), servers.Direct(f.urls["a"])) // one that gave up waiting is closed
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listener.Exec(t.Context(), "LISTEN told"); err != nil {
		t.Fatal(err)
	}
	if err := f.distributed(read); err != nil {
		t.Fatal(err)
	}
	if !heard() {
		t.Error("the notification of a transaction that has committed did not go out")
	}
	f.wantCounts(1, 0, 1)
	if n := f.count("a", "SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()"); n != 0 {
		t.Errorf("%d are prepared in a", n)
	}
	f.serializableReaderPrepares()
}

// serializableReaderPrepares: at SERIALIZABLE a COMMIT may still be refused, so that a reader prepares like everybody.
func (f *trio) serializableReaderPrepares() {
	f.Helper()
	f.plan.Reset()
	err := f.distributed(func(d *hare.Distributed) error {
		if _, err := Notes.Using(d.Client("a")).All(d.Context()); err != nil {
			return err
		}
		return write(d, "x", "c", "b")
	}, transactions.Isolation(transactions.Serializable))
	if err != nil {
		f.Fatal(err)
	}
	prepared := 0
	for _, e := range f.plan.Events() {
		if e.Alias == "a" && strings.Contains(e.SQL, "PREPARE TRANSACTION") {
			prepared++
		}
	}
	if prepared != 1 {
		f.Errorf("a has prepared %d times at SERIALIZABLE, want once: %s", prepared, fmt.Sprint(f.plan.Events()))
	}
}
