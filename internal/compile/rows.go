package compile

import (
	"strings"

	"github.com/Masterminds/squirrel"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"

	"github.com/hare-go/hare/internal/schema"
)

// The statements on rows that a program holds. Their arguments are the columns' values, in the order that each names.

// Insert writes one row and gives the columns of returning back. The arguments are the values of the columns in the
// table's order; the columns that are not in the set get their defaults.
func (c *Compiler) Insert(t *schema.Table, columns, returning ColumnSet) (Statement, error) {
	return c.row(formInsert, t, columns, returning)
}

// InsertRows writes any number of rows. If rows is true, the arguments are a backend.List for each column, in the table's
// order, with a value for each row; if not, the statement writes one row as [Compiler.Insert] does and is run once for
// each.
func (c *Compiler) InsertRows(t *schema.Table, columns, returning ColumnSet) (s Statement, rows bool, err error) {
	s, err = c.row(formInsertRows, t, columns, returning)
	return s, s.rows, err
}

// UpdateRow writes the columns of the row with a primary key. The arguments are the values of the columns in the table's
// order, then those of the key.
func (c *Compiler) UpdateRow(t *schema.Table, set, returning ColumnSet) (Statement, error) {
	if set.Len() == 0 {
		return Statement{}, usage("an update of %s sets no column", t.Model)
	}
	return c.row(formUpdateRow, t, set, returning)
}

// DeleteRow deletes the row with a primary key. The arguments are the values of the key.
func (c *Compiler) DeleteRow(t *schema.Table) (Statement, error) {
	return c.row(formDeleteRow, t, ColumnSet{}, ColumnSet{})
}

// SelectRow reads every column of the row with a primary key, in the table's order. The arguments are the values of the
// key.
func (c *Compiler) SelectRow(t *schema.Table) (Statement, error) {
	return c.row(formSelectRow, t, ColumnSet{}, ColumnSet{})
}

func (c *Compiler) row(f form, t *schema.Table, columns, returning ColumnSet) (Statement, error) {
	var buffer [keySize]byte
	key := returning.appendKey(columns.appendKey(append(buffer[:0], byte(f))))
	if s, ok := c.cache.get(t, key); ok {
		return s, nil
	}
	s, err := c.renderRow(f, t, columns, returning)
	if err == nil {
		c.cache.put(t, key, s)
	}
	return s, err
}

func (c *Compiler) renderRow(f form, t *schema.Table, columns, returning ColumnSet) (Statement, error) {
	r := c.renderer()
	if len(t.PK) == 0 && f != formInsert && f != formInsertRows {
		return Statement{}, usage("%s has no primary key, so that one row of it cannot be told from the others", t.Model)
	}
	var suffix string
	if returning.Len() > 0 {
		r.require(features.Returning)
		suffix = "RETURNING " + strings.Join(r.names(t, returning), ", ")
	}
	switch f {
	case formInsert:
		return r.finish(r.insert(t, columns, suffix))
	case formInsertRows:
		return r.insertRows(t, columns, suffix)
	case formUpdateRow:
		r.require(features.RowUpdates)
		return r.finish(r.updateRow(t, columns, suffix))
	case formDeleteRow:
		r.require(features.RowDeletes)
		return r.finish(squirrel.Delete(quote(t.Name)).Where(r.key(t)))
	default:
		return r.finish(squirrel.Select(r.names(t, Columns(t.Columns...))...).From(quote(t.Name)).Where(r.key(t)))
	}
}

func (r *renderer) insert(t *schema.Table, columns ColumnSet, suffix string) squirrel.Sqlizer {
	if columns.Len() == 0 {
		return squirrel.Expr(strings.TrimSpace("INSERT INTO " + quote(t.Name) + " DEFAULT VALUES " + suffix))
	}
	values := make([]any, 0, columns.Len())
	for range columns.Len() {
		at := r.slot()
		values = append(values, squirrel.Expr(at.placeholder(), at))
	}
	return suffixed(squirrel.Insert(quote(t.Name)).Columns(r.names(t, columns)...).Values(values...), suffix)
}

func (r *renderer) insertRows(t *schema.Table, columns ColumnSet, suffix string) (Statement, error) {
	var types []backend.ColumnType
	var placeholders []string
	var slots []any
	for c := range columns.In(t) {
		at := r.slot()
		types, placeholders, slots = append(types, c.Type), append(placeholders, at.placeholder()), append(slots, at)
	}
	from, ok := r.dialect.Rows(types, placeholders)
	if !ok || len(types) == 0 {
		r.slots = 0
		return r.finish(r.insert(t, columns, suffix))
	}
	// Squirrel's Insert takes a SelectBuilder for its rows, whose From has no arguments: they come with the text.
	s, err := r.finish(squirrel.Expr(strings.TrimSpace("INSERT INTO "+quote(t.Name)+" ("+strings.Join(r.names(t, columns), ",")+
		") SELECT * FROM "+from+" "+suffix), slots...))
	s.rows = err == nil
	return s, err
}

func (r *renderer) updateRow(t *schema.Table, set ColumnSet, suffix string) squirrel.Sqlizer {
	update := squirrel.Update(quote(t.Name))
	for c := range set.In(t) {
		at := r.slot()
		update = update.Set(r.column(&place{column: c}), squirrel.Expr(at.placeholder(), at))
	}
	update = update.Where(r.key(t))
	if suffix != "" {
		update = update.Suffix(suffix)
	}
	return update
}

// key is the condition that the row has a primary key.
func (r *renderer) key(t *schema.Table) squirrel.Sqlizer {
	var parts []string
	var slots []any
	for _, c := range t.PK {
		at := r.slot()
		parts, slots = append(parts, quote(c.Name)+" = "+at.placeholder()), append(slots, at)
	}
	return squirrel.Expr(strings.Join(parts, " AND "), slots...)
}

func (r *renderer) names(t *schema.Table, columns ColumnSet) []string {
	names := make([]string, 0, columns.Len())
	for c := range columns.In(t) {
		names = append(names, r.column(&place{column: c}))
	}
	return names
}

func suffixed(insert squirrel.InsertBuilder, suffix string) squirrel.InsertBuilder {
	if suffix == "" {
		return insert
	}
	return insert.Suffix(suffix)
}
