package integration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/internal/doctor"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

// trapState is the SQLSTATE of every function of the stranger's: whoever sees it has run his code. It is not one of
// PostgreSQL's.
const trapState = "TRAP0"

// scene is a database in which a service, which owns what hare made for it, shares the schema public with a stranger, who
// may create things there. A superuser looks after it.
type scene struct {
	*testing.T
	super, service, stranger string                     // URLs
	other                    string                     // another database, the superuser's
	ctx                      map[string]context.Context // of connections that the cases share, by URL
}

func newScene(t *testing.T) *scene {
	t.Helper()
	urls := unpooled(t, 2)
	s := &scene{T: t, super: urls[0], other: urls[1]}
	s.service, s.stranger = s.role("service"), s.role("stranger")
	execAll(t, s.super, "CREATE SCHEMA stranger AUTHORIZATION "+roleOf(t, s.stranger), "GRANT USAGE ON SCHEMA stranger TO PUBLIC")
	execAll(t, s.super, "GRANT CREATE ON SCHEMA public TO "+roleOf(t, s.stranger)+", "+roleOf(t, s.service))
	execAll(t, s.stranger, "CREATE SEQUENCE stranger.fired", "GRANT USAGE ON SEQUENCE stranger.fired TO PUBLIC",
		trap("trap()", "text"), trap("constant(anyelement)", "boolean"), trap("row_trap()", "trigger"), "CREATE DOMAIN stranger.words AS text CHECK (stranger.constant(VALUE))",
		"CREATE TYPE stranger.shape AS (name text, holder text)")
	return s
}

// trap makes a function that counts its runs, which no rollback undoes, and fails. What reads only cannot count.
func trap(signature, returns string) string {
	return fmt.Sprintf(`CREATE FUNCTION stranger.%s RETURNS %s IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
	IF pg_catalog.current_setting('transaction_read_only') OPERATOR(pg_catalog.=) 'off' THEN PERFORM pg_catalog.nextval('stranger.fired'); END IF;
	RAISE EXCEPTION 'a trap' USING ERRCODE = '%s'; END $$`, signature, returns, trapState)
}

// role makes a role that goes with the database.
func (s *scene) role(name string, options ...string) string {
	s.Helper()
	u, err := url.Parse(s.super)
	if err != nil {
		s.Fatal(err)
	}
	role := name + "_" + strings.TrimPrefix(u.Path, "/hare_test_")
	execAll(s.T, s.super, "CREATE ROLE "+role+" LOGIN PASSWORD 'secret' "+strings.Join(options, " "))
	conn := pgxConnect(s.T, s.super)
	s.Cleanup(func() {
		for _, sql := range []string{"DROP OWNED BY " + role + " CASCADE", "DROP ROLE " + role} {
			if _, err := conn.Exec(context.Background(), sql); err != nil {
				s.Error(err)
			}
		}
	})
	u.User = url.UserPassword(role, "secret")
	return u.String()
}

// open are connections to the scene as a role, and to the other database.
func (s *scene) open(t *testing.T, database string) context.Context {
	t.Helper()
	conns, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"c": database, "a": s.other}, Default: "c"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conns.Close)
	return hare.WithConnections(t.Context(), conns)
}

