package compile

import (
	"fmt"
	"math"

	"github.com/hare-go/hare/hare/backend"

	"github.com/hare-go/hare/internal/schema"
)

// fieldRange is the condition that a number goes into its field, where the column would hold others as well: no database
// has an unsigned column for an unsigned field. Without it an update that computes, available - 1 for one, could store
// a number that makes every later read of its row fail. ok is false where the column's own type is enough.
func fieldRange(c *schema.Column) (condition string, ok bool) {
	limits, known := fieldLimits[c.Dest.Layout]
	if !known || !integer(c.Type.Kind) || limits.covers(columnLimits[c.Type.Kind]) {
		return "", false
	}
	if limits.high == math.MaxInt64 {
		return fmt.Sprintf("%s >= %d", quote(c.Name), limits.low), true
	}
	return fmt.Sprintf("%s BETWEEN %d AND %d", quote(c.Name), limits.low, limits.high), true
}

type limits struct{ low, high int64 }

func (l limits) covers(other limits) bool { return l.low <= other.low && l.high >= other.high }

var fieldLimits = map[backend.Layout]limits{
	backend.LayoutInt8:   {math.MinInt8, math.MaxInt8},
	backend.LayoutInt16:  {math.MinInt16, math.MaxInt16},
	backend.LayoutInt32:  {math.MinInt32, math.MaxInt32},
	backend.LayoutUint8:  {0, math.MaxUint8},
	backend.LayoutUint16: {0, math.MaxUint16},
	backend.LayoutUint32: {0, math.MaxUint32},
	backend.LayoutUint:   {0, math.MaxInt64},
	backend.LayoutUint64: {0, math.MaxInt64},
}

var columnLimits = map[backend.Kind]limits{
	backend.KindInt16: {math.MinInt16, math.MaxInt16},
	backend.KindInt32: {math.MinInt32, math.MaxInt32},
	backend.KindInt64: {math.MinInt64, math.MaxInt64},
}
