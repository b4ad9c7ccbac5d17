package schema

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"time"

	"github.com/hare-go/hare/hare/backend"
)

type integer interface {
	int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32 | uint64
}

var errOverflow = errors.New("the number is beyond the field's Go type")

// integerCodec: the field's type and the column's width both limit the values.
func integerCodec[T integer](t reflect.Type, o *options, layout backend.Layout, natural backend.Kind) (*codec, error) {
	kind, err := o.kind(natural, backend.KindInt16, backend.KindInt32, backend.KindInt64)
	if err != nil {
		return nil, err
	}
	low, high := bounds(kind)
	c := simple(t, backend.ColumnType{Kind: kind}, layout)
	toColumn := c.convert
	c.read = func(field backend.Pointer) (any, error) {
		v := *(*T)(field)
		n := int64(v)
		if n < low || n > high || (n < 0) != (v < 0) {
			return nil, errWidth(kind)
		}
		return n, nil
	}
	c.assign = func(field backend.Pointer, value any) error {
		n, err := canonical[int64](value)
		if err != nil {
			return err
		}
		v := T(n)
		if int64(v) != n || (n < 0) != (v < 0) {
			return errOverflow
		}
		*(*T)(field) = v
		return nil
	}
	c.convert = func(value any) (any, error) {
		value, err := toColumn(value)
		if err != nil || value == nil {
			return nil, err
		}
		if n := value.(int64); int64(T(n)) != n || (n < 0) != (T(n) < 0) {
			return nil, errOverflow
		}
		return value, nil
	}
	c.isZero = func(field backend.Pointer) bool { return *(*T)(field) == 0 }
	return c, nil
}

// bounds are the smallest and largest value of an integer column.
func bounds(kind backend.Kind) (low, high int64) {
	switch kind {
	case backend.KindInt16:
		return math.MinInt16, math.MaxInt16
	case backend.KindInt32:
		return math.MinInt32, math.MaxInt32
	}
	return math.MinInt64, math.MaxInt64
}

// floatCodec: a float32 is stored in double precision and comes back as it was.
func floatCodec[T float32 | float64](t reflect.Type, o *options, layout backend.Layout) (*codec, error) {
	if o.has("decimal") {
		return nil, faultf(o.word("decimal"), "a float cannot hold a decimal exactly: use a decimal type or a string")
	}
	kind, err := o.kind(backend.KindFloat, backend.KindFloat)
	if err != nil {
		return nil, err
	}
	c := simple(t, backend.ColumnType{Kind: kind}, layout)
	toColumn := c.convert
	tooLarge := func(f float64) bool { return math.IsInf(float64(T(f)), 0) && !math.IsInf(f, 0) }
	c.read = func(field backend.Pointer) (any, error) { return float64(*(*T)(field)), nil }
	c.assign = func(field backend.Pointer, value any) error {
		f, err := canonical[float64](value)
		if err != nil {
			return err
		}
		if tooLarge(f) {
			return errOverflow
		}
		*(*T)(field) = T(f)
		return nil
	}
	c.convert = func(value any) (any, error) {
		value, err := toColumn(value)
		if err != nil || value == nil {
			return value, err
		}
		f := value.(float64)
		if tooLarge(f) {
			return nil, errOverflow
		}
		if held := float64(T(f)); held != f {
			return held, nil // what a field of the type would hold, so that 0.1 is found where it was set
		}
		return value, nil
	}
	c.isZero = func(field backend.Pointer) bool { return *(*T)(field) == 0 }
	return c, nil
}

func boolCodec(t reflect.Type, o *options) (*codec, error) {
	kind, err := o.kind(backend.KindBool, backend.KindBool)
	if err != nil {
		return nil, err
	}
	c := simple(t, backend.ColumnType{Kind: kind}, backend.LayoutBool)
	c.read = func(field backend.Pointer) (any, error) { return *(*bool)(field), nil }
	c.assign = func(field backend.Pointer, value any) error {
		b, err := canonical[bool](value)
		if err == nil {
			*(*bool)(field) = b
		}
		return err
	}
	c.isZero = func(field backend.Pointer) bool { return !*(*bool)(field) }
	return c, nil
}

// stringCodec: a string holds text, or with decimal= or type=uuid the spelling of such a value.
func stringCodec(t reflect.Type, o *options) (*codec, error) {
	natural := backend.KindText
	if o.has("decimal") {
		natural = backend.KindDecimal
	}
	kind, err := o.kind(natural, natural, backend.KindUUID)
	if err != nil {
		return nil, err
	}
	column := backend.ColumnType{Kind: kind, Size: o.size, Precision: o.precision, Scale: o.scale}
	layout := backend.LayoutString
	if kind != backend.KindText {
		layout = backend.LayoutOther
	}
	c := simple(t, column, layout)
	toColumn := converter(column)
	c.read = func(field backend.Pointer) (any, error) { return toColumn(*(*string)(field)) }
	if kind == backend.KindText {
		c.read = func(field backend.Pointer) (any, error) {
			s := *(*string)(field)
			if err := checkText(s, o.size); err != nil {
				return nil, err
			}
			return s, nil
		}
	}
	c.assign = func(field backend.Pointer, value any) error {
		s, err := spelling(kind, value)
		if err == nil {
			*(*string)(field) = s
		}
		return err
	}
	c.isZero = func(field backend.Pointer) bool { return *(*string)(field) == "" }
	return c, nil
}

