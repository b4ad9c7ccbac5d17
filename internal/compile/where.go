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
	joins bool   // a column lies behind a relation
	rank  uint8  // of a group that [And] made
	depth uint16 // how many levels the text has, less than 2 * maxDepth
	size  uint32 // how many parts the whole node has
	args  uint32 // how many arguments it binds
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
	b := build{table: t}
	n, err := b.group(opAll, parts, 0)
	if err != nil || n == nil || !exclude {
		return n, err
	}
	return b.negation(n)
}

func (b *build) predicate(p query.Predicate, level int) (*Node, error) {
	p, err := b.only(p, level)
	if err != nil {
		return nil, err
	}
	if err := b.step(level); err != nil {
		return nil, err
	}
	switch p := p.(type) {
	case *query.Condition:
		return b.condition(p)
	case *query.Group:
		if p.Connector == query.AnyOf && len(p.Parts) == 0 {
			return &Node{op: opFalse, size: 1}, nil
		}
		return b.group(connectorOf(p), p.Parts, level)
	case *query.Negation:
		n, err := b.predicate(p.Part, level+1)
		if err != nil || n == nil {
			return nil, err
		}
		return b.negation(n)
	case *query.Invalid:
		return nil, &UsageError{Reason: p.Reason}
	default:
		return nil, usage("a predicate on %s is missing: %T", b.table.Model, p)
	}
}

func connectorOf(g *query.Group) op {
	if g.Connector == query.AnyOf {
		return opAny
	}
	return opAll
}

// group joins predicates. Groups of the same connector in it are part of it, however deep they are: a condition that grew
// in a loop is as long as its terms, and as deep as one of them.
func (b *build) group(connector op, predicates []query.Predicate, level int) (*Node, error) {
	if len(predicates) == 1 {
		return b.predicate(predicates[0], level)
	}
	all := &Node{op: connector}
	for _, p := range predicates {
		if err := b.gather(all, p, level); err != nil {
			return nil, err
		}
	}
	return all.closed(b.table)
}

// gather adds a predicate to a group, or the parts of one that says the same of them as the group.
func (b *build) gather(all *Node, p query.Predicate, level int) error {
	var left [][]query.Predicate // what is to be added yet, the innermost group last
	for {
		var err error
		if p, err = b.only(p, level); err != nil {
			return err
		}
		if g, ok := p.(*query.Group); ok && len(g.Parts) > 0 && connectorOf(g) == all.op {
			if err := b.step(level); err != nil {
				return err
			}
			left = append(left, g.Parts)
		} else {
			n, err := b.predicate(p, level+1)
			if err != nil {
				return err
			}
			if n != nil {
				all.add(n)
			}
		}
		if len(left) == 0 {
			return nil
		}
		group := &left[len(left)-1]
		if p, *group = (*group)[0], (*group)[1:]; len(*group) == 0 {
			left = left[:len(left)-1]
		}
	}
}

func (b *build) negation(n *Node) (*Node, error) {
	if n.depth >= maxDepth {
		return nil, tooDeep(b.table)
	}
	return &Node{op: opNot, joins: n.joins, args: n.args, size: n.size + 1, depth: n.depth + 1, parts: []*Node{n}}, nil
}

func (b *build) condition(c *query.Condition) (*Node, error) {
	to, err := resolve(b.table, c.Path)
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
		return b.between(at, to, value)
	case to.lookup.text():
		return match(at, to.lookup, value)
	default:
		return b.comparison(at, to, to.lookup, value)
	}
}

func leaf(at *place, o op) *Node { return &Node{op: o, place: at, joins: at.route != nil, size: 1} }

func leafValue(at *place, o op, value any) *Node {
	return &Node{op: o, place: at, joins: at.route != nil, size: 1, args: 1, value: value}
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
func (b *build) comparison(at *place, to *target, l lookup, value any) (*Node, error) {
	if e, ok := value.(query.Expr); ok {
		return b.expressionComparison(at, l, e)
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

func (b *build) expressionComparison(at *place, l lookup, e query.Expr) (*Node, error) {
	if err := checkLookup(at.column, l); err != nil {
		return nil, err
	}
	x, err := b.expression(at.column, e, 0)
	if err != nil {
		return nil, err
	}
	if !canCompare(at.column.Type.Kind, x.kind) {
		return nil, wrong(at.column, "the expression beside it holds values of another type")
	}
	return &Node{
		op: lookupOps[l], place: at, joins: at.route != nil || x.joins, size: x.size + 1, depth: x.depth, args: x.args, expr: x,
	}, nil
}

// between is both bounds at once. Without any bound it still asks for a value.
func (b *build) between(at *place, to *target, value any) (*Node, error) {
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
		n, err := b.comparison(at, to, l, bound)
		if err != nil {
			return nil, err
		}
		both.add(n)
	}
	if len(both.parts) == 0 {
		return leaf(at, opNotNull), nil
	}
	return both.closed(b.table)
}
