package sqlite

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unsafe"

	"github.com/ncruces/go-sqlite3"

	"github.com/hare-go/hare/hare/backend"
)

var errNoRow = errors.New("there is no current row: call Next first")

var errOverflow = errors.New("the number in the database is beyond the field's type")

// scan decodes a column of the current row into a struct. What SQLite holds goes straight into the field where the
// field's layout is what the column's kind holds; everything else goes through Dest.Store.
func (st *statement) scan(at int, base backend.Pointer, d *backend.Dest) error {
	held := st.engine.ColumnType(at)
	if held == sqlite3.NULL {
		return d.Store(base, nil)
	}
	switch held {
	case sqlite3.INTEGER:
		switch d.Kind {
		case backend.KindInt16, backend.KindInt32, backend.KindInt64:
			if stored, ok := storeInt(base, d, st.engine.ColumnInt64(at)); stored {
				return overflow(d, ok)
			}
		case backend.KindBool:
			if d.Layout == backend.LayoutBool {
				*field[bool](base, d) = st.engine.ColumnInt64(at) != 0
				return nil
			}
		case backend.KindDuration:
			if d.Layout == backend.LayoutDuration {
				micro := st.engine.ColumnInt64(at)
				*field[time.Duration](base, d) = time.Duration(micro) * time.Microsecond
				return overflow(d, micro >= math.MinInt64/1000 && micro <= math.MaxInt64/1000)
			}
		}
	case sqlite3.TEXT:
		switch {
		case d.Kind == backend.KindText && d.Layout == backend.LayoutString:
			*field[string](base, d) = st.engine.ColumnText(at)
			return nil
		case d.Kind == backend.KindTime && d.Layout == backend.LayoutTime:
			if t, ok := parseFixed(st.engine.ColumnRawText(at)); ok {
				*field[time.Time](base, d) = t
				return nil
			}
		case d.Kind == backend.KindUUID && d.Layout == backend.LayoutUUID:
			if id, ok := parseUUID(st.engine.ColumnRawText(at)); ok {
				*field[backend.UUID](base, d) = id
				return nil
			}
		}
	case sqlite3.FLOAT:
		if d.Kind == backend.KindFloat && d.Layout == backend.LayoutFloat64 {
			*field[float64](base, d) = st.engine.ColumnFloat(at)
			return nil
		}
	case sqlite3.BLOB:
		if d.Kind == backend.KindBytes && d.Layout == backend.LayoutBytes {
			*field[[]byte](base, d) = st.engine.ColumnBlob(at, []byte{})
			return nil
		}
	}
	value, err := st.canonical(at, held, d.Kind)
	if err != nil {
		return d.Wrap(err)
	}
	return d.Store(base, value)
}

// field is the field as a T, made new if the struct has a pointer to it. T is what the field's layout says.
func field[T any](base backend.Pointer, d *backend.Dest) *T {
	at := d.At(base)
	if !d.Pointer {
		return (*T)(at)
	}
	value := new(T)
	*(*unsafe.Pointer)(at) = unsafe.Pointer(value)
	return value
}

// storeInt stores an integer in a field of any integer type. ok is false if it does not fit.
func storeInt(base backend.Pointer, d *backend.Dest, n int64) (stored, ok bool) {
	switch d.Layout {
	case backend.LayoutInt64:
		*field[int64](base, d) = n
		return true, true
	case backend.LayoutInt:
		return true, storeAs[int](base, d, n)
	case backend.LayoutInt32:
		return true, storeAs[int32](base, d, n)
	case backend.LayoutInt16:
		return true, storeAs[int16](base, d, n)
	case backend.LayoutInt8:
		return true, storeAs[int8](base, d, n)
	case backend.LayoutUint64:
		return true, storeAs[uint64](base, d, n)
	case backend.LayoutUint:
		return true, storeAs[uint](base, d, n)
	case backend.LayoutUint32:
		return true, storeAs[uint32](base, d, n)
	case backend.LayoutUint16:
		return true, storeAs[uint16](base, d, n)
	case backend.LayoutUint8:
		return true, storeAs[uint8](base, d, n)
	}
	return false, true
}

