package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hare-go/hare/internal/schema"
)

// byForeignKeys puts each table after those that its foreign keys refer to, and leaves the order as it is otherwise. A
// table may refer to itself, and one that is there twice counts once.
func byForeignKeys(tables []*schema.Table) ([]*schema.Table, error) {
	o := ordering{wanted: tables}
	for _, t := range tables {
		if err := o.place(t); err != nil {
			return nil, err
		}
	}
	return o.placed, nil
}

type ordering struct {
	wanted []*schema.Table
	placed []*schema.Table
	path   []*schema.Table // from table to table by the foreign keys that are being followed
}

func (o *ordering) place(t *schema.Table) error {
	if slices.Contains(o.placed, t) {
		return nil
	}
	o.path = append(o.path, t)
	for _, r := range t.Relations {
		target, err := r.Resolve()
		if err != nil {
			return err
		}
		if target == t || !slices.Contains(o.wanted, target) {
			continue
		}
		if start := slices.Index(o.path, target); start >= 0 {
			return circle(r, append(o.path[start:], target))
		}
		if err := o.place(target); err != nil {
			return err
		}
	}
	o.path = o.path[:len(o.path)-1]
	o.placed = append(o.placed, t)
	return nil
}

func circle(r *schema.Relation, path []*schema.Table) error {
	models := make([]string, len(path))
	for i, t := range path {
		models[i] = t.Model
	}
	return &schema.DeclarationError{
		Type: r.Table.Model, Field: r.Field, Tag: r.Tag,
		Reason: fmt.Sprintf("the foreign keys go in a circle, %s, so that none of the tables can be the first: create them by hand with "+
			"Client.Exec, or keep one of the columns without a relation", strings.Join(models, " -> ")),
	}
}

// distinctNames refuses two things of one name: IF NOT EXISTS would take the second for the first and leave it out.
// Tables, indexes and the indexes of constraints share their names, on some databases whatever their case.
func distinctNames(tables []*schema.Table) error {
	owners := map[string]*schema.Table{}
	for _, t := range tables {
		names := []string{t.Name}
		if len(t.PK) > 0 {
			names = append(names, schema.ConstraintName("pk", t.Name))
		}
		for _, index := range t.Indexes {
			names = append(names, index.Name)
		}
		for _, name := range names {
			other, taken := owners[strings.ToLower(name)]
			if taken {
				return &schema.DeclarationError{Type: t.Model, Reason: fmt.Sprintf("there would be two tables, indexes or constraints %q, "+
					"this one and that of %s: name one of them otherwise", name, other.Model)}
			}
			owners[strings.ToLower(name)] = t
		}
	}
	return nil
}
