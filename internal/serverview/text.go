// Package serverview reads what PostgreSQL's system views say about others: the names that strangers gave their prepared
// transactions, and who holds a lock. Its SQL resolves no name through the search_path.
package serverview

import (
	"encoding/hex"
	"strings"
)

// Bytes is an SQL expression for the bytes of a text, in a form that [Text] takes apart.
//
// Names that all databases of a cluster share, GIDs and roles among them, are in the encoding of the database that they
// were given in. The one that reads them may not be able to show them: PostgreSQL then refuses the whole statement, so that
// one stranger's name would hide all others. quote_literal and the cast copy bytes without looking at the encoding; a plain
// cast of the text would read backslashes.
func Bytes(text string) string {
	return "pg_catalog.encode(pg_catalog.quote_literal(" + text + ")::pg_catalog.bytea, 'hex')"
}

// Text is what [Bytes] has read, byte for byte: it may be invalid UTF-8. What is no such form is empty, as NULL is.
func Text(form string) string {
	raw, err := hex.DecodeString(form)
	if err != nil {
		return ""
	}
	text := strings.TrimPrefix(string(raw), "E")
	text, begun := strings.CutPrefix(text, "'")
	text, ended := strings.CutSuffix(text, "'")
	if !begun || !ended {
		return ""
	}
	return strings.ReplaceAll(text, "''", "'")
}
