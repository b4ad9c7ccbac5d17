package schema

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
)

// maxName is the longest name in bytes: PostgreSQL cuts longer ones silently, so that two of them can become one.
const maxName = 63

// snake turns a Go name into a column's: AuthorID into author_id, HTTPServer into http_server, BookIDs into book_ids.
func snake(name string) string {
	runes := []rune(name)
	var b strings.Builder
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 && runes[i-1] != '_' && startsWord(runes, i) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// startsWord reports whether the upper-case letter at i begins a word: it follows a lower-case letter or a digit, or
// it is the last capital of an abbreviation and a word goes on after it. The plural of an abbreviation is no such word.
func startsWord(runes []rune, i int) bool {
	if !unicode.IsUpper(runes[i-1]) {
		return true
	}
	if i+1 == len(runes) || !unicode.IsLower(runes[i+1]) {
		return false
	}
	plural := runes[i+1] == 's' && (i+2 == len(runes) || !unicode.IsLower(runes[i+2]))
	return !plural
}

// checkName says what is wrong with a name of the database, or nothing. Names are quoted wherever they go; the
// limits are for people, who write them unquoted elsewhere.
func checkName(name string) string {
	switch {
	case name == "":
		return "a name must not be empty"
	case len(name) > maxName:
		return "a name has at most 63 bytes, as PostgreSQL cuts longer ones"
	}
	for _, r := range name {
		if r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return "a name has only letters from A to Z, digits and underscores"
		}
	}
	return ""
}

// checkStep says what is wrong with a name that is a step of a query path.
func checkStep(name string) string {
	switch {
	case strings.Contains(name, "__"):
		return "a name must not contain \"__\", which separates the steps of a query path"
	case strings.HasSuffix(name, "_"):
		return "a name must not end in \"_\", as a query path could not be split after it"
	}
	return checkName(name)
}

// ConstraintName is the name of a constraint: the prefix (pk, fk, uq, ck), the table and the columns, joined by
// underscores. One that would be too long is cut and made distinct by a digest.
func ConstraintName(prefix, table string, columns ...string) string {
	parts := append([]string{prefix, table}, columns...)
	if name := strings.Join(parts, "_"); len(name) <= maxName {
		return name
	}
	return withDigest(parts)
}

// indexName is the name of an index that the model does not name: idx_<table>_<columns>_<digest>.
func indexName(table string, columns []*Column) string {
	parts := []string{"idx", table}
	for _, column := range columns {
		parts = append(parts, column.Name)
	}
	return withDigest(parts)
}

// withDigest joins the parts. The digest tells names apart that are the same once they are joined or cut.
func withDigest(parts []string) string {
	name, sum := strings.Join(parts, "_"), sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	digest := "_" + hex.EncodeToString(sum[:6])
	if len(name)+len(digest) > maxName {
		name = name[:maxName-len(digest)]
	}
	return name + digest
}
