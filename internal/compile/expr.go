package compile

import (
	"strconv"
	"strings"
	"time"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/query"

	"github.com/hare-go/hare/internal/schema"
)

// expr is a checked expression. It never changes.
type expr struct {
	op          query.Op
	joins       bool
	depth       uint16 // as a Node's
	kind        backend.Kind
	size, args  uint32
	place       *place // OpColumn
	value       any    // OpValue; canonical
	left, right *expr
}

// signs are the operations as backend.Dialect names them.
var signs = [...]string{query.OpAdd: "+", query.OpSub: "-", query.OpMul: "*", query.OpDiv: "/", query.OpMod: "%"}

// expression checks an expression on the table's columns that stands beside a column in a condition or an assignment.
//
// Arithmetic is for numbers: integers, floats and decimals mix, and the result is the widest of them, a float before a
// decimal before an integer.
func (b *build) expression(beside *schema.Column, e query.Expr, level int) (*expr, error) {
	if err := b.step(level); err != nil {
		return nil, err
	}
	switch e.Op {
	case query.OpColumn:
		to, err := resolveColumn(b.table, e.Path)
		if err != nil {
			return nil, err
		}
		at, err := to.only(e.Path)
		if err != nil {
			return nil, err
		}
		return &expr{op: e.Op, kind: at.column.Type.Kind, place: at, joins: at.route != nil, size: 1}, nil
	case query.OpValue:
		value := plain(e)
		if inner, ok := value.(query.Expr); ok {
			return b.expression(beside, inner, level+1)
		}
		return constant(beside, value)
	case query.OpAdd, query.OpSub, query.OpMul, query.OpDiv, query.OpMod:
		if e.Left == nil || e.Right == nil {
			break
		}
		left, err := b.expression(beside, *e.Left, level+levelsOfArithmetic)
		if err != nil {
			return nil, err
		}
		right, err := b.expression(beside, *e.Right, level+levelsOfArithmetic)
		if err != nil {
			return nil, err
		}
		return arithmetic(beside, e.Op, left, right)
	}
	return nil, wrong(beside, "the expression, or a part of it, is empty: begin with query.F")
}

// constant is a number in arithmetic. Decimal types give their digits as text.
func constant(beside *schema.Column, value any) (*expr, error) {
	x := &expr{op: query.OpValue, size: 1, args: 1, value: schema.Canonical(value)}
	if digits, ok := x.value.([]byte); ok { // a Value method may give text so
		x.value = string(digits)
	}
	switch v := x.value.(type) {
	case int64:
		switch value.(type) {
		case time.Duration, *time.Duration: // a number of microseconds in a column, which is not what it would be added to
			return nil, wrong(beside, "arithmetic takes numbers, and one of the values is a duration")
		}
		x.kind = backend.KindInt64
	case float64:
		x.kind = backend.KindFloat
	case backend.Decimal:
		x.kind = backend.KindDecimal
	case string:
		if _, err := strconv.ParseFloat(v, 64); err != nil || strings.Trim(v, "+-.0123456789") != "" {
			return nil, wrong(beside, "arithmetic takes numbers, and one of the values is a text")
		}
		x.kind, x.value = backend.KindDecimal, backend.Decimal(v)
	default:
		return nil, wrong(beside, "arithmetic takes numbers, and got %T", value)
	}
	return x, nil
}

func arithmetic(beside *schema.Column, o query.Op, left, right *expr) (*expr, error) {
	if !number(left.kind) || !number(right.kind) {
		return nil, wrong(beside, "arithmetic takes integers, floats and decimals, and one of the columns holds something else")
	}
	x := &expr{
		op: o, left: left, right: right, args: left.args + right.args, joins: left.joins || right.joins,
		size: left.size + right.size + 1, depth: max(left.depth, right.depth) + levelsOfArithmetic,
	}
	switch {
	case left.kind == backend.KindFloat || right.kind == backend.KindFloat:
		x.kind = backend.KindFloat
	case left.kind == backend.KindDecimal || right.kind == backend.KindDecimal:
		x.kind = backend.KindDecimal
	default:
		x.kind = backend.KindInt64
	}
	if o == query.OpMod && x.kind == backend.KindFloat {
		return nil, wrong(beside, "a remainder is taken of integers and decimals, not of floats")
	}
	return x, nil
}

func integer(k backend.Kind) bool {
	return k == backend.KindInt16 || k == backend.KindInt32 || k == backend.KindInt64
}

func narrow(k backend.Kind) bool { return k == backend.KindInt16 || k == backend.KindInt32 }

func number(k backend.Kind) bool {
	return integer(k) || k == backend.KindFloat || k == backend.KindDecimal
}

// canCompare: values of the kinds can be compared on every database.
func canCompare(a, b backend.Kind) bool {
	if a == backend.KindJSON || a == backend.KindArray {
		return false
	}
	return a == b || number(a) && number(b)
}

// canAssign: a column can take the expression's values without losing what they are; only a fraction that a decimal
// column has no place for is rounded.
func canAssign(c *schema.Column, x *expr) bool {
	switch kind := c.Type.Kind; {
	case kind == backend.KindArray:
		return x.op == query.OpColumn && sameElement(c.Type, x.place.column.Type)
	case integer(kind):
		return integer(x.kind)
	case number(kind):
		return number(x.kind)
	default:
		return kind == x.kind
	}
}

func sameElement(a, b backend.ColumnType) bool {
	return b.Kind == backend.KindArray && a.Elem.Kind == b.Elem.Kind
}
