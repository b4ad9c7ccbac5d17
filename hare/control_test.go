package hare

import "testing"

// A statement that ends a transaction is found wherever it stands in a text, so that nobody commits a participant by
// hand.
//
// W10. Fault D7.
func TestTransactionControl(t *testing.T) {
	for sql, want := range map[string]string{
		"SELECT 1": "", "": "", "-- only a comment": "", "/* never closed": "", "UPDATE t SET a = 'COMMIT'": "",
		"BEGIN": "BEGIN", "begin work": "BEGIN", "Start  Transaction": "START TRANSACTION", "START": "",
		"COMMIT;": "COMMIT", "END": "END", "ROLLBACK TO s": "ROLLBACK", "abort": "ABORT",
		"SAVEPOINT s": "SAVEPOINT", "RELEASE s": "RELEASE",
		"PREPARE TRANSACTION 'x'": "PREPARE TRANSACTION", "PREPARE q AS SELECT 1": "",
		"COMMIT PREPARED 'x'": "", "rollback /* x */ prepared 'x'": "",
		"SELECT 1; COMMIT": "COMMIT", "SELECT ';COMMIT'": "", "SELECT 'it''s;' ; end": "END", `SELECT ";COMMIT"`: "",
		"SELECT 1 -- ; COMMIT": "", "SELECT /* ; COMMIT */ 1": "", "SELECT 4 - 2 / 1; ROLLBACK": "ROLLBACK", "SELECT $1; SELECT $2; BEGIN": "BEGIN",
		"DO $$ BEGIN; COMMIT; END $$": "", "DO $x$ ;COMMIT $$ ;END $x$; COMMIT": "COMMIT", "SELECT 'open ; COMMIT": "",
		"CREATE TABLE a (x); COMMIT": "COMMIT", "CREATE TABLE a (x); END AND CHAIN": "END", "SELECT 1 -- x\r; END": "END", "SELECT 1 --x\r\n;": "",
		"CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END": "", "create or replace procedure p() begin atomic end;": "", "CREATE FUNCTION f() BEGIN ATOMIC ;; END; END": "END",
		"CREATE FUNCTION f() BEGIN ATOMIC SELECT CASE WHEN a THEN b END; END; SELECT 1": "", "CREATE FUNCTION f() BEGIN ATOMIC COMMIT; END": "COMMIT", "CREATE FUNCTION f() BEGIN ATOMIC END AND CHAIN": "END",
		"CREATE FUNCTION f() RETURNS begin.atomic AS 'x'; END": "END", "CREATE FUNCTION f(begin atomic) AS 'x'; END": "END", "CREATE TABLE t (begin atomic); END": "END", "CREATE FUNCTION f() AS 'BEGIN ATOMIC'; END": "END",
		`CREATE FUNCTION f() "BEGIN" ATOMIC; END`: "END", "CREATE FUNCTION f() BEGIN 'x' ATOMIC; END": "END", "CREATE OR COMMIT; END": "END",
		"CREATE FUNCTION f() BEGIN ATOMIC CREATE FUNCTION g() BEGIN ATOMIC END; END; END": "END",
		`SELECT E'a''b\'; COMMIT'`: "", `SELECT E'a''b\\'; COMMIT --'`: "COMMIT", "SELECT E'a'\n--\n'\\'; COMMIT'": "", `SELECT E'a' '\'; COMMIT --'`: "COMMIT", "SELECT E'a'\n'\\'''; COMMIT --'": "",
		`SELECT 'a\'; COMMIT --'`: "COMMIT", `SELECT 'a\', '; COMMIT'`: "COMMIT", `SELECT B'1'; END`: "END", `SELECT n'\'; END --'`: "END", `SELECT U&'\'; END --'`: "END", `SELECT 'a\b'; SELECT 1`: "",
		"SELECT a$$; END; SELECT b$$": "END", "SELECT $1$$; END $$": "", "SELECT $a$ $b$ $A$ $a; END $a$": "", "SELECT $é$; END $é$": "", "SELECT $$ $": "", "SELECT '": "", `SELECT E'\`: "", `SELECT "`: "", "SELECT e": "", "SELECT $": "",
		"\n\t; -- note\n/* COMMIT */ COMMIT": "COMMIT", "commits": "", "COMMIT\nAND CHAIN": "COMMIT",
	} {
		if got := transactionControl(sql); got != want {
			t.Errorf("%q is %q, want %q", sql, got, want)
		}
	}
}

// What may leave something in its session is known by its words.
//
// Field case 50.
func TestLasting(t *testing.T) {
	for sql, want := range map[string]bool{
		"": false, "SELECT 1": false, "(SELECT 1)": false, "-- SET x": false, "UPDATE t SET a = 1": false, "with x as (select 1) table x": false,
		"INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING": false, "SELECT ';SET x'": false, "CREATE TABLE t ()": false, "SELECT 1;": false,
		"SET LOCAL lock_timeout = 1": false, "set /* x */ local a = 1": false, "SET CONSTRAINTS ALL DEFERRED": false,
		"SET lock_timeout = 1": true, "/* x */ set x to 1": true, "SELECT 1; SET x = 1": true, "RESET ALL": true, "SET ROLE r": true,
		"LISTEN news": true, "DECLARE c CURSOR WITH HOLD FOR SELECT 1": true, "PREPARE q AS SELECT 1": true, "DO $$ BEGIN END $$": true,
		"CALL p()": true, "LOAD 'x'": true, "PRAGMA foreign_keys = off": true,
		"SELECT pg_advisory_lock(1)": true, "SELECT PG_TRY_ADVISORY_LOCK(1)": true, "SELECT set_config('a', 'b', false)": true,
		"CREATE TEMP TABLE t ()": true, "create temporary table t ()": true, "SELECT 1 INTO TEMP t": true, "CREATE TABLE pg_temp.t ()": true,
	} {
		if got := lasting(sql, headsOf(sql)); got != want {
			t.Errorf("lasting(%q) = %v", sql, got)
		}
	}
}

