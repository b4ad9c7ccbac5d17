package backend

import (
	"reflect"
	"time"
	"unsafe"
)

// Pointer is the address of a struct that a row is decoded into. Every use of unsafe in hare goes from such an
// address by an offset that reflect gave for a field of that very struct type.
type Pointer = unsafe.Pointer

// Kind is what a column holds, independent of any database.
type Kind uint8

// The kinds. The comment gives the canonical Go value that carries one between hare and a backend.
const (
	KindInvalid  Kind = iota
	KindBool          // bool
	KindInt16         // int64
	KindInt32         // int64
	KindInt64         // int64
	KindFloat         // float64
	KindText          // string
	KindBytes         // []byte
	KindTime          // time.Time: an instant, UTC, microseconds
	KindDuration      // int64 microseconds
	KindUUID          // UUID
	KindDecimal       // Decimal
	KindJSON          // JSON
	KindArray         // Array
)

// UUID is a canonical UUID.
type UUID [16]byte

// Decimal is a canonical exact decimal: plain digits with as many decimal places as the column has.
type Decimal string

// JSON is a canonical JSON document.
type JSON []byte

// Array is a canonical array value of a column; Values holds canonical elements, nil for NULL.
type Array struct {
	Elem   ColumnType
	Values []any
}

// List is one argument that stands for a list of any length, as the IN lookup and bulk writes use it. Values holds
// canonical elements; nil is NULL.
type List struct {
	Elem   ColumnType
	Values []any
}

// Layout is how a struct field lies in memory, so that a backend can write it without reflection.
type Layout uint8

// The layouts. LayoutOther fields are set by [Dest.Assign].
const (
	LayoutOther Layout = iota
	LayoutBool
	LayoutInt
	LayoutInt8
	LayoutInt16
	LayoutInt32
	LayoutInt64
	LayoutUint
	LayoutUint8
	LayoutUint16
	LayoutUint32
	LayoutUint64
	LayoutFloat32
	LayoutFloat64
	LayoutString
	LayoutBytes    // []byte and types with that underlying type
	LayoutTime     // time.Time
	LayoutDuration // time.Duration
	LayoutUUID     // [16]byte and types with that underlying type
)

// Dest says where a column's value goes.
type Dest struct {
	Offset  uintptr      // of the field, from the struct's address
	Kind    Kind         // what the column holds
	Layout  Layout       // how the field lies in memory, its pointer taken off
	Pointer bool         // the field is a *X: nil for NULL
	Type    reflect.Type // the field's type, its pointer taken off
	// Assign stores a canonical value, or nil for NULL, into the field at the address: the general way, which
	// works for every layout. field is the address of the field itself, not of the struct.
	Assign func(field Pointer, value any) error
	// For messages.
	Model, Field, Column string
}

// At is the address of the destination's field in the struct at base.
func (d *Dest) At(base Pointer) Pointer { return unsafe.Add(base, d.Offset) }

// Store assigns a canonical value (nil for NULL) and names the field in the error.
func (d *Dest) Store(base Pointer, value any) error {
	if err := d.Assign(d.At(base), value); err != nil {
		return d.Wrap(err)
	}
	return nil
}

// Wrap names the model, field and column in err.
func (d *Dest) Wrap(err error) error {
	return &DecodeError{Model: d.Model, Field: d.Field, Column: d.Column, Err: err}
}

// Microseconds is the precision of every instant: the time in UTC, cut to microseconds, as PostgreSQL stores it.
func Microseconds(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