// spelling is the text of a canonical text, decimal or UUID.
func spelling(kind backend.Kind, value any) (string, error) {
	switch kind {
	case backend.KindDecimal:
		d, err := canonical[backend.Decimal](value)
		return string(d), err
	case backend.KindUUID:
		id, err := canonical[backend.UUID](value)
		return formatUUID(id), err
	}
	return canonical[string](value)
}

// bytesCodec: a nil slice is stored as an empty one, since NULL is a nil pointer.
func bytesCodec(t reflect.Type, o *options) (*codec, error) {
	kind, err := o.kind(backend.KindBytes, backend.KindBytes)
	if err != nil {
		return nil, err
	}
	c := simple(t, backend.ColumnType{Kind: kind}, backend.LayoutBytes)
	c.read = func(field backend.Pointer) (any, error) {
		if b := *(*[]byte)(field); b != nil {
			return b, nil
		}
		return []byte{}, nil
	}
	c.assign = func(field backend.Pointer, value any) error {
		b, err := canonical[[]byte](value)
		if err == nil {
			// A backend may use its buffer again for the next row.
			*(*[]byte)(field) = append([]byte{}, b...)
		}
		return err
	}
	c.isZero = func(field backend.Pointer) bool { return len(*(*[]byte)(field)) == 0 }
	return c, nil
}

func timeCodec(o *options) (*codec, error) {
	kind, err := o.kind(backend.KindTime, backend.KindTime)
	if err != nil {
		return nil, err
	}
	c := simple(timeType, backend.ColumnType{Kind: kind}, backend.LayoutTime)
	c.read = func(field backend.Pointer) (any, error) {
		t := backend.Microseconds(*(*time.Time)(field))
		if err := checkTime(t); err != nil {
			return nil, err
		}
		return t, nil
	}
	c.assign = func(field backend.Pointer, value any) error {
		t, err := canonical[time.Time](value)
		if err == nil {
			*(*time.Time)(field) = t.UTC()
		}
		return err
	}
	c.isZero = func(field backend.Pointer) bool { return (*time.Time)(field).IsZero() }
	return c, nil
}

// durationCodec: a duration is stored as whole microseconds; what is below them is cut off, towards zero.
func durationCodec(o *options) (*codec, error) {
	kind, err := o.kind(backend.KindDuration, backend.KindInt64)
	if err != nil {
		return nil, err
	}
	if kind == backend.KindInt64 {
		kind = backend.KindDuration // type=bigint is what a duration is stored in
	}
	c := simple(durationType, backend.ColumnType{Kind: kind}, backend.LayoutDuration)
	c.read = func(field backend.Pointer) (any, error) { return (*time.Duration)(field).Microseconds(), nil }
	c.assign = func(field backend.Pointer, value any) error {
		n, err := canonical[int64](value)
		if err != nil {
			return err
		}
		if !isDuration(n) {
			return errOverflow
		}
		*(*time.Duration)(field) = time.Duration(n) * time.Microsecond
		return nil
	}
	c.isZero = func(field backend.Pointer) bool { return *(*time.Duration)(field) == 0 }
	return c, nil
}

// isDuration reports whether so many microseconds are a time.Duration, which ends at 292 years.
func isDuration(microseconds int64) bool {
	return microseconds >= math.MinInt64/1000 && microseconds <= math.MaxInt64/1000
}

func uuidCodec(t reflect.Type, o *options) (*codec, error) {
	kind, err := o.kind(backend.KindUUID, backend.KindUUID)
	if err != nil {
		return nil, err
	}
	c := simple(t, backend.ColumnType{Kind: kind}, backend.LayoutUUID)
	toColumn := c.convert
	c.read = func(field backend.Pointer) (any, error) { return *(*backend.UUID)(field), nil }
	c.assign = func(field backend.Pointer, value any) error {
		id, err := canonical[backend.UUID](value)
		if err == nil {
			*(*backend.UUID)(field) = id
		}
		return err
	}
	c.convert = func(value any) (any, error) {
		if reflect.TypeOf(value) != t {
			return toColumn(value)
		}
		// The field's own type: its bytes, without the way through its text.
		var id backend.UUID
		reflect.Copy(reflect.ValueOf(id[:]), reflect.ValueOf(value))
		return id, nil
	}
	c.isZero = func(field backend.Pointer) bool { return *(*backend.UUID)(field) == backend.UUID{} }
	return c, nil
}

// isUUID reports whether t is a UUID: sixteen bytes which, if they have a Value method, say so in it.
func isUUID(t reflect.Type) bool {
	if t.Kind() != reflect.Array || t.Len() != 16 || t.Elem() != reflect.TypeFor[byte]() {
		return false
	}
	if !implements(t, valuerType) {
		return true
	}
	switch zero := zeroValue(t).(type) {
	case string:
		_, err := parseUUID(zero)
		return err == nil
	case []byte:
		return bytes.Equal(zero, make([]byte, 16))
	}
	return false
}
