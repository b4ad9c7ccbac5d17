package hare

import "strings"

// transactionControl is the word of a statement in the text that begins or ends a transaction or a savepoint, or empty.
// Sent by hand, such a statement would commit one database of a distributed transaction behind the others' backs. This
// guards against mistakes, not against a text that is made to deceive.
func transactionControl(sql string) string {
	body := false // the text defines a trigger or a function, whose body ends with END
	for sql != "" {
		first, rest := word(sql)
		second, _ := word(rest)
		body = body || first == "CREATE"
		switch first {
		case "END":
			if !body {
				return first
			}
		case "BEGIN", "ABORT", "SAVEPOINT", "RELEASE":
			return first
		case "COMMIT", "ROLLBACK":
			if second != "PREPARED" { // that acts on a transaction that is no connection's own
				return first
			}
		case "START", "PREPARE":
			if second == "TRANSACTION" {
				return first + " " + second
			}
		}
		sql = afterStatement(rest)
	}
	return ""
}

// momentary are the first words of statements that leave nothing in the session once their transaction has ended, unless
// they make something temporary or call a function that is made to last.
var momentary = map[string]bool{
	"SELECT": true, "INSERT": true, "UPDATE": true, "DELETE": true, "MERGE": true, "WITH": true, "VALUES": true, "TABLE": true,
	"EXPLAIN": true, "CREATE": true, "ALTER": true, "DROP": true, "TRUNCATE": true, "LOCK": true, "NOTIFY": true,
	"": true, // nothing, or a parenthesis
}

// lasting reports whether a statement in the text may leave something in the session that outlives its transaction: a
// setting, a lock of the session, a held cursor, a temporary table, a prepared statement. It may say so of one that leaves
// nothing, which costs a round trip; what a function does in the database it cannot know.
func lasting(sql string) bool {
	folded := strings.ToLower(sql)
	for _, part := range []string{"advisory", "set_config", "temp"} {
		if strings.Contains(folded, part) {
			return true
		}
	}
	for sql != "" {
		first, rest := word(sql)
		second, _ := word(rest)
		local := first == "SET" && (second == "LOCAL" || second == "TRANSACTION" || second == "CONSTRAINTS")
		if !momentary[first] && !local {
			return true
		}
		sql = afterStatement(rest)
	}
	return false
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

// afterStatement is what follows the statement that sql is in: after the next semicolon that stands in no text, name or
// comment.
func afterStatement(sql string) string {
	for {
		at := strings.IndexAny(sql, `;'"$-/`)
		if at < 0 {
			return ""
		}
		if sql[at] == ';' {
			return sql[at+1:]
		}
		sql = afterMark(sql[at:])
	}
}

// isTag reports whether the text between two dollars makes them a dollar quote; $1 is a placeholder.
func isTag(text string) bool {
	for i, r := range text {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '_' || r > 127
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return true
}
