package sqlite

import (
	"fmt"
	"math"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
)

// dialect is how SQLite spells what hare says. The functions and the collation in it are hare's own; see functions.go.
type dialect struct{ alias string }

// uuidType is the declared type of a UUID column, by which it is told from a text.
const uuidType = "CHAR(36)"

// TypeName is the column's type in DDL. SQLite takes any name, and derives from it which numbers and texts it converts
// (documentation, Datatypes In SQLite): a decimal must have TEXT in its name to stay the text that it is. A boolean and an
// instant are given names that other programs know.
func (d dialect) TypeName(t backend.ColumnType) (string, error) {
	if t.Override != "" {
		return t.Override, nil
	}
	switch t.Kind {
	case backend.KindBool:
		return "BOOLEAN", nil
	case backend.KindInt16:
		return "SMALLINT", nil
	case backend.KindInt32:
		return "INTEGER", nil
	case backend.KindInt64, backend.KindDuration:
		return "BIGINT", nil
	case backend.KindFloat:
		return "REAL", nil
	case backend.KindText:
		if t.Size > 0 {
			return fmt.Sprintf("VARCHAR(%d)", t.Size), nil
		}
		return "TEXT", nil
	case backend.KindBytes:
		return "BLOB", nil
	case backend.KindTime:
		return "TIMESTAMP", nil
	case backend.KindUUID:
		return uuidType, nil
	case backend.KindDecimal:
		if t.Precision == 0 {
			return "DECIMAL_TEXT COLLATE " + decimalCollation, nil
		}
		return fmt.Sprintf("DECIMAL_TEXT(%d,%d) COLLATE %s", t.Precision, t.Scale, decimalCollation), nil
	case backend.KindJSON:
		return "JSON_TEXT", nil
	}
	return "", &features.UnsupportedError{
		Alias: d.alias, Backend: supported.Backend, Feature: features.Arrays,
		Detail: "SQLite has no array columns; tag the field json to keep the list as a document",
	}
}

// GeneratedKey is the key that SQLite generates. AUTOINCREMENT never gives out a key again, as on PostgreSQL, for the
// price of one more page to write.
func (dialect) GeneratedKey(backend.ColumnType) (clause string, inline bool) {
	return "INTEGER PRIMARY KEY AUTOINCREMENT", true
}

// In reads the list from the table-valued function array. The column stands alone on the left, so that its affinity and
// collation are those of the comparison, as they are with =.
func (dialect) In(column string, _ backend.ColumnType, placeholder string) string {
	return column + " IN (SELECT value FROM array(" + placeholder + "))"
}

// Match compares characters without LIKE, which folds the case of ASCII letters and has wildcards.
func (dialect) Match(match backend.TextMatch, column string, placeholder string) string {
	switch match {
	case backend.MatchExactFold, backend.MatchContainsFold, backend.MatchStartsWithFold, backend.MatchEndsWithFold:
		column = "hare_fold(" + column + ")"
	}
	switch match {
	case backend.MatchExactFold:
		return column + " = " + placeholder
	case backend.MatchStartsWith, backend.MatchStartsWithFold:
		return "substr(" + column + ", 1, length(" + placeholder + ")) = " + placeholder
	case backend.MatchEndsWith, backend.MatchEndsWithFold:
		// Counted from the start: substr(x, -0) is the whole of x.
		return "substr(" + column + ", length(" + column + ") - length(" + placeholder + ") + 1) = " + placeholder
	}
	return "instr(" + column + ", " + placeholder + ") > 0"
}

// Pattern is the text itself, or its folded form: there are no wildcards to escape.
func (dialect) Pattern(match backend.TextMatch, text string) string {
	switch match {
	case backend.MatchExactFold, backend.MatchContainsFold, backend.MatchStartsWithFold, backend.MatchEndsWithFold:
		return fold(text)
	}
	return text
}

// Compute calls a function of ours: SQLite's own operators turn an overflow into a float, a division by zero into NULL and
// a decimal into a float.
func (dialect) Compute(op string, t backend.ColumnType, left, right string) string {
	switch t.Kind {
	case backend.KindFloat:
		return fmt.Sprintf("hare_float_%s(%s, %s)", operations[op], left, right)
	case backend.KindDecimal:
		if t.Precision == 0 {
			return fmt.Sprintf("(hare_decimal_%s(%s, %s) COLLATE %s)", operations[op], left, right, decimalCollation)
		}
		return fmt.Sprintf("(hare_decimal_%s(%s, %s, %d, %d) COLLATE %s)", operations[op], left, right, t.Precision, t.Scale, decimalCollation)
	}
	return fmt.Sprintf("hare_integer_%s(%s, %s, %d)", operations[op], left, right, width(t.Kind))
}

func width(kind backend.Kind) int {
	switch kind {
	case backend.KindInt16:
		return 16
	case backend.KindInt32:
		return 32
	}
	return 64
}

// Argument is the placeholder itself: a value brings its type with it. Only the length of a text has to be seen to.
func (dialect) Argument(t backend.ColumnType, placeholder string) string {
	if t.Kind == backend.KindText && t.Size > 0 {
		return fmt.Sprintf("hare_text(%s, %d)", placeholder, t.Size)
	}
	return placeholder
}

// Rows has no form here: a statement that runs once for each row costs no round trip, and returns the rows in order.
func (dialect) Rows([]backend.ColumnType, []string) (expr string, ok bool) { return "", false }

// Limit is the LIMIT and OFFSET clause. SQLite has no OFFSET alone; a negative limit is none.
func (dialect) Limit(limit, offset string) string {
	switch {
	case offset == "" && limit == "":
		return ""
	case offset == "":
		return "LIMIT " + limit
	case limit == "":
		limit = "-1"
	}
	return "LIMIT " + limit + " OFFSET " + offset
}

// SchemaLock is empty: the transaction of a schema change holds the one write lock.
func (dialect) SchemaLock() string { return "" }

// Begin takes the write lock at once; see the package comment. Every isolation level that can be asked for is at most
// what SQLite gives, and a statement's time-out is left to the caller's context.
func (dialect) Begin(opts backend.TxOptions) []string {
	begin := []string{"BEGIN IMMEDIATE"}
	if opts.ReadOnly {
		begin = []string{"BEGIN", readOnlyOn}
	}
	if opts.LockTimeoutMS > 0 {
		wait := fmt.Sprintf("PRAGMA busy_timeout=%d", min(opts.LockTimeoutMS, math.MaxInt32))
		begin = append([]string{wait}, begin...)
	}
	return begin
}
