package hare

import "testing"

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
