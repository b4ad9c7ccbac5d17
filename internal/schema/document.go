package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hare-go/hare/hare/backend"
)

// rawCodec: json.RawMessage is a document already. It is stored as it is, a nil one as the document null.
func rawCodec(t reflect.Type, o *options) (*codec, error) {
	kind, err := o.kind(backend.KindJSON, backend.KindJSON)
	if err != nil {
		return nil, err
	}
	return &codec{
		column: backend.ColumnType{Kind: kind}, layout: backend.LayoutOther, goType: t,
		read: func(field backend.Pointer) (any, error) { return document(*(*[]byte)(field)) },
		assign: func(field backend.Pointer, value any) error {
			doc, err := canonical[backend.JSON](value)
			if err == nil {
				*(*[]byte)(field) = append([]byte{}, doc...)
			}
			return err
		},
		convert: convertJSON,
		isZero:  func(field backend.Pointer) bool { return len(*(*[]byte)(field)) == 0 },
	}, nil
}

// jsonCodec: any Go value, by encoding/json. A nil map, slice or interface is the document null; NULL is a nil pointer.
func jsonCodec(t reflect.Type, o *options) (*codec, error) {
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return nil, faultf(o.word("json"), "%s has no JSON form: use another type, or tag the field \"-\"", t)
	}
	kind, err := o.kind(backend.KindJSON, backend.KindJSON)
	if err != nil {
		return nil, err
	}
	return &codec{
		column: backend.ColumnType{Kind: kind}, layout: backend.LayoutOther, goType: t,
		read: func(field backend.Pointer) (any, error) { return marshal(reflect.NewAt(t, field).Interface()) },
		assign: func(field backend.Pointer, value any) error {
			doc, err := canonical[backend.JSON](value)
			if err != nil {
				return err
			}
			// A fresh value, as Unmarshal merges into what is there.
			fresh := reflect.New(t)
			if err := json.Unmarshal(doc, fresh.Interface()); err != nil {
				return err
			}
			reflect.NewAt(t, field).Elem().Set(fresh.Elem())
			return nil
		},
		convert: func(value any) (any, error) {
			if reflect.TypeOf(value) != t {
				return convertJSON(value)
			}
			return marshal(addressable(value))
		},
		isZero: reflectZero(t),
	}, nil
}

// addressable is a pointer to a copy of value, which has the methods of its type with pointer receivers too.
func addressable(value any) any {
	held := reflect.New(reflect.TypeOf(value))
	held.Elem().Set(reflect.ValueOf(value))
	return held.Interface()
}

func convertJSON(value any) (any, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case backend.JSON:
		return document(v)
	case json.RawMessage:
		return document(v)
	}
	if rv := reflect.ValueOf(value); rv.Kind() == reflect.Pointer && rv.IsNil() {
		return nil, nil
	}
	return marshal(value)
}

// convertDocument makes a document of what a Value method gave.
func convertDocument(value any) (any, error) {
	switch v := value.(type) {
	case backend.JSON:
		return document(v)
	case []byte:
		return document(v)
	case string:
		return document([]byte(v))
	}
	return nil, wrongType(backend.KindJSON, value)
}

func marshal(value any) (any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, errors.New("the value has no JSON form: NaN, an infinity, a cycle or a type that JSON does not know")
	}
	return document(data)
}

// document checks a document for what PostgreSQL's jsonb cannot hold, on every database alike. A nil slice is the
// document null, as encoding/json has it.
func document(data []byte) (any, error) {
	if data == nil {
		return backend.JSON("null"), nil
	}
	if !json.Valid(data) || !utf8.Valid(data) {
		return nil, errors.New("the bytes are not a JSON document in UTF-8")
	}
	if err := checkEscapes(data); err != nil {
		return nil, err
	}
	return backend.JSON(data), nil
}

// checkEscapes looks at the escapes of the form \uXXXX in a valid document: a NUL, and half of a surrogate pair, are no
// characters that text can hold.
func checkEscapes(data []byte) error {
	for {
		i := bytes.IndexByte(data, '\\')
		if i < 0 {
			return nil
		}
		if data[i+1] != 'u' {
			data = data[i+2:]
			continue
		}
		r := escaped(data[i:])
		data = data[i+len(`\u0000`):]
		switch {
		case r == 0:
			return errors.New("a JSON document must not contain a NUL character")
		case utf16.IsSurrogate(r):
			if utf16.DecodeRune(r, escaped(data)) == utf8.RuneError {
				return errors.New("a JSON document must not contain half of a surrogate pair")
			}
			data = data[len(`\u0000`):]
		}
	}
}

// escaped is the character of the escape \uXXXX that data begins with, or -1.
func escaped(data []byte) rune {
	if !bytes.HasPrefix(data, []byte(`\u`)) {
		return -1
	}
	n, _ := strconv.ParseUint(string(data[2:6]), 16, 32) // the document is valid: these are hexadecimal digits
	return rune(n)
}
