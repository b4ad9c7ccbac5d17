package postgres

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hare-go/hare/hare/backend"
)

// typeName is the column's type in DDL.
func typeName(t backend.ColumnType) (string, error) {
	switch {
	case t.Override != "":
		return t.Override, nil
	case t.Kind == backend.KindArray && t.Elem != nil:
		element, err := typeName(*t.Elem)
		return element + "[]", err
	case t.Kind == backend.KindText && t.Size > 0:
		return fmt.Sprintf("varchar(%d)", t.Size), nil
	case t.Kind == backend.KindDecimal && t.Precision > 0:
		return fmt.Sprintf("numeric(%d,%d)", t.Precision, t.Scale), nil
	}
	if name := bareNames[t.Kind]; name != "" {
		return name, nil
	}
	return "", fmt.Errorf("postgres: a column of kind %d has no type", t.Kind)
}

// bareNames are the types without their modifiers.
var bareNames = map[backend.Kind]string{
	backend.KindBool:     "boolean",
	backend.KindInt16:    "smallint",
	backend.KindInt32:    "integer",
	backend.KindInt64:    "bigint",
	backend.KindFloat:    "double precision",
	backend.KindText:     "text",
	backend.KindBytes:    "bytea",
	backend.KindTime:     "timestamptz",
	backend.KindDuration: "bigint",
	backend.KindUUID:     "uuid",
	backend.KindDecimal:  "numeric",
	backend.KindJSON:     "jsonb",
}

// castName is the type to cast a value of the column to. It has no length and no precision: a cast cuts to them silently,
// where a column refuses. It is empty for an override that is more than the name of such a type.
func castName(t backend.ColumnType) string {
	switch {
	case t.Override != "":
		if !bareWord.MatchString(t.Override) || slices.Contains(uncastable, strings.ToLower(t.Override)) {
			return ""
		}
		return t.Override
	case t.Kind == backend.KindArray && t.Elem != nil:
		if element := castName(*t.Elem); element != "" {
			return element + "[]"
		}
		return ""
	}
	return bareNames[t.Kind]
}

var bareWord = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// uncastable are words that as a cast cut to one character, or are no types outside DDL.
var uncastable = []string{
	"char", "character", "nchar", "bit",
	"smallserial", "serial", "bigserial", "serial2", "serial4", "serial8",
}
