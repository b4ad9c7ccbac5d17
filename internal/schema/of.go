package schema

import (
	"reflect"
	"sync"

	"github.com/hare-go/hare/hare/backend"
)

// tables holds every declaration that was looked at, with the error of a bad one.
var tables sync.Map // reflect.Type -> outcome

type outcome struct {
	table *Table
	err   error
}

// Of is the table of a struct type, or of a pointer to one. Each type is looked at once: the same type always gives
// the same *Table. A bad declaration is a [*DeclarationError]. The models that relations point to are not looked
// at, see [Relation.Resolve].
func Of(t reflect.Type) (*Table, error) {
	if t == nil {
		return nil, &DeclarationError{Type: "nil", Reason: notAModel}
	}
	if known, ok := tables.Load(t); ok {
		return known.(outcome).table, known.(outcome).err
	}
	if t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
		return Of(t.Elem())
	}
	table, err := declare(t)
	known, _ := tables.LoadOrStore(t, outcome{table, err})
	return known.(outcome).table, known.(outcome).err
}

const notAModel = "a model is a struct type with a name: give one, or a pointer to one"

func declare(t reflect.Type) (*Table, error) {
	if t.Kind() != reflect.Struct || t.Name() == "" {
		return nil, &DeclarationError{Type: t.String(), Reason: notAModel}
	}
	return build(t, t.Name())
}

// builder makes one Table.
type builder struct {
	table     *Table
	tags      map[*Column]*options
	relations []pendingRelation
}

// build reads the declaration: first the fields, then what refers to them.
func build(t reflect.Type, model string) (*Table, error) {
	b := newBuilder(t, model)
	if err := b.fields(t, "", 0); err != nil {
		return nil, err
	}
	return b.complete()
}

func newBuilder(t reflect.Type, model string) *builder {
	return &builder{
		table: &Table{Model: model, Type: t, columns: map[string]*Column{}, relations: map[string]*Relation{}},
		tags:  map[*Column]*options{},
	}
}

// complete is what remains to be done when all fields are there.
func (b *builder) complete() (*Table, error) {
	for _, step := range []func() error{b.name, b.keys, b.foreignKeys, b.indexes, b.madeKeys} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	b.checks()
	for _, c := range b.table.Columns {
		b.table.Dests = append(b.table.Dests, c.Dest)
	}
	return b.table, nil
}

// fail is the error of a field.
func (b *builder) fail(field string, err error) error { return declaration(b.table.Model, field, err) }

