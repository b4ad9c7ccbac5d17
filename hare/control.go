package hare

import "strings"

// transactionControl is the word of a statement in the text that begins or ends a transaction or a savepoint, or empty.
// Sent by hand, such a statement would commit one database of a distributed transaction behind the others' backs.
func transactionControl(heads []head) string {
	body := false // the text defines a trigger or a function, whose body ends with END
	for _, h := range heads {
		body = body || h.first == "CREATE"
		switch h.first {
		case "END":
			if !body {
				return h.first
			}
		case "BEGIN", "ABORT", "SAVEPOINT", "RELEASE":
			return h.first
		case "COMMIT", "ROLLBACK":
			if h.second != "PREPARED" { // that acts on a transaction that is no connection's own
				return h.first
			}
		case "START", "PREPARE":
			if h.second == "TRANSACTION" {
				return h.first + " " + h.second
			}
		}
	}
	return ""
}

// momentary are the first words of statements that leave nothing in the session once their transaction has ended, unless
// they make something temporary or call a function that is made to last.
var momentary = map[string]bool{
	"SELECT": true, "INSERT": true, "UPDATE": true, "DELETE": true, "MERGE": true, "WITH": true, "VALUES": true, "TABLE": true,
	"EXPLAIN": true, "CREATE": true, "ALTER": true, "DROP": true, "TRUNCATE": true, "LOCK": true, "NOTIFY": true,
	"": true, // nothing
}

// lasting reports whether a statement in the text may leave something in the session that outlives its transaction: a
// setting, a lock of the session, a held cursor, a temporary table, a prepared statement. It may say so of one that leaves
// nothing, which costs a round trip; what a function does in the database it cannot know.
func lasting(sql string, heads []head) bool {
	folded := strings.ToLower(sql)
	for _, part := range []string{"advisory", "set_config", "temp"} {
		if strings.Contains(folded, part) {
			return true
		}
	}
	for _, h := range heads {
		local := h.first == "SET" && (h.second == "LOCAL" || h.second == "TRANSACTION" || h.second == "CONSTRAINTS")
		if !momentary[h.first] && !local {
			return true
		}
	}
	return false
}
