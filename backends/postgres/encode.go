package postgres

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/hare-go/hare/hare/backend"
)

// arguments encodes the arguments of one run after the other. What it holds is good until the next run: pgx copies it
// into the message.
type arguments struct {
	types   *pgtype.Map
	values  [][]byte
	formats []int16
	buf     []byte
}

// keptBuffer is the largest buffer that a connection keeps from one run to the next.
const keptBuffer = 64 << 10

// encode encodes the arguments for parameters of the types. A canonical value goes in the binary form of the parameter's
// type if it fits there, else as text, which the server reads as it reads a literal: it knows best what a numeric, an
// enumeration or a domain accepts.
func (a *arguments) encode(oids []uint32, args []any) error {
	if len(oids) != len(args) {
		return unsent("the statement has %d parameters, and %d arguments were given", len(oids), len(args))
	}
	if cap(a.buf) > keptBuffer {
		a.buf = nil
	}
	a.values, a.formats, a.buf = a.values[:0], a.formats[:0], a.buf[:0]
	for i, arg := range args {
		if arg == nil {
			a.add(nil, textFormat)
			continue
		}
		start := len(a.buf)
		if buf, ok := appendBinary(a.buf, oids[i], arg); ok {
			a.buf = buf
			a.add(buf[start:], binaryFormat)
			continue
		}
		if buf, ok := appendText(a.buf, oids[i], arg); ok {
			a.buf = buf
			a.add(buf[start:], textFormat)
			continue
		}
		if err := a.foreign(oids[i], arg); err != nil {
			// pgx's error has the argument in it.
			e := unsent("argument %d, of type %T, cannot be sent for the parameter's type", i+1, arg)
			e.Err = errArgument
			return e
		}
	}
	return nil
}

// errArgument is the cause of an argument that has no form for its parameter.
var errArgument = errors.New("the argument does not fit the parameter")

func (a *arguments) add(value []byte, format int16) {
	if value == nil && format == binaryFormat {
		value = []byte{}
	}
	a.values = append(a.values, value)
	a.formats = append(a.formats, format)
}