// sceneClient is the one of the scene's database.
func sceneClient(ctx context.Context, t *testing.T) *hare.Client {
	t.Helper()
	conns, err := hare.FromContext(ctx)
	if err != nil {
		t.Fatal(err)
	}
	client, err := conns.Client("c")
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// use is something that uses one of hare's tables.
type use struct {
	name string
	run  func(ctx context.Context, c *hare.Client) error
}

// uses are the first uses and the commands of each table.
var uses = map[string][]use{
	"hare_distributed_decisions": {
		{"distributed", func(ctx context.Context, _ *hare.Client) error {
			return transactions.Distributed(ctx, "c", []string{"a"}, nothing)
		}},
		{"report", func(ctx context.Context, _ *hare.Client) error {
			_, err := transactions.Recover(ctx, "c")
			return err
		}},
		{"finish", func(ctx context.Context, _ *hare.Client) error {
			_, err := transactions.Recover(ctx, "c", transactions.Finish())
			return err
		}},
	},
	"hare_leases": {
		{"acquire", func(ctx context.Context, c *hare.Client) error {
			_, err := leases.New(c, "job", leases.Options{Logger: slog.New(slog.DiscardHandler)}).TryAcquire(ctx)
			return err
		}},
		{"list", func(ctx context.Context, c *hare.Client) error {
			_, err := leases.List(ctx, c)
			return err
		}},
		{"release", func(ctx context.Context, c *hare.Client) error {
			_, err := leases.ForceRelease(ctx, c, "job", 1)
			return err
		}},
	},
}

// plain are hare's tables as hare makes them.
var plain = map[string][]string{
	"hare_distributed_decisions": {`CREATE TABLE public.hare_distributed_decisions (xid text PRIMARY KEY, coordinator_alias text NOT NULL, participant_aliases text NOT NULL,
		created_at timestamptz NOT NULL DEFAULT now(), resolved_at timestamptz NULL, outcome text NOT NULL DEFAULT 'commit' CHECK (outcome IN ('commit', 'abort')),
		participants jsonb NOT NULL DEFAULT '[]')`},
	"hare_distributed_coordinator": {`CREATE TABLE public.hare_distributed_coordinator (singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton), id text NOT NULL,
		system_identifier text NOT NULL, database_oid text NOT NULL, created_at timestamptz NOT NULL DEFAULT now())`},
	"hare_leases": {`CREATE TABLE public.hare_leases (name text PRIMARY KEY, holder text NOT NULL, token bigint NOT NULL, acquired_at timestamptz NOT NULL,
		renewed_at timestamptz NOT NULL, expires_at timestamptz NOT NULL) WITH (fillfactor = 50)`,
		`CREATE UNIQUE INDEX hare_leases_term ON public.hare_leases (name, token)`},
}

// texts is a column of each table that holds text and is not the key, and keys are the key's types.
var (
	texts = map[string]string{"hare_distributed_decisions": "participant_aliases", "hare_distributed_coordinator": "system_identifier", "hare_leases": "holder"}
	keys  = map[string]string{"hare_distributed_decisions": "text", "hare_distributed_coordinator": "boolean", "hare_leases": "text"}
)

// shapes are what a stranger may put in the place of a table T with a text column C and a key of the type K. Those that
// change a plain table are also tried on one that the service owns. says is what the error names.
var shapes = []struct {
	name, says string
	instead    bool // there is no plain table below it
	sql        []string
}{
	{"table", "belongs to the role", false, nil},
	{"view", "view", true, []string{"CREATE VIEW T AS SELECT stranger.trap() AS C, p.* FROM (SELECT * FROM stranger.plain) p"}},
	{"materialized view", "materialized view", true, []string{"CREATE MATERIALIZED VIEW T AS SELECT * FROM stranger.plain"}},
	{"foreign table", "foreign table", true, []string{"CREATE FOREIGN TABLE T (C text) SERVER nowhere"}},
	{"sequence", "sequence", true, []string{"CREATE SEQUENCE T"}},
	{"composite type", "type", true, []string{"CREATE TYPE T AS (C text)"}},
	{"partitioned table", "partitioned", true, []string{"CREATE TABLE T (LIKE stranger.plain INCLUDING ALL) PARTITION BY HASH (N)"}},
	{"partition", "belongs to the role", true, []string{"CREATE TABLE stranger.whole (LIKE stranger.plain INCLUDING ALL) PARTITION BY HASH (N)",
		"CREATE TABLE T PARTITION OF stranger.whole FOR VALUES WITH (MODULUS 1, REMAINDER 0)"}},
	{"typed table", "belongs to the role", true, []string{"CREATE TABLE T OF stranger.shape"}},
	{"trigger of statements", "trigger", false, []string{"CREATE TRIGGER theirs BEFORE INSERT OR UPDATE OR DELETE ON T FOR EACH STATEMENT EXECUTE FUNCTION stranger.row_trap()"}},
	{"trigger of rows", "trigger", false, []string{"CREATE TRIGGER theirs BEFORE INSERT ON T FOR EACH ROW EXECUTE FUNCTION stranger.row_trap()"}},
	{"constraint trigger", "trigger", false, []string{"CREATE CONSTRAINT TRIGGER theirs AFTER INSERT ON T DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION stranger.row_trap()"}},
	{"foreign key to it", "foreign key", false, []string{"CREATE TABLE stranger.referring (x K REFERENCES T ON DELETE CASCADE)"}},
	{"foreign key from it", "constraint", false, []string{"CREATE TABLE stranger.referred (x text PRIMARY KEY)", "ALTER TABLE T ADD CONSTRAINT theirs FOREIGN KEY (C) REFERENCES stranger.referred"}},
	{"rule", "rule", false, []string{"CREATE RULE theirs AS ON INSERT TO T DO ALSO SELECT stranger.trap()"}},
	{"default", "default", false, []string{"ALTER TABLE T ALTER COLUMN C SET DEFAULT stranger.trap()"}},
	{"check", "constraint", false, []string{"ALTER TABLE T ADD CONSTRAINT theirs CHECK (stranger.constant(C))"}},
	{"exclusion", "constraint", false, []string{"ALTER TABLE T ADD CONSTRAINT theirs EXCLUDE USING btree (C WITH =)"}},
	{"unique", "index", false, []string{"CREATE UNIQUE INDEX theirs ON T (C)"}},
	{"generated column", "none of hare's", false, []string{"ALTER TABLE T ADD COLUMN more boolean GENERATED ALWAYS AS (stranger.constant(C)) STORED"}},
	{"identity column", "none of hare's", false, []string{"ALTER TABLE T ADD COLUMN more int GENERATED ALWAYS AS IDENTITY"}},
	{"column", "none of hare's", false, []string{"ALTER TABLE T ADD COLUMN more text"}},
	{"column type", "stranger.words", false, []string{"ALTER TABLE T ALTER COLUMN C TYPE stranger.words"}},
	{"collation", "collation", false, []string{"CREATE COLLATION stranger.any (provider = icu, locale = 'und-u-ks-level1', deterministic = false)", "ALTER TABLE T ALTER COLUMN C TYPE text COLLATE stranger.any"}},
	{"index of an expression", "index", false, []string{"CREATE INDEX theirs ON T (stranger.constant(C))"}},
	{"index with a condition", "index", false, []string{"CREATE INDEX theirs ON T (C) WHERE stranger.constant(C)"}},
	{"row security", "row security", false, []string{"CREATE POLICY theirs ON T USING (stranger.constant(C))", "ALTER TABLE T ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"}},
	{"child", "inherits", false, []string{"CREATE TABLE stranger.child () INHERITS (T)"}},
	{"parent", "inherits", false, []string{"CREATE TABLE stranger.parent ()", "ALTER TABLE T INHERIT stranger.parent"}},
	{"no key", "primary key", false, []string{"ALTER TABLE T DROP CONSTRAINT N_pkey CASCADE"}},
	{"deferrable key", "primary key", false, []string{"ALTER TABLE T DROP CONSTRAINT N_pkey", "ALTER TABLE T ADD PRIMARY KEY (KEY) DEFERRABLE"}},
	{"unlogged", "crash", false, []string{"ALTER TABLE T SET UNLOGGED"}},
}

// keyColumns are the columns of the keys.
var keyColumns = map[string]string{"hare_distributed_decisions": "xid", "hare_distributed_coordinator": "singleton", "hare_leases": "name"}

// spell fills in the names of a table.
func spell(sql, table string) string {
	return strings.NewReplacer("PARTITION BY HASH (N)", "PARTITION BY HASH ("+keyColumns[table]+")", "(KEY)", "("+keyColumns[table]+")", "N_pkey", table+"_pkey",
		" T ", " public."+table+" ", "(T)", "(public."+table+")", "x K ", "x "+keys[table]+" ",
		" C ", " "+texts[table]+" ", "(C)", "("+texts[table]+")", "(C ", "("+texts[table]+" ", " C,", " own,").Replace(sql + " ")
}

// Nothing of a stranger's runs, whatever he has put in the place of a table of hare's: each use, by the service and by a
// superuser, is refused before it reads or writes there, and the doctor says why. The same things on a table of the service's own are
// refused, too.
//
// Fault S1.
func TestStrangeTables(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.ctx = map[string]context.Context{s.super: s.open(t, s.super), s.service: s.open(t, s.service)}
	execAll(t, s.super, "CREATE FOREIGN DATA WRAPPER nothing", "CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing", "GRANT USAGE ON FOREIGN SERVER nowhere TO PUBLIC")
	for table := range plain {
		for _, shape := range shapes {
			for _, owned := range []bool{false, true} {
				if owned && (shape.instead || shape.sql == nil) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/owned=%v", table, shape.name, owned), func(t *testing.T) {
					s := &scene{T: t, super: s.super, service: s.service, stranger: s.stranger, other: s.other, ctx: s.ctx}
					defer s.clear(s.put(table, shape.sql, shape.instead, owned))
					s.refused(table, shape.instead, owned, shape.says)
				})
			}
		}
	}
}

