package hare

import (
	"fmt"
	"iter"

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
// constraint of [OnConflict]; the other columns of such a row stay. Of two objects of one call the last wins. Keys are filled
// in, also those of rows that were there. Neither the key nor a column of the constraint can be updated.
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

// apart cuts the objects into runs, from the first to before the second number, within each of which no two can be for
// one row: their statements may come in any order, and no statement updates a row twice, which databases refuse.
func (b *bulk) apart(shapes []bulkShape) (iter.Seq2[int, int], error) {
	var cuts []int
	seen := map[string]bool{}
	for i := range shapes {
		again := false
		switch {
		case len(b.target) > 0:
			key, err := b.conflictKey(i)
			if err != nil {
				return nil, err
			}
			if again = seen[key]; again {
				clear(seen)
			}
			if key != "" {
				seen[key] = true
			}
		case b.ignore: // any constraint counts, so that any two objects may be for one row
			again = i > 0 && shapes[i] != shapes[i-1]
		}
		if again {
			cuts = append(cuts, i)
		}
	}
	return func(yield func(int, int) bool) {
		start := 0
		for _, cut := range append(cuts, len(shapes)) {
			if !yield(start, cut) {
				return
			}
			start = cut
		}
	}, nil
}

// conflictKey tells the objects for one row by the constraint of OnConflict. It is empty for one that cannot have the row of
// another: with a key that the database makes up, or with NULL.
func (b *bulk) conflictKey(row int) (string, error) {
	var key []byte
	for column := range b.plan.Target.In(b.table) {
		value, err := b.read(column, row)
		switch {
		case err != nil:
			return "", err
		case value == nil && column.HasDefault:
			value = column.Default
		case value == nil, column.Generated && column.IsZero(b.at(row)):
			return "", nil
		}
		key = fmt.Appendf(key, "%#v\x00", value)
	}
	return string(key), nil
}
