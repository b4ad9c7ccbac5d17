package hare

import "strings"

// transactionControl is the word of a statement in the text that begins or ends a transaction or a savepoint, or empty.
// Sent by hand, such a statement would commit one database of a distributed transaction behind the others' backs.
//
// PostgreSQL parses a whole text before it runs any of it, so that only texts count that its grammar accepts. In those a
// statement that controls transactions stands at the beginning or after a semicolon, and nowhere else: wherever a
// semicolon stands, in parentheses too, the next word is looked at. The one word that means something else there is the
// END of a function's body. Where the session's settings decide how a constant is read, both ways are tried. A
// doubt therefore refuses what the server would have taken, and never the other way round.
func transactionControl(sql string) string {
	word := controlIn(lexer{rest: sql})
	if word == "" && strings.Contains(sql, `\`) {
		word = controlIn(lexer{rest: sql, backslashes: true})
	}
	return word
}

// controlIn is transactionControl for one way to read constants.
func controlIn(l lexer) string {
	body, more := false, true // in the body of a function; the text goes on
	for more {
		first := l.next()
		if body && strings.EqualFold(first, "END") {
			if first, body = l.next(), false; first != ";" && first != "" {
				return "END"
			}
		}
		switch first {
		case "":
			return ""
		case ";":
			continue
		}
		second := l.next()
		if word := controlWord(strings.ToUpper(first), strings.ToUpper(second)); word != "" {
			return word
		}
		var opened bool
		opened, more = l.skip(first, second)
		body = body || opened
	}
	return ""
}

// controlWord names the statement that begins with two words if it controls transactions.
func controlWord(first, second string) string {
	switch first {
	case "BEGIN", "END", "ABORT", "SAVEPOINT", "RELEASE":
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
	return ""
}

// skip reads the rest of a statement, whose first two tokens have been read: to the end of the text, past its semicolon, or
// into the body of the function that it defines, BEGIN ATOMIC. The two words follow one another nowhere else outside
// parentheses, though each may be a name: begin.atomic is a type.
func (l *lexer) skip(first, second string) (body, more bool) {
	if strings.EqualFold(first, "CREATE") && strings.EqualFold(second, "OR") {
		if second = l.next(); strings.EqualFold(second, "REPLACE") {
			second = l.next()
		}
	}
	routine := strings.EqualFold(first, "CREATE") && (strings.EqualFold(second, "FUNCTION") || strings.EqualFold(second, "PROCEDURE"))
	depth, last := 0, ""
	for token := second; ; token = l.next() {
		switch token {
		case "":
			return false, false
		case ";":
			return false, true
		case "(":
			depth++
		case ")":
			depth--
		}
		if routine && depth == 0 && strings.EqualFold(last, "BEGIN") && strings.EqualFold(token, "ATOMIC") {
			return true, true
		}
		last = token
	}
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
