package sqlite

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/hare-go/hare/hare/backend"
)

// bind binds the arguments of one run.
func (st *statement) bind(args []any) error {
	if len(args) != st.args {
		return refused(backend.ClassOther, "08P01", fmt.Sprintf("the statement has places for %d arguments, and got %d", st.args, len(args)))
	}
	for i, slot := range st.slots {
		if err := st.bindValue(i+1, args[slot]); err != nil {
			return err
		}
	}
	return nil
}

// bindValue binds the usual types without an allocation, and all others as stored has them.
func (st *statement) bindValue(at int, value any) error {
	switch v := value.(type) {
	case nil:
		return st.engine.BindNull(at)
	case int64:
		return st.engine.BindInt64(at, v)
	case bool:
		return st.engine.BindBool(at, v)
	case float64:
		if math.IsNaN(v) {
			return errNaN
		}
		return st.engine.BindFloat(at, v)
	case string:
		if !storable(v) {
			return errText
		}
		return st.engine.BindText(at, v)
	case []byte:
		return st.engine.BindBlob(at, v)
	case backend.Decimal:
		return st.engine.BindText(at, string(v))
	case time.Time:
		text, err := appendTime(st.scratch[:0], v)
		if err != nil {
			return err
		}
		return st.bindScratch(at, text)
	case backend.UUID:
		return st.bindScratch(at, appendUUID(st.scratch[:0], v))
	case backend.List:
		elements, err := elements(v.Values)
		if err != nil {
			return err
		}
		return st.engine.BindPointer(at, elements)
	}
	other, err := stored(value)
	if err != nil {
		return err
	}
	return st.bindValue(at, other)
}

// bindScratch binds a text in the statement's scratch, which the engine copies.
func (st *statement) bindScratch(at int, text []byte) error {
	return st.engine.BindText(at, unsafe.String(unsafe.SliceData(text), len(text)))
}

var (
	errNaN  = refused(backend.ClassOther, "22003", "SQLite cannot store NaN")
	errText = refused(backend.ClassOther, "22021", "a text is not UTF-8, or has a NUL character in it")
)

// storable: the text is one that PostgreSQL stores as well.
func storable(text string) bool {
	return strings.IndexByte(text, 0) < 0 && utf8.ValidString(text)
}

// stored is a value as SQLite holds it: nil, int64, float64, string or []byte.
func stored(value any) (any, error) {
	switch v := value.(type) {
	case nil, int64, []byte:
		return v, nil
	case string:
		if !storable(v) {
			return nil, errText
		}
		return v, nil
	case float64:
		if math.IsNaN(v) {
			return nil, errNaN
		}
		return v, nil
	case bool:
		if v {
			return int64(1), nil
		}
		return int64(0), nil
	case time.Time:
		text, err := appendTime(make([]byte, 0, timeWidth), v)
		return string(text), err
	case time.Duration:
		return v.Microseconds(), nil
	case backend.UUID:
		return string(appendUUID(nil, v)), nil
	case backend.Decimal:
		return string(v), nil
	case backend.JSON:
		return string(v), nil
	case float32:
		return stored(float64(v))
	case int:
		return int64(v), nil
	case int8:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case uint8:
		return int64(v), nil
	case uint16:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case uint:
		return storedUnsigned(uint64(v))
	case uint64:
		return storedUnsigned(v)
	}
	return nil, refused(backend.ClassOther, "42804", fmt.Sprintf("SQLite has no value for an argument of type %T", value))
}

func storedUnsigned(v uint64) (any, error) {
	if v > math.MaxInt64 {
		return nil, refused(backend.ClassOther, "22003", "an integer is beyond the 64 bits of SQLite's, one of which is the sign")
	}
	return int64(v), nil
}

// elements is a list as the table-valued function array takes it. A slice of one type is read without reflection.
func elements(values []any) (any, error) {
	list := make([]any, len(values))
	for i, value := range values {
		var err error
		if list[i], err = stored(value); err != nil {
			return nil, err
		}
	}
	if len(list) > 0 {
		switch list[0].(type) {
		case int64:
			return uniform[int64](list), nil
		case string:
			return uniform[string](list), nil
		case float64:
			return uniform[float64](list), nil
		}
	}
	return list, nil
}

// uniform is the list as a slice of its one type, or as it is if it has others too.
func uniform[T any](list []any) any {
	typed := make([]T, len(list))
	for i, value := range list {
		v, ok := value.(T)
		if !ok {
			return list
		}
		typed[i] = v
	}
	return typed
}
