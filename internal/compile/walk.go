package compile

import (
	"encoding/binary"
	"sync"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/query"
)

// walk goes over a query once and makes, side by side, the key of its shape and its arguments. Both are in the order of
// the statement's text, so the i-th argument belongs to placeholder $i; render checks that.
//
// Two queries have the same key only if their texts are the same: every part writes an unmistakable first byte or a
// length before what varies, and nothing writes a value.
type walk struct {
	dialect backend.Dialect
	key     []byte
	args    []any
}

// walks are used again, for the room of their keys: the arguments go to the caller.
var walks = sync.Pool{New: func() any { return &walk{key: make([]byte, 0, keySize)} }}

func newWalk(d backend.Dialect) *walk {
	w := walks.Get().(*walk)
	w.dialect = d
	return w
}

func (w *walk) free() {
	if cap(w.key) > maxKey {
		return
	}
	*w = walk{key: w.key[:0]}
	walks.Put(w)
}

// The parts of a statement that may be there or not.
const (
	partLimit byte = 1 << iota
	partOffset
)

// statement makes the key of the statement and gives its arguments.
func (w *walk) statement(f form, q *Query, set []Assignment) []any {
	if n := countArgs(q, set); n > 0 {
		w.args = make([]any, 0, n)
	}
	w.key = append(w.key, byte(f))
	w.count(len(set))
	for i := range set {
		w.assignment(&set[i])
	}
	for _, n := range q.Where {
		if n != nil {
			w.node(n)
		}
	}
	w.key = append(w.key, 0) // no op
	if f.ordered(q) {
		w.count(len(q.Order))
		for _, t := range q.Order {
			w.term(t)
		}
	} else {
		w.count(0)
	}
	w.slice(f, q)
	return w.args
}

func countArgs(q *Query, set []Assignment) int {
	n := 0
	if q.Limit != Unlimited {
		n++
	}
	if q.Offset != Unlimited {
		n++
	}
	for i := range set {
		if n++; set[i].expr != nil {
			n += int(set[i].expr.args)
		}
	}
	for _, node := range q.Where {
		if node != nil {
			n += int(node.args)
		}
	}
	return n
}

func (w *walk) count(n int) { w.key = binary.AppendUvarint(w.key, uint64(n)) }

func (w *walk) assignment(a *Assignment) {
	w.count(a.column.Index)
	if a.expr != nil {
		w.expr(a.expr)
		return
	}
	w.key = append(w.key, 0) // no query.Op
	w.args = append(w.args, a.value)
}

func (w *walk) node(n *Node) {
	w.key = append(w.key, byte(n.op))
	switch {
	case n.op <= opNot:
		w.count(len(n.parts))
		for _, part := range n.parts {
			w.node(part)
		}
		return
	case n.op >= opMatch:
		w.args = append(w.args, w.dialect.Pattern(backend.TextMatch(n.op-opMatch), n.value.(string)))
	case n.expr != nil:
		w.key = append(w.key, n.place.key...)
		w.expr(n.expr)
		return
	case n.args > 0:
		w.args = append(w.args, n.value)
	}
	w.key = append(w.key, n.place.key...)
	w.key = append(w.key, 0) // no query.Op
}

func (w *walk) expr(x *expr) {
	w.key = append(w.key, byte(x.op))
	switch x.op {
	case query.OpColumn:
		w.key = append(w.key, x.place.key...)
	case query.OpValue:
		w.key = append(w.key, byte(x.kind))
		w.args = append(w.args, x.value)
	default:
		w.expr(x.left)
		w.expr(x.right)
	}
}

func (w *walk) term(t Term) {
	direction := byte(t.nulls) << 1
	if t.descending {
		direction |= 1
	}
	w.key = append(w.key, direction)
	w.key = append(w.key, t.place.key...)
}

// slice is the limit and the offset. Whether there is any row can be seen from the first one.
func (w *walk) slice(f form, q *Query) {
	var parts byte
	if limit := q.Limit; limit != Unlimited {
		if f == formExists {
			limit = min(limit, 1)
		}
		parts |= partLimit
		w.args = append(w.args, int64(limit))
	}
	if q.Offset != Unlimited {
		parts |= partOffset
		w.args = append(w.args, int64(q.Offset))
	}
	w.key = append(w.key, parts)
}