// foreign encodes a value that is not canonical, as pgx would.
func (a *arguments) foreign(oid uint32, arg any) error {
	preferred := a.types.FormatCodeForOID(oid)
	var first error
	for _, format := range []int16{preferred, 1 - preferred} {
		start := len(a.buf)
		buf, err := a.types.Encode(oid, format, arg, a.buf)
		if err == nil {
			if buf == nil {
				a.add(nil, textFormat)
				return nil
			}
			a.buf = buf
			a.add(buf[start:], format)
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// appendBinary appends the binary form of a canonical value for a parameter of the type, if it has one and the value
// fits it.
func appendBinary(buf []byte, oid uint32, value any) ([]byte, bool) {
	switch v := value.(type) {
	case int64:
		return appendInteger(buf, oid, v)
	case string:
		return append(buf, v...), isText(oid) && oid != untyped
	case bool:
		if v {
			return append(buf, 1), oid == oidBool
		}
		return append(buf, 0), oid == oidBool
	case float64:
		return appendFloat(buf, oid, v)
	case []byte:
		return append(buf, v...), oid == oidBytea
	case time.Time:
		return appendTime(buf, oid, v)
	case backend.UUID:
		return append(buf, v[:]...), oid == oidUUID
	case backend.JSON:
		if oid == oidJSONB {
			buf = append(buf, 1) // the version of the form
		}
		return append(buf, v...), oid == oidJSONB || oid == oidJSON
	case backend.List:
		return appendBinaryArray(buf, oid, v.Values)
	case backend.Array:
		return appendBinaryArray(buf, oid, v.Values)
	}
	return buf, false
}

func appendInteger(buf []byte, oid uint32, n int64) ([]byte, bool) {
	switch oid {
	case oidInt8:
		return binary.BigEndian.AppendUint64(buf, uint64(n)), true
	case oidInt4:
		return binary.BigEndian.AppendUint32(buf, uint32(n)), n == int64(int32(n))
	case oidInt2:
		return binary.BigEndian.AppendUint16(buf, uint16(n)), n == int64(int16(n))
	}
	return buf, false
}

func appendFloat(buf []byte, oid uint32, f float64) ([]byte, bool) {
	switch oid {
	case oidFloat8:
		return binary.BigEndian.AppendUint64(buf, math.Float64bits(f)), true
	case oidFloat4:
		narrow := float32(f)
		return binary.BigEndian.AppendUint32(buf, math.Float32bits(narrow)), !math.IsInf(float64(narrow), 0) || math.IsInf(f, 0)
	}
	return buf, false
}

// The years of PostgreSQL's timestamps. The server refuses the days outside the exact range.
const (
	firstYear = -4713
	lastYear  = 294276
)

func appendTime(buf []byte, oid uint32, t time.Time) ([]byte, bool) {
	t = t.UTC()
	if t.Year() < firstYear || t.Year() > lastYear {
		return buf, false
	}
	seconds := t.Unix() - epochSeconds
	switch oid {
	case oidTimestampTZ, oidTimestamp:
		return binary.BigEndian.AppendUint64(buf, uint64(seconds*microsPerSec+int64(t.Nanosecond()/1000))), true
	case oidDate:
		days := seconds / secondsPerDay
		if seconds%secondsPerDay < 0 {
			days--
		}
		return binary.BigEndian.AppendUint32(buf, uint32(days)), true
	}
	return buf, false
}

// appendBinaryArray appends an array of one dimension whose elements all have a binary form.
func appendBinaryArray(buf []byte, oid uint32, values []any) ([]byte, bool) {
	element := elementOf[oid]
	if element == 0 {
		return buf, false
	}
	if len(values) == 0 {
		return appendUint32s(buf, 0, 0, element), true
	}
	buf = appendUint32s(buf, 1, 0, element, uint32(len(values)), 1)
	flags := len(buf) - 16
	for _, value := range values {
		place := len(buf)
		buf = append(buf, 0xff, 0xff, 0xff, 0xff) // the length of NULL
		if value == nil {
			buf[flags+3] = 1 // the array has a NULL
			continue
		}
		var ok bool
		if buf, ok = appendBinary(buf, element, value); !ok {
			return buf, false
		}
		binary.BigEndian.PutUint32(buf[place:], uint32(len(buf)-place-4))
	}
	return buf, true
}

func appendUint32s(buf []byte, numbers ...uint32) []byte {
	for _, n := range numbers {
		buf = binary.BigEndian.AppendUint32(buf, n)
	}
	return buf
}

// appendText appends the text form of a canonical value for a parameter of the type.
func appendText(buf []byte, oid uint32, value any) ([]byte, bool) {
	switch v := value.(type) {
	case int64:
		return strconv.AppendInt(buf, v, 10), true
	case string:
		return append(buf, v...), true
	case bool:
		return strconv.AppendBool(buf, v), true
	case float64:
		return appendFloatText(buf, v), true
	case []byte:
		if oid == untyped || !isText(oid) && oid != oidJSON && oid != oidJSONB {
			return hex.AppendEncode(append(buf, `\x`...), v), true
		}
		return append(buf, v...), true
	case time.Time:
		return appendTimeText(buf, v)
	case backend.UUID:
		return appendUUID(buf, v), true
	case backend.Decimal:
		return append(buf, v...), true
	case backend.JSON:
		return append(buf, v...), true
	case backend.List:
		return appendArray(buf, v.Values)
	case backend.Array:
		return appendArray(buf, v.Values)
	}
	return buf, false
}

func appendFloatText(buf []byte, f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(buf, "Infinity"...)
	case math.IsInf(f, -1):
		return append(buf, "-Infinity"...)
	}
	return strconv.AppendFloat(buf, f, 'f', -1, 64)
}

// appendTimeText appends an instant as PostgreSQL reads it in every DateStyle. Years before Christ are counted backwards
// from 1 and have no year 0.
func appendTimeText(buf []byte, t time.Time) ([]byte, bool) {
	t = t.UTC()
	if t.Year() < firstYear || t.Year() > lastYear {
		return buf, false
	}
	year, suffix := t.Year(), ""
	if year <= 0 {
		year, suffix = 1-year, " BC"
	}
	buf = fmt.Appendf(buf, "%04d", year)
	buf = t.AppendFormat(buf, "-01-02 15:04:05.999999Z07:00")
	return append(buf, suffix...), true
}