// What makes no sense without a session of one's own is named, and nothing else: a pooler's client is refused it.
func TestNeedsSession(t *testing.T) {
	for sql, want := range map[string]string{
		"": "", "SELECT 1": "", "-- LISTEN x": "", "SELECT 'LISTEN x'": "", `SELECT "pg_advisory_lock" (1)`: "", "/* /* ; */ ; LISTEN x */ SELECT 1": "",
		"LISTEN news": "LISTEN", "listen news": "LISTEN", "SELECT 1; /* x */ UNLISTEN *": "UNLISTEN", "NOTIFY news": "", "SELECT pg_notify('LISTEN', 'x')": "",
		"SET lock_timeout = 1": "SET", "SET SESSION a = 1": "SET", "SET ROLE r": "SET", "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY": "SET",
		"SET TIME ZONE 'UTC'": "SET", "RESET ALL": "RESET", "DISCARD ALL": "DISCARD", "LOAD 'x'": "LOAD",
		"SET LOCAL lock_timeout = 1": "", "set /* x */ local a = 1": "", "SET TRANSACTION READ ONLY": "", "SET CONSTRAINTS ALL DEFERRED": "",
		"UPDATE t SET a = 1": "", "UPDATE temp SET temporary = 1": "", "INSERT INTO t SELECT 1 ON CONFLICT DO UPDATE SET a = 1": "",
		"SELECT E'a\\'; LISTEN x'": "", "SELECT E'a\\\\'; LISTEN x": "LISTEN", "SELECT 'a\\'; LISTEN x": "LISTEN", "SELECT $$; LISTEN x$$": "", "SELECT $x$; $$ LISTEN x$x$; LISTEN y": "LISTEN",
		"DO $$ BEGIN PERFORM pg_advisory_lock(1); END $$": "",
		"PREPARE q AS SELECT 1":                           "PREPARE", "EXECUTE q": "EXECUTE", "DEALLOCATE ALL": "DEALLOCATE",
		"SELECT pg_advisory_lock(1)": "pg_advisory_lock", "SELECT PG_TRY_ADVISORY_LOCK (1, 2)": "pg_try_advisory_lock",
		"select pg_catalog.pg_advisory_unlock_all()": "pg_advisory_unlock_all", "WITH x AS (SELECT pg_advisory_lock_shared(1)) TABLE x": "pg_advisory_lock_shared",
		"GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint) TO x": "", "COMMENT ON FUNCTION set_config(text, text, boolean) IS NULL": "",
		"SELECT pg_advisory_xact_lock(1)": "", "SELECT pg_try_advisory_xact_lock(1)": "", "SELECT pg_advisory_lock FROM t": "", "SELECT 1 -- pg_advisory_lock(1)": "",
		"SELECT set_config('a', 'b', false)": "set_config(..., false)", "SELECT set_config('a', coalesce($1, 'x'), FALSE), true": "set_config(..., false)",
		"SELECT set_config('a', 'b', true)": "", "SELECT set_config('a', (CASE WHEN false THEN 'b' END), true)": "", "SELECT set_config($1, $2, $3)": "",
		"CREATE TEMP TABLE t ()": "CREATE TEMPORARY TABLE", "create local temporary table t (a int)": "CREATE TEMPORARY TABLE", "CREATE TEMP VIEW v AS SELECT 1": "CREATE TEMPORARY VIEW",
		"CREATE OR REPLACE TEMP VIEW v AS SELECT 1": "CREATE TEMPORARY VIEW", "CREATE TEMP SEQUENCE s": "CREATE TEMPORARY SEQUENCE",
		"CREATE TEMP TABLE t (a int) ON COMMIT DROP": "", "CREATE TEMP TABLE t ON COMMIT DROP AS SELECT 1": "", "CREATE TEMP TABLE t () ON COMMIT DELETE ROWS": "CREATE TEMPORARY TABLE",
		"CREATE TABLE temp (temporary int)": "", "CREATE TABLE pg_temp.t ()": "CREATE TABLE in pg_temp", "CREATE TABLE t AS SELECT * FROM pg_temp.s": "",
		"SELECT 1 INTO TEMP t": "SELECT INTO TEMP", "SELECT a INTO TEMPORARY TABLE t FROM b": "SELECT INTO TEMPORARY", "INSERT INTO temp VALUES (1)": "", "SELECT a INTO temp FROM b": "",
		"DECLARE c CURSOR WITH HOLD FOR SELECT 1": "DECLARE ... WITH HOLD", "DECLARE c CURSOR FOR SELECT 1": "", "DECLARE c CURSOR WITHOUT HOLD FOR SELECT 1": "",
		"DECLARE c CURSOR FOR WITH hold AS (SELECT 1) TABLE hold": "", "SELECT 'open ; LISTEN x": "", "SELECT E'open \\": "", "SELECT /* open": "",
	} {
		got := needsSession(sql)
		if got != want {
			t.Errorf("%q needs a session for %q, want %q", sql, got, want)
		}
		if got != "" && !lasting(sql, headsOf(sql)) {
			t.Errorf("%q is not suspected to last", sql)
		}
	}
}
