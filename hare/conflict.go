package hare

import (
	"fmt"
	"slices"

	"github.com/hare-go/hare/internal/compile"
	"github.com/hare-go/hare/internal/schema"
)

// conflicts is what a BulkCreate does with rows that are there already.
type conflicts struct {
	ignore         bool
	target, update []string

	handled bool // something of the above was asked for
	plan    compile.Conflict
}

// IgnoreConflicts makes BulkCreate leave out the rows that a unique constraint refuses; with [OnConflict] only that
// constraint counts. Of two objects of one call the first is written. Generated keys and defaults are not filled in: nobody
// tells which of the objects were written.
func IgnoreConflicts() BulkOption { return func(b *bulk) { b.ignore = true } }

// OnConflict names the columns of the unique constraint that [DoUpdate] or [IgnoreConflicts] goes by.
func OnConflict(columns ...string) BulkOption {
	return func(b *bulk) { b.target = append(b.target, columns...) }
}

// DoUpdate makes BulkCreate update these columns, and auto_now columns with them, of a row that is there already by the
// constraint of [OnConflict]; the other columns of such a row stay. Of two objects of one call the last wins. Generated keys
// are filled in, also those of rows that were there. Neither the key nor a column of the constraint can be updated.
func DoUpdate(columns ...string) BulkOption {
	return func(b *bulk) { b.update = append(b.update, columns...) }
}

// check turns the names into the plan.
func (c *conflicts) check(t *schema.Table) (err error) {
	c.handled = c.ignore || len(c.update) > 0
	switch {
	case c.ignore && len(c.update) > 0:
		return &QueryError{Reason: "IgnoreConflicts and DoUpdate exclude each other"}
	case len(c.target) > 0 && !c.handled:
		return &QueryError{Reason: "OnConflict says where: add IgnoreConflicts or DoUpdate to say what"}
	case len(c.update) > 0 && len(c.target) == 0:
		return &QueryError{Reason: "DoUpdate needs the columns of a unique constraint: add OnConflict"}
	}
	if c.plan.Target, err = columnSet(t, c.target); err != nil {
		return err
	}
	if c.plan.Update, err = columnSet(t, c.update); err != nil {
		return err
	}
	for column := range c.plan.Update.In(t) {
		if column.PK || c.plan.Target.Has(column) {
			return &QueryError{Reason: fmt.Sprintf("DoUpdate cannot update %q, which says what row it is", column.Name)}
		}
	}
	if len(c.update) == 0 {
		return nil
	}
	for _, column := range t.Columns {
		if column.AutoNow && !c.plan.Target.Has(column) {
			c.plan.Update = c.plan.Update.With(column)
		}
	}
	return nil
}

// columnSet is the set of the columns of these names.
func columnSet(t *schema.Table, names []string) (compile.ColumnSet, error) {
	var set compile.ColumnSet
	for _, name := range names {
		column, ok := t.Column(name)
		if !ok {
			return set, unknownColumn(t, name)
		}
		set = set.With(column)
	}
	return set, nil
}

// batches cuts the rows into those of one statement each. A statement must not update one row twice, so a second object for
// the same row begins a new one.
func (b *bulk) batches(rows []int) ([][]int, error) {
	if len(b.update) == 0 {
		return slices.Collect(slices.Chunk(rows, b.batch)), nil
	}
	var batches [][]int
	start, seen := 0, map[string]bool{}
	for i, row := range rows {
		var key []byte
		for column := range b.plan.Target.In(b.table) {
			value, err := b.read(column, row)
			if err != nil {
				return nil, err
			}
			key = fmt.Appendf(key, "%#v\x00", value)
		}
		if seen[string(key)] || i-start == b.batch {
			batches = append(batches, rows[start:i])
			start = i
			clear(seen)
		}
		seen[string(key)] = true
	}
	return append(batches, rows[start:]), nil
}
