// Package schema turns a struct type and its tags into a Table: columns, keys, relations, indexes. It is done once
// for each type; everything that reads or writes a model goes by the result.
//
// A column has one codec, chosen from the field's type and tag. Creating, saving, updating, bulk writes and filters
// all go through it, so that no path takes a value that another refuses.
package schema

import (
	"reflect"
	"time"

	"github.com/hare-go/hare/hare/backend"
)

// Table is what a model declares. It never changes once [Of] has given it.
type Table struct {
	Model string       // the type's name, for messages
	Name  string       // the table's name
	Type  reflect.Type // the struct type

	Columns   []*Column
	PK        []*Column   // the primary key's columns in order; empty for a model without a key
	Relations []*Relation // foreign keys
	Indexes   []Index     // unique constraints and indexes, those of foreign keys included
	Checks    []Check     // from check=; choices are in Column.Choices

	// Dests are the destinations of all columns, in the order of Columns.
	Dests []backend.Dest

	columns   map[string]*Column
	relations map[string]*Relation
}

// Column finds a column by its name.
func (t *Table) Column(name string) (*Column, bool) {
	c, ok := t.columns[name]
	return c, ok
}

// Relation finds a relation by its name.
func (t *Table) Relation(name string) (*Relation, bool) {
	r, ok := t.relations[name]
	return r, ok
}

// Column is one stored field.
type Column struct {
	Table *Table
	Field string // the Go field's name, with the embedding structs: "Audit.CreatedAt"
	Name  string // the column's name
	Index int    // in Table.Columns
	Type  backend.ColumnType
	Null  bool // a pointer field, or a type that can be NULL by itself, as sql.NullString
	PK    bool
	// Generated: the database makes the key when the field is zero (a single integer key).
	Generated bool
	// NewUUID: creating a row fills the key with a [NewUUID] when the field is zero (a single UUID key).
	NewUUID             bool
	Unique              bool // alone, by a constraint of its own; a primary key does not set it
	Indexed             bool // an index that is not unique starts with the column
	HasDefault          bool
	Default             any // canonical value of the tag default=...
	AutoNow, AutoNowAdd bool
	Choices             []any // canonical values, from choices=a|b
	Dest                backend.Dest

	read    func(field backend.Pointer) (any, error) // canonical value of the field
	convert func(value any) (any, error)             // canonical value of anything a caller may give
	isZero  func(field backend.Pointer) bool
}

// Read gives the canonical value of the column's field in the struct at base, nil for NULL. A value that the column
// must not hold is a [*ValueError].
func (c *Column) Read(base backend.Pointer) (any, error) {
	value, err := c.read(c.Dest.At(base))
	if err != nil {
		return nil, c.refuse(err)
	}
	return value, nil
}

// IsZero reports whether the field has its zero value: nil for a pointer.
func (c *Column) IsZero(base backend.Pointer) bool { return c.isZero(c.Dest.At(base)) }

// Convert gives the canonical value of what a caller writes in a filter or an assignment. It takes the field's own
// type, named types and pointers of it (nil is NULL), every integer type and whole floats for integers, text for
// UUIDs, text and integers for decimals, integers (microseconds) for durations, and whatever has a Value method. Anything
// else, and anything that the column must not hold, is a [*ValueError].
func (c *Column) Convert(value any) (any, error) {
	canonical, err := c.convert(value)
	if err == nil && canonical == nil && !c.Null {
		err = errNotNull
	}
	if err != nil {
		return nil, c.refuse(err)
	}
	return canonical, nil
}

// SetNow sets the field of an auto_now or auto_now_add column, cut to microseconds.
func (c *Column) SetNow(base backend.Pointer, now time.Time) {
	// Such a field is a time.Time or a *time.Time, for which Assign cannot fail.
	_ = c.Dest.Assign(c.Dest.At(base), backend.Microseconds(now))
}

func (c *Column) refuse(err error) error {
	return &ValueError{Model: c.Table.Model, Field: c.Field, Column: c.Name, Reason: err.Error()}
}

// Index is a named index; Unique ones are constraints.
type Index struct {
	Name    string
	Columns []*Column
	Unique  bool
}

// Check is a named CHECK constraint.
type Check struct {
	Name string
	SQL  string
}
