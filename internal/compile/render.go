package compile

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/squirrel"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/query"

	"github.com/hare-go/hare/internal/schema"
)

// renderer makes the text of one statement. It goes over the query in the order of [walk], as its slots are numbered in
// the order in which they are asked for.
//
// Squirrel assembles; the fragments it gets hold finished placeholders, and its own placeholder formats stay out of it:
// they rewrite every question mark, even one inside a name.
type renderer struct {
	dialect   backend.Dialect
	features  features.Features
	alias     string
	qualified bool // columns are written with the alias of their table
	slots     int
	joins     []string
	aliases   map[string]string // of the tables that routes lead to, by the routes' keys
	err       error             // the first thing that the database does not have
	ctx       context.Context
	written   int // conditions
}

// render makes the statement of a shape that is not in the cache.
func (c *Compiler) render(ctx context.Context, f form, q *Query, set []Assignment) (Statement, error) {
	r := c.renderer()
	r.ctx = ctx
	switch f {
	case formSelect:
		return r.finish(r.selectRows(q))
	case formCount:
		return r.finish(r.count(q))
	case formExists:
		return r.finish(r.exists(q))
	case formUpdate:
		r.require(features.RowUpdates)
		return r.finish(r.update(q, set))
	default:
		r.require(features.RowDeletes)
		return r.finish(r.delete(q))
	}
}

func (c *Compiler) renderer() *renderer {
	c.renders.Add(1)
	return &renderer{dialect: c.dialect, features: c.features, alias: c.alias, aliases: map[string]string{}}
}

func (r *renderer) require(flags ...features.Flag) {
	if r.err == nil {
		r.err = features.Require(r.alias, r.features, flags...)
	}
}

// attend looks at the context once in a while.
func (r *renderer) attend() {
	if r.written++; r.err == nil && r.written%attention == 0 {
		r.err = interrupted(r.ctx)
	}
}

// finish assembles the text and checks the plan: the i-th argument is slot i.
func (r *renderer) finish(s squirrel.Sqlizer) (Statement, error) {
	if r.err != nil {
		return Statement{}, r.err
	}
	text, plan, err := s.ToSql()
	if err != nil {
		return Statement{}, fmt.Errorf("compile: %w", err)
	}
	if len(plan) != r.slots {
		return Statement{}, fmt.Errorf("compile: %d of %d arguments are bound in %s", len(plan), r.slots, text)
	}
	for i, arg := range plan {
		if arg != slot(i) {
			return Statement{}, fmt.Errorf("compile: argument %d is %v in %s", i, arg, text)
		}
	}
	return Statement{SQL: text}, nil
}

func (r *renderer) slot() slot {
	r.slots++
	return slot(r.slots - 1)
}

// column is the column's name, after the joins that lead to it.
func (r *renderer) column(p *place) string {
	if p.column.Type.Kind == backend.KindArray {
		r.require(features.Arrays)
	}
	if !r.qualified {
		return quote(p.column.Name)
	}
	return r.table(p.route) + "." + quote(p.column.Name)
}

// table is the alias of the table that the route leads to. Each table on the way is joined once for a statement; rows
// without a related row stay, as a condition may ask for just these.
func (r *renderer) table(to *route) string {
	if to == nil {
		return quote("t0")
	}
	if alias, ok := r.aliases[to.key]; ok {
		return alias
	}
	from := r.table(to.parent)
	alias := quote("t" + strconv.Itoa(len(r.joins)+1))
	r.aliases[to.key] = alias
	on := make([]string, len(to.relation.Columns))
	for i, c := range to.relation.Columns {
		on[i] = alias + "." + quote(to.table.PK[i].Name) + " = " + from + "." + quote(c.Name)
	}
	r.joins = append(r.joins, quote(to.table.Name)+" AS "+alias+" ON "+strings.Join(on, " AND "))
	return alias
}

// conditions are those of the whole statement, which must all be true.
func (r *renderer) conditions(nodes []*Node) []squirrel.Sqlizer {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *Node) bool { return n == nil })
	var conditions []squirrel.Sqlizer
	if len(nodes) > longest {
		nodes = []*Node{{op: opAll, parts: nodes}}
	}
	for _, n := range nodes {
		c := clause{renderer: r}
		c.node(n)
		conditions = append(conditions, squirrel.Expr(c.text.String(), c.slots...))
	}
	return conditions
}

// clause is the text of a condition. It is written from its beginning to its end, as a text that is put together from the
// inside out is copied at each level.
type clause struct {
	*renderer
	text  strings.Builder
	slots []any
}

func (c *clause) write(text string, slots ...any) {
	c.text.WriteString(text)
	c.slots = append(c.slots, slots...)
}

