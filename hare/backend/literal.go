package backend

import "strings"

// Literal is text as an SQL string constant, for control statements, which take no parameters ([Conn].Control). The E
// form means the same whatever PostgreSQL's standard_conforming_strings. The text must not contain a zero byte.
func Literal(text string) string {
	quoted := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	if strings.Contains(text, `\`) {
		return "E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}
