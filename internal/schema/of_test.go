package schema

import (
	"database/sql"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare/backend"
)

type Audit struct {
	CreatedAt time.Time `hare:"auto_now_add"`
	UpdatedAt time.Time `hare:"auto_now"`
	deep
}

type deep struct {
	Note   *string
	hidden int
}

type Person struct {
	ID       int64
	FullName string `hare:"size=80,index"`
	Audit
	Email     string `hare:"unique"`
	Town      string `hare:"index=place"`
	Street    string `hare:"index=place,check=length(street) > 2,column=road"`
	FriendID  *int64
	Friend    *Person  `hare:"fk=friend_id,on_delete=set_null,related=friends"`
	PassportA int32    `hare:"unique=passport,default=7"`
	PassportB int32    `hare:"unique=passport,default=8"`
	Passport  *Paper   `hare:"fk=passport_a:passport_b,on_delete=set_default"`
	Books     []Person `hare:"reverse=author"`
	Card      *Paper   `hare:"reverse=holder"`
	Tags      []*Paper `hare:"m2m,related=people,through=PersonTag"`
	Skipped   chan int `hare:"-"`
	secret    chan int
}

type Paper struct {
	Serial string `hare:"pk,size=9"`
	Place  int16  `hare:"pk"`
}

func (*Paper) TableName() string { return "travel_documents" }

func columnNames(columns []*Column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return strings.Join(names, " ")
}

