package schema

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/*.golden anew")

type Target struct{ ID int64 }

type TwoKeys struct {
	A int64 `hare:"pk"`
	B int64 `hare:"pk"`
}

type Inner struct {
	F string `hare:"size=0"`
}

type Renamed struct{ ID int64 }

func (Renamed) TableName() string { return "a-b" }

type VeryLongNameOfAModelThatGoesOnAndOnUntilItIsLongerThanPostgreSQLAllows struct{ ID int64 }

type Été struct{ ID int64 }

// refused are declarations that must not pass. F is the field in question.
var refused = []struct {
	name  string
	model any
}{
	{"unknown word, nearly right", struct {
		F string `hare:"szie=5"`
	}{}},
	{"unknown word, with an underscore missing", struct {
		F time.Time `hare:"autonow"`
	}{}},
	{"unknown word, like no other", struct {
		F string `hare:"flimflam"`
	}{}},
	{"empty word", struct {
		F string `hare:"size=5,,index"`
	}{}},
	{"comma at the end", struct {
		F string `hare:"index,"`
	}{}},
	{"dash with more", struct {
		F string `hare:"-,index"`
	}{}},
	{"flag with a value", struct {
		F int64 `hare:"pk=true"`
	}{}},
	{"value missing", struct {
		F string `hare:"size"`
	}{}},
	{"value empty", struct {
		F string `hare:"size="`
	}{}},
	{"index with an empty name", struct {
		F string `hare:"index="`
	}{}},
	{"word twice", struct {
		F string `hare:"size=5,size=6"`
	}{}},
	{"NUL byte", struct {
		F string `hare:"default=a\x00b"`
	}{}},
	{"quote not closed", struct {
		F string `hare:"default='a,index"`
	}{}},
	{"text after a quote", struct {
		F string `hare:"default='a'b"`
	}{}},
	{"parenthesis not closed", struct {
		F int64 `hare:"check=f IN (1,2,index"`
	}{}},
	{"parenthesis too many", struct {
		F int64 `hare:"check=f > 0) OR (1 = 1"`
	}{}},
	{"quote in a check not closed", struct {
		F string `hare:"check=f <> 'x"`
	}{}},
	{"tag without quotes", reflect.New(reflect.StructOf([]reflect.StructField{
		{Name: "F", Type: reflect.TypeFor[string](), Tag: "hare:index"},
	})).Elem().Interface()},
	{"tag on a field that is not exported", struct {
		ID int64
		f  string `hare:"index"`
	}{}},
	{"soft deletion", struct {
		F *time.Time `hare:"soft_delete"`
	}{}},
	{"optimistic locking", struct {
		F int64 `hare:"version"`
	}{}},

	{"size is no number", struct {
		F string `hare:"size=big"`
	}{}},
	{"size zero", struct {
		F string `hare:"size=0"`
	}{}},
	{"size negative", struct {
		F string `hare:"size=-1"`
	}{}},
	{"size too large", struct {
		F string `hare:"size=10485761"`
	}{}},
	{"size on an integer", struct {
		F int64 `hare:"size=5"`
	}{}},
	{"size on bytes", struct {
		F []byte `hare:"size=5"`
	}{}},
	{"size on a document", struct {
		F any `hare:"json,size=5"`
	}{}},
	{"decimal without digits", struct {
		F string `hare:"decimal"`
	}{}},
	{"decimal with one number", struct {
		F string `hare:"decimal=10"`
	}{}},
	{"decimal of no digits", struct {
		F string `hare:"decimal=0:0"`
	}{}},
	{"decimal with more places than digits", struct {
		F string `hare:"decimal=2:3"`
	}{}},
	{"decimal with negative places", struct {
		F string `hare:"decimal=2:-1"`
	}{}},
	{"decimal of too many digits", struct {
		F string `hare:"decimal=1001:0"`
	}{}},
	{"decimal on a float", struct {
		F float64 `hare:"decimal=10:2"`
	}{}},
	{"decimal on an integer", struct {
		F int64 `hare:"decimal=10:2"`
	}{}},
	{"decimal with size", struct {
		F string `hare:"decimal=10:2,size=4"`
	}{}},
	{"decimal type without decimal=", struct{ F Money }{}},
	{"decimal text type without decimal=", struct{ F Odometer }{}},

	{"default of another kind", struct {
		F int64 `hare:"default=many"`
	}{}},
	{"default too large for the field", struct {
		F int8 `hare:"default=128"`
	}{}},
	{"default too large for the column", struct {
		F int64 `hare:"type=smallint,default=40000"`
	}{}},
	{"default negative", struct {
		F uint32 `hare:"default=-1"`
	}{}},
	{"default beyond 64 bits", struct {
		F uint64 `hare:"default=9223372036854775808"`
	}{}},
	{"default longer than size", struct {
		F string `hare:"size=3,default=four"`
	}{}},
	{"default none of the choices", struct {
		F string `hare:"choices=a|b,default=c"`
	}{}},
	{"default with too many places", struct {
		F string `hare:"decimal=5:2,default=1.005"`
	}{}},
	{"default of a boolean", struct {
		F bool `hare:"default=1"`
	}{}},
	{"default of a float", struct {
		F float64 `hare:"default=high"`
	}{}},
	{"default NaN", struct {
		F float64 `hare:"default=NaN"`
	}{}},
	{"default infinite", struct {
		F float64 `hare:"default=1e999"`
	}{}},
	{"default too large for a float32", struct {
		F float32 `hare:"default=1e300"`
	}{}},
	{"default of a duration", struct {
		F time.Duration `hare:"default=5"`
	}{}},
	{"default of a UUID", struct {
		F [16]byte `hare:"default=none"`
	}{}},
	{"default of a time", struct {
		F time.Time `hare:"default=2024-01-01"`
	}{}},
	{"default of bytes", struct {
		F []byte `hare:"default=abc"`
	}{}},
	{"default of an array", struct {
		F []int64 `hare:"array,default=1"`
	}{}},
	{"default that is no document", struct {
		F any `hare:"json,default={"`
	}{}},

	{"auto_now on an integer", struct {
		F int64 `hare:"auto_now"`
	}{}},
	{"auto_now_add on text", struct {
		F string `hare:"auto_now_add"`
	}{}},
	{"auto_now with auto_now_add", struct {
		F time.Time `hare:"auto_now,auto_now_add"`
	}{}},
	{"auto_now with a default", struct {
		F time.Time `hare:"auto_now,default=now"`
	}{}},
	{"auto_now on the key", struct {
		F time.Time `hare:"pk,auto_now"`
	}{}},

	{"choice empty", struct {
		F string `hare:"choices=a||b"`
	}{}},
	{"choice twice", struct {
		F string `hare:"choices=a|b|a"`
	}{}},
	{"choice twice, as a number", struct {
		F int64 `hare:"choices=1|01"`
	}{}},
	{"choice of another kind", struct {
		F int64 `hare:"choices=1|two"`
	}{}},
	{"choice longer than size", struct {
		F string `hare:"size=2,choices=no|yes"`
	}{}},
	{"choices of a float", struct {
		F float64 `hare:"choices=1|2"`
	}{}},
	{"choices of a document", struct {
		F any `hare:"json,choices=a|b"`
	}{}},
	{"choices of an array", struct {
		F []string `hare:"array,choices=a|b"`
	}{}},

	{"type with a semicolon", struct {
		F string `hare:"type=text; DROP TABLE x"`
	}{}},
	{"type of another kind", struct {
		F int64 `hare:"type=text"`
	}{}},
	{"type numeric without decimal=", struct {
		F string `hare:"type=numeric(10,2)"`
	}{}},
	{"type of an array without brackets", struct {
		F []string `hare:"array,type=text"`
	}{}},

	{"name with two underscores", struct {
		F string `hare:"column=a__b"`
	}{}},
	{"name with an underscore at the end", struct {
		F string `hare:"column=a_"`
	}{}},
	{"name with a quote", struct {
		F string `hare:"column=a\"b"`
	}{}},
	{"name with a space", struct {
		F string `hare:"column=a b"`
	}{}},
	{"name of 64 bytes", reflect.New(reflect.StructOf([]reflect.StructField{
		{Name: "F", Type: reflect.TypeFor[string](), Tag: reflect.StructTag(`hare:"column=` + strings.Repeat("x", 64) + `"`)},
	})).Elem().Interface()},
	{"field whose name is no column's", struct{ Größe int64 }{}},
	{"field with two underscores", struct{ F__A int64 }{}},
	{"index with a bad name", struct {
		F string `hare:"index=by-f"`
	}{}},
	{"index on a document", struct {
		F any `hare:"json,index"`
	}{}},
	{"unique on the key", struct {
		F int64 `hare:"pk,unique"`
	}{}},
	{"index twice", struct {
		F int64 `hare:"index,index"`
	}{}},
	{"index and constraint of one name", struct {
		E int64 `hare:"unique=n"`
		F int64 `hare:"index=n"`
	}{}},
	{"field twice in an index", struct {
		F int64 `hare:"index=n,index=n"`
	}{}},

	{"two fields of one column", struct {
		E string `hare:"column=f"`
		F string
	}{}},
	{"two fields of one column by their tags", struct {
		E string `hare:"column=x"`
		F string `hare:"column=x"`
	}{}},
	{"field of an embedded struct twice", struct {
		F string
		inner
	}{}},
	{"mistake in an embedded struct", struct{ Inner }{}},
	{"embedded pointer", struct{ *Target }{}},

	{"no fields", struct{}{}},
	{"no fields that count", struct {
		f int64
		G string `hare:"-"`
	}{}},
	{"key that can be NULL", struct {
		F *int64 `hare:"pk"`
	}{}},
	{"key by its name that can be NULL", struct{ ID *int64 }{}},
	{"key that is a document", struct {
		F any `hare:"pk,json"`
	}{}},
	{"key that is an array", struct {
		F []int64 `hare:"pk,array"`
	}{}},
	{"key that the database makes, of a type of its own", struct {
		F int64 `hare:"pk,type=bigserial"`
	}{}},

	{"channel", struct{ F chan int }{}},
	{"function", struct{ F func() }{}},
	{"complex number", struct{ F complex128 }{}},
	{"pointer of package unsafe", struct{ F unsafe.Pointer }{}},
	{"channel as a document", struct {
		F chan int `hare:"json"`
	}{}},
	{"interface", struct{ F any }{}},
	{"interface of an error", struct{ F error }{}},
	{"map", struct{ F map[string]int }{}},
	{"slice", struct{ F []string }{}},
	{"array of a wrong size", struct{ F [15]byte }{}},
	{"struct", struct{ F Target }{}},
	{"pointer to a struct", struct{ F *Target }{}},
	{"pointer to a pointer", struct{ F **int64 }{}},
	{"uintptr", struct{ F uintptr }{}},
	{"only a Scan method", struct{ F OnlyScan }{}},
	{"only a Value method", struct{ F OnlyValue }{}},
	{"Value gives something strange", struct{ F Strange }{}},
	{"Value gives nil for the zero value", struct{ F Silent }{}},
	{"array that is no slice", struct {
		F int64 `hare:"array"`
	}{}},
	{"array of bytes", struct {
		F []byte `hare:"array"`
	}{}},
	{"array of arrays", struct {
		F [][]int64 `hare:"array"`
	}{}},
	{"array of structs", struct {
		F []Target `hare:"array"`
	}{}},
	{"array as a document", struct {
		F []string `hare:"array,json"`
	}{}},

	{"foreign key without a column", struct {
		AID int64
		F   *Target `hare:"fk"`
	}{}},
	{"foreign key over an unknown column, nearly right", struct {
		AuthorID int64
		F        *Target `hare:"fk=autor_id"`
	}{}},
	{"foreign key over an unknown column", struct {
		A int64
		B int64
		F *Target `hare:"fk=something_else"`
	}{}},
	{"foreign key over one column twice", struct {
		A int64
		F *TwoKeys `hare:"fk=a:a"`
	}{}},
	{"foreign key over half of a list", struct {
		A int64
		F *TwoKeys `hare:"fk=a:"`
	}{}},
	{"foreign key that is no pointer", struct {
		A int64
		F Target `hare:"fk=a"`
	}{}},
	{"foreign key to no model", struct {
		A int64
		F *int64 `hare:"fk=a"`
	}{}},
	{"foreign key to a struct without a name", struct {
		A int64
		F *struct{ ID int64 } `hare:"fk=a"`
	}{}},
	{"foreign key with a word of a column", struct {
		A int64
		F *Target `hare:"fk=a,unique"`
	}{}},
	{"foreign key twice over one column", struct {
		A int64
		E *Target `hare:"fk=a"`
		F *Target `hare:"fk=a"`
	}{}},
	{"foreign key called as a column", struct {
		A int64   `hare:"column=f"`
		F *Target `hare:"fk=f"`
	}{}},
	{"foreign key with a bad on_delete", struct {
		A int64
		F *Target `hare:"fk=a,on_delete=cascate"`
	}{}},
	{"foreign key with a strange on_delete", struct {
		A int64
		F *Target `hare:"fk=a,on_delete=explode"`
	}{}},
	{"set_null without NULL", struct {
		A int64
		F *Target `hare:"fk=a,on_delete=set_null"`
	}{}},
	{"set_default without a default", struct {
		A *int64
		F *Target `hare:"fk=a,on_delete=set_default"`
	}{}},
	{"on_delete without fk", struct {
		F int64 `hare:"on_delete=cascade"`
	}{}},
	{"related with two underscores", struct {
		A int64
		F *Target `hare:"fk=a,related=b__c"`
	}{}},
	{"through without m2m", struct {
		F int64 `hare:"through=Link"`
	}{}},
	{"m2m on a number", struct {
		F int64 `hare:"m2m"`
	}{}},
	{"m2m with a word of a column", struct {
		F []Target `hare:"m2m,size=5"`
	}{}},
	{"reverse on text", struct {
		F string `hare:"reverse=a"`
	}{}},
	{"reverse with a word of a column", struct {
		F []Target `hare:"reverse=a,column=b"`
	}{}},
	{"reverse and m2m", struct {
		F []Target `hare:"reverse=a,m2m"`
	}{}},
	{"m2m and fk", struct {
		F []Target `hare:"m2m,fk=a"`
	}{}},

	{"table name with a hyphen", Renamed{}},
	{"table name too long", VeryLongNameOfAModelThatGoesOnAndOnUntilItIsLongerThanPostgreSQLAllows{}},
	{"table name that is not ASCII", Été{}},
}

type inner struct{ F string }

func TestRefusedDeclarations(t *testing.T) {
	var text strings.Builder
	for _, test := range refused {
		fmt.Fprintf(&text, "# %s\n", test.name)
		typ, model := reflect.TypeOf(test.model), "Model"
		if typ.Name() != "" {
			model = typ.Name()
		}
		table, err := build(typ, model)
		var declaration *DeclarationError
		switch {
		case err == nil:
			t.Errorf("%s: accepted, with the columns %+v", test.name, table.Columns)
			continue
		case !errors.As(err, &declaration):
			t.Errorf("%s: got a %T: %v", test.name, err, err)
			continue
		case declaration.Type != model || declaration.Reason == "":
			t.Errorf("%s: the error is %+v", test.name, declaration)
		}
		fmt.Fprintf(&text, "%v\n\n", err)
	}
	path := filepath.Join("testdata", "refused.golden")
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("the errors differ from %s (-want +got):\n%s", path, diff)
	}
}

func TestNoModels(t *testing.T) {
	type generic[T any] struct{ ID T }
	for _, typ := range []reflect.Type{
		nil, reflect.TypeFor[int](), reflect.TypeFor[*int](), reflect.TypeFor[[]Target](), reflect.TypeFor[**Target](),
		reflect.TypeFor[struct{ ID int64 }](), reflect.TypeFor[any](), reflect.TypeFor[generic[int64]](),
	} {
		for range 2 { // the error is kept
			_, err := Of(typ)
			var declaration *DeclarationError
			if !errors.As(err, &declaration) {
				t.Errorf("%v: got %v, want a DeclarationError", typ, err)
			}
		}
	}
}
