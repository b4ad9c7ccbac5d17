package compile

import (
	"slices"
	"time"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/query"

	"github.com/hare-go/hare/internal/schema"
)

// Assignment is a checked assignment: a column and its new value.
type Assignment struct {
	column *schema.Column
	value  any   // canonical
	expr   *expr // in the place of value
}

// Assignments checks the assignments of an update. A foreign key may be named by its relation and given a value of the
// related model. The primary key cannot be assigned, nor one column twice: these are a [*UsageError]. A wrong name is a
// [*schema.NameError], a value that does not suit its column a [*schema.ValueError].
func Assignments(t *schema.Table, set []query.Assignment) ([]Assignment, error) {
	assignments := make([]Assignment, 0, len(set))
	b := build{table: t}
	var seen ColumnSet
	for _, a := range set {
		to, err := resolveColumn(t, a.Column)
		if err != nil {
			return nil, err
		}
		at, err := to.only(a.Column)
		if err != nil {
			return nil, err
		}
		switch c := at.column; {
		case at.route != nil:
			return nil, usage("an update of %s cannot set %q, which belongs to another model", t.Model, a.Column)
		case c.PK:
			return nil, usage("an update of %s cannot set %q, which is the primary key", t.Model, c.Name)
		case seen.Has(c):
			return nil, usage("an update of %s sets %q twice", t.Model, c.Name)
		default:
			seen = seen.With(c)
		}
		assignment, err := b.assign(to, at.column, plain(a.Value))
		if err != nil {
			return nil, err
		}
		assignments = append(assignments, assignment)
	}
	return assignments, nil
}

func (b *build) assign(to *target, c *schema.Column, value any) (Assignment, error) {
	if e, ok := value.(query.Expr); ok {
		x, err := b.expression(c, e, 0)
		switch {
		case err != nil:
			return Assignment{}, err
		case x.joins:
			return Assignment{}, usage("an update of %s computes with its own columns only, and %q is set from another model's",
				b.table.Model, c.Name)
		case !canAssign(c, x):
			return Assignment{}, wrong(c, "the expression's values are of another type")
		}
		return Assignment{column: c, expr: x}, nil
	}
	if to.related != nil && !isNil(value) {
		if key, ok, err := to.instanceKey(value); ok || err != nil {
			return Assignment{column: c, value: key}, err
		}
	}
	v, err := c.Convert(value)
	return Assignment{column: c, value: v}, err
}

// touch adds the columns that hold the time of the last change and are not set.
func touch(t *schema.Table, set []Assignment, now time.Time) []Assignment {
	own := len(set)
	for _, c := range t.Columns {
		if c.AutoNow && !slices.ContainsFunc(set[:own], func(a Assignment) bool { return a.column == c }) {
			set = append(set[:len(set):len(set)], Assignment{column: c, value: backend.Microseconds(now)})
		}
	}
	return set
}
