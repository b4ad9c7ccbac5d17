package compile

import (
	"github.com/hare-go/hare/query"

	"github.com/hare-go/hare/internal/schema"
)

// op is what a [Node] says. It is the first byte of the node's key.
type op uint8

const (
	opFalse op = iota + 1
	opAll
	opAny
	opNot
	opNull
	opNotNull
	opEqual
	opDistinct
	opGreater
	opGreaterEqual
	opLess
	opLessEqual
	opIn        // the list has no NULL
	opInNull    // the list has NULL among its elements
	opNotIn     //
	opNotInNull //
	opMatch     // and the backend.TextMatch on top: the last
)

// Node is a checked condition. It never changes and may be part of any number of queries.
type Node struct {
	op    op
	joins bool // a column lies behind a relation
	args  int  // how many arguments the whole node binds
	place *place
	value any   // the argument, canonical; the text itself for opMatch
	expr  *expr // in the place of value
	parts []*Node
}

// Where checks predicates, all of which must be true, against the table and gives their condition; with exclude, the
// condition that they are not all true together. nil is the condition that says nothing.
//
// An empty query.And says nothing wherever it stands: it is left out of the group around it, and its negation says
// nothing either. So a filter that a program collected no condition for keeps every row, and an alternative without
// content never makes the others pointless. An empty query.Or is false.
//
// A value must be one that the column could hold: a fraction is refused for an integer column, where databases would
// round it or not, each in its way.
//
// A wrong name is a [*schema.NameError], a value that does not suit its column a [*schema.ValueError] and anything else a
// [*UsageError].
func Where(t *schema.Table, parts []query.Predicate, exclude bool) (*Node, error) {
	n, err := group(t, opAll, parts)
	if err != nil || n == nil || !exclude {
		return n, err
	}
	return negation(n), nil
}

func predicate(t *schema.Table, p query.Predicate) (*Node, error) {
	if missing(p) {
		return nil, usage("a predicate on %s is nil: %T", t.Model, p)
	}
	switch p := p.(type) {
	case *query.Condition:
		return condition(t, p)
	case *query.Group:
		if p.Connector == query.AnyOf && len(p.Parts) == 0 {
			return &Node{op: opFalse}, nil
		}
		if p.Connector == query.AnyOf {
			return group(t, opAny, p.Parts)
		}
		return group(t, opAll, p.Parts)
	case *query.Negation:
		n, err := predicate(t, p.Part)
		if err != nil || n == nil {
			return nil, err
		}
		return negation(n), nil
	case *query.Invalid:
		return nil, &UsageError{Reason: p.Reason}
	default:
		return nil, usage("a predicate on %s is missing: %T", t.Model, p)
	}
}

func group(t *schema.Table, connector op, predicates []query.Predicate) (*Node, error) {
	if len(predicates) == 1 {
		return predicate(t, predicates[0])
	}
	all := &Node{op: connector}
	for _, p := range predicates {
		n, err := predicate(t, p)
		if err != nil {
			return nil, err
		}
		if n != nil {
			all.parts = append(all.parts, n)
			all.args += n.args
			all.joins = all.joins || n.joins
		}
	}
	switch len(all.parts) {
	case 0:
		return nil, nil
	case 1:
		return all.parts[0], nil
	}
	return all, nil
}

func negation(n *Node) *Node {
	return &Node{op: opNot, joins: n.joins, args: n.args, parts: []*Node{n}}
}

func condition(t *schema.Table, c *query.Condition) (*Node, error) {
	to, err := resolve(t, c.Path)
	if err != nil {
		return nil, err
	}
	at, err := to.only(c.Path)
	if err != nil {
		return nil, err
	}
	switch value := plain(c.Value); {
	case to.lookup == lookupIsNull:
		return nullTest(at, value)
	case to.lookup == lookupIn || to.lookup == lookupNotIn:
		return membership(at, to, value)
	case to.lookup == lookupRange:
		return between(t, at, to, value)
	case to.lookup.text():
		return match(at, to.lookup, value)
	default:
		return comparison(t, at, to, to.lookup, value)
	}
}

func leaf(at *place, o op) *Node { return &Node{op: o, place: at, joins: at.route != nil} }

func leafValue(at *place, o op, value any) *Node {
	return &Node{op: o, place: at, joins: at.route != nil, args: 1, value: value}
}

func nullTest(at *place, value any) (*Node, error) {
	switch value {
	case true:
		return leaf(at, opNull), nil
	case false:
		return leaf(at, opNotNull), nil
	}
	return nil, wrong(at.column, "the lookup isnull takes true or false, and got %T", value)
}

// comparison compares with one value or expression. A nil is NULL: "exact" and "not" ask for it and its absence.
func comparison(t *schema.Table, at *place, to *target, l lookup, value any) (*Node, error) {
	if e, ok := value.(query.Expr); ok {
		return expressionComparison(t, at, l, e)
	}
	v, err := to.canonical(at.column, value)
	switch {
	case err != nil:
		return nil, err
	case v != nil:
		if err := checkLookup(at.column, l); err != nil {
			return nil, err
		}
		return leafValue(at, lookupOps[l], v), nil
	case l == lookupExact:
		return leaf(at, opNull), nil
	case l == lookupNot:
		return leaf(at, opNotNull), nil
	}
	return nil, wrong(at.column, "the lookup %v takes a value, and got nil: NULL is neither smaller nor larger; use isnull", l)
}

func expressionComparison(t *schema.Table, at *place, l lookup, e query.Expr) (*Node, error) {
	if err := checkLookup(at.column, l); err != nil {
		return nil, err
	}
	x, err := expression(t, at.column, e)
	if err != nil {
		return nil, err
	}
	if !canCompare(at.column.Type.Kind, x.kind) {
		return nil, wrong(at.column, "the expression beside it holds values of another type")
	}
	return &Node{op: lookupOps[l], place: at, joins: at.route != nil || x.joins, args: x.args, expr: x}, nil
}

// between is both bounds at once. Without any bound it still asks for a value.
func between(t *schema.Table, at *place, to *target, value any) (*Node, error) {
	bounds, ok := elements(value)
	if !ok || len(bounds) != 2 {
		return nil, wrong(at.column, "the lookup range takes a list of two values, nil for an open side, and got %T", value)
	}
	both := &Node{op: opAll}
	for i, l := range []lookup{lookupGte, lookupLte} {
		bound := plain(bounds[i])
		if isNil(bound) {
			continue
		}
		n, err := comparison(t, at, to, l, bound)
		if err != nil {
			return nil, err
		}
		both.parts = append(both.parts, n)
		both.args += n.args
		both.joins = both.joins || n.joins
	}
	switch len(both.parts) {
	case 0:
		return leaf(at, opNotNull), nil
	case 1:
		return both.parts[0], nil
	}
	return both, nil
}
