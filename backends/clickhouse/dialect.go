package clickhouse

import (
	"fmt"
	"strings"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
)

// dialect is how ClickHouse spells what hare says.
type dialect struct{ alias string }

// TypeName is the column's type in DDL. A document is a String: the type JSON is newer than the oldest server.
func (d dialect) TypeName(t backend.ColumnType) (string, error) {
	if t.Override != "" {
		return t.Override, nil
	}
	switch t.Kind {
	case backend.KindBool:
		return "Bool", nil
	case backend.KindInt16:
		return "Int16", nil
	case backend.KindInt32:
		return "Int32", nil
	case backend.KindInt64, backend.KindDuration:
		return "Int64", nil
	case backend.KindFloat:
		return "Float64", nil
	case backend.KindText, backend.KindBytes, backend.KindJSON:
		return "String", nil
	case backend.KindTime:
		return "DateTime64(6, 'UTC')", nil
	case backend.KindUUID:
		return "UUID", nil
	case backend.KindDecimal:
		if t.Precision > 0 && t.Precision <= maxPrecision {
			return fmt.Sprintf("Decimal(%d, %d)", t.Precision, t.Scale), nil
		}
		return "", d.unsupported(features.ExactDecimals, fmt.Sprintf("a decimal has 1 to %d digits", maxPrecision))
	case backend.KindArray:
		elem, err := d.TypeName(*t.Elem)
		return "Array(" + elem + ")", err
	}
	return "", d.unsupported(Queries, "ClickHouse has no type for the column")
}

// maxPrecision is the largest precision of a decimal.
const maxPrecision = 76

func (d dialect) unsupported(feature features.Flag, detail string) error {
	return &features.UnsupportedError{Alias: d.alias, Backend: supported.Backend, Feature: feature, Detail: detail}
}

// GeneratedKey is the key's own type: ClickHouse generates none, as its features say.
func (d dialect) GeneratedKey(t backend.ColumnType) (clause string, inline bool) {
	clause, _ = d.TypeName(t) // an integer type cannot fail
	return clause, false
}

// In looks into an array.
func (dialect) In(column string, _ backend.ColumnType, placeholder string) string {
	return "has(" + placeholder + ", " + column + ")"
}

// Match compares texts by functions that have no wildcards.
func (dialect) Match(match backend.TextMatch, column string, placeholder string) string {
	switch match {
	case backend.MatchExactFold, backend.MatchContainsFold, backend.MatchStartsWithFold, backend.MatchEndsWithFold:
		column, placeholder = "upperUTF8("+column+")", "upperUTF8("+placeholder+")"
	}
	switch match {
	case backend.MatchExactFold:
		return column + " = " + placeholder
	case backend.MatchStartsWith, backend.MatchStartsWithFold:
		return "startsWith(" + column + ", " + placeholder + ")"
	case backend.MatchEndsWith, backend.MatchEndsWithFold:
		return "endsWith(" + column + ", " + placeholder + ")"
	}
	return "position(" + column + ", " + placeholder + ") > 0"
}

// Pattern is the text itself.
func (dialect) Pattern(_ backend.TextMatch, text string) string { return text }

// Compute is an arithmetic expression. The quotient of integers is cut towards zero, as everywhere in hare.
func (dialect) Compute(op string, t backend.ColumnType, left, right string) string {
	integer := t.Kind == backend.KindInt16 || t.Kind == backend.KindInt32 || t.Kind == backend.KindInt64
	if op == "/" && integer {
		return "intDiv(" + left + ", " + right + ")"
	}
	return "(" + left + " " + op + " " + right + ")"
}

// Argument is a placeholder that says its type.
func (d dialect) Argument(t backend.ColumnType, placeholder string) string {
	if name, err := d.TypeName(t); err == nil {
		return "CAST(" + placeholder + " AS " + name + ")"
	}
	return placeholder
}

// Rows has no form.
func (dialect) Rows([]backend.ColumnType, []string) (expr string, ok bool) { return "", false }

// Limit is the LIMIT and OFFSET clause.
func (dialect) Limit(limit, offset string) string {
	var parts []string
	if limit != "" {
		parts = append(parts, "LIMIT "+limit)
	}
	if offset != "" {
		parts = append(parts, "OFFSET "+offset)
	}
	return strings.Join(parts, " ")
}

// SchemaLock is empty: ClickHouse has no lock that a transaction could hold.
func (dialect) SchemaLock() string { return "" }

// Begin is empty: ClickHouse has no transactions, as its features say.
func (dialect) Begin(backend.TxOptions) []string { return nil }
