package compile

import (
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
}

// render makes the statement of a shape that is not in the cache.
func (c *Compiler) render(f form, q *Query, set []Assignment) (Statement, error) {
	r := c.renderer()
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

func (r *renderer) conditions(nodes []*Node) []squirrel.Sqlizer {
	var conditions []squirrel.Sqlizer
	for _, n := range nodes {
		if n != nil {
			conditions = append(conditions, r.node(n))
		}
	}
	return conditions
}

// nested puts a long list of conditions into groups: to a parser, a OR b OR c is as deep as it is long, and SQLite's goes
// down a thousand levels.
func nested[L interface {
	~[]squirrel.Sqlizer
	squirrel.Sqlizer
}](list L) L {
	const longest = 200
	if len(list) <= longest {
		return list
	}
	groups := make(L, 0, len(list)/longest+1)
	for group := range slices.Chunk(list, longest) {
		groups = append(groups, group)
	}
	return nested(groups)
}

func (r *renderer) node(n *Node) squirrel.Sqlizer {
	switch n.op {
	case opFalse:
		return squirrel.Or{}
	case opAll:
		return nested(squirrel.And(r.conditions(n.parts)))
	case opAny:
		return nested(squirrel.Or(r.conditions(n.parts)))
	case opNot:
		// True where the part is false and where it is unknown, unlike NOT.
		return squirrel.ConcatExpr("(", r.node(n.parts[0]), ") IS NOT TRUE")
	}
	column := r.column(n.place)
	switch n.op {
	case opNull:
		return squirrel.Expr(column + " IS NULL")
	case opNotNull:
		return squirrel.Expr(column + " IS NOT NULL")
	case opIn, opInNull, opNotIn, opNotInNull:
		return r.membership(n, column)
	case opEqual, opDistinct, opGreater, opGreaterEqual, opLess, opLessEqual:
		right, slots := r.right(n)
		column, right = r.alike(n, column, right)
		return squirrel.Expr(column+comparisonSigns[n.op]+right, slots...)
	}
	at := r.slot()
	return squirrel.Expr(r.dialect.Match(backend.TextMatch(n.op-opMatch), column, at.placeholder()), at)
}

var comparisonSigns = [...]string{
	opEqual: " = ", opDistinct: " IS DISTINCT FROM ", opGreater: " > ", opGreaterEqual: " >= ", opLess: " < ", opLessEqual: " <= ",
}

func (r *renderer) membership(n *Node, column string) squirrel.Sqlizer {
	at := r.slot()
	in := r.dialect.In(column, n.place.column.Type, at.placeholder())
	switch n.op {
	case opInNull:
		in = "(" + in + " OR " + column + " IS NULL)"
	case opNotIn:
		in = "(" + in + ") IS NOT TRUE"
	case opNotInNull:
		in = "(NOT (" + in + ") AND " + column + " IS NOT NULL)"
	}
	return squirrel.Expr(in, at)
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
