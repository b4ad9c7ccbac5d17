package schema

import (
	"database/sql/driver"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hare-go/hare/hare/backend"
)

// Canonical is the canonical form of an argument of a statement that no model describes. Named types, pointers and Value
// methods are resolved; a time is cut to microseconds and a duration becomes whole microseconds. What has no
// canonical form is left as it is, for the database's driver.
func Canonical(value any) any {
	simple, err := plain(value)
	if err != nil {
		return value
	}
	switch v := simple.(type) {
	case time.Time:
		return backend.Microseconds(v)
	case time.Duration:
		return v.Microseconds()
	}
	return simple
}

// plain takes off what a value may be wrapped in (pointers, named types, Value and MarshalText methods). The result is
// nil, bool, int64, uint64 (beyond int64 only), float64, string, []byte, time.Time, time.Duration, a canonical type,
// or the value as it was.
func plain(value any) (any, error) {
	switch v := value.(type) {
	case nil, bool, int64, float64, string, []byte, time.Time, time.Duration,
		backend.UUID, backend.Decimal, backend.JSON, backend.Array, backend.List:
		return value, nil
	case int:
		return int64(v), nil
	case json.RawMessage:
		return backend.JSON(v), nil
	}

	rv := reflect.ValueOf(value)
	if rv.Kind() == reflect.Pointer && rv.IsNil() {
		return nil, nil
	}
	if valuer, ok := value.(driver.Valuer); ok {
		inner, err := valuer.Value()
		if err != nil {
			return nil, err
		}
		if _, again := inner.(driver.Valuer); again {
			return nil, fmt.Errorf("the Value method of %T gave another type with a Value method", value)
		}
		return plain(inner)
	}
	switch rv.Kind() {
	case reflect.Bool:
		return rv.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return rv.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if n := rv.Uint(); n > math.MaxInt64 {
			return n, nil
		}
		return int64(rv.Uint()), nil
	case reflect.Float32, reflect.Float64:
		return rv.Float(), nil
	case reflect.String:
		return rv.String(), nil
	}
	if isUUID(rv.Type()) {
		var id backend.UUID
		reflect.Copy(reflect.ValueOf(id[:]), rv)
		return id, nil
	}
	if _, isTime := value.(*time.Time); !isTime {
		if text, ok := value.(encoding.TextMarshaler); ok {
			b, err := text.MarshalText()
			return string(b), err
		}
	}
	switch {
	case rv.Kind() == reflect.Pointer:
		return plain(rv.Elem().Interface())
	case rv.Kind() == reflect.Slice && rv.Type().Elem().Kind() == reflect.Uint8:
		return rv.Bytes(), nil
	}
	return value, nil
}

// converter makes canonical values of a column of plain ones that are not nil.
func converter(column backend.ColumnType) func(value any) (any, error) {
	switch column.Kind {
	case backend.KindBool:
		return convertBool
	case backend.KindInt16, backend.KindInt32, backend.KindInt64:
		return integerConverter(column.Kind)
	case backend.KindFloat:
		return convertFloat
	case backend.KindText:
		return textConverter(column.Size)
	case backend.KindBytes:
		return convertBytes
	case backend.KindTime:
		return convertTime
	case backend.KindDuration:
		return convertDuration
	case backend.KindUUID:
		return convertUUID
	case backend.KindDecimal:
		return decimalConverter(column.Precision, column.Scale)
	}
	return convertDocument
}

// kindNames are the kinds as messages call them.
var kindNames = map[backend.Kind]string{
	backend.KindBool: "true or false", backend.KindInt16: "a 16-bit integer", backend.KindInt32: "a 32-bit integer",
	backend.KindInt64: "a 64-bit integer", backend.KindFloat: "a float", backend.KindText: "text", backend.KindBytes: "bytes",
	backend.KindTime: "a time", backend.KindDuration: "a duration", backend.KindUUID: "a UUID", backend.KindDecimal: "a decimal",
	backend.KindJSON: "a JSON document", backend.KindArray: "an array",
}

func wrongType(kind backend.Kind, value any) error {
	return fmt.Errorf("the column holds %s, and the value is of the Go type %T", kindNames[kind], value)
}

func errWidth(kind backend.Kind) error {
	return fmt.Errorf("the number does not fit: the column holds %s", kindNames[kind])
}

func convertBool(value any) (any, error) {
	if _, ok := value.(bool); !ok {
		return nil, wrongType(backend.KindBool, value)
	}
	return value, nil
}