func TestDeclaration(t *testing.T) {
	table, err := Of(reflect.TypeFor[Person]())
	if err != nil {
		t.Fatal(err)
	}
	if table.Model != "Person" || table.Name != "person" || table.Type != reflect.TypeFor[Person]() {
		t.Errorf("the table is %s, %s, %v", table.Model, table.Name, table.Type)
	}
	type shape struct {
		Field, Name, Flags string
		Type               backend.ColumnType
		Default            any
	}
	bigint, text := backend.ColumnType{Kind: backend.KindInt64}, backend.ColumnType{Kind: backend.KindText}
	integer, instant := backend.ColumnType{Kind: backend.KindInt32}, backend.ColumnType{Kind: backend.KindTime}
	want := []shape{
		{"ID", "id", "pk generated", bigint, nil},
		{"FullName", "full_name", "indexed", backend.ColumnType{Kind: backend.KindText, Size: 80}, nil},
		{"Audit.CreatedAt", "created_at", "auto_now_add", instant, nil},
		{"Audit.UpdatedAt", "updated_at", "auto_now", instant, nil},
		{"Audit.deep.Note", "note", "null", text, nil},
		{"Email", "email", "unique", text, nil},
		{"Town", "town", "indexed", text, nil},
		{"Street", "road", "", text, nil},
		{"FriendID", "friend_id", "null indexed", bigint, nil},
		{"PassportA", "passport_a", "default", integer, int64(7)},
		{"PassportB", "passport_b", "default", integer, int64(8)},
	}
	var got []shape
	for i, c := range table.Columns {
		var flags []string
		for _, f := range []struct {
			name string
			on   bool
		}{
			{"null", c.Null}, {"pk", c.PK}, {"generated", c.Generated}, {"uuid", c.NewUUID}, {"unique", c.Unique}, {"indexed", c.Indexed},
			{"default", c.HasDefault}, {"auto_now", c.AutoNow}, {"auto_now_add", c.AutoNowAdd},
		} {
			if f.on {
				flags = append(flags, f.name)
			}
		}
		got = append(got, shape{c.Field, c.Name, strings.Join(flags, " "), c.Type, c.Default})
		if c.Index != i || c.Table != table || c.Dest.Column != c.Name || c.Dest.Field != c.Field || c.Dest.Model != "Person" {
			t.Errorf("%s: index %d, destination %+v", c.Name, c.Index, c.Dest)
		}
		if known, ok := table.Column(c.Name); !ok || known != c {
			t.Errorf("%s is not found by its name", c.Name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if len(table.Dests) != len(table.Columns) || columnNames(table.PK) != "id" {
		t.Errorf("%d destinations; the key %s", len(table.Dests), columnNames(table.PK))
	}
	if _, ok := table.Column("FullName"); ok {
		t.Error("a column is found by its field")
	}

	type index struct {
		Columns string
		Unique  bool
	}
	wantIndexes := []index{{"email", true}, {"passport_a passport_b", true}, {"full_name", false}, {"town road", false}, {"friend_id", false}}
	var gotIndexes []index
	for _, i := range table.Indexes {
		gotIndexes = append(gotIndexes, index{columnNames(i.Columns), i.Unique})
	}
	if diff := cmp.Diff(wantIndexes, gotIndexes); diff != "" {
		t.Errorf("indexes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Check{{Name: "ck_person_road", SQL: "length(street) > 2"}}, table.Checks); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
}

func TestRelations(t *testing.T) {
	table, err := Of(reflect.TypeFor[*Person]())
	if err != nil {
		t.Fatal(err)
	}
	type shape struct {
		Name, Field, Columns, OnDelete, Tag string
		Target                              reflect.Type
		OneToOne                            bool
	}
	want := []shape{
		{"friend", "Friend", "friend_id", "set_null", "fk=friend_id", reflect.TypeFor[Person](), false},
		{"passport", "Passport", "passport_a passport_b", "set_default", "fk=passport_a:passport_b", reflect.TypeFor[Paper](), true},
	}
	var got []shape
	for _, r := range table.Relations {
		got = append(got, shape{r.Name, r.Field, columnNames(r.Columns), r.OnDelete, r.Tag, r.Target, r.OneToOne})
		if known, ok := table.Relation(r.Name); !ok || known != r || r.Table != table {
			t.Errorf("the relation %s is not found by its name", r.Name)
		}
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b reflect.Type) bool { return a == b })); diff != "" {
		t.Errorf("relations (-want +got):\n%s", diff)
	}
	if _, ok := table.Relation("books"); ok {
		t.Error("a reverse relation is one of the table's own")
	}

	target, err := table.Relations[0].Resolve()
	if err != nil || target != table {
		t.Errorf("friend leads to %v, %v", target, err)
	}
	_, err = table.Relations[1].Resolve() // its first column is a number, and that of the key is text
	var declaration *DeclarationError
	if !asError(err, &declaration) {
		t.Fatalf("got %v, want a DeclarationError", err)
	}
	wantError := &DeclarationError{
		Type: "Person", Field: "Passport", Tag: "fk=passport_a:passport_b",
		Reason: `the column "passport_a" holds a 32-bit integer, and Paper.Serial, to which it points, text`,
	}
	if diff := cmp.Diff(wantError, declaration); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

func TestKeys(t *testing.T) {
	type byTable struct {
		Name string
		ID   int64 `hare:"column=number"`
	}
	tests := map[string]struct {
		model any
		want  string
	}{
		"by its name":                {struct{ ID int64 }{}, "id generated"},
		"by its name, with a column": {byTable{}, "number generated"},
		"unsigned":                   {struct{ ID uint32 }{}, "id generated"},
		"by its name, embedded":      {struct{ Target }{}, "id generated"},
		"UUID":                       {struct{ ID [16]byte }{}, "id uuid"},
		"UUID with Scan and Value":   {struct{ ID Serial }{}, "id uuid"},
		"UUID in a struct":           {struct{ ID Boxed }{}, "id uuid"},
		"text":                       {struct{ ID string }{}, "id"},
		"duration":                   {struct{ ID time.Duration }{}, "id"},
		"none":                       {struct{ Id2 int64 }{}, ""},
		"the tag wins": {struct {
			ID   int64
			Code string `hare:"pk"`
		}{}, "code"},
		"several": {struct {
			B int64 `hare:"pk"`
			A int64 `hare:"pk"`
		}{}, "b a"},
		"UUID as text": {struct {
			ID string `hare:"type=uuid"`
		}{}, "id uuid"},
		"with a default": {struct {
			ID int64 `hare:"default=5"`
		}{}, "id"},
		"with choices": {struct {
			ID int64 `hare:"choices=1|2"`
		}{}, "id"},
		"a foreign key": {struct {
			ID     int64
			Target *Target `hare:"fk=id"`
		}{}, "id"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			table := made(t, test.model)
			got := columnNames(table.PK)
			for _, c := range table.Columns {
				if c.PK != slices.Contains(table.PK, c) {
					t.Errorf("%s: PK is %v", c.Name, c.PK)
				}
				if c.Generated {
					got += " generated"
				}
				if c.NewUUID {
					got += " uuid"
				}
			}
			if got != test.want {
				t.Errorf("the key is %q, want %q", got, test.want)
			}
		})
	}
}

// A foreign key has an index, unless something that is there anyway does its work.
func TestIndexesOfForeignKeys(t *testing.T) {
	tests := map[string]struct {
		model    any
		want     []string
		oneToOne bool
	}{
		"by default": {struct {
			ID int64
			A  int64
			R  *Target `hare:"fk=a"`
		}{}, []string{"a"}, false},
		"indexed": {struct {
			ID int64
			A  int64   `hare:"index"`
			R  *Target `hare:"fk=a"`
		}{}, []string{"a"}, false},
		"first of an index": {struct {
			A int64   `hare:"index=n"`
			B int64   `hare:"index=n"`
			R *Target `hare:"fk=a"`
		}{}, []string{"a b"}, false},
		"second of an index": {struct {
			A int64   `hare:"index=n"`
			B int64   `hare:"index=n"`
			R *Target `hare:"fk=b"`
		}{}, []string{"a b", "b"}, false},
		"unique": {struct {
			A int64   `hare:"unique"`
			R *Target `hare:"fk=a"`
		}{}, []string{"a"}, true},
		"first of a constraint": {struct {
			A int64   `hare:"unique=n"`
			B int64   `hare:"unique=n"`
			R *Target `hare:"fk=a"`
		}{}, []string{"a b"}, false},
		"the key": {struct {
			A int64   `hare:"pk"`
			R *Target `hare:"fk=a"`
		}{}, nil, true},
		"first of the key": {struct {
			A int64   `hare:"pk"`
			B int64   `hare:"pk"`
			R *Target `hare:"fk=a"`
		}{}, nil, false},
		"second of the key": {struct {
			A int64   `hare:"pk"`
			B int64   `hare:"pk"`
			R *Target `hare:"fk=b"`
		}{}, []string{"b"}, false},
		"composite, in another order than the key": {struct {
			A int64    `hare:"pk"`
			B int64    `hare:"pk"`
			R *TwoKeys `hare:"fk=b:a"`
		}{}, nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			table := made(t, test.model)
			var got []string
			for _, i := range table.Indexes {
				got = append(got, columnNames(i.Columns))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("indexes (-want +got):\n%s", diff)
			}
			if table.Relations[0].OneToOne != test.oneToOne {
				t.Errorf("OneToOne is %v", !test.oneToOne)
			}
		})
	}
}

func TestTags(t *testing.T) {
	table := made(t, struct {
		A string         `hare:" size = 5 , default = x , index "`
		B string         `hare:"default='a, b=''c''',unique"`
		C int64          `hare:"check=c IN (1, 2) AND c <> ',',index"`
		D string         `hare:"type=varchar(20)"`
		E string         `json:"e" db:"f"`
		F string         `hare:""`
		G []string       `hare:"array,size=3,type=varchar(3)[]"`
		H sql.NullString `hare:"size=4,choices=a|b"`
		I Level          `hare:"choices=low|high,default=low"`
	}{})
	type shape struct {
		Size     int
		Default  any
		Override string
		Choices  []any
	}
	want := map[string]shape{
		"a": {Size: 5, Default: "x"}, "b": {Default: "a, b='c'"}, "c": {}, "d": {Size: 20, Override: "varchar(20)"}, "e": {}, "f": {},
		"g": {Override: "varchar(3)[]"}, "h": {Size: 4, Choices: []any{"a", "b"}}, "i": {Default: "low", Choices: []any{"low", "high"}},
	}
	got := map[string]shape{}
	for _, c := range table.Columns {
		got[c.Name] = shape{c.Type.Size, c.Default, c.Type.Override, c.Choices}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	g, _ := table.Column("g")
	if diff := cmp.Diff(&backend.ColumnType{Kind: backend.KindText, Size: 3, Override: "varchar(3)"}, g.Type.Elem); diff != "" {
		t.Errorf("elements (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Check{{"ck_model_c", "c IN (1, 2) AND c <> ','"}}, table.Checks); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
}

func TestOfGivesOneTable(t *testing.T) {
	type once struct{ ID int64 }
	var all sync.WaitGroup
	found := make([]*Table, 16)
	for i := range found {
		all.Go(func() {
			typ := reflect.TypeFor[once]()
			if i%2 == 1 {
				typ = reflect.TypeFor[*once]()
			}
			found[i], _ = Of(typ)
		})
	}
	all.Wait()
	for i, table := range found {
		if table == nil || table != found[0] {
			t.Errorf("call %d gave %p, and the first %p", i, table, found[0])
		}
	}
}

func TestTableNameOfThePointer(t *testing.T) {
	table, err := Of(reflect.TypeFor[Paper]())
	if err != nil || table.Name != "travel_documents" {
		t.Errorf("got %v, %v", table, err)
	}
}
