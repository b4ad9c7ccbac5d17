// Package schema turns a struct type and its tags into a Table: columns, keys, relations, indexes. It is done once
// for each type; everything that reads or writes a model goes by the result.
package schema

import (
	"reflect"

	"github.com/hare-go/hare/hare/backend"
)

// Table is what a model declares.
type Table struct {
	Model string       // the type's name, for messages
	Name  string       // the table's name
	Type  reflect.Type // the struct type

	Columns   []*Column
	PK        []*Column   // the primary key's columns in order; empty for a model without a key
	Relations []*Relation // foreign keys
	Indexes   []Index
	Checks    []Check

	// Dests are the destinations of all columns, in the order of Columns.
	Dests []backend.Dest
}

// Column is one stored field.
type Column struct {
	Table *Table
	Field string // the Go field's name, with the embedding structs: "Audit.CreatedAt"
	Name  string // the column's name
	Index int    // in Table.Columns
	Type  backend.ColumnType
	Null  bool // a pointer field, or a type that can be NULL by itself (see Nullable)
	PK    bool
	// Generated: the database makes the key when the field is zero (a single integer key).
	Generated           bool
	Unique              bool
	Indexed             bool
	HasDefault          bool
	Default             any // canonical value of the tag default=...
	AutoNow, AutoNowAdd bool
	Choices             []any // canonical values, from choices=a|b
	Dest                backend.Dest

	read    func(field backend.Pointer) (any, error) // canonical value of the field
	convert func(value any) (any, error)             // canonical value of anything a caller may give
	isZero  func(field backend.Pointer) bool
}

// Relation is a foreign key: a field `Author *Author` with the tag fk=author_id.
type Relation struct {
	Name     string // the relation's name in paths: the field in snake case
	Field    string
	Columns  []*Column    // of this table
	Target   reflect.Type // the struct type it points to; use Of to read its Table
	OnDelete string       // cascade, restrict, set_null, set_default, no_action
	OneToOne bool
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
