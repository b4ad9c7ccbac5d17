package schema

import (
	"reflect"
	"strings"
	"unsafe"

	"github.com/hare-go/hare/hare/backend"
)

// arrayCodec: a slice whose elements are values of a column. A nil slice is stored as an empty array, since NULL is a nil
// pointer; elements that are pointers can be NULL.
func arrayCodec(t reflect.Type, o *options) (*codec, error) {
	if t.Kind() != reflect.Slice {
		return nil, faultf(o.word("array"), "an array is a slice, and the field is %s", t)
	}
	if t.Elem().Kind() == reflect.Uint8 {
		return nil, faultf(o.word("array"), "%s is one value of bytes: leave array out, or use a slice of a wider integer", t)
	}
	if t.Elem().Kind() == reflect.Slice && t.Elem().Elem().Kind() != reflect.Uint8 && t.Elem() != rawType {
		return nil, faultf(o.word("array"), "an array has one dimension: tag %s json to keep it as a document", t)
	}
	inner := *o
	inner.array = false
	if o.override != "" {
		var ok bool
		if inner.override, ok = strings.CutSuffix(o.override, "[]"); !ok {
			return nil, faultf(o.word("type"), "the type of an array ends in []")
		}
	}
	elem, err := newCodec(t.Elem(), &inner)
	if err != nil {
		return nil, err
	}
	a := &arrays{slice: t, size: t.Elem().Size(), elem: elem, column: elem.column}
	return &codec{
		column: backend.ColumnType{Kind: backend.KindArray, Elem: &a.column}, layout: backend.LayoutOther, goType: t,
		read: a.read, assign: a.assign, convert: a.convert,
		isZero: func(field backend.Pointer) bool { return reflect.NewAt(t, field).Elem().Len() == 0 },
	}, nil
}

type arrays struct {
	slice  reflect.Type
	size   uintptr // of an element
	elem   *codec
	column backend.ColumnType // of an element
}

func (a *arrays) read(field backend.Pointer) (any, error) {
	slice := reflect.NewAt(a.slice, field).Elem()
	first, values := slice.UnsafePointer(), make([]any, slice.Len())
	for i := range values {
		value, err := a.elem.read(unsafe.Add(first, uintptr(i)*a.size))
		if err != nil {
			return nil, err
		}
		values[i] = value
	}
	return backend.Array{Elem: a.column, Values: values}, nil
}

func (a *arrays) assign(field backend.Pointer, value any) error {
	array, err := canonical[backend.Array](value)
	if err != nil {
		return err
	}
	fresh := reflect.MakeSlice(a.slice, len(array.Values), len(array.Values))
	first := fresh.UnsafePointer()
	for i, value := range array.Values {
		if err := a.elem.assign(unsafe.Add(first, uintptr(i)*a.size), value); err != nil {
			return err
		}
	}
	reflect.NewAt(a.slice, field).Elem().Set(fresh)
	return nil
}

func (a *arrays) convert(value any) (any, error) {
	if array, ok := value.(backend.Array); ok {
		value = array.Values
	}
	slice := reflect.ValueOf(value)
	for slice.Kind() == reflect.Pointer {
		if slice.IsNil() {
			return nil, nil
		}
		slice = slice.Elem()
	}
	if !slice.IsValid() {
		return nil, nil
	}
	if slice.Kind() != reflect.Slice && slice.Kind() != reflect.Array {
		return nil, wrongType(backend.KindArray, value)
	}
	values := make([]any, slice.Len())
	for i := range values {
		value, err := a.elem.convert(slice.Index(i).Interface())
		if err != nil {
			return nil, err
		}
		if value == nil && !a.elem.null {
			return nil, errNotNull
		}
		values[i] = value
	}
	return backend.Array{Elem: a.column, Values: values}, nil
}
