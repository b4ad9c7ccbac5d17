package postgres

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/hare-go/hare/hare/backend"
)

var (
	errMalformed = errors.New("the server sent a malformed value")
	errInfinite  = errors.New("the database has infinity, which no time can hold")
)

// decode makes the canonical value that is natural for the column's type. A column that comes as text is a string.
func decode(oid uint32, src []byte) (any, error) {
	switch oid {
	case oidBool:
		if len(src) == 1 {
			return src[0] != 0, nil
		}
	case oidInt8, oidInt4, oidInt2, oidOID:
		if n, ok := integerOf(oid, src); ok {
			return n, nil
		}
	case oidFloat8, oidFloat4:
		if f, ok := floatOf(oid, src); ok {
			return f, nil
		}
	case oidBytea:
		return append([]byte{}, src...), nil
	case oidTimestampTZ, oidTimestamp, oidDate:
		return timeOf(oid, src)
	case oidUUID:
		if len(src) == 16 {
			return backend.UUID(src), nil
		}
	case oidNumeric:
		d, err := decodeNumeric(src)
		if err != nil {
			return nil, err
		}
		return d, nil
	case oidJSON:
		return append(backend.JSON{}, src...), nil
	case oidJSONB:
		if len(src) > 0 && src[0] == 1 { // the version of the form
			return append(backend.JSON{}, src[1:]...), nil
		}
	default:
		if isText(oid) {
			return string(src), nil
		}
		if elementOf[oid] != 0 {
			return decodeArray(src)
		}
	}
	return nil, errMalformed
}

// integerOf reads the integers of every width.
func integerOf(oid uint32, src []byte) (int64, bool) {
	switch {
	case oid == oidInt8 && len(src) == 8:
		return int64(binary.BigEndian.Uint64(src)), true
	case oid == oidInt4 && len(src) == 4:
		return int64(int32(binary.BigEndian.Uint32(src))), true
	case oid == oidInt2 && len(src) == 2:
		return int64(int16(binary.BigEndian.Uint16(src))), true
	case oid == oidOID && len(src) == 4:
		return int64(binary.BigEndian.Uint32(src)), true
	}
	return 0, false
}

// floatOf reads the floating-point numbers of both widths.
func floatOf(oid uint32, src []byte) (float64, bool) {
	switch {
	case oid == oidFloat8 && len(src) == 8:
		return math.Float64frombits(binary.BigEndian.Uint64(src)), true
	case oid == oidFloat4 && len(src) == 4:
		return float64(math.Float32frombits(binary.BigEndian.Uint32(src))), true
	}
	return 0, false
}

// PostgreSQL counts time from 2000-01-01 00:00:00 UTC, in seconds of the Unix epoch and days of it.
const (
	epochSeconds = 946684800
	epochDays    = epochSeconds / secondsPerDay

	secondsPerDay = 86400
	microsPerSec  = 1_000_000
)

// timeOf reads a timestamp or a date as an instant. A timestamp without time zone is taken as UTC, which is the time zone
// of every session.
func timeOf(oid uint32, src []byte) (time.Time, error) {
	switch {
	case oid == oidDate && len(src) == 4:
		days := int32(binary.BigEndian.Uint32(src))
		if days == math.MaxInt32 || days == math.MinInt32 {
			return time.Time{}, errInfinite
		}
		return time.Unix((int64(days)+epochDays)*secondsPerDay, 0).UTC(), nil
	case len(src) == 8:
		micros := int64(binary.BigEndian.Uint64(src))
		if micros == math.MaxInt64 || micros == math.MinInt64 {
			return time.Time{}, errInfinite
		}
		// The seconds apart from the rest: the last centuries of the range overflow microseconds since 1970.
		return time.Unix(micros/microsPerSec+epochSeconds, micros%microsPerSec*1000).UTC(), nil
	}
	return time.Time{}, errMalformed
}

// decodeArray reads a binary array. An array of several dimensions is an array of arrays.
func decodeArray(src []byte) (backend.Array, error) {
	a := arrayReader{rest: src}
	dimensions, _, element := a.uint32(), a.uint32(), a.uint32()
	if dimensions > mostDimensions || !isScalar(element) {
		return backend.Array{}, errMalformed
	}
	lengths := make([]int, dimensions)
	for i := range lengths {
		lengths[i] = int(int32(a.uint32()))
		a.uint32() // the lower bound of the index
	}
	if dimensions == 0 {
		lengths = []int{0}
	}
	return a.values(element, lengths)
}

// arrayReader reads the parts of a binary array in order.
type arrayReader struct {
	rest []byte
	bad  bool
}

func (a *arrayReader) uint32() uint32 {
	if len(a.rest) < 4 {
		a.bad = true
		return 0
	}
	n := binary.BigEndian.Uint32(a.rest)
	a.rest = a.rest[4:]
	return n
}

// values reads the elements of the dimensions.
func (a *arrayReader) values(element uint32, lengths []int) (backend.Array, error) {
	n := lengths[0]
	if a.bad || n < 0 || n > len(a.rest)/4 { // each element has at least its length
		return backend.Array{}, errMalformed
	}
	array := backend.Array{Elem: backend.ColumnType{Kind: kindOf(element)}, Values: make([]any, n)}
	if len(lengths) > 1 {
		inner := array.Elem
		array.Elem = backend.ColumnType{Kind: backend.KindArray, Elem: &inner}
	}
	for i := range array.Values {
		var err error
		if len(lengths) > 1 {
			array.Values[i], err = a.values(element, lengths[1:])
		} else {
			array.Values[i], err = a.value(element)
		}
		if err != nil {
			return backend.Array{}, err
		}
	}
	return array, nil
}

// value reads one element.
func (a *arrayReader) value(element uint32) (any, error) {
	length := int(int32(a.uint32()))
	if a.bad || length > len(a.rest) {
		return nil, errMalformed
	}
	if length < 0 {
		return nil, nil
	}
	src := a.rest[:length]
	a.rest = a.rest[length:]
	return decode(element, src)
}

// kindOf is the kind of the canonical value that decode makes of a scalar.
func kindOf(oid uint32) backend.Kind {
	switch oid {
	case oidBool:
		return backend.KindBool
	case oidInt2:
		return backend.KindInt16
	case oidInt4:
		return backend.KindInt32
	case oidInt8, oidOID:
		return backend.KindInt64
	case oidFloat4, oidFloat8:
		return backend.KindFloat
	case oidBytea:
		return backend.KindBytes
	case oidDate, oidTimestamp, oidTimestampTZ:
		return backend.KindTime
	case oidUUID:
		return backend.KindUUID
	case oidNumeric:
		return backend.KindDecimal
	case oidJSON, oidJSONB:
		return backend.KindJSON
	}
	return backend.KindText
}