// put makes the shape, as the stranger, and gives it to the service where that is to own it.
func (s *scene) put(table string, sql []string, instead, owned bool) string {
	s.Helper()
	var statements []string
	for _, statement := range plain[table] {
		if instead {
			statement = strings.NewReplacer("public."+table, "stranger.plain", "hare_leases_term", "plain_term").Replace(statement)
		}
		statements = append(statements, statement)
	}
	for _, statement := range sql {
		statements = append(statements, spell(statement, table))
	}
	execAll(s.T, s.stranger, statements...)
	if owned {
		execAll(s.T, s.super, "ALTER TABLE public."+table+" OWNER TO "+roleOf(s.T, s.service))
	}
	return table
}

// clear takes away what put has made.
func (s *scene) clear(table string) {
	s.Helper()
	execAll(s.T, s.super, fmt.Sprintf(`DO $$ DECLARE k "char" := (SELECT relkind FROM pg_class WHERE oid = to_regclass('public.%[1]s')); BEGIN
	EXECUTE 'DROP ' || CASE k WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'S' THEN 'SEQUENCE' WHEN 'c' THEN 'TYPE' ELSE 'TABLE' END
		|| ' public.%[1]s CASCADE'; END $$`, table),
		"DROP TABLE IF EXISTS stranger.plain, stranger.whole, stranger.child, stranger.parent, stranger.referring, stranger.referred CASCADE",
		"DROP COLLATION IF EXISTS stranger.any", "DROP TABLE IF EXISTS public.hare_distributed_decisions, public.hare_distributed_coordinator, public.hare_leases CASCADE")
}

