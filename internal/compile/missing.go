package compile

import "github.com/hare-go/hare/query"

// missing reports whether a predicate is nil, also as a pointer of its kind.
func missing(p query.Predicate) bool {
	switch p := p.(type) {
	case *query.Condition:
		return p == nil
	case *query.Group:
		return p == nil
	case *query.Negation:
		return p == nil
	case *query.Invalid:
		return p == nil
	}
	return p == nil
}
