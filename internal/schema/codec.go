package schema

import (
	"database/sql"
	"database/sql/driver"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"github.com/hare-go/hare/hare/backend"
)

// codec carries the values of one Go type between a struct field and a column. Its functions are made once for each
// field; those for common types load and store by typed pointers, without reflection.
type codec struct {
	column  backend.ColumnType
	layout  backend.Layout
	goType  reflect.Type // the field's type, its pointer taken off
	pointer bool
	null    bool

	read    func(field backend.Pointer) (any, error)
	assign  func(field backend.Pointer, value any) error
	convert func(value any) (any, error)
	isZero  func(field backend.Pointer) bool
}

var (
	timeType      = reflect.TypeFor[time.Time]()
	durationType  = reflect.TypeFor[time.Duration]()
	rawType       = reflect.TypeFor[json.RawMessage]()
	documentType  = reflect.TypeFor[backend.JSON]()
	scannerType   = reflect.TypeFor[sql.Scanner]()
	valuerType    = reflect.TypeFor[driver.Valuer]()
	marshalType   = reflect.TypeFor[encoding.TextMarshaler]()
	unmarshalType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// newCodec chooses the codec of a field.
func newCodec(t reflect.Type, o *options) (*codec, error) {
	if t.Kind() != reflect.Pointer {
		return newValueCodec(t, o)
	}
	if t.Elem().Kind() == reflect.Pointer {
		return nil, faultf("", "a pointer to a pointer has two ways to be NULL: use one pointer")
	}
	inner, err := newValueCodec(t.Elem(), o)
	if err != nil {
		return nil, err
	}
	return nullable(inner), nil
}

func newValueCodec(t reflect.Type, o *options) (*codec, error) {
	c, err := chooseCodec(t, o)
	if err != nil {
		return nil, err
	}
	if o.size != 0 && baseKind(c.column) != backend.KindText {
		return nil, faultf(o.word("size"), "size belongs to text, and the column holds %s", kindNames[c.column.Kind])
	}
	if o.has("decimal") && baseKind(c.column) != backend.KindDecimal {
		return nil, faultf(o.word("decimal"), "decimal does not go with %s, which holds %s: use a decimal type or a string", t, kindNames[c.column.Kind])
	}
	c.column.Override = o.override
	return c, nil
}

// baseKind is the kind of a column, or of its elements.
func baseKind(column backend.ColumnType) backend.Kind {
	if column.Kind == backend.KindArray {
		return column.Elem.Kind
	}
	return column.Kind
}

func chooseCodec(t reflect.Type, o *options) (*codec, error) {
	switch {
	case o.array:
		return arrayCodec(t, o)
	case t == rawType || t == documentType:
		return rawCodec(t, o)
	case o.json && (isUUID(t) || !isScanner(t)):
		return jsonCodec(t, o)
	case t == timeType:
		return timeCodec(o)
	case t == durationType:
		return durationCodec(o)
	case isUUID(t):
		return uuidCodec(t, o)
	case isScanner(t):
		return scannerCodec(t, o)
	case implements(t, scannerType):
		return nil, faultf("", "%s has Scan and no Value method, so that it could not be written as it is read: add one", t)
	case implements(t, valuerType):
		return nil, faultf("", "%s has Value and no Scan method, so that it could not be read as it is written: add one", t)
	}
	if c, err := basicCodec(t, o); c != nil || err != nil {
		return c, err
	}
	if implements(t, marshalType) && implements(t, unmarshalType) {
		return textualCodec(t, o)
	}
	return nil, unsupported(t)
}

// implements reports whether a field of type t, which has an address, has the interface's methods.
func implements(t, iface reflect.Type) bool {
	return t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(iface)
}

// isScanner reports whether the type itself says how it is written and read.
func isScanner(t reflect.Type) bool { return implements(t, scannerType) && implements(t, valuerType) }

// basicCodec is the codec of Go's own types and those named after them, or nil.
func basicCodec(t reflect.Type, o *options) (*codec, error) {
	switch t.Kind() {
	case reflect.Bool:
		return boolCodec(t, o)
	case reflect.Int:
		return integerCodec[int](t, o, backend.LayoutInt, backend.KindInt64)
	case reflect.Int8:
		return integerCodec[int8](t, o, backend.LayoutInt8, backend.KindInt16)
	case reflect.Int16:
		return integerCodec[int16](t, o, backend.LayoutInt16, backend.KindInt16)
	case reflect.Int32:
		return integerCodec[int32](t, o, backend.LayoutInt32, backend.KindInt32)
	case reflect.Int64:
		return integerCodec[int64](t, o, backend.LayoutInt64, backend.KindInt64)
	case reflect.Uint:
		return integerCodec[uint](t, o, backend.LayoutUint, backend.KindInt64)
	case reflect.Uint8:
		return integerCodec[uint8](t, o, backend.LayoutUint8, backend.KindInt16)
	case reflect.Uint16:
		return integerCodec[uint16](t, o, backend.LayoutUint16, backend.KindInt32)
	case reflect.Uint32:
		return integerCodec[uint32](t, o, backend.LayoutUint32, backend.KindInt64)
	case reflect.Uint64:
		return integerCodec[uint64](t, o, backend.LayoutUint64, backend.KindInt64)
	case reflect.Float32:
		return floatCodec[float32](t, o, backend.LayoutFloat32)
	case reflect.Float64:
		return floatCodec[float64](t, o, backend.LayoutFloat64)
	case reflect.String:
		return stringCodec(t, o)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 && !implements(t, marshalType) {
			return bytesCodec(t, o)
		}
	}
	return nil, nil
}

// unsupported names the way out for a type that is no column by itself.
func unsupported(t reflect.Type) error {
	switch t.Kind() {
	case reflect.Struct:
		return faultf("", "%s is a struct: a relation is a pointer tagged fk=..., a document is tagged json, a value has Scan and Value "+
			"methods; \"-\" leaves the field out", t)
	case reflect.Slice:
		return faultf("", "%s is a slice: tag it array, json, reverse=... or m2m, or \"-\" to leave it out", t)
	case reflect.Map, reflect.Array:
		return faultf("", "%s cannot be a column by itself: tag it json, or \"-\" to leave it out", t)
	case reflect.Interface:
		return faultf("", "a field of an interface type cannot be read back: use a concrete type, or tag it json")
	}
	return faultf("", "no column can hold %s: use another type, or tag the field \"-\"", t)
}

// nullable is the codec of a pointer: nil is NULL.
func nullable(inner *codec) *codec {
	return &codec{
		column: inner.column, layout: inner.layout, goType: inner.goType, pointer: true, null: true,
		read: func(field backend.Pointer) (any, error) {
			target := *(*unsafe.Pointer)(field)
			if target == nil {
				return nil, nil
			}
			return inner.read(target)
		},
		assign: func(field backend.Pointer, value any) error {
			if value == nil {
				*(*unsafe.Pointer)(field) = nil
				return nil
			}
			target := reflect.New(inner.goType).UnsafePointer()
			if err := inner.assign(target, value); err != nil {
				return err
			}
			*(*unsafe.Pointer)(field) = target
			return nil
		},
		convert: inner.convert,
		isZero:  func(field backend.Pointer) bool { return *(*unsafe.Pointer)(field) == nil },
	}
}

// canonical takes a value from a backend for what it must be.
func canonical[V any](value any) (V, error) {
	v, ok := value.(V)
	if ok {
		return v, nil
	}
	if value == nil {
		return v, backend.ErrNull
	}
	return v, fmt.Errorf("the database gave a value of the Go type %T where %T is needed", value, v)
}

// simple is the codec of a type that its kind describes fully: a value of it converts as any other does.
func simple(t reflect.Type, column backend.ColumnType, layout backend.Layout) *codec {
	toColumn := converter(column)
	return &codec{
		column: column, layout: layout, goType: t,
		convert: func(value any) (any, error) {
			value, err := plain(value)
			if err != nil || value == nil {
				return nil, err
			}
			return toColumn(value)
		},
	}
}

// reflectZero is isZero for types that have no faster way.
func reflectZero(t reflect.Type) func(backend.Pointer) bool {
	return func(field backend.Pointer) bool { return reflect.NewAt(t, field).Elem().IsZero() }
}
