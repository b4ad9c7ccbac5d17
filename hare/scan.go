package hare

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/hare-go/hare/hare/backend"
)

var (
	errNull  = errors.New("it is NULL, and the variable cannot hold that: scan into a pointer to a pointer")
	errRange = errors.New("the number does not fit into the variable")
)

// store puts a canonical value where dest points.
func store(dest, value any) error {
	switch d := dest.(type) {
	case *any:
		*d = plain(value)
		return nil
	case *[]byte:
		*d = nil
		if value == nil {
			return nil
		}
		text, err := textOf(value)
		*d = []byte(text)
		return err
	case *json.RawMessage:
		text, err := textOf(value)
		*d = json.RawMessage(text)
		return err
	case *time.Time:
		t, err := timeOf(value)
		if err == nil {
			*d = t
		}
		return err
	case sql.Scanner:
		if document, ok := value.(backend.JSON); ok {
			return d.Scan([]byte(document))
		}
		return d.Scan(plain(value))
	}
	place := reflect.ValueOf(dest)
	if place.Kind() != reflect.Pointer || place.IsNil() {
		return fmt.Errorf("Scan takes pointers, and got %T", dest)
	}
	return storeInto(place.Elem(), value)
}

// storeInto sets a variable by its kind, so that named types work as the types they are made of.
func storeInto(place reflect.Value, value any) error {
	if place.Kind() == reflect.Pointer {
		if value == nil {
			place.SetZero()
			return nil
		}
		target := reflect.New(place.Type().Elem())
		if err := store(target.Interface(), value); err != nil {
			return err
		}
		place.Set(target)
		return nil
	}
	if value == nil {
		return errNull
	}
	switch place.Kind() {
	case reflect.Bool:
		return storeBool(place, value)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, ok := value.(int64)
		if ok && place.OverflowInt(n) {
			return errRange
		}
		if ok {
			place.SetInt(n)
			return nil
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, ok := value.(int64)
		if ok && (n < 0 || place.OverflowUint(uint64(n))) {
			return errRange
		}
		if ok {
			place.SetUint(uint64(n))
			return nil
		}
	case reflect.Float32, reflect.Float64:
		return storeFloat(place, value)
	case reflect.String:
		text, err := textOf(value)
		if err == nil {
			place.SetString(text)
		}
		return err
	case reflect.Array:
		if id, ok := value.(backend.UUID); ok && place.Len() == len(id) && place.Type().Elem().Kind() == reflect.Uint8 {
			reflect.Copy(place, reflect.ValueOf(id))
			return nil
		}
	}
	return misfit(value, place.Type())
}

// storeBool also takes 0 and 1, which is how a database without booleans stores them.
func storeBool(place reflect.Value, value any) error {
	switch v := value.(type) {
	case bool:
		place.SetBool(v)
		return nil
	case int64:
		if v == 0 || v == 1 {
			place.SetBool(v == 1)
			return nil
		}
	}
	return misfit(value, place.Type())
}

func storeFloat(place reflect.Value, value any) error {
	switch v := value.(type) {
	case float64:
		place.SetFloat(v)
		return nil
	case int64:
		if int64(float64(v)) != v {
			return errRange
		}
		place.SetFloat(float64(v))
		return nil
	}
	return misfit(value, place.Type())
}

func textOf(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", errNull
	case string:
		return v, nil
	case []byte:
		return string(v), nil
	case backend.JSON:
		return string(bytes.Clone(v)), nil
	case backend.Decimal:
		return string(v), nil
	case backend.UUID:
		return spellUUID(v), nil
	}
	return "", misfit(value, reflect.TypeFor[string]())
}

// timeOf also takes text, which is how a database without times stores them.
func timeOf(value any) (time.Time, error) {
	switch v := value.(type) {
	case nil:
		return time.Time{}, errNull
	case time.Time:
		return v, nil
	case string:
		if t, err := time.Parse(time.RFC3339Nano, strings.Replace(v, " ", "T", 1)); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, misfit(value, reflect.TypeFor[time.Time]())
}

func misfit(value any, to reflect.Type) error {
	return fmt.Errorf("the database gave a value of the Go type %T, which does not go into %s", plain(value), to)
}
