package storm

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The kinds of writes. Those that are unfenced are the control: they show that the storm does bring forth two holders at a
// time wherever nothing but a term's own word keeps them apart, and that the checks see it.
const (
	fenced   = "fenced"
	unfenced = "unfenced"
)

// schema is what the evidence is kept in.
//
// A write takes its turn when it is inserted: it locks its kind until it has committed, so that seq is the order of the commits,
// and learns the highest token of all that came before. Both are sequences, because what a snapshot shows is old above READ
// COMMITTED, and a row would keep out, by a serialization failure, the very writes that the fence has to. When it commits
// (the trigger is deferred, so that it runs as a part of COMMIT) it notes the time once more, and the token that the lease has
// by then: without that, a write that is inserted before the next term begins, and committed after it, would look well.
//
// The history has every change of the lease's row, those included that nobody lived to tell of.
const schema = `
CREATE SEQUENCE turns_fenced; CREATE SEQUENCE top_fenced MINVALUE 0 START 0;
CREATE SEQUENCE turns_unfenced; CREATE SEQUENCE top_unfenced MINVALUE 0 START 0;

CREATE TABLE journal (id text PRIMARY KEY, kind text NOT NULL, token bigint NOT NULL, holder text NOT NULL, isolation text NOT NULL,
	seq bigint, top bigint, inserted timestamptz, committing timestamptz, lease_token bigint);
CREATE FUNCTION take_turn() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$ BEGIN
	PERFORM pg_advisory_xact_lock(hashtext(NEW.kind));
	NEW.seq = nextval('turns_' || NEW.kind);
	EXECUTE 'SELECT last_value FROM top_' || NEW.kind INTO NEW.top;
	PERFORM setval('top_' || NEW.kind, greatest(NEW.top, NEW.token));
	NEW.inserted = clock_timestamp();
	RETURN NEW;
END $$;
CREATE TRIGGER take_turn BEFORE INSERT ON journal FOR EACH ROW EXECUTE FUNCTION take_turn();
CREATE FUNCTION note_commit() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$ BEGIN
	UPDATE journal SET committing = clock_timestamp(), lease_token = (SELECT token FROM public.hare_leases WHERE name = 'storm') WHERE id = NEW.id;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER note_commit AFTER INSERT ON journal DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note_commit();

CREATE TABLE history (n bigserial PRIMARY KEY, at timestamptz NOT NULL, holder text NOT NULL, token bigint NOT NULL,
	acquired timestamptz NOT NULL, renewed timestamptz NOT NULL, expires timestamptz NOT NULL);
CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$ BEGIN
	INSERT INTO history (at, holder, token, acquired, renewed, expires)
	VALUES (clock_timestamp(), NEW.holder, NEW.token, NEW.acquired_at, NEW.renewed_at, NEW.expires_at);
	RETURN NULL;
END $$;
CREATE TRIGGER note_change AFTER INSERT OR UPDATE ON public.hare_leases FOR EACH ROW WHEN (NEW.name = 'storm') EXECUTE FUNCTION note_change();
`

// state is the lease's row after a change.
type state struct {
	At                         int64
	Holder                     string
	Token                      int64
	Acquired, Renewed, Expires int64
}

// entry is a write in the journal.
type entry struct {
	ID, Kind                    string
	Token                       int64
	Holder, Isolation           string
	Seq, Top                    int64
	Inserted, Committing, Lease int64
}

// evidence is everything that the verdict rests on.
type evidence struct {
	History  []state // in order
	Journal  []entry // in the order of the commits
	Readings []reading
	Writes   []write
	Returns  []string // of Run
	Done     []deed
}

// gather adds what the database holds.
func (e *evidence) gather(ctx context.Context, conn *pgx.Conn) (err error) {
	e.History, err = collect[state](ctx, conn, fmt.Sprintf(`SELECT %s, holder, token, %s, %s, %s FROM history ORDER BY n`,
		micros("at"), micros("acquired"), micros("renewed"), micros("expires")))
	if err != nil {
		return err
	}
	e.Journal, err = collect[entry](ctx, conn, fmt.Sprintf(`SELECT id, kind, token, holder, isolation, seq, top, %s, %s, lease_token FROM journal ORDER BY kind, seq`,
		micros("inserted"), micros("committing")))
	return err
}

// collect reads rows into structs by the order of their fields.
func collect[T any](ctx context.Context, conn *pgx.Conn, sql string) ([]T, error) {
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}

// micros is the SQL of a time in microseconds.
func micros(time string) string { return "(extract(epoch FROM " + time + ") * 1000000)::bigint" }

// now is the time of the database's clock.
func now(ctx context.Context, conn *pgx.Conn) (at int64, err error) {
	err = conn.QueryRow(ctx, "SELECT "+micros("clock_timestamp()")).Scan(&at)
	return at, err
}
