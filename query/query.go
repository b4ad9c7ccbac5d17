// Package query holds what a query says, as data: predicates (Q, And, Or, Not), expressions (F), assignments (Set)
// and orders (Asc, Desc). Nothing here knows a database or a model; a queryset checks every name and value when it
// takes them, before anything is sent.
package query

import "fmt"

// Predicate is a condition on the rows of a model.
//
// A predicate is true, false or, where a NULL is involved, unknown, as in SQL. A filter keeps the rows for which it
// is true; an exclude keeps all the others, the unknown ones included.
type Predicate interface{ predicate() }

// Condition is one lookup: Path is a column, or relations and a column, then optionally a lookup, joined by "__".
type Condition struct {
	Path  string
	Value any
}

// Connector joins the parts of a [Group].
type Connector uint8

// The connectors.
const (
	AllOf Connector = iota
	AnyOf
)

// Group joins predicates. An empty AllOf says nothing, wherever it stands: it keeps every row, its negation too, and a
// group around it is as if it were not there. An empty AnyOf is false.
type Group struct {
	Connector Connector
	Parts     []Predicate
}

// Negation is true for every row for which Part is not true, so that it keeps rows with NULL.
type Negation struct{ Part Predicate }

// Invalid is a predicate that was written wrong; the queryset that takes it reports Reason as a QueryError.
type Invalid struct{ Reason string }

func (*Condition) predicate() {}
func (*Group) predicate()     {}
func (*Negation) predicate()  {}
func (*Invalid) predicate()   {}

// Q makes a predicate of pairs of path and value, all of which must hold:
//
//	query.Q("book_id", 7, "available__gt", 0)
//
// The lookups, "exact" where none is named: exact, not, in, not_in, gt, gte, lt, lte, range (two values, nil for an
// open side), isnull (a bool), contains, startswith, endswith, iexact, icontains, istartswith, iendswith.
// A value may be another column: query.Q("paid__lt", query.F("price")).
func Q(pairs ...any) Predicate {
	if len(pairs) == 2 {
		if path, ok := pairs[0].(string); ok {
			return &Condition{Path: path, Value: pairs[1]}
		}
	}
	if len(pairs)%2 != 0 {
		return &Invalid{Reason: fmt.Sprintf("query.Q takes pairs of path and value, and got %d arguments", len(pairs))}
	}
	parts := make([]Predicate, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		path, ok := pairs[i].(string)
		if !ok {
			return &Invalid{Reason: fmt.Sprintf("query.Q takes a path, a string, as argument %d, and got %T", i+1, pairs[i])}
		}
		parts = append(parts, &Condition{Path: path, Value: pairs[i+1]})
	}
	return &Group{Parts: parts}
}

// And is true where every part is. Without parts it says nothing, even in a Not or an Or.
func And(parts ...Predicate) Predicate { return &Group{Connector: AllOf, Parts: parts} }

// Or is true where at least one part is. Without parts it is false.
func Or(parts ...Predicate) Predicate { return &Group{Connector: AnyOf, Parts: parts} }

// Not is true where the part is not: false or unknown.
func Not(part Predicate) Predicate { return &Negation{Part: part} }

// Op is what an [Expr] does.
type Op uint8

// The operations.
const (
	OpColumn Op = iota + 1 // Path
	OpValue                // Value
	OpAdd                  // Left + Right
	OpSub                  // Left - Right
	OpMul                  // Left * Right
	OpDiv                  // Left / Right
	OpMod                  // Left % Right
)

// Expr is a value that the database computes. The zero value is no expression.
type Expr struct {
	Op          Op
	Path        string
	Value       any
	Left, Right *Expr
}

// F is the value of a column of the row at hand:
//
//	query.Set("available", query.F("available").Sub(1))
func F(path string) Expr { return Expr{Op: OpColumn, Path: path} }

// Value is a constant as an expression.
func Value(v any) Expr { return Expr{Op: OpValue, Value: v} }

// Add is e + v; v is a value or another expression.
func (e Expr) Add(v any) Expr { return e.binary(OpAdd, v) }

// Sub is e - v.
func (e Expr) Sub(v any) Expr { return e.binary(OpSub, v) }

// Mul is e * v.
func (e Expr) Mul(v any) Expr { return e.binary(OpMul, v) }

// Div is e / v. The quotient of two integers is cut towards zero, as PostgreSQL does it.
func (e Expr) Div(v any) Expr { return e.binary(OpDiv, v) }

// Mod is the remainder of e / v.
func (e Expr) Mod(v any) Expr { return e.binary(OpMod, v) }

func (e Expr) binary(op Op, v any) Expr {
	right, ok := v.(Expr)
	if !ok {
		right = Value(v)
	}
	return Expr{Op: op, Left: &e, Right: &right}
}

// Assignment is a column and its new value.
type Assignment struct {
	Column string
	Value  any // a value, or an Expr
}

// Set assigns a value, or an expression, to a column in an update. Zero values are written as they are.
func Set(column string, value any) Assignment { return Assignment{Column: column, Value: value} }

// Nulls says where NULL sorts.
type Nulls uint8

// The positions. The default is the database's: PostgreSQL last and SQLite first in ascending order.
const (
	NullsDefault Nulls = iota
	NullsAtStart
	NullsAtEnd
)

// Order is one column of an ordering.
type Order struct {
	Path       string
	Descending bool
	Nulls      Nulls
}

// Asc orders by a column, smallest first.
func Asc(path string) Order { return Order{Path: path} }

// Desc orders by a column, largest first.
func Desc(path string) Order { return Order{Path: path, Descending: true} }

// NullsFirst puts NULL before every value.
func (o Order) NullsFirst() Order { o.Nulls = NullsAtStart; return o }

// NullsLast puts NULL after every value.
func (o Order) NullsLast() Order { o.Nulls = NullsAtEnd; return o }

// Reverse is the exact reverse of the order. Where NULL sorts by the database's default it reverses by itself.
func (o Order) Reverse() Order {
	o.Descending = !o.Descending
	switch o.Nulls {
	case NullsAtStart:
		o.Nulls = NullsAtEnd
	case NullsAtEnd:
		o.Nulls = NullsAtStart
	}
	return o
}