// list writes conditions side by side, a long list as groups of groups.
func (c *clause) list(sign string, nodes []*Node) {
	size := 1
	for size*longest < len(nodes) {
		size *= longest
	}
	separator := "("
	for group := range slices.Chunk(nodes, size) {
		c.write(separator)
		if len(group) == 1 {
			c.node(group[0])
		} else {
			c.list(sign, group)
		}
		separator = sign
	}
	c.write(")")
}

func (c *clause) node(n *Node) {
	if c.attend(); c.err != nil {
		return
	}
	switch n.op {
	case opFalse:
		c.write("(1=0)")
		return
	case opAll:
		c.list(" AND ", n.parts)
		return
	case opAny:
		c.list(" OR ", n.parts)
		return
	case opNot:
		// True where the part is false and where it is unknown, unlike NOT.
		c.write("(")
		c.node(n.parts[0])
		c.write(") IS NOT TRUE")
		return
	}
	column := c.column(n.place)
	switch n.op {
	case opNull:
		c.write(column + " IS NULL")
	case opNotNull:
		c.write(column + " IS NOT NULL")
	case opIn, opInNull, opNotIn, opNotInNull:
		c.membership(n, column)
	case opEqual, opDistinct, opGreater, opGreaterEqual, opLess, opLessEqual:
		right, slots := c.right(n)
		column, right = c.alike(n, column, right)
		c.write(column+comparisonSigns[n.op]+right, slots...)
	default:
		at := c.slot()
		c.write(c.dialect.Match(backend.TextMatch(n.op-opMatch), column, at.placeholder()), at)
	}
}

var comparisonSigns = [...]string{
	opEqual: " = ", opDistinct: " IS DISTINCT FROM ", opGreater: " > ", opGreaterEqual: " >= ", opLess: " < ", opLessEqual: " <= ",
}

func (c *clause) membership(n *Node, column string) {
	at := c.slot()
	in := c.dialect.In(column, n.place.column.Type, at.placeholder())
	switch n.op {
	case opInNull:
		in = "(" + in + " OR " + column + " IS NULL)"
	case opNotIn:
		in = "(" + in + ") IS NOT TRUE"
	case opNotInNull:
		in = "(NOT (" + in + ") AND " + column + " IS NOT NULL)"
	}
	c.write(in, at)
}

// right is what a comparison compares with.
func (r *renderer) right(n *Node) (string, []any) {
	if n.expr != nil {
		return r.expr(n.expr, typeOf(n.expr))
	}
	at := r.slot()
	return at.placeholder(), []any{at}
}

// alike makes numbers of one kind of the two sides of a comparison, where they are of two: a float beside a decimal makes
// both floats, and a decimal beside an integer both decimals. Not every database does so by itself: one that keeps decimals
// as text would compare 1e-9 as the text that it is.
func (r *renderer) alike(n *Node, left, right string) (string, string) {
	if n.expr == nil {
		return left, right
	}
	as := func(kind backend.Kind, text string) string {
		return r.dialect.Compute("+", backend.ColumnType{Kind: kind}, text, "0")
	}
	switch of, beside := n.place.column.Type.Kind, n.expr.kind; {
	case of == backend.KindDecimal && beside == backend.KindFloat:
		left = as(backend.KindFloat, left)
	case of == backend.KindDecimal && integer(beside):
		right = as(backend.KindDecimal, right)
	case integer(of) && beside == backend.KindDecimal:
		left = as(backend.KindDecimal, left)
	}
	return left, right
}

// expr is the expression's text; result is the type that its outermost operation gives.
func (r *renderer) expr(x *expr, result backend.ColumnType) (string, []any) {
	switch x.op {
	case query.OpColumn:
		return r.column(x.place), nil
	case query.OpValue:
		at := r.slot()
		return r.dialect.Argument(typeOf(x), at.placeholder()), []any{at}
	}
	left, slots := r.expr(x.left, typeOf(x.left))
	right, more := r.expr(x.right, typeOf(x.right))
	if narrow(x.left.kind) && narrow(x.right.kind) {
		// Some databases compute in the wider of the two columns, and 30000 + 30000 would be beyond both.
		left = r.dialect.Argument(backend.ColumnType{Kind: backend.KindInt64}, left)
	}
	return r.dialect.Compute(signs[x.op], result, left, right), append(slots, more...)
}

// typeOf is the expression's type. A column's is its own; a decimal that is computed has as many digits as it needs.
func typeOf(x *expr) backend.ColumnType {
	if x.place != nil {
		return x.place.column.Type
	}
	return backend.ColumnType{Kind: x.kind}
}

// keyColumns are the columns of the primary key, as one value.
func (r *renderer) keyColumns(t *schema.Table) string {
	columns := make([]string, len(t.PK))
	for i, c := range t.PK {
		columns[i] = r.column(&place{column: c})
	}
	return strings.Join(columns, ", ")
}