// fields adds the columns and relations of a struct, at an offset within the model. path is the prefix of an embedded
// struct.
func (b *builder) fields(t reflect.Type, path string, offset uintptr) error {
	for i := range t.NumField() {
		field := t.Field(i)
		field.Offset += offset
		if err := b.field(field, path+field.Name); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) field(field reflect.StructField, path string) error {
	o, err := readTag(field.Tag)
	if err != nil {
		return b.fail(path, err)
	}
	switch {
	case o.skip:
	case field.Anonymous && embeds(field, o):
		return b.fields(field.Type, path+".", field.Offset)
	case field.Anonymous && field.Type.Kind() == reflect.Pointer:
		err = faultf("", "an embedded pointer may be nil: embed the struct itself, or tag the field \"-\"")
	case !field.IsExported():
		if len(o.written) != 0 {
			err = faultf(o.written[0].text, "the field is not exported, so that it cannot be a column: export it, or leave the tag out")
		}
	case o.m2m || o.reverse != "":
		err = checkFarSide(field, o)
	case o.fk != nil:
		b.relations = append(b.relations, pendingRelation{field, path, o})
	default:
		err = b.column(field, path, o)
	}
	if err != nil {
		return b.fail(path, err)
	}
	return nil
}

// embeds reports whether an embedded field is flattened: a struct that is no value by itself, such as time.Time.
func embeds(field reflect.StructField, o *options) bool {
	if field.Type.Kind() != reflect.Struct || len(o.written) != 0 {
		return false
	}
	_, err := newCodec(field.Type, o)
	return err != nil
}

// column adds a column.
func (b *builder) column(field reflect.StructField, path string, o *options) error {
	codec, err := newCodec(field.Type, o)
	if err != nil {
		return err
	}
	name := o.column
	if name == "" {
		name = snake(field.Name)
		if reason := checkStep(name); reason != "" {
			return faultf("", "the field would be column %q, and %s: name the column with column=...", name, reason)
		}
	}
	if other, taken := b.table.columns[name]; taken {
		return faultf(o.word("column"), "the field %s has the column %q already: name another with column=..., or leave one of them out "+
			"with \"-\"", other.Field, name)
	}
	c := &Column{
		Table: b.table, Field: path, Name: name, Index: len(b.table.Columns), Type: codec.column, Null: codec.null,
		PK: o.pk, AutoNow: o.autoNow, AutoNowAdd: o.autoNowAdd, isZero: codec.isZero,
		Dest: backend.Dest{
			Offset: field.Offset, Kind: codec.column.Kind, Layout: codec.layout, Pointer: codec.pointer, Type: codec.goType,
			Assign: codec.assign, Model: b.table.Model, Field: path, Column: name,
		},
	}
	if (c.AutoNow || c.AutoNowAdd) && c.Dest.Layout != backend.LayoutTime {
		word := "auto_now"
		if c.AutoNowAdd {
			word = "auto_now_add"
		}
		return faultf(word, "%s belongs to a time.Time or *time.Time", word)
	}
	if err := c.choose(codec, o); err != nil {
		return err
	}
	c.read, c.convert = codec.read, codec.convert
	if err := c.preset(o); err != nil {
		return err
	}
	b.table.Columns = append(b.table.Columns, c)
	b.table.columns[name] = c
	b.tags[c] = o
	return nil
}

// name finds the table's name.
func (b *builder) name() error {
	if len(b.table.Columns) == 0 {
		return b.fail("", faultf("", "the model has no columns: a column is an exported field"))
	}
	name, origin := snake(b.table.Model), "the type's name"
	if named, ok := reflect.New(b.table.Type).Interface().(interface{ TableName() string }); ok {
		name, origin = named.TableName(), "TableName"
	}
	if reason := checkName(name); reason != "" {
		return b.fail("", faultf("", "%s gives the table's name %q, and %s: let a method TableName() string give another", origin, name, reason))
	}
	b.table.Name = name
	return nil
}

// keys finds the primary key: the fields tagged pk, else the field named ID.
func (b *builder) keys() error {
	for _, c := range b.table.Columns {
		if c.PK {
			b.table.PK = append(b.table.PK, c)
		}
	}
	for _, c := range b.table.Columns {
		if len(b.table.PK) == 0 && lastName(c.Field) == "ID" {
			c.PK = true
			b.table.PK = []*Column{c}
		}
	}
	for _, c := range b.table.PK {
		word := b.tags[c].word("pk")
		switch {
		case c.Null:
			return b.fail(c.Field, faultf(word, "a primary key cannot be NULL: make the field no pointer and no type that can be NULL"))
		case c.Type.Kind == backend.KindJSON || c.Type.Kind == backend.KindArray:
			return b.fail(c.Field, faultf(word, "a primary key cannot be %s: tag another field pk", kindNames[c.Type.Kind]))
		case c.AutoNow:
			return b.fail(c.Field, faultf("auto_now", "a primary key does not change, and auto_now would change it at each save"))
		}
	}
	return nil
}

// madeKeys finds the key that nobody has to set: a single integer, or a single UUID.
func (b *builder) madeKeys() error {
	if len(b.table.PK) != 1 {
		return nil
	}
	key := b.table.PK[0]
	if key.HasDefault || len(key.Choices) > 0 || b.refers(key) {
		return nil
	}
	key.NewUUID = key.Type.Kind == backend.KindUUID
	key.Generated = isInteger(key)
	if override := key.Type.Override; key.Generated && override != "" && overrideKind(override) == backend.KindInvalid {
		// A domain cannot have an identity, and serial makes the key a second time.
		return b.fail(key.Field, faultf(b.tags[key].word("type"), "the database makes this key by itself, as a smallint, an integer or "+
			"a bigint: leave type out, or name one of these"))
	}
	return nil
}

// isInteger reports whether the column is an integer in a field of Go's own integer types.
func isInteger(c *Column) bool {
	return c.Dest.Layout >= backend.LayoutInt && c.Dest.Layout <= backend.LayoutUint64
}

// refers reports whether a foreign key has the column.
func (b *builder) refers(c *Column) bool {
	for _, r := range b.table.Relations {
		for _, column := range r.Columns {
			if column == c {
				return true
			}
		}
	}
	return false
}
