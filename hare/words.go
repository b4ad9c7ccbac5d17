package hare

import "strings"

// token is the next word of a text of SQL as it is, or one of ; ( ), and what follows it; it is empty at the end. Quoted texts
// and names, comments and everything else are left out. It guards against mistakes, not against a text that is made to
// deceive.
func token(sql string) (word, rest string) {
	for sql != "" {
		switch c := sql[0]; {
		case c == ';' || c == '(' || c == ')':
			return sql[:1], sql[1:]
		case startsWord(c):
			end := 1
			for end < len(sql) && (startsWord(sql[end]) || '0' <= sql[end] && sql[end] <= '9' || sql[end] == '$') {
				end++
			}
			if end == 1 && (c == 'E' || c == 'e') && strings.HasPrefix(sql[1:], "'") {
				return sql[:1], afterEscapes(sql[2:])
			}
			return sql[:end], sql[end:]
		}
		sql = afterMark(sql)
	}
	return "", ""
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

// afterMark is what follows the quoted text, quoted name, comment or single character at the start.
func afterMark(sql string) string {
	mark, rest := sql[0], sql[1:]
	switch {
	case mark == '\'' || mark == '"':
		_, rest, _ = strings.Cut(rest, string(mark)) // a doubled quote ends one text and begins the next
	case mark == '-' && strings.HasPrefix(rest, "-"):
		_, rest, _ = strings.Cut(rest, "\n")
	case mark == '/' && strings.HasPrefix(rest, "*"):
		rest = afterComment(rest[1:])
	case mark == '$':
		if tag, body, found := strings.Cut(rest, "$"); found && isTag(tag) {
			_, rest, _ = strings.Cut(body, "$"+tag+"$")
		}
	}
	return rest
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

// afterEscapes is what follows a text in which a backslash takes the meaning from a quote.
func afterEscapes(sql string) string {
	for {
		at := strings.IndexAny(sql, `\'`)
		switch {
		case at < 0:
			return ""
		case sql[at] == '\'':
			return sql[at+1:]
		case at+2 > len(sql):
			return ""
		}
		sql = sql[min(at+2, len(sql)):]
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
