package integration

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/internal/doctor"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

// trapTypes are the types of the pairs for which every operator has an overload.
const trapTypes = `'{text,name,oid,regclass,int2,int4,int8,numeric,float8,bool,timestamptz,interval,xid,xid8,"\"char\"",json,jsonb,varchar,bpchar,pg_lsn,bytea,text[],name[]}'`

// makeTraps fills a schema with everything that hare's SQL could find in place of PostgreSQL's own: each function of pg_catalog, by
// the same arguments; aggregates also by the exact type of what they count; every operator for every pair of types,
// whether PostgreSQL has it or not; types of the usual names; and each view and table of the catalogue. What runs fails, and
// what has another type than PostgreSQL's own fails as well.
const makeTraps = `
CREATE SCHEMA traps;
GRANT USAGE ON SCHEMA traps TO PUBLIC;
CREATE FUNCTION traps.fire() RETURNS boolean STABLE LANGUAGE plpgsql AS $f$ BEGIN RAISE EXCEPTION 'a trap' USING ERRCODE = 'TRAP0'; END $f$;
CREATE FUNCTION traps.fire(bigint) RETURNS bigint LANGUAGE plpgsql AS $f$ BEGIN RAISE EXCEPTION 'a trap' USING ERRCODE = 'TRAP0'; END $f$;
CREATE FUNCTION traps.fire(bigint, anyelement) RETURNS bigint LANGUAGE plpgsql AS $f$ BEGIN RAISE EXCEPTION 'a trap' USING ERRCODE = 'TRAP0'; END $f$;
CREATE AGGREGATE traps.count(*) (SFUNC = traps.fire, STYPE = bigint, INITCOND = '0', FINALFUNC = traps.fire);
DO $do$
DECLARE r record; made int := 0;
BEGIN
	FOR r IN SELECT p.proname, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result FROM pg_proc p
		WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND NOT 'internal'::regtype = ANY (p.proargtypes) AND p.prorettype <> 'internal'::regtype
	LOOP
		BEGIN
			EXECUTE format('CREATE FUNCTION traps.%I(%s) RETURNS %s LANGUAGE internal AS ''trigger_in''', r.proname, r.arguments, r.result);
			made := made + 1;
		EXCEPTION WHEN OTHERS THEN NULL; -- what no function of SQL can have
		END;
	END LOOP;
	IF made < 2000 THEN RAISE EXCEPTION 'only % functions', made; END IF;
	made := 0;
	FOR r IN SELECT n.name, t.oid::regtype AS type FROM unnest('{count,json_agg,max,min,sum,array_agg}'::text[]) n(name), pg_type t
		WHERE t.oid = ANY (` + trapTypes + `::regtype[])
	LOOP
		EXECUTE format('CREATE AGGREGATE traps.%I(%s) (SFUNC = traps.fire, STYPE = bigint, INITCOND = ''0'', FINALFUNC = traps.fire)', r.name, r.type);
	END LOOP;
	FOR r IN SELECT a AS x, b AS y, 'op' || row_number() OVER () AS f FROM unnest(` + trapTypes + `::regtype[]) a, unnest(` + trapTypes + `::regtype[]) b
	LOOP
		EXECUTE format('CREATE FUNCTION traps.%I(%s, %s) RETURNS boolean LANGUAGE plpgsql AS $f$ BEGIN RAISE EXCEPTION ''a trap'' USING ERRCODE = ''TRAP0''; END $f$', r.f, r.x, r.y);
		DECLARE o text; BEGIN
			FOREACH o IN ARRAY '{=,<>,<,>,<=,>=,||,+,-,*,/,~~}'::text[] LOOP
				EXECUTE format('CREATE OPERATOR traps.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = traps.%I)', o, r.x, r.y, r.f);
				made := made + 1;
			END LOOP;
		END;
	END LOOP;
	IF made < 6000 THEN RAISE EXCEPTION 'only % operators', made; END IF;
	FOR r IN SELECT c.relname, (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
		FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND format_type(a.atttypid, NULL) NOT IN ('anyarray', 'pg_statistic[]')) AS columns FROM pg_class c WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind IN ('r', 'v')
	LOOP
		EXECUTE format('CREATE VIEW traps.%I AS SELECT %s FROM pg_catalog.%1$I c WHERE traps.fire()', r.relname, r.columns);
		EXECUTE format('GRANT SELECT ON traps.%I TO PUBLIC', r.relname);
	END LOOP;
	FOR r IN SELECT unnest('{text,name,oid,regclass,int4,int8,float8,bool,timestamptz,jsonb,json,xid8,bytea}'::text[]) AS type LOOP
		EXECUTE format('CREATE DOMAIN traps.%I AS pg_catalog.%1$I CHECK (traps.fire())', r.type);
	END LOOP;
END $do$`

