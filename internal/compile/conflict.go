package compile

import (
	"strings"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/internal/schema"
)

// Conflict is what an INSERT does with a row that is there already.
type Conflict struct {
	// Target are the columns of the unique constraint that is looked at; without any, every constraint is. The order
	// within a constraint does not matter.
	Target ColumnSet
	// Update are the columns that the row gets from the one that was to be inserted. Without any the row stays as it is,
	// and nothing of it is returned.
	Update ColumnSet
}

// The forms of inserts that look at conflicts.
const (
	formUpsert form = iota + formSelectRow + 1
	formUpsertRows
)

// Upsert is [Compiler.Insert] for rows that may be there already.
func (c *Compiler) Upsert(t *schema.Table, columns, returning ColumnSet, on Conflict) (Statement, error) {
	return c.upsert(formUpsert, t, columns, returning, on)
}

// UpsertRows is [Compiler.InsertRows] for rows that may be there already. No two of them may be the same by the target.
func (c *Compiler) UpsertRows(t *schema.Table, columns, returning ColumnSet, on Conflict) (s Statement, rows bool, err error) {
	s, err = c.upsert(formUpsertRows, t, columns, returning, on)
	return s, s.rows, err
}

func (c *Compiler) upsert(f form, t *schema.Table, columns, returning ColumnSet, on Conflict) (Statement, error) {
	if on.Update.Len() > 0 && on.Target.Len() == 0 {
		return Statement{}, usage("an insert of %s that updates what is there needs the columns of the constraint to look at", t.Model)
	}
	var buffer [keySize]byte
	key := append(buffer[:0], byte(f))
	for _, set := range [...]ColumnSet{columns, returning, on.Target, on.Update} {
		key = set.appendKey(key)
	}
	if s, ok := c.cache.get(t, key); ok {
		return s, nil
	}
	s, err := c.renderUpsert(f, t, columns, returning, on)
	if err == nil {
		c.cache.put(t, key, s)
	}
	return s, err
}

func (c *Compiler) renderUpsert(f form, t *schema.Table, columns, returning ColumnSet, on Conflict) (Statement, error) {
	r := c.renderer()
	r.require(features.UniqueConstraints)
	clause := "ON CONFLICT"
	if on.Target.Len() > 0 {
		clause += " (" + strings.Join(r.names(t, on.Target), ", ") + ")"
	}
	if on.Update.Len() == 0 {
		clause += " DO NOTHING"
	} else {
		set := make([]string, 0, on.Update.Len())
		for _, name := range r.names(t, on.Update) {
			set = append(set, name+" = excluded."+name)
		}
		clause += " DO UPDATE SET " + strings.Join(set, ", ")
	}
	if returning.Len() > 0 {
		r.require(features.Returning)
		clause += " RETURNING " + strings.Join(r.names(t, returning), ", ")
	}
	if f == formUpsertRows {
		return r.insertRows(t, columns, clause)
	}
	return r.finish(r.insert(t, columns, clause))
}