func storeAs[T int | int8 | int16 | int32 | uint | uint8 | uint16 | uint32 | uint64](base backend.Pointer, d *backend.Dest, n int64) bool {
	v := T(n)
	if int64(v) != n || (n < 0) != (v < 0) {
		return false
	}
	*field[T](base, d) = v
	return true
}

func overflow(d *backend.Dest, ok bool) error {
	if ok {
		return nil
	}
	return d.Wrap(errOverflow)
}

// canonical is the value of a column that is not NULL as the canonical value of a kind.
func (st *statement) canonical(at int, held sqlite3.Datatype, kind backend.Kind) (any, error) {
	isText, isInteger := held == sqlite3.TEXT, held == sqlite3.INTEGER
	switch kind {
	case backend.KindBool:
		if isInteger {
			return st.engine.ColumnInt64(at) != 0, nil
		}
	case backend.KindInt16, backend.KindInt32, backend.KindInt64, backend.KindDuration:
		if isInteger {
			return st.engine.ColumnInt64(at), nil
		}
	case backend.KindFloat:
		if isInteger || held == sqlite3.FLOAT {
			return st.engine.ColumnFloat(at), nil
		}
	case backend.KindText:
		if isText {
			return st.engine.ColumnText(at), nil
		}
	case backend.KindBytes:
		if isText || held == sqlite3.BLOB {
			return st.engine.ColumnBlob(at, []byte{}), nil
		}
	case backend.KindTime:
		if t, ok := parseTime(st.engine.ColumnRawText(at)); isText && ok {
			return t, nil
		}
	case backend.KindUUID:
		if id, ok := parseUUID(st.engine.ColumnRawText(at)); isText && ok {
			return id, nil
		}
	case backend.KindDecimal:
		if text := st.engine.ColumnText(at); (isText || isInteger) && isDecimal([]byte(text)) {
			return backend.Decimal(text), nil
		}
	case backend.KindJSON:
		if isText {
			return backend.JSON(st.engine.ColumnText(at)), nil
		}
	}
	return nil, fmt.Errorf("the database has a value of the storage class %v that is no %s", held, kindNames[kind])
}

var kindNames = [...]string{
	backend.KindInvalid: "value of a known kind", backend.KindBool: "boolean", backend.KindInt16: "integer", backend.KindInt32: "integer",
	backend.KindInt64: "integer", backend.KindFloat: "float", backend.KindText: "text", backend.KindBytes: "bytes",
	backend.KindTime: "instant", backend.KindDuration: "duration", backend.KindUUID: "UUID", backend.KindDecimal: "decimal",
	backend.KindJSON: "document", backend.KindArray: "array",
}

// value is a column of the current row for a caller who does not say what he expects: a canonical value of the declared
// kind, or of the storage class where that is unknown or the value is not of it.
func (st *statement) value(at int, kind backend.Kind) any {
	held := st.engine.ColumnType(at)
	if held == sqlite3.NULL {
		return nil
	}
	if kind != backend.KindInvalid {
		if value, err := st.canonical(at, held, kind); err == nil {
			return value
		}
	}
	switch held {
	case sqlite3.INTEGER:
		return st.engine.ColumnInt64(at)
	case sqlite3.FLOAT:
		return st.engine.ColumnFloat(at)
	case sqlite3.TEXT:
		return st.engine.ColumnText(at)
	}
	return st.engine.ColumnBlob(at, []byte{})
}

// declared is the kind that a declared type stands for where the storage class does not tell it.
func declared(ddl string) backend.Kind {
	name, _, _ := strings.Cut(strings.ToUpper(ddl), "(")
	switch strings.TrimSpace(name) {
	case "BOOLEAN", "BOOL":
		return backend.KindBool
	case "TIMESTAMP", "DATETIME":
		return backend.KindTime
	case "DECIMAL_TEXT":
		return backend.KindDecimal
	case "JSON_TEXT":
		return backend.KindJSON
	case "REAL", "DOUBLE", "DOUBLE PRECISION", "FLOAT":
		return backend.KindFloat
	}
	if strings.EqualFold(ddl, uuidType) {
		return backend.KindUUID
	}
	return backend.KindInvalid
}