// Everything that hare does works, and finds nothing in a schema full of traps, whatever stands first in the search_path of the
// session: as a superuser, as the owner of hare's tables, as a member of their owner and as a role that may only use them.
//
// Fault S2.
func TestSchemaFullOfTraps(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, database := range []string{s.super, s.other} {
		execAll(t, database, makeTraps, "CREATE TABLE public.written (n int)", "GRANT INSERT ON public.written TO PUBLIC")
	}
	defer func() {
		for _, database := range []string{s.super, s.other} {
			setPath(t, database, "RESET search_path")
		}
	}()
	member, lesser := s.role("member"), s.role("lesser")
	execAll(t, s.super, "GRANT "+roleOf(t, s.service)+" TO "+roleOf(t, member))
	roles := []struct{ name, url, options string }{
		{"owner", s.service, ""}, {"member", member, ""}, {"superuser", s.super, "tables_owner=" + roleOf(t, s.service)}, {"lesser", lesser, "tables_owner=" + roleOf(t, s.service)},
	}
	for i, path := range []string{"traps, public, pg_catalog", "traps, pg_catalog", "pg_catalog, traps", "traps"} {
		for _, database := range []string{s.super, s.other} {
			setPath(t, database, "SET search_path = "+path)
		}
		for _, role := range roles {
			if i > 0 && role.name == "member" { // whoever it is, the path is what differs
				continue
			}
			t.Run(path+"/"+role.name, func(t *testing.T) {
				s := &scene{T: t, super: s.super, service: s.service, stranger: s.stranger, other: s.other}
				s.everything(withOptions(role.url, role.options))
			})
			if i == 0 && role.name == "owner" {
				execAll(t, s.service, "GRANT SELECT, INSERT, UPDATE, DELETE ON public.hare_distributed_decisions, public.hare_leases TO "+roleOf(t, lesser),
					"GRANT SELECT ON public.hare_distributed_coordinator TO "+roleOf(t, lesser))
			}
		}
	}
}

// setPath changes the default of a database.
func setPath(t *testing.T, database, change string) {
	t.Helper()
	execAll(t, database, "DO $do$ BEGIN EXECUTE pg_catalog.format('ALTER DATABASE %I "+change+"', pg_catalog.current_database()); END $do$")
}

// everything runs all that hare does with its own SQL, as a role.
func (s *scene) everything(database string) {
	s.Helper()
	ctx := s.open(s.T, database)
	c := sceneClient(ctx, s.T)
	conns, err := hare.FromContext(ctx)
	if err != nil {
		s.Fatal(err)
	}
	ok := func(what string, err error) {
		s.Helper()
		if err != nil {
			s.Errorf("%s: %v", what, err)
		}
	}
	ok("ping", conns.Ping(ctx))
	stop := errors.New("stop")
	write := func(fails error) func(d *hare.Distributed) error {
		return func(d *hare.Distributed) error {
			for _, client := range []*hare.Client{d.Coordinator(), d.Client("a")} {
				if _, err := client.Exec(d.Context(), "INSERT INTO public.written VALUES (1)"); err != nil {
					return err
				}
			}
			return fails
		}
	}
	ok("commit", transactions.Distributed(ctx, "c", []string{"a"}, write(nil)))
	if err := transactions.Distributed(ctx, "c", []string{"a"}, write(stop)); !errors.Is(err, stop) {
		s.Errorf("rollback: %v", err)
	}
	s.recovers(ctx)
	s.leases(ctx, c)
	report := examineAll(s.T, map[string]string{"c": database, "a": s.other})
	for _, f := range report.Findings {
		if strings.Contains(f.Value, "not known") || f.Check == "tables" && f.State == doctor.Failure || strings.Contains(f.Value, trapState) {
			s.Errorf("the doctor: %+v", f)
		}
	}
}

