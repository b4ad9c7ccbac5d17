package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/hare-go/hare/hare/backend"
)

// Relation is a foreign key: a field `Author *Author` with the tag fk=author_id.
type Relation struct {
	Table    *Table // that has the foreign key
	Name     string // the relation's name in paths: the field in snake case
	Field    string
	Columns  []*Column    // of this table, in the order of the target's primary key
	Target   reflect.Type // the struct type it points to; Resolve gives its Table
	OnDelete string       // cascade (the default), restrict, set_null, set_default, no_action
	OneToOne bool         // the columns are unique
	Tag      string       // the fk=... of the field, for messages
}

// Resolve gives the table that the relation points to, and checks that the foreign key fits its primary key. It is
// done when the relation is used and not when the model is declared, as two models may point at each other.
func (r *Relation) Resolve() (*Table, error) {
	target, err := Of(r.Target)
	if err != nil {
		return nil, err
	}
	if len(target.PK) != len(r.Columns) {
		return nil, r.fail(fmt.Sprintf("the primary key of %s has %d columns, and fk names %d", target.Model, len(target.PK), len(r.Columns)))
	}
	for i, column := range r.Columns {
		if key := target.PK[i]; !sameKind(column.Type.Kind, key.Type.Kind) {
			return nil, r.fail(fmt.Sprintf("the column %q holds %s, and %s.%s, to which it points, %s", column.Name,
				kindNames[column.Type.Kind], target.Model, key.Field, kindNames[key.Type.Kind]))
		}
	}
	return target, nil
}

func (r *Relation) fail(reason string) error {
	return &DeclarationError{Type: r.Table.Model, Field: r.Field, Tag: r.Tag, Reason: reason}
}

// sameKind reports whether a foreign key of one kind can point to a key of the other. Integers may differ in width.
func sameKind(a, b backend.Kind) bool {
	integer := func(k backend.Kind) bool { return k >= backend.KindInt16 && k <= backend.KindInt64 }
	return a == b || integer(a) && integer(b)
}

// pendingRelation is a field with fk=..., until all columns are known.
type pendingRelation struct {
	field reflect.StructField
	path  string
	tag   *options
}

// foreignKeys makes the relations.
func (b *builder) foreignKeys() error {
	for _, p := range b.relations {
		r, err := b.relation(p)
		if err != nil {
			return b.fail(p.path, err)
		}
		b.table.Relations = append(b.table.Relations, r)
		b.table.relations[r.Name] = r
	}
	return nil
}

func (b *builder) relation(p pendingRelation) (*Relation, error) {
	word := p.tag.word("fk")
	if other := p.tag.other("fk", "on_delete", "related"); other != "" {
		return nil, faultf(other, "the word belongs to a column, and a relation is none: write it at the field of the foreign key's column")
	}
	t := p.field.Type
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct || t.Elem().Name() == "" {
		return nil, faultf(word, "a relation is a pointer to a model, and the field is %s", t)
	}
	r := &Relation{
		Table: b.table, Name: snake(p.field.Name), Field: p.path, Target: t.Elem(), OnDelete: p.tag.onDelete, Tag: word,
	}
	if r.OnDelete == "" {
		r.OnDelete = "cascade"
	}
	if reason := checkStep(r.Name); reason != "" {
		return nil, faultf(word, "the relation would be called %q, and %s: rename the field", r.Name, reason)
	}
	if other, taken := b.table.columns[r.Name]; taken {
		return nil, faultf(word, "the relation is called %q, as is the column of %s: rename the field, or the column with column=...", r.Name, other.Field)
	}
	if other, taken := b.table.relations[r.Name]; taken {
		return nil, faultf(word, "the relation is called %q, as is that of %s: rename the field", r.Name, other.Field)
	}
	for _, name := range p.tag.fk {
		column, ok := b.table.columns[name]
		if !ok {
			return nil, faultf(word, "%s", b.unknownColumn(name))
		}
		r.Columns = append(r.Columns, column)
	}
	for _, other := range b.table.Relations {
		if slices.Equal(other.Columns, r.Columns) {
			return nil, faultf(word, "%s is a relation over the same column already", other.Field)
		}
	}
	return r, r.checkOnDelete(p.tag.word("on_delete"))
}

// unknownColumn says that fk names no column, and which was probably meant.
func (b *builder) unknownColumn(name string) string {
	known := make([]string, len(b.table.Columns))
	for i, c := range b.table.Columns {
		known[i] = c.Name
	}
	text := fmt.Sprintf("there is no column %q", name)
	if nearest := Nearest(name, known); nearest != "" {
		return fmt.Sprintf("%s: did you mean %q?", text, nearest)
	}
	return text + "; the columns are " + strings.Join(known, ", ")
}

func (r *Relation) checkOnDelete(word string) error {
	for _, c := range r.Columns {
		switch {
		case r.OnDelete == "set_null" && !c.Null:
			return faultf(word, "the column %q cannot be NULL: make %s a pointer", c.Name, c.Field)
		case r.OnDelete == "set_default" && !c.HasDefault:
			return faultf(word, "the column %q has no default: give %s one with default=...", c.Name, c.Field)
		}
	}
	return nil
}

// checkFarSide checks a field tagged m2m or reverse. Its rows are in other tables, so that it is no part of this one.
func checkFarSide(field reflect.StructField, o *options) error {
	word, t := o.word("m2m"), field.Type
	if o.m2m {
		if other := o.other("m2m", "related", "through"); other != "" {
			return faultf(other, "the word belongs to a column, and a relation is none")
		}
	} else {
		word = o.word("reverse")
		if other := o.other("reverse"); other != "" {
			return faultf(other, "the word belongs to a column, and a relation is none")
		}
	}
	// The far side of a one-to-one relation is a single object.
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer && !o.m2m {
		t = t.Elem()
		if t.Kind() == reflect.Pointer && field.Type.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() == reflect.Struct && t.Name() != "" {
			return nil
		}
	}
	return faultf(word, "the field holds the related objects, so that it is a slice of a model, and it is %s", field.Type)
}
