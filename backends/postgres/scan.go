package postgres

import (
	"math"
	"time"
	"unsafe"

	"github.com/hare-go/hare/hare/backend"
)

// convert decodes a value and stores it the general way.
func convert(d *backend.Dest, base backend.Pointer, oid uint32, src []byte) error {
	value, err := decode(oid, src)
	if err == nil {
		value, err = coerce(d.Kind, value)
	}
	if err != nil {
		return d.Wrap(err)
	}
	return d.Store(base, value)
}

// store decodes the value of column i straight into a field, where column and field have forms that meet. It does
// nothing and returns false where they do not, and where the value does not fit: convert then does it, or says why not.
func (r *rows) store(d *backend.Dest, field backend.Pointer, i int, src []byte) bool {
	oid := r.types[i]
	switch d.Layout {
	case backend.LayoutString:
		if d.Kind == backend.KindText && isText(oid) {
			put(d, field, r.text(i, src))
			return true
		}
	case backend.LayoutBool:
		if d.Kind == backend.KindBool && oid == oidBool && len(src) == 1 {
			put(d, field, src[0] != 0)
			return true
		}
	case backend.LayoutFloat64, backend.LayoutFloat32:
		if d.Kind == backend.KindFloat {
			return storeFloat(d, field, oid, src)
		}
	case backend.LayoutTime:
		if d.Kind == backend.KindTime {
			return storeTime(d, field, oid, src)
		}
	case backend.LayoutBytes:
		if d.Kind == backend.KindBytes && oid == oidBytea {
			put(d, field, r.bytes(i, src))
			return true
		}
	case backend.LayoutUUID:
		if d.Kind == backend.KindUUID && oid == oidUUID && len(src) == 16 {
			put(d, field, [16]byte(src))
			return true
		}
	case backend.LayoutDuration:
		if d.Kind == backend.KindDuration {
			return storeDuration(d, field, oid, src)
		}
	default:
		if d.Kind >= backend.KindInt16 && d.Kind <= backend.KindInt64 {
			return storeInteger(d, field, oid, src)
		}
	}
	return false
}

// put stores a value, or a pointer to a new one. T has the layout that d says.
func put[T any](d *backend.Dest, field backend.Pointer, value T) {
	if d.Pointer {
		kept := new(T)
		*kept = value
		*(**T)(field) = kept
		return
	}
	*(*T)(field) = value
}

// storeInteger stores integers into fields of every width that they fit.
func storeInteger(d *backend.Dest, field backend.Pointer, oid uint32, src []byte) bool {
	n, ok := integerOf(oid, src)
	if !ok {
		return false
	}
	switch d.Layout {
	case backend.LayoutInt64:
		put(d, field, n)
		return true
	case backend.LayoutInt:
		return narrow[int](d, field, n)
	case backend.LayoutInt32:
		return narrow[int32](d, field, n)
	case backend.LayoutInt16:
		return narrow[int16](d, field, n)
	case backend.LayoutInt8:
		return narrow[int8](d, field, n)
	case backend.LayoutUint:
		return narrow[uint](d, field, n)
	case backend.LayoutUint64:
		return narrow[uint64](d, field, n)
	case backend.LayoutUint32:
		return narrow[uint32](d, field, n)
	case backend.LayoutUint16:
		return narrow[uint16](d, field, n)
	case backend.LayoutUint8:
		return narrow[uint8](d, field, n)
	}
	return false
}

// narrow stores n if a T can hold it.
func narrow[T int | int32 | int16 | int8 | uint | uint64 | uint32 | uint16 | uint8](d *backend.Dest, field backend.Pointer, n int64) bool {
	value := T(n)
	if int64(value) != n || n < 0 && value > 0 {
		return false
	}
	put(d, field, value)
	return true
}

func storeFloat(d *backend.Dest, field backend.Pointer, oid uint32, src []byte) bool {
	f, ok := floatOf(oid, src)
	if !ok {
		return false
	}
	if d.Layout == backend.LayoutFloat64 {
		put(d, field, f)
		return true
	}
	narrow := float32(f)
	if math.IsInf(float64(narrow), 0) && !math.IsInf(f, 0) {
		return false
	}
	put(d, field, narrow)
	return true
}

func storeTime(d *backend.Dest, field backend.Pointer, oid uint32, src []byte) bool {
	switch oid {
	case oidTimestampTZ, oidTimestamp, oidDate:
		if t, err := timeOf(oid, src); err == nil {
			put(d, field, t)
			return true
		}
	}
	return false
}

func storeDuration(d *backend.Dest, field backend.Pointer, oid uint32, src []byte) bool {
	const longest = math.MaxInt64 / int64(time.Microsecond)
	micros, ok := integerOf(oid, src)
	if !ok || micros > longest || micros < -longest {
		return false
	}
	put(d, field, time.Duration(micros)*time.Microsecond)
	return true
}

// slabLimit is the size of the largest value that shares its memory with others of its row. Whoever keeps one text of a
// row keeps the others in memory with it, so that they must be small.
const slabLimit = 1024

// text is a copy of a text.
func (r *rows) text(i int, src []byte) string {
	if len(src) == 0 {
		return ""
	}
	kept := r.bytes(i, src)
	return unsafe.String(unsafe.SliceData(kept), len(kept))
}

// bytes is a copy of a value. The small ones of a row lie in one slab, so that a row costs one allocation for all of
// them.
func (r *rows) bytes(i int, src []byte) []byte {
	if len(src) > slabLimit || len(src) == 0 {
		return append([]byte{}, src...)
	}
	if cap(r.slab) < len(src) {
		r.slab = make([]byte, r.slabSize(i))
	}
	kept := r.slab[:len(src):len(src)]
	r.slab = r.slab[len(src):]
	copy(kept, src)
	return kept
}

// slabSize is how much the columns from i on can want of a slab.
func (r *rows) slabSize(i int) int {
	size := 0
	for ; i < len(r.values); i++ {
		if n := len(r.values[i]); n <= slabLimit && (isText(r.types[i]) || r.types[i] == oidBytea) {
			size += n
		}
	}
	return size
}