// refused makes sure that every use of the table is refused, without a run of the stranger's code.
func (s *scene) refused(table string, instead, owned bool, says string) {
	s.Helper()
	group := table
	if table == "hare_distributed_coordinator" {
		group = "hare_distributed_decisions"
	}
	if owned { // the superuser would refuse the service's table for its owner
		s.refusedAs(s.service, table, group, says)
		s.diagnosed(s.service, table, says)
		return
	}
	if !instead {
		says = "belongs to the role"
	}
	s.refusedAs(s.service, table, group, says)
	s.refusedAs(s.super, table, group, says)
	s.diagnosed(s.super, table, says)
}

func (s *scene) refusedAs(database, table, group, says string) {
	s.Helper()
	ctx := s.ctx[database]
	for _, use := range uses[group] {
		err := use.run(ctx, sceneClient(ctx, s.T))
		var wrong *hare.ConfigurationError
		if !errors.As(err, &wrong) || wrong.Alias != "c" || !strings.Contains(wrong.Reason, "public."+table) || !strings.Contains(wrong.Reason, says) {
			s.Errorf("%s: %v, want a ConfigurationError that names %s and says %q", use.name, err, table, says)
		}
	}
	s.untouched()
}

// diagnosed makes sure that the doctor says what is wrong, and touches nothing either.
func (s *scene) diagnosed(database, table, says string) {
	s.Helper()
	report := examineAll(s.T, map[string]string{"c": database})
	found := false
	for _, f := range report.Findings {
		found = found || f.Check == "tables" && f.State == doctor.Failure && strings.Contains(f.Value, "public."+table) && strings.Contains(f.Value, says)
		if strings.Contains(f.Value, trapState) {
			s.Errorf("the doctor ran a stranger's code: %+v", f)
		}
	}
	if !found {
		s.Errorf("the doctor does not say %q:\n%s", says, written(report))
	}
	s.untouched()
}

// untouched makes sure that no trap has run.
func (s *scene) untouched() {
	s.Helper()
	var fired bool
	if err := pgxConnect(s.T, s.super).QueryRow(s.Context(), "SELECT is_called FROM stranger.fired").Scan(&fired); err != nil {
		s.Fatal(err)
	}
	if fired {
		execAll(s.T, s.super, "SELECT setval('stranger.fired', 1, false)")
		s.Error("a stranger's code has run")
	}
}

// examineAll is the doctor's report of databases.
func examineAll(t *testing.T, urls map[string]string) doctor.Report {
	t.Helper()
	report, err := doctor.Examine(t.Context(), hare.Config{Connections: urls, Default: "c"}, doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return report
}
