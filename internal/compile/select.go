package compile

import (
	"slices"

	"github.com/Masterminds/squirrel"

	"github.com/hare-go/hare/query"
)

func (r *renderer) selectRows(q *Query) squirrel.Sqlizer {
	r.qualified = joins(q, len(q.Order) > 0)
	columns := make([]string, len(q.Table.Columns))
	for i, c := range q.Table.Columns {
		columns[i] = r.column(&place{column: c})
	}
	return r.rows(q, formSelect, columns...)
}

func (r *renderer) count(q *Query) squirrel.Sqlizer {
	r.qualified = joins(q, false)
	if !q.sliced() {
		return r.rows(q, formCount, "count(*)")
	}
	return squirrel.Select("count(*)").FromSelect(r.rows(q, formCount, "1"), quote("rows"))
}

func (r *renderer) exists(q *Query) squirrel.Sqlizer {
	r.qualified = joins(q, false)
	return r.rows(q, formExists, "1")
}

// rows reads the columns of the query's rows.
func (r *renderer) rows(q *Query, f form, columns ...string) squirrel.SelectBuilder {
	from := quote(q.Table.Name)
	if r.qualified {
		from += " AS " + r.table(nil)
	}
	rows := squirrel.Select(columns...).From(from)
	for _, condition := range r.conditions(q.Where) {
		rows = rows.Where(condition)
	}
	if f.ordered(q) {
		for _, t := range q.Order {
			rows = rows.OrderBy(r.term(t))
		}
	}
	for _, join := range r.joins {
		rows = rows.LeftJoin(join)
	}
	return r.slice(f, q, rows)
}

func (r *renderer) term(t Term) string {
	text := r.column(t.place)
	if t.descending {
		text += " DESC"
	}
	switch t.nulls {
	case query.NullsAtStart:
		text += " NULLS FIRST"
	case query.NullsAtEnd:
		text += " NULLS LAST"
	}
	return text
}

// slice adds the limit and the offset, as a suffix: squirrel's own would print the numbers. One row answers whether there
// is any.
func (r *renderer) slice(f form, q *Query, rows squirrel.SelectBuilder) squirrel.SelectBuilder {
	if f != formExists && !q.sliced() {
		return rows
	}
	limit, offset := "", ""
	if f == formExists {
		limit = "1"
	}
	var slots []any
	if q.Limit != Unlimited {
		at := r.slot()
		limit, slots = at.placeholder(), append(slots, at)
	}
	if q.Offset != Unlimited {
		at := r.slot()
		offset, slots = at.placeholder(), append(slots, at)
	}
	return rows.Suffix(r.dialect.Limit(limit, offset), slots...)
}

// joins: a condition, or the order if it matters, leads over a relation.
func joins(q *Query, ordered bool) bool {
	return slices.ContainsFunc(q.Where, func(n *Node) bool { return n != nil && n.joins }) ||
		ordered && slices.ContainsFunc(q.Order, func(t Term) bool { return t.place.route != nil })
}
