package compile

import "strings"

// quote is a name as a delimited identifier. Every name in a statement comes from a schema.Table and goes through
// here: a name that happens to be a keyword, or holds a quote, stays a name.
func quote(name string) string {
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}
