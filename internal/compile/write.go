package compile

import (
	"github.com/Masterminds/squirrel"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/query"
)

func (r *renderer) update(q *Query, set []Assignment) squirrel.Sqlizer {
	update := squirrel.Update(quote(q.Table.Name))
	for i := range set {
		text, slots := r.assigned(&set[i])
		update = update.Set(r.column(&place{column: set[i].column}), squirrel.Expr(text, slots...))
	}
	for _, condition := range r.affected(formUpdate, q) {
		update = update.Where(condition)
	}
	return update
}

func (r *renderer) delete(q *Query) squirrel.Sqlizer {
	remove := squirrel.Delete(quote(q.Table.Name))
	for _, condition := range r.affected(formDelete, q) {
		remove = remove.Where(condition)
	}
	return remove
}

// affected are the conditions of the rows that a statement writes. UPDATE and DELETE have neither joins nor slices, so a
// query with either is asked for the keys of its rows.
func (r *renderer) affected(f form, q *Query) []squirrel.Sqlizer {
	if !q.sliced() && !joins(q, false) {
		return r.conditions(q.Where)
	}
	if len(q.Table.PK) == 0 {
		r.err = usage("%s has no primary key, so that a slice of its rows, or what they are related to, cannot say which to write",
			q.Table.Model)
		return nil
	}
	key := r.keyColumns(q.Table)
	if len(q.Table.PK) > 1 {
		key = "(" + key + ")"
	}
	r.qualified = joins(q, f.ordered(q))
	rows := r.rows(q, f, r.keyColumns(q.Table))
	r.qualified = false
	return []squirrel.Sqlizer{squirrel.ConcatExpr(key+" IN (", rows, ")")}
}

// assigned is the text of a column's new value. It is computed as what it is, so that 7 / 2 is 3 for a decimal column too,
// and brought to the column's own type: some databases keep any digits, any width and any length that they are given.
func (r *renderer) assigned(a *Assignment) (string, []any) {
	if a.expr == nil {
		at := r.slot()
		return at.placeholder(), []any{at}
	}
	from, to := typeOf(a.expr), a.column.Type
	if a.expr.op != query.OpColumn && (from.Kind == to.Kind || integer(from.Kind) && integer(to.Kind)) {
		return r.expr(a.expr, to)
	}
	text, slots := r.expr(a.expr, from)
	switch {
	case fits(from, to):
	case to.Kind == backend.KindText:
		text = r.dialect.Argument(to, text)
	default:
		text = r.dialect.Compute("+", to, text, "0")
	}
	return text, slots
}

// fits: every value of one type is one of the other.
func fits(from, to backend.ColumnType) bool {
	switch {
	case to.Kind == backend.KindText:
		return to.Size == 0 || from.Size > 0 && from.Size <= to.Size
	case to.Kind == backend.KindDecimal:
		return from.Kind == to.Kind && from.Precision == to.Precision && from.Scale == to.Scale
	case integer(to.Kind):
		return from.Kind <= to.Kind // the kinds of integers go from the narrowest to the widest
	}
	return true
}
