package hare

import "strings"

// lexer reads SQL as PostgreSQL's own scanner does (src/backend/parser/scan.l), so that what is a constant, a quoted name
// or a comment to the server is one here, too.
type lexer struct {
	rest string
	// backslashes: in a plain constant a backslash takes the meaning from a quote, as in an E'' constant. Which way the
	// server reads them is a setting of its session (standard_conforming_strings).
	backslashes bool
}

// next is the next token: a word as it is written, "'" for a constant, `"` for a quoted name, or any other character by
// itself; empty at the end. A constant or comment without an end reaches to the end of the text, which the server refuses.
func (l *lexer) next() string {
	for l.rest != "" {
		sql := l.rest
		switch c := sql[0]; {
		case strings.IndexByte(" \t\n\r\f\v", c) >= 0:
			l.rest = sql[1:]
		case strings.HasPrefix(sql, "--"):
			l.rest = afterLine(sql)
		case strings.HasPrefix(sql, "/*"):
			l.rest = afterComment(sql[2:])
		case c == '\'':
			l.rest = afterConstant(sql[1:], l.backslashes)
			return "'"
		case c == '"':
			_, l.rest, _ = strings.Cut(sql[1:], `"`) // a doubled quote ends one name and begins the next
			return `"`
		case c == '$':
			return l.dollar()
		case startsWord(c):
			return l.word()
		default:
			l.rest = sql[1:]
			return sql[:1]
		}
	}
	return ""
}

// word is the word at the start, or the constant of which it is the prefix.
func (l *lexer) word() string {
	sql, end := l.rest, 1
	for end < len(sql) && (startsWord(sql[end]) || '0' <= sql[end] && sql[end] <= '9' || sql[end] == '$') {
		end++
	}
	if end == 1 && strings.HasPrefix(sql[1:], "'") {
		switch sql[0] {
		case 'e', 'E':
			l.rest = afterConstant(sql[2:], true)
			return "'"
		case 'b', 'B', 'x', 'X':
			l.rest = afterConstant(sql[2:], false)
			return "'"
		}
	}
	l.rest = sql[end:]
	return sql[:end]
}

// dollar is the constant between dollar quotes at the start, or the dollar alone, as before the number of a placeholder.
func (l *lexer) dollar() string {
	sql := l.rest
	if tag, body, found := strings.Cut(sql[1:], "$"); found && isTag(tag) {
		_, l.rest, _ = strings.Cut(body, sql[:len(tag)+2])
		return "'"
	}
	l.rest = sql[1:]
	return "$"
}

// token is the next word of a text of SQL as it is written, or one of ; ( ), and what follows it; it is empty at the end.
func token(sql string) (word, rest string) {
	l := lexer{rest: sql}
	for {
		word := l.next()
		if word == "" || startsWord(word[0]) || word == ";" || word == "(" || word == ")" {
			return word, l.rest
		}
	}
}

// head is the first two words of a statement in upper case, empty where it has fewer. Parentheses do not count.
type head struct{ first, second string }

// headsOf are the heads of a text's statements.
func headsOf(sql string) []head {
	heads := make([]head, 1, 2)
	for word, rest := token(sql); word != ""; word, rest = token(rest) {
		last := &heads[len(heads)-1]
		switch {
		case word == ";":
			heads = append(heads, head{})
		case word == "(" || word == ")":
		case last.first == "":
			last.first = strings.ToUpper(word)
		case last.second == "":
			last.second = strings.ToUpper(word)
		}
	}
	return heads
}

// statementsOf are all words of each statement of a text in upper case, and its parentheses.
func statementsOf(sql string) (statements [][]string) {
	var words []string
	for word, rest := token(sql); word != ""; word, rest = token(rest) {
		if word == ";" {
			statements, words = append(statements, words), nil
			continue
		}
		words = append(words, strings.ToUpper(word))
	}
	return append(statements, words)
}

func startsWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c > 127
}

// afterLine is what follows a comment to the end of its line.
func afterLine(sql string) string {
	if end := strings.IndexAny(sql, "\n\r"); end >= 0 {
		return sql[end:]
	}
	return ""
}

// afterComment is what follows a comment, in which others may be nested.
func afterComment(sql string) string {
	for depth := 1; depth > 0; {
		at := strings.IndexAny(sql, "*/")
		if at < 0 || at+1 == len(sql) {
			return ""
		}
		switch sql[at : at+2] {
		case "*/":
			depth--
			at++
		case "/*":
			depth++
			at++
		}
		sql = sql[at+1:]
	}
	return sql
}

// afterConstant is what follows a constant whose first quote has been read. One that goes on in a later line, after a
// quote and another quote there, stays of its kind (PostgreSQL documentation, String Constants).
func afterConstant(sql string, backslashes bool) string {
	for {
		sql = afterQuote(sql, backslashes)
		next, ok := continued(sql)
		if !ok {
			return sql
		}
		sql = next
	}
}

// afterQuote is what follows the quote that ends a part of a constant.
func afterQuote(sql string, backslashes bool) string {
	for {
		at := strings.IndexAny(sql, `\'`)
		if at < 0 {
			return ""
		}
		quote := sql[at] == '\''
		sql = sql[at+1:]
		switch {
		case quote && !strings.HasPrefix(sql, "'"):
			return sql
		case (quote || backslashes) && sql != "":
			sql = sql[1:]
		}
	}
}

// continued is what follows the quote with which a constant goes on: it comes after a line's end, with nothing but white space
// and -- comments before it.
func continued(sql string) (rest string, ok bool) {
	for line := false; sql != ""; {
		switch {
		case sql[0] == '\'':
			return sql[1:], line
		case sql[0] == '\n' || sql[0] == '\r':
			line, sql = true, sql[1:]
		case strings.IndexByte(" \t\f\v", sql[0]) >= 0:
			sql = sql[1:]
		case strings.HasPrefix(sql, "--"):
			sql = afterLine(sql)
		default:
			return "", false
		}
	}
	return "", false
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
