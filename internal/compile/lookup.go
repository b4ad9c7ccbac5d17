package compile

import (
	"maps"
	"slices"

	"github.com/hare-go/hare/hare/backend"
)

// lookup is how a condition compares. The zero value is none.
type lookup uint8

const (
	lookupExact lookup = iota + 1
	lookupNot
	lookupGt
	lookupGte
	lookupLt
	lookupLte
	lookupIn
	lookupNotIn
	lookupRange
	lookupIsNull
	lookupContains
	lookupStartsWith
	lookupEndsWith
	lookupIExact
	lookupIContains
	lookupIStartsWith
	lookupIEndsWith
)

// lookupOps has the operation of the lookups that compare with one value.
var lookupOps = [...]op{
	lookupExact:       opEqual,
	lookupNot:         opDistinct,
	lookupGt:          opGreater,
	lookupGte:         opGreaterEqual,
	lookupLt:          opLess,
	lookupLte:         opLessEqual,
	lookupContains:    opMatch + op(backend.MatchContains),
	lookupStartsWith:  opMatch + op(backend.MatchStartsWith),
	lookupEndsWith:    opMatch + op(backend.MatchEndsWith),
	lookupIExact:      opMatch + op(backend.MatchExactFold),
	lookupIContains:   opMatch + op(backend.MatchContainsFold),
	lookupIStartsWith: opMatch + op(backend.MatchStartsWithFold),
	lookupIEndsWith:   opMatch + op(backend.MatchEndsWithFold),
}

var lookups = map[string]lookup{
	"exact": lookupExact, "not": lookupNot, "in": lookupIn, "not_in": lookupNotIn,
	"gt": lookupGt, "gte": lookupGte, "lt": lookupLt, "lte": lookupLte, "range": lookupRange, "isnull": lookupIsNull,
	"contains": lookupContains, "startswith": lookupStartsWith, "endswith": lookupEndsWith, "iexact": lookupIExact,
	"icontains": lookupIContains, "istartswith": lookupIStartsWith, "iendswith": lookupIEndsWith,
}

var lookupNames = slices.Sorted(maps.Keys(lookups))

// text: the lookup reads text.
func (l lookup) text() bool { return l >= lookupContains }

func (l lookup) String() string {
	for name, known := range lookups {
		if known == l {
			return name
		}
	}
	return ""
}
