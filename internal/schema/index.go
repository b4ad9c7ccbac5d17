package schema

import (
	"slices"
	"strings"

	"github.com/hare-go/hare/hare/backend"
)

// indexes makes the indexes and unique constraints of the tags, and an index for each foreign key that has none.
func (b *builder) indexes() error {
	for _, unique := range []bool{true, false} {
		for _, c := range b.table.Columns {
			groups, word := b.tags[c].indexes, "index"
			if unique {
				groups, word = b.tags[c].uniques, "unique"
			}
			for _, group := range groups {
				if err := b.index(c, group, unique); err != nil {
					return b.fail(c.Field, faultf(strings.TrimSuffix(word+"="+group, "="), "%s", err))
				}
			}
		}
	}
	for _, r := range b.table.Relations {
		r.OneToOne = slices.Equal(b.table.PK, r.Columns) || slices.ContainsFunc(b.table.Indexes, func(i Index) bool {
			return i.Unique && sameColumns(i.Columns, r.Columns)
		})
		if !b.leads(r.Columns) {
			b.table.Indexes = append(b.table.Indexes, Index{Name: indexName(b.table.Name, r.Columns), Columns: r.Columns})
		}
	}
	for _, i := range b.table.Indexes {
		first := i.Columns[0]
		first.Indexed = first.Indexed || !i.Unique
		first.Unique = first.Unique || i.Unique && len(i.Columns) == 1
	}
	return nil
}

// index adds a column to the index of the name, or makes one of the column alone.
func (b *builder) index(c *Column, group string, unique bool) error {
	if c.Type.Kind == backend.KindJSON {
		return faultf("", "a JSON document has no order, so that it cannot have an index: leave the word out")
	}
	if group == "" {
		if unique && slices.Equal(b.table.PK, []*Column{c}) {
			return faultf("", "a primary key is unique already: leave the word out")
		}
		name := indexName(b.table.Name, []*Column{c})
		if unique {
			name = ConstraintName("uq", b.table.Name, c.Name)
		}
		return b.addIndex(Index{Name: name, Columns: []*Column{c}, Unique: unique})
	}
	if reason := checkName(group); reason != "" {
		return faultf("", "%s", reason)
	}
	for i := range b.table.Indexes {
		known := &b.table.Indexes[i]
		if known.Name != group {
			continue
		}
		switch {
		case known.Unique != unique:
			return faultf("", "%q names an index and a unique constraint: give one of them another name", group)
		case slices.Contains(known.Columns, c):
			return faultf("", "the word is there twice: leave one out")
		}
		known.Columns = append(known.Columns, c)
		return nil
	}
	return b.addIndex(Index{Name: group, Columns: []*Column{c}, Unique: unique})
}

func (b *builder) addIndex(index Index) error {
	for _, known := range b.table.Indexes {
		if known.Name == index.Name {
			return faultf("", "there is an index %q already: leave the word out, or give one of them another name", index.Name)
		}
	}
	b.table.Indexes = append(b.table.Indexes, index)
	return nil
}

// leads reports whether the key or an index starts with the columns, so that it serves look-ups by them.
func (b *builder) leads(columns []*Column) bool {
	starts := func(with []*Column) bool {
		return len(with) >= len(columns) && sameColumns(with[:len(columns)], columns)
	}
	return starts(b.table.PK) || slices.ContainsFunc(b.table.Indexes, func(i Index) bool { return starts(i.Columns) })
}

// sameColumns compares two lists whatever their order.
func sameColumns(a, b []*Column) bool {
	if len(a) != len(b) {
		return false
	}
	for _, c := range a {
		if !slices.Contains(b, c) {
			return false
		}
	}
	return true
}

// checks collects the CHECK constraints.
func (b *builder) checks() {
	for _, c := range b.table.Columns {
		if sql := b.tags[c].check; sql != "" {
			b.table.Checks = append(b.table.Checks, Check{Name: ConstraintName("ck", b.table.Name, c.Name), SQL: sql})
		}
	}
}

// lastName is a field's name without the embedding structs.
func lastName(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
