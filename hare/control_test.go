package hare

import "testing"

// A statement that ends a transaction is found wherever it stands in a text, so that nobody commits a participant by
// hand.
//
// W10.
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
		"CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b; END": "", "CREATE TABLE a (x); COMMIT": "COMMIT",
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
		if got := lasting(sql); got != want {
			t.Errorf("lasting(%q) = %v", sql, got)
		}
	}
}
