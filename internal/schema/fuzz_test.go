package schema

import (
	"database/sql"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"testing"
	"time"
)

// FuzzTags declares a field of each type with any tag: the result is a table or a DeclarationError that names the
// field, and what an accepted column gives for the zero value is a value that it takes.
func FuzzTags(f *testing.F) {
	var models []reflect.Type
	for _, field := range []reflect.Type{
		reflect.TypeFor[string](), reflect.TypeFor[int64](), reflect.TypeFor[uint8](), reflect.TypeFor[float32](), reflect.TypeFor[bool](),
		reflect.TypeFor[[]byte](), reflect.TypeFor[time.Time](), reflect.TypeFor[*time.Time](), reflect.TypeFor[time.Duration](),
		reflect.TypeFor[Key](), reflect.TypeFor[Serial](), reflect.TypeFor[Money](), reflect.TypeFor[Odometer](), reflect.TypeFor[*Level](),
		reflect.TypeFor[sql.NullString](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[map[string]any](), reflect.TypeFor[[]string](),
		reflect.TypeFor[*[]*int32](), reflect.TypeFor[*Target](), reflect.TypeFor[[]Target](), reflect.TypeFor[any](), reflect.TypeFor[chan int](),
	} {
		models = append(models, reflect.StructOf([]reflect.StructField{
			{Name: "ID", Type: reflect.TypeFor[int64]()}, {Name: "F", Type: field},
		}))
	}
	for i, tag := range []string{
		"", "-", "pk", "size=5,index,unique=a", "decimal=10:2,default=-1.5", "default='a''b',choices=a'b|c", "check=f IN (1,2)", "type=varchar(20)",
		"json", "array,size=3,type=varchar(3)[]", "auto_now", "auto_now_add,auto_now", "fk=id,on_delete=set_null,related=x", "m2m,through=Y", "reverse=z",
		"soft_delete", "column=a__b", ",", "=", "default=", "check=')", "type=uuid", "index=,", "pk,pk", "size=99999999999999999999", "decimal=:",
		"choices=|", "fk=:", "default='", "type=timestamp(3) with time zone", "column=id", "type=json,default={}", "type=bytea",
	} {
		f.Add(tag, uint8(i))
	}
	f.Fuzz(func(t *testing.T, tag string, which uint8) {
		model := models[int(which)%len(models)]
		b := newBuilder(model, "Model")
		id, field := model.Field(0), model.Field(1)
		if err := b.field(id, "ID"); err != nil {
			t.Fatal(err)
		}
		field.Tag = reflect.StructTag(`hare:` + strconv.Quote(tag))
		err := b.field(field, "F")
		var table *Table
		if err == nil {
			table, err = b.complete()
		}
		var declaration *DeclarationError
		switch {
		case err == nil && (table == nil || table.Name != "model" || len(table.Columns) != len(table.Dests)):
			t.Fatalf("%q: the table is %+v", tag, table)
		case err != nil && (!errors.As(err, &declaration) || declaration.Field != "F" || declaration.Reason == ""):
			t.Fatalf("%q: the error is %v", tag, err)
		case err != nil:
			return
		}
		for _, index := range table.Indexes {
			if len(index.Name) > maxName || len(index.Columns) == 0 {
				t.Errorf("%q: the index is %+v", tag, index)
			}
		}
		row := reflect.New(model)
		for _, c := range table.Columns {
			value, err := c.Read(row.UnsafePointer())
			var refused *ValueError
			switch {
			case err != nil && !errors.As(err, &refused):
				t.Errorf("%q: Read: %v", tag, err)
			case err == nil:
				if err := c.Dest.Store(row.UnsafePointer(), value); err != nil {
					t.Errorf("%q: %#v was read of %s, and cannot be stored: %v", tag, value, c.Field, err)
				}
			}
			if c.HasDefault {
				if again, err := c.Convert(c.Default); err != nil || !reflect.DeepEqual(again, c.Default) {
					t.Errorf("%q: the default %#v becomes %#v, %v", tag, c.Default, again, err)
				}
				if err := c.Dest.Store(row.UnsafePointer(), c.Default); err != nil {
					t.Errorf("%q: the default cannot be stored: %v", tag, err)
				}
			}
		}
	})
}
