package compile

import (
	"context"
	"errors"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/query"

	"github.com/hare-go/hare/internal/schema"
)

// A program may build a condition in a loop, of what its users send. So whatever is built has bounds, which are checked
// on the way down: a condition whose parts are shared, as Or(p, p) again and again, is small for the program and endless
// for whoever goes over it. What is within the bounds costs what its parts cost, each of which is looked at once.
const (
	// maxParts is how many conditions, groups, columns and values a query may have: 65535 alternatives, which is as many
	// arguments as PostgreSQL takes, that were joined one by one.
	maxParts = 150_000
	// maxDepth is how many levels of And, Or, Not and arithmetic a condition or an expression may have. SQLite's own
	// limit is a thousand, and PostgreSQL's its stack. SQLite as a WebAssembly module has a small stack besides, which
	// some 200 calls of functions within one another exhaust: an operation counts as levelsOfArithmetic.
	maxDepth           = 450
	levelsOfArithmetic = 3
	// maxTerms is the longest ordering. PostgreSQL sorts by 1664 columns at most, SQLite by 2000.
	maxTerms = 1000
	// longest is how many conditions stand side by side in a text. To a parser, a OR b OR c is as deep as it is long.
	longest = 16
)

// build checks one condition or assignment against a table.
type build struct {
	table *schema.Table
	parts int
}

// step counts a part at a level.
func (b *build) step(level int) error {
	if b.parts++; b.parts > maxParts {
		return tooLarge(b.table)
	}
	if level > maxDepth {
		return tooDeep(b.table)
	}
	return nil
}

func tooLarge(t *schema.Table) error {
	return usage("a query of %s has more than %d conditions and values: give the values as one list, with the lookup \"in\", "+
		"or ask in several queries", t.Model, maxParts)
}

func tooDeep(t *schema.Table) error {
	return usage("a condition or an expression on %s has more than %d levels of And, Or and Not, or %d operations "+
		"within one another: join what is alike in one group, and compute constants in Go", t.Model, maxDepth, maxDepth/levelsOfArithmetic)
}

// add takes a part into a group.
func (n *Node) add(part *Node) {
	n.parts = append(n.parts, part)
	n.args += part.args
	n.size += part.size
	n.joins = n.joins || part.joins
	n.depth = max(n.depth, part.depth)
}

// closed is the group when all its parts are there: nil without any, and the part where it is alone.
func (n *Node) closed(t *schema.Table) (*Node, error) {
	switch len(n.parts) {
	case 0:
		return nil, nil
	case 1:
		return n.parts[0], nil
	}
	n.size++
	if n.depth += levels(len(n.parts)); n.depth > maxDepth {
		return nil, tooDeep(t)
	}
	return n, nil
}

// levels is how deep a text of n conditions side by side is, see [clause.list].
func levels(n int) uint16 {
	depth := uint16(0)
	for ; n > longest; n = (n + longest - 1) / longest {
		depth += longest
	}
	return depth + uint16(n)
}

// only goes down into groups of one part, which say what their part says. A predicate that is nil is refused here.
func (b *build) only(p query.Predicate, level int) (query.Predicate, error) {
	for {
		if missing(p) {
			return nil, usage("a predicate on %s is missing: %T", b.table.Model, p)
		}
		g, ok := p.(*query.Group)
		if !ok || len(g.Parts) != 1 {
			return p, nil
		}
		if err := b.step(level); err != nil {
			return nil, err
		}
		p = g.Parts[0]
	}
}

// And is the conditions of a query with one more, in a list of its own: another query may have grown from the same one.
// Whenever the last conditions make a full group they become one, so that a query that grows in a loop never copies many.
func And(t *schema.Table, where []*Node, n *Node) ([]*Node, error) {
	size := uint64(n.size)
	for _, one := range where {
		size += uint64(one.size)
	}
	if size > maxParts {
		return nil, tooLarge(t)
	}
	where = append(where[:len(where):len(where)], n)
	for {
		first := len(where) - longest
		if first < 0 || where[first].rank != where[len(where)-1].rank {
			return where, nil
		}
		group := &Node{op: opAll, rank: where[first].rank + 1}
		for _, one := range where[first:] {
			group.add(one)
		}
		if _, err := group.closed(t); err != nil {
			return nil, err
		}
		where = append(where[:first], group)
	}
}

// attention is how many conditions are written between two looks at the context.
const attention = 1000

// interrupted is the error of a context that has ended before anything was sent.
func interrupted(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	e := &backend.Error{NotDone: true, Err: err}
	if errors.Is(err, context.DeadlineExceeded) {
		e.Class = backend.ClassTimeout
	}
	return e
}
