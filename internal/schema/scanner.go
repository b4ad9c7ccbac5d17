package schema

import (
	"database/sql"
	"database/sql/driver"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/hare-go/hare/hare/backend"
)

// scannerCodec: a type with Scan and Value methods is written as Value says and read by Scan. The column's kind comes
// from the tag, or from what Value gives for the zero value; where that is nil, the type can be NULL by itself.
func scannerCodec(t reflect.Type, o *options) (*codec, error) {
	zero := zeroValue(t)
	natural, err := scannerKind(t, zero, o)
	if err != nil {
		return nil, err
	}
	kind, err := o.kind(natural, everyKind...)
	if err != nil {
		return nil, err
	}
	column := backend.ColumnType{Kind: kind, Size: o.size, Precision: o.precision, Scale: o.scale}
	null := zero == nil
	c := simple(t, column, backend.LayoutOther)
	toColumn, toAny := converter(column), c.convert
	c.null = null
	c.read = func(field backend.Pointer) (any, error) {
		value, err := reflect.NewAt(t, field).Interface().(driver.Valuer).Value()
		if err != nil {
			return nil, err
		}
		if value, err = plain(value); err != nil {
			return nil, err
		}
		if value != nil {
			return toColumn(value)
		}
		if !null {
			return nil, errNotNull
		}
		return nil, nil
	}
	c.assign = func(field backend.Pointer, value any) error {
		if value == nil && !null {
			return backend.ErrNull
		}
		return reflect.NewAt(t, field).Interface().(sql.Scanner).Scan(scanned(value))
	}
	c.convert = func(value any) (any, error) {
		if reflect.TypeOf(value) == t {
			value = addressable(value)
		}
		return toAny(value)
	}
	c.isZero = reflectZero(t)
	return c, nil
}

// scanned is a canonical value as Scan methods expect it of database/sql.
func scanned(value any) any {
	switch v := value.(type) {
	case backend.UUID:
		return formatUUID(v)
	case backend.Decimal:
		return string(v)
	case backend.JSON:
		return []byte(v)
	}
	return value
}

// zeroValue is what Value gives for the zero value of t, or nil where it panics.
func zeroValue(t reflect.Type) (value any) {
	defer func() {
		if recover() != nil {
			value = nil
		}
	}()
	value, err := reflect.New(t).Interface().(driver.Valuer).Value()
	if err != nil {
		return nil
	}
	if value, err = plain(value); err != nil {
		return nil
	}
	return value
}

// scannerKind is the kind that a type with Scan and Value methods stores.
func scannerKind(t reflect.Type, zero any, o *options) (backend.Kind, error) {
	switch {
	case o.has("decimal"):
		return backend.KindDecimal, nil
	case o.json:
		return backend.KindJSON, nil
	}
	if kind := overrideKind(o.override); kind != backend.KindInvalid {
		return kind, nil
	}
	switch v := zero.(type) {
	case nil:
		if kind := validKind(t); kind != backend.KindInvalid {
			return kind, nil
		}
		return 0, faultf("", "%s has a Value method that gives nil for the zero value, so that the column's type cannot be known: "+
			"give type=..., decimal=... or json", t)
	case string:
		return textKind(t, v, o)
	case []byte:
		return textKind(t, string(v), o)
	case bool:
		return backend.KindBool, nil
	case int64:
		return backend.KindInt64, nil
	case float64:
		return backend.KindFloat, nil
	case time.Time:
		return backend.KindTime, nil
	case backend.JSON:
		return backend.KindJSON, nil
	}
	return 0, faultf("", "the Value method of %s gives a %T, which is no value of a database", t, zero)
}

// textKind tells what the text of a type's zero value spells. A number is refused: it would be compared as text, so
// that "9" were above "10".
func textKind(t reflect.Type, zero string, o *options) (backend.Kind, error) {
	if _, err := parseUUID(zero); err == nil {
		return backend.KindUUID, nil
	}
	if _, err := fixDecimal(zero, maxPrecision, 0); err == nil && o.override == "" {
		return 0, faultf("", "%s looks like a decimal: give decimal=digits:places, or type=text to compare it as text", t)
	}
	return backend.KindText, nil
}

// validKind is the kind of a struct made of a value and a Valid flag, as sql.NullString and sql.Null are.
func validKind(t reflect.Type) backend.Kind {
	if t.Kind() != reflect.Struct || t.NumField() != 2 {
		return backend.KindInvalid
	}
	if valid, ok := t.FieldByName("Valid"); !ok || valid.Type.Kind() != reflect.Bool || len(valid.Index) != 1 {
		return backend.KindInvalid
	}
	held := t.Field(0)
	if held.Name == "Valid" {
		held = t.Field(1)
	}
	inner, err := newCodec(held.Type, &options{})
	if err != nil || !slices.Contains(everyKind, inner.column.Kind) {
		return backend.KindInvalid // a duration among others: Scan would take its microseconds for nanoseconds
	}
	return inner.column.Kind
}

// textualCodec: a type with MarshalText and UnmarshalText is stored as its text.
func textualCodec(t reflect.Type, o *options) (*codec, error) {
	natural := backend.KindDecimal
	if !o.has("decimal") {
		text, _ := plain(reflect.New(t).Interface())
		spelled, _ := text.(string)
		var err error
		if natural, err = textKind(t, spelled, o); err != nil {
			return nil, err
		}
	}
	kind, err := o.kind(natural, backend.KindText, backend.KindUUID, natural)
	if err != nil {
		return nil, err
	}
	column := backend.ColumnType{Kind: kind, Size: o.size, Precision: o.precision, Scale: o.scale}
	c := simple(t, column, backend.LayoutOther)
	toColumn, toAny := converter(column), c.convert
	c.read = func(field backend.Pointer) (any, error) {
		text, err := reflect.NewAt(t, field).Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			return nil, fmt.Errorf("MarshalText: %w", err)
		}
		return toColumn(string(text))
	}
	c.assign = func(field backend.Pointer, value any) error {
		text, err := spelling(kind, value)
		if err != nil {
			return err
		}
		return reflect.NewAt(t, field).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
	}
	c.convert = func(value any) (any, error) {
		if reflect.TypeOf(value) == t {
			value = addressable(value)
		}
		return toAny(value)
	}
	c.isZero = reflectZero(t)
	return c, nil
}
