package hare

import "strings"

// transactionControl is the word of a statement that begins or ends a transaction or a savepoint, or empty. Sent by
// hand, such a statement would commit one database of a distributed transaction behind the others' backs. The first
// words decide; this guards against mistakes, not against a text that is made to deceive.
func transactionControl(sql string) string {
	first, rest := word(sql)
	second, _ := word(rest)
	switch first {
	case "BEGIN", "END", "ABORT", "SAVEPOINT", "RELEASE":
		return first
	case "COMMIT", "ROLLBACK":
		if second == "PREPARED" { // acts on a transaction that is no connection's own
			return ""
		}
		return first
	case "START", "PREPARE":
		if second == "TRANSACTION" {
			return first + " " + second
		}
	}
	return ""
}

// word is the first word of a statement in upper case and what follows it; blanks and comments before it are skipped.
func word(sql string) (first, rest string) {
	sql = skipComments(sql)
	end := strings.IndexFunc(sql, func(r rune) bool { return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z') })
	if end < 0 {
		end = len(sql)
	}
	return strings.ToUpper(sql[:end]), sql[end:]
}

func skipComments(sql string) string {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n\f\v;")
		switch {
		case strings.HasPrefix(sql, "--"):
			_, sql, _ = strings.Cut(sql, "\n")
		case strings.HasPrefix(sql, "/*"):
			_, sql, _ = strings.Cut(sql, "*/")
		default:
			return sql
		}
	}
}