// recovers makes an orphan, reports it, and finishes it.
func (s *scene) recovers(ctx context.Context) {
	s.Helper()
	id := textOf(s.T, s.super, "SELECT id FROM public.hare_distributed_coordinator")
	xid := "hare_dtx_c:" + id + ":" + strings.Repeat("0", 31)
	for _, n := range []string{"1", "2"} {
		execAll(s.T, s.other, "BEGIN", "INSERT INTO public.written VALUES (2)", "PREPARE TRANSACTION '"+xid+n+":a'")
	}
	report, err := transactions.Recover(ctx, "c", transactions.OlderThan(0))
	if err != nil || len(report.Entries) != 2 || len(report.Unreachable) > 0 {
		s.Errorf("report: %+v, %v", report, err)
	}
	report, err = transactions.Recover(ctx, "c", transactions.OlderThan(0), transactions.OnlyXID(xid+"1"), transactions.Finish())
	if err != nil || !report.Clean() {
		s.Errorf("finish: %+v, %v", report, err)
	}
	inTime, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- transactions.RunRecoverer(inTime, "c", transactions.Interval(100*time.Millisecond), transactions.OlderThan(0))
	}()
	for textOf(s.T, s.other, "SELECT pg_catalog.count(*)::pg_catalog.text FROM pg_catalog.pg_prepared_xacts p WHERE p.gid OPERATOR(pg_catalog.=) '"+xid+"2:a'") != "0" {
		if inTime.Err() != nil {
			s.Error("the recoverer finishes nothing")
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		s.Errorf("recoverer: %v", err)
	}
	execAll(s.T, s.super, "DELETE FROM public.hare_distributed_decisions")
}

// leases takes, renews, fences, lists, ends and releases leases.
func (s *scene) leases(ctx context.Context, c *hare.Client) {
	s.Helper()
	lost := make(chan error, 2)
	lease := leases.New(c, "job", leases.Options{TTL: 30 * time.Second, Interval: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		OnEnd: func(_ *leases.Term, err error) { lost <- err }})
	term, err := lease.TryAcquire(ctx)
	if err != nil {
		s.Errorf("acquire: %v", err)
		return
	}
	if err := transactions.Atomic(ctx, term.Fence, transactions.Using("c")); err != nil {
		s.Errorf("fence: %v", err)
	}
	renewed := "SELECT (renewed_at OPERATOR(pg_catalog.>) acquired_at)::pg_catalog.text FROM public.hare_leases"
	for start := time.Now(); textOf(s.T, s.super, renewed) != "true"; time.Sleep(50 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			s.Error("no renewal gets through")
			break
		}
	}
	if list, err := leases.List(ctx, c); err != nil || len(list) != 1 || !list[0].Held() {
		s.Errorf("list: %+v, %v", list, err)
	}
	if _, err := leases.ForceRelease(ctx, c, "job", term.Token()); err != nil {
		s.Errorf("force: %v", err)
	}
	if err := <-lost; err == nil {
		s.Error("the holder of a term that was ended does not learn of it")
	}
	if term, err = lease.TryAcquire(ctx); err != nil {
		s.Errorf("acquire again: %v", err)
	} else if err := term.Release(); err != nil {
		s.Errorf("release: %v", err)
	}
	execAll(s.T, s.super, "DELETE FROM public.hare_leases")
}
