package compile

import (
	"database/sql/driver"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/query"

	"github.com/hare-go/hare/internal/schema"
)

func wrong(c *schema.Column, format string, args ...any) error {
	return &schema.ValueError{Model: c.Table.Model, Field: c.Field, Column: c.Name, Reason: fmt.Sprintf(format, args...)}
}

// plain takes a constant out of its query.Value: the column converts it like any other.
func plain(value any) any {
	for {
		e, ok := value.(query.Expr)
		if !ok || e.Op != query.OpValue {
			return value
		}
		value = e.Value
	}
}

func isNil(value any) bool {
	if value == nil {
		return true
	}
	v := reflect.ValueOf(value)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// canonical is what a condition binds for the value, nil for NULL. A condition may ask a column that is never NULL for
// NULL, behind a relation that leads nowhere even with success, which is why nil does not go by the column.
func (to *target) canonical(c *schema.Column, value any) (any, error) {
	if isNil(value) {
		return nil, nil
	}
	if to.related != nil {
		key, ok, err := to.instanceKey(value)
		if ok || err != nil {
			return key, err
		}
	}
	v, err := c.Convert(value)
	if err != nil {
		if valuer, ok := value.(driver.Valuer); ok {
			if inner, failed := valuer.Value(); failed == nil && inner == nil {
				return nil, nil
			}
		}
	}
	return v, err
}

// instanceKey is the key of a value of the related model, given as T or *T; ok is false for anything else.
func (to *target) instanceKey(value any) (key any, ok bool, err error) {
	v := reflect.ValueOf(value)
	switch v.Type() {
	case to.related.Type:
		instance := reflect.New(v.Type())
		instance.Elem().Set(v)
		v = instance
	case reflect.PointerTo(to.related.Type):
	default:
		return nil, false, nil
	}
	pk, base := to.related.PK[0], v.UnsafePointer()
	if pk.IsZero(base) {
		return nil, false, usage("a %s without a key stands for no row: save it first", to.related.Model)
	}
	key, err = pk.Read(base)
	return key, true, err
}

// elements are the elements of any slice or array but those of bytes, which are one value.
func elements(value any) ([]any, bool) {
	if list, ok := value.([]any); ok {
		return slices.Clone(list), true
	}
	v := reflect.ValueOf(value)
	if !v.IsValid() || v.Kind() != reflect.Slice && v.Kind() != reflect.Array || v.Type().Elem() == reflect.TypeFor[byte]() {
		return nil, false
	}
	list := make([]any, v.Len())
	for i := range list {
		list[i] = v.Index(i).Interface()
	}
	return list, true
}

// membership is "in" and "not_in" as Python has them: None is an element like any other, found where it is in the list
// and nowhere else. The list stays one argument, without its NULLs; their presence is part of the shape.
func membership(at *place, to *target, value any) (*Node, error) {
	if err := checkLookup(at.column, to.lookup); err != nil {
		return nil, err
	}
	list, ok := elements(value)
	if numbers, bytes := value.([]byte); bytes && integer(at.column.Type.Kind) {
		list, ok = make([]any, len(numbers)), true
		for i, n := range numbers {
			list[i] = n
		}
	}
	if !ok {
		return nil, wrong(at.column, "the lookup %v takes a list, and got %T", to.lookup, value)
	}
	values := list[:0]
	for _, element := range list {
		element = plain(element)
		if _, ok := element.(query.Expr); ok {
			return nil, wrong(at.column, "the list of the lookup %v takes values, not expressions: join conditions by query.Or", to.lookup)
		}
		v, err := to.canonical(at.column, element)
		if err != nil {
			return nil, err
		}
		if v != nil {
			values = append(values, v)
		}
	}
	o := opIn
	if to.lookup == lookupNotIn {
		o = opNotIn
	}
	if len(values) < len(list) {
		o++
	}
	return leafValue(at, o, backend.List{Elem: at.column.Type, Values: values}), nil
}

// match is a lookup into text. The pattern is made when it is bound: each database escapes in its own way.
func match(at *place, l lookup, value any) (*Node, error) {
	if _, ok := value.(query.Expr); ok {
		return nil, usage("the lookup %v of %s.%s takes a string, not an expression", l, at.column.Table.Model, at.column.Name)
	}
	if at.column.Type.Kind != backend.KindText {
		return nil, wrong(at.column, "the lookup %v reads text, and the column holds none: compare with exact, in or range", l)
	}
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.String {
		return nil, wrong(at.column, "the lookup %v takes a string, and got %T", l, value)
	}
	// What no text of any database contains would be found by none, and some refuse to look for it.
	if text := v.String(); strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text) {
		return nil, wrong(at.column, "the lookup %v takes text: valid UTF-8 without a NUL byte", l)
	}
	return leafValue(at, lookupOps[l], v.String()), nil
}

// checkLookup refuses what databases would answer each in their own way: two documents that are equal may differ as text,
// and arrays exist on some databases only.
func checkLookup(c *schema.Column, l lookup) error {
	switch {
	case c.Type.Kind == backend.KindJSON:
		return wrong(c, "a document is compared with nil only: use Client.Query to look into it")
	case c.Type.Kind == backend.KindArray && l != lookupExact && l != lookupNot:
		return wrong(c, "an array is compared as a whole only, by exact and not: use Client.Query to look into it")
	}
	return nil
}
