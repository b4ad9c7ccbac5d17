package compile

import (
	"encoding/binary"
	"iter"
	"math/bits"

	"github.com/hare-go/hare/internal/schema"
)

// ColumnSet is a set of columns of one table. The zero value is empty. It is a value: it can be compared, copied and
// used as a map's key.
type ColumnSet struct {
	low  uint64 // the columns 0 to 63
	high string // the others, 64 columns for each 8 bytes: only for very wide tables
}

// Columns is the set of the columns.
func Columns(columns ...*schema.Column) ColumnSet {
	var s ColumnSet
	for _, c := range columns {
		s = s.With(c)
	}
	return s
}

// With is the set with the column in it.
func (s ColumnSet) With(c *schema.Column) ColumnSet {
	if c.Index < 64 {
		s.low |= 1 << c.Index
		return s
	}
	at, bit := c.Index/8-8, byte(1)<<(c.Index%8)
	high := make([]byte, max(len(s.high), at/8*8+8))
	copy(high, s.high)
	high[at] |= bit
	s.high = string(high)
	return s
}

// Has reports whether the column is in the set.
func (s ColumnSet) Has(c *schema.Column) bool {
	if c.Index < 64 {
		return s.low&(1<<c.Index) != 0
	}
	at := c.Index/8 - 8
	return at < len(s.high) && s.high[at]&(1<<(c.Index%8)) != 0
}

// Len is the number of columns in the set.
func (s ColumnSet) Len() int {
	n := bits.OnesCount64(s.low)
	for i := range len(s.high) {
		n += bits.OnesCount8(s.high[i])
	}
	return n
}

// In goes over the columns of the set in the table's order.
func (s ColumnSet) In(t *schema.Table) iter.Seq[*schema.Column] {
	return func(yield func(*schema.Column) bool) {
		for _, c := range t.Columns {
			if s.Has(c) && !yield(c) {
				return
			}
		}
	}
}

func (s ColumnSet) appendKey(key []byte) []byte {
	key = binary.LittleEndian.AppendUint64(key, s.low)
	key = binary.AppendUvarint(key, uint64(len(s.high)))
	return append(key, s.high...)
}