func convertBytes(value any) (any, error) {
	b, ok := value.([]byte)
	switch {
	case !ok:
		return nil, wrongType(backend.KindBytes, value)
	case b == nil:
		return []byte{}, nil // a driver would bind a nil slice as NULL
	}
	return value, nil
}

func integerConverter(kind backend.Kind) func(any) (any, error) {
	low, high := bounds(kind)
	return func(value any) (any, error) {
		switch v := value.(type) {
		case int64:
			if v < low || v > high {
				return nil, errWidth(kind)
			}
			return value, nil
		case uint64:
			return nil, errWidth(kind)
		case float64:
			if v != math.Trunc(v) { // NaN included
				return nil, errors.New("the column holds whole numbers, and the value is not one")
			}
			// Both borders are exact as floats but for MaxInt64, which becomes the first number that is too large.
			if v < float64(low) || v > float64(high) || v >= 1<<63 {
				return nil, errWidth(kind)
			}
			return int64(v), nil
		}
		return nil, wrongType(kind, value)
	}
}

func convertFloat(value any) (any, error) {
	switch v := value.(type) {
	case float64:
		return value, nil
	case int64:
		if f := float64(v); f < 1<<63 && int64(f) == v {
			return f, nil
		}
		return nil, errors.New("the integer has no exact form as a float")
	}
	return nil, wrongType(backend.KindFloat, value)
}

func textConverter(size int) func(any) (any, error) {
	return func(value any) (any, error) {
		switch v := value.(type) {
		case string:
			if err := checkText(v, size); err != nil {
				return nil, err
			}
			return value, nil
		case []byte: // what a Value method may give for text
			if err := checkText(string(v), size); err != nil {
				return nil, err
			}
			return string(v), nil
		}
		return nil, wrongType(backend.KindText, value)
	}
}

// checkText refuses what PostgreSQL cannot store as text, on every database alike.
func checkText(s string, size int) error {
	switch {
	case strings.IndexByte(s, 0) >= 0:
		return errors.New("text must not contain a NUL byte")
	case !utf8.ValidString(s):
		return errors.New("text must be valid UTF-8: use []byte for anything else")
	case size != 0 && len(s) > size && utf8.RuneCountInString(s) > size:
		return fmt.Errorf("the text is longer than %d characters", size)
	}
	return nil
}

func convertTime(value any) (any, error) {
	t, ok := value.(time.Time)
	if !ok {
		return nil, wrongType(backend.KindTime, value)
	}
	t = backend.Microseconds(t)
	return t, checkTime(t)
}

// The first and last instant that PostgreSQL's timestamptz holds (documentation, Date/Time Types).
var (
	firstTime = time.Date(-4713, time.November, 24, 0, 0, 0, 0, time.UTC)
	endOfTime = time.Date(294277, time.January, 1, 0, 0, 0, 0, time.UTC)
)

func checkTime(t time.Time) error {
	if t.Before(firstTime) || !t.Before(endOfTime) {
		return errors.New("the time is outside the years 4714 BC to 294276, which are all that PostgreSQL holds")
	}
	return nil
}

func convertDuration(value any) (any, error) {
	switch v := value.(type) {
	case time.Duration:
		return v.Microseconds(), nil
	case int64:
		if !isDuration(v) {
			return nil, errOverflow
		}
		return value, nil
	}
	return nil, wrongType(backend.KindDuration, value)
}

func convertUUID(value any) (any, error) {
	switch v := value.(type) {
	case backend.UUID:
		return value, nil
	case string:
		id, err := parseUUID(v)
		if err != nil {
			return nil, err
		}
		return id, nil
	case []byte:
		if len(v) == 16 {
			return backend.UUID(v), nil
		}
		id, err := parseUUID(string(v))
		if err != nil {
			return nil, err
		}
		return id, nil
	}
	return nil, wrongType(backend.KindUUID, value)
}

func decimalConverter(precision, scale int) func(any) (any, error) {
	return func(value any) (any, error) {
		var text string
		switch v := value.(type) {
		case string:
			text = v
		case []byte:
			text = string(v)
		case backend.Decimal:
			text = string(v)
		case int64:
			text = strconv.FormatInt(v, 10)
		case uint64:
			text = strconv.FormatUint(v, 10)
		case float64:
			return nil, errors.New("a float is not exact: give a decimal type, a string or an integer")
		default:
			return nil, wrongType(backend.KindDecimal, value)
		}
		d, err := fixDecimal(text, precision, scale)
		if err != nil {
			return nil, err
		}
		return d, nil
	}
}
