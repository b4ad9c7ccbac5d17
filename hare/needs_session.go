package hare

import (
	"slices"
	"strings"
)

// needsSession names what in the text makes no sense without a session that stays with the caller, or is empty: a setting
// that is to outlive its transaction, a lock of the session, LISTEN, a temporary table, a held cursor, a statement
// prepared by name. Unlike lasting it says so only of what it has seen: texts, names in quotes and comments do not count,
// and what a function or a DO block does in the database is not known.
func needsSession(sql string) string {
	for _, words := range statementsOf(sql) {
		if what := sessionWord(words); what != "" {
			return what
		}
	}
	return ""
}

// sessionWord is needsSession for one statement, in upper case.
func sessionWord(words []string) string {
	if len(words) == 0 {
		return ""
	}
	at := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	switch first, second := words[0], at(1); first {
	case "LISTEN", "UNLISTEN", "EXECUTE", "DEALLOCATE", "DISCARD", "LOAD", "RESET":
		return first
	case "GRANT", "REVOKE", "COMMENT": // they name functions and call none
		return ""
	case "PREPARE":
		if second != "TRANSACTION" {
			return first
		}
	case "SET":
		switch {
		case second == "LOCAL", second == "TRANSACTION", second == "CONSTRAINTS":
		default:
			return first
		}
	case "DECLARE":
		if contains(until(words, "FOR"), "WITH", "HOLD") {
			return "DECLARE ... WITH HOLD"
		}
	case "CREATE":
		if what := temporary(words[1:]); what != "" && !contains(words, "ON", "COMMIT", "DROP") {
			return "CREATE " + what
		}
	}
	return sessionCall(words)
}

// temporary is the kind of temporary object that a CREATE makes, or empty. Only a table can end with its transaction.
func temporary(words []string) string {
	for i, word := range words {
		switch word {
		case "LOCAL", "GLOBAL", "OR", "REPLACE", "RECURSIVE":
		case "TEMP", "TEMPORARY":
			if i+1 < len(words) {
				return "TEMPORARY " + words[i+1]
			}
			return "TEMPORARY"
		default:
			if slices.Contains(until(until(words, "("), "AS"), "PG_TEMP") {
				return word + " in pg_temp"
			}
			return ""
		}
	}
	return ""
}

// until are the words before the first of a kind.
func until(words []string, word string) []string {
	if i := slices.Index(words, word); i >= 0 {
		return words[:i]
	}
	return words
}

// sessionCall is the call of a function in a statement that acts on the session, or SELECT ... INTO TEMP.
func sessionCall(words []string) string {
	for i, word := range words {
		next := ""
		if i+1 < len(words) {
			next = words[i+1]
		}
		switch {
		case word == "INTO" && (next == "TEMP" || next == "TEMPORARY") && i > 0 && words[i-1] != "INSERT" && words[i-1] != "MERGE" &&
			i+2 < len(words) && words[i+2] != "FROM":
			return "SELECT INTO " + next
		case next != "(":
		case sessionLocks[word]:
			return strings.ToLower(word)
		case word == "SET_CONFIG" && !lastIsTrue(words[i+2:]):
			return "set_config(..., false)"
		}
	}
	return ""
}

// sessionLocks are PostgreSQL's functions for advisory locks that outlive the transaction.
var sessionLocks = map[string]bool{
	"PG_ADVISORY_LOCK": true, "PG_ADVISORY_LOCK_SHARED": true, "PG_TRY_ADVISORY_LOCK": true, "PG_TRY_ADVISORY_LOCK_SHARED": true,
	"PG_ADVISORY_UNLOCK": true, "PG_ADVISORY_UNLOCK_SHARED": true, "PG_ADVISORY_UNLOCK_ALL": true,
}

// lastIsTrue reports whether the last argument of a call may be true; words begin after its parenthesis. An argument that
// is no constant may be.
func lastIsTrue(words []string) bool {
	depth, last := 0, ""
	for _, word := range words {
		switch {
		case word == "(":
			depth++
		case word == ")" && depth == 0:
			return last != "FALSE"
		case word == ")":
			depth--
		}
		last = word
	}
	return true
}

// contains reports whether the words follow one another somewhere.
func contains(words []string, wanted ...string) bool {
	return strings.Contains(" "+strings.Join(words, " ")+" ", " "+strings.Join(wanted, " ")+" ")
}
