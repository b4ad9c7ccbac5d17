package schema

import (
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare/backend"
)

// fieldOf is the table of a struct with one field F.
func fieldOf(tb testing.TB, typ reflect.Type, tag string) (*Table, *Column) {
	tb.Helper()
	model := reflect.StructOf([]reflect.StructField{
		{Name: "Before", Type: reflect.TypeFor[byte]()},
		{Name: "F", Type: typ, Tag: reflect.StructTag(`hare:"` + tag + `"`)},
	})
	t, err := build(model, "Model")
	if err != nil {
		tb.Fatal(err)
	}
	return t, t.Columns[1]
}

// holding is a struct whose field F has the value.
func holding(t *Table, value any) reflect.Value {
	row := reflect.New(t.Type).Elem()
	if value != nil {
		row.Field(1).Set(reflect.ValueOf(value))
	}
	return row
}

func base(row reflect.Value) backend.Pointer { return row.Addr().UnsafePointer() }

var sameValue = cmp.Options{
	cmp.Comparer(func(a, b Color) bool { return a == b }),
	cmp.Comparer(func(a, b Odometer) bool { return a == b }),
	cmp.Comparer(func(a, b Boxed) bool { return a == b }),
	cmp.Comparer(func(a, b Temperature) bool { return a == b }),
	cmp.Comparer(func(a, b Mask) bool { return a == b }),
	cmp.Comparer(func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b big.Int) bool { return a.Cmp(&b) == 0 }),
}

func decimalArray(values ...any) backend.Array {
	return backend.Array{Elem: backend.ColumnType{Kind: backend.KindDecimal, Precision: 5, Scale: 1}, Values: values}
}

type article struct {
	Name string
	Tags []string `json:",omitempty"`
}

// roundTrips are values of fields with the canonical values that stand for them. A field without a type has that of its
// value.
var roundTrips = []struct {
	name  string
	typ   reflect.Type
	tag   string
	value any
	want  any
}{
	{name: "bool", value: true, want: true},
	{name: "bool, zero", value: false, want: false},
	{name: "int", value: int(-5), want: int64(-5)},
	{name: "int8, lowest", value: int8(math.MinInt8), want: int64(math.MinInt8)},
	{name: "int8, highest", value: int8(math.MaxInt8), want: int64(math.MaxInt8)},
	{name: "int16", value: int16(math.MinInt16), want: int64(math.MinInt16)},
	{name: "int32", value: int32(math.MaxInt32), want: int64(math.MaxInt32)},
	{name: "int64, lowest", value: int64(math.MinInt64), want: int64(math.MinInt64)},
	{name: "int64, highest", value: int64(math.MaxInt64), want: int64(math.MaxInt64)},
	{name: "uint", value: uint(7), want: int64(7)},
	{name: "uint8", value: uint8(255), want: int64(255)},
	{name: "uint16", value: uint16(math.MaxUint16), want: int64(math.MaxUint16)},
	{name: "uint32", value: uint32(math.MaxUint32), want: int64(math.MaxUint32)},
	{name: "uint64, the highest that fits", value: uint64(math.MaxInt64), want: int64(math.MaxInt64)},
	{name: "named integer", value: Rank(3), want: int64(3)},
	{name: "integer in a narrower column", tag: "type=smallint", value: int64(-32768), want: int64(-32768)},

	{name: "float64", value: 0.1, want: 0.1},
	{name: "float64, largest", value: math.MaxFloat64, want: math.MaxFloat64},
	{name: "float64, infinite", value: math.Inf(-1), want: math.Inf(-1)},
	{name: "float64, NaN", value: math.NaN(), want: math.NaN()},
	{name: "float32", value: float32(0.1), want: float64(float32(0.1))},
	{name: "float32, smallest", value: float32(math.SmallestNonzeroFloat32), want: float64(math.SmallestNonzeroFloat32)},
	{name: "float32, infinite", value: float32(math.Inf(1)), want: math.Inf(1)},

	{name: "string", value: "Grüße 🐇 'a' \\ \n", want: "Grüße 🐇 'a' \\ \n"},
	{name: "string, empty", value: "", want: ""},
	{name: "string as long as size", tag: "size=4", value: "äöü🐇", want: "äöü🐇"},
	{name: "named string", value: Level("high"), want: "high"},
	{name: "choice", tag: "choices=low|high", value: Level("high"), want: "high"},
	{name: "string of a UUID", tag: "type=uuid", value: "00112233-4455-6677-8899-aabbccddeeff", want: backend.UUID(someUUID)},
	{name: "bytes", value: []byte{0, 255}, want: []byte{0, 255}},
	{name: "bytes, empty", value: []byte{}, want: []byte{}},
	{name: "named bytes", value: Digest{1}, want: []byte{1}},
	{name: "bytes with MarshalText", value: net.IPv4(10, 0, 0, 1), want: "10.0.0.1"},

	{name: "time", value: noon.Truncate(time.Microsecond), want: noon.Truncate(time.Microsecond)},
	{name: "time, zero", value: time.Time{}, want: time.Time{}},
	{name: "time, last", value: endOfTime.Add(-time.Microsecond), want: endOfTime.Add(-time.Microsecond)},
	{name: "time, first", value: firstTime, want: firstTime},
	{name: "duration", value: 90*time.Minute + time.Microsecond, want: int64(5400000001)},
	{name: "duration, longest", value: time.Duration(math.MaxInt64 / 1000 * 1000), want: int64(math.MaxInt64 / 1000)},
	{name: "duration, negative", value: -time.Second, want: int64(-1000000)},
	{name: "duration as bigint", tag: "type=bigint", value: time.Second, want: int64(1000000)},

	{name: "UUID", value: someUUID, want: backend.UUID(someUUID)},
	{name: "UUID, zero", value: [16]byte{}, want: backend.UUID{}},
	{name: "named UUID", value: Key(someUUID), want: backend.UUID(someUUID)},
	{name: "UUID with Scan and Value", value: Serial(someUUID), want: backend.UUID(someUUID)},
	{name: "UUID in a struct", value: Boxed{Serial(someUUID)}, want: backend.UUID(someUUID)},

	{name: "decimal as text", tag: "decimal=10:2", value: "-12.50", want: backend.Decimal("-12.50")},
	{name: "decimal with Scan and Value", tag: "decimal=10:2", value: cents(1999), want: backend.Decimal("19.99")},
	{name: "decimal with MarshalText", tag: "decimal=30:0", value: Odometer{"123456789012345678901234567890"}, want: backend.Decimal("123456789012345678901234567890")},
	{name: "decimal compared as text", tag: "type=text", value: cents(1999), want: "19.99"},
	{name: "big integer", tag: "decimal=30:0", value: *new(big.Int).Lsh(big.NewInt(1), 90), want: backend.Decimal("1237940039285380274899124224")},

	{name: "text by its methods", value: Color{255, 0, 16}, want: "#ff0010"},
	{name: "text by its methods, of another package", value: netip.MustParseAddr("::1"), want: "::1"},
	{name: "float by its methods", value: Temperature{273.15}, want: 273.15},
	{name: "text that Value gives as bytes", value: Mask{5}, want: "m00000101"},
	{name: "document by its methods", tag: "json", value: Settings{"a": "b"}, want: backend.JSON(`{"a":"b"}`)},
	{name: "document by its methods, NULL", tag: "json", typ: reflect.TypeFor[Settings](), value: Settings(nil)},

	{name: "document", tag: "json", value: article{"x", []string{"a"}}, want: backend.JSON(`{"Name":"x","Tags":["a"]}`)},
	{name: "document, a map", tag: "json", value: map[string]int{"a": 1}, want: backend.JSON(`{"a":1}`)},
	{name: "document, a nil map", tag: "json", typ: reflect.TypeFor[map[string]int](), value: map[string]int(nil), want: backend.JSON(`null`)},
	{name: "document, a slice", tag: "json", value: []string{"a"}, want: backend.JSON(`["a"]`)},
	{name: "document, anything", tag: "json", typ: reflect.TypeFor[any](), value: []any{"a", 1.5, nil}, want: backend.JSON(`["a",1.5,null]`)},
	{name: "document, a time", tag: "json", value: noon, want: backend.JSON(`"2024-05-17T12:00:00.123456789Z"`)},
	{name: "document, a duration", tag: "json", value: time.Second, want: backend.JSON(`1000000000`)},
	{name: "document, a UUID", tag: "json", value: [16]byte{1}, want: backend.JSON(`[1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]`)},
	{name: "document, bytes", tag: "json", value: []byte("a"), want: backend.JSON(`"YQ=="`)},
	{name: "document, a float", tag: "json", value: 0.5, want: backend.JSON(`0.5`)},
	{name: "raw document", value: json.RawMessage(`{ "b": 1, "a": [1e2] }`), want: backend.JSON(`{ "b": 1, "a": [1e2] }`)},

	{name: "array", tag: "array", value: []int64{1, -2}, want: backend.Array{Elem: backend.ColumnType{Kind: backend.KindInt64}, Values: []any{int64(1), int64(-2)}}},
	{name: "array, empty", tag: "array", value: []string{}, want: backend.Array{Elem: backend.ColumnType{Kind: backend.KindText}, Values: []any{}}},
	{name: "array with NULLs", tag: "array", value: []*string{to("a"), nil}, want: backend.Array{Elem: backend.ColumnType{Kind: backend.KindText}, Values: []any{"a", nil}}},
	{name: "array of decimals", tag: "array,decimal=5:1", value: []Money{cents(150)}, want: decimalArray(backend.Decimal("1.5"))},
	{name: "array of UUIDs", tag: "array", value: []Key{Key(someUUID)}, want: backend.Array{Elem: backend.ColumnType{Kind: backend.KindUUID}, Values: []any{backend.UUID(someUUID)}}},
	{name: "array of bytes", tag: "array", value: [][]byte{{1}}, want: backend.Array{Elem: backend.ColumnType{Kind: backend.KindBytes}, Values: []any{[]byte{1}}}},
	{name: "array of documents", tag: "array", value: []json.RawMessage{json.RawMessage("1")}, want: backend.Array{Elem: backend.ColumnType{Kind: backend.KindJSON}, Values: []any{backend.JSON("1")}}},
	{name: "pointer to an array", tag: "array", value: to([]bool{true}), want: backend.Array{Elem: backend.ColumnType{Kind: backend.KindBool}, Values: []any{true}}},

	{name: "pointer", value: to(int64(0)), want: int64(0)},
	{name: "pointer to a narrow integer", value: to(uint8(9)), want: int64(9)},
	{name: "pointer to text", value: to(""), want: ""},
	{name: "pointer to a time", value: to(noon.Truncate(time.Microsecond)), want: noon.Truncate(time.Microsecond)},
	{name: "pointer to bytes", value: to([]byte{1}), want: []byte{1}},
	{name: "pointer to a UUID", value: to(Key(someUUID)), want: backend.UUID(someUUID)},
	{name: "pointer to a decimal", tag: "decimal=10:2", value: to(cents(5)), want: backend.Decimal("0.05")},
	{name: "pointer to a document", tag: "json", value: &article{Name: "x"}, want: backend.JSON(`{"Name":"x"}`)},
	{name: "pointer to a named string", value: to(Level("low")), want: "low"},
	{name: "pointer, nil", typ: reflect.TypeFor[*int64](), value: (*int64)(nil)},
	{name: "pointer to a document, nil", tag: "json", typ: reflect.TypeFor[*article](), value: (*article)(nil)},
	{name: "pointer to an array, nil", tag: "array", typ: reflect.TypeFor[*[]string](), value: (*[]string)(nil)},

	{name: "NullString", value: sql.NullString{String: "a", Valid: true}, want: "a"},
	{name: "NullString, NULL", value: sql.NullString{}},
	{name: "NullInt64", value: sql.NullInt64{Int64: -1, Valid: true}, want: int64(-1)},
	{name: "NullInt32", value: sql.NullInt32{Int32: 7, Valid: true}, want: int64(7)},
	{name: "NullInt16", value: sql.NullInt16{Int16: 7, Valid: true}, want: int64(7)},
	{name: "NullByte", value: sql.NullByte{Byte: 7, Valid: true}, want: int64(7)},
	{name: "NullBool", value: sql.NullBool{Bool: true, Valid: true}, want: true},
	{name: "NullFloat64", value: sql.NullFloat64{Float64: 2.5, Valid: true}, want: 2.5},
	{name: "NullTime", value: sql.NullTime{Time: noon.Truncate(time.Microsecond), Valid: true}, want: noon.Truncate(time.Microsecond)},
	{name: "Null of text", value: sql.Null[string]{V: "x", Valid: true}, want: "x"},
	{name: "Null of bytes", value: sql.Null[[]byte]{V: []byte("x"), Valid: true}, want: []byte("x")},
	{name: "Null of a UUID", value: sql.Null[Serial]{V: Serial(someUUID), Valid: true}, want: backend.UUID(someUUID)},
	{name: "Null, NULL", value: sql.Null[int64]{}},
}

var someUUID = [16]byte{0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}

// What is read of a struct comes back into one, and Convert takes the same value for the same thing.
func TestRoundTrip(t *testing.T) {
	for _, test := range roundTrips {
		t.Run(test.name, func(t *testing.T) {
			typ := test.typ
			if typ == nil {
				typ = reflect.TypeOf(test.value)
			}
			table, c := fieldOf(t, typ, test.tag)
			row := holding(table, test.value)

			got, err := c.Read(base(row))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, sameValue); diff != "" {
				t.Errorf("Read (-want +got):\n%s", diff)
			}
			fresh := holding(table, nil)
			if err := c.Dest.Store(base(fresh), got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.value, fresh.Field(1).Interface(), sameValue); diff != "" {
				t.Errorf("the field after Store (-want +got):\n%s", diff)
			}
			if fresh.Field(0).Uint() != 0 {
				t.Error("Store wrote beside the field")
			}
			converted, err := c.Convert(test.value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, converted, sameValue); diff != "" {
				t.Errorf("Convert (-want +got):\n%s", diff)
			}
			if want := fresh.Field(1).IsZero() || emptySlice(fresh.Field(1)); c.IsZero(base(fresh)) != want {
				t.Errorf("IsZero is %v", !want)
			}
			if got == nil && !c.Null {
				t.Error("the column holds NULL, and is NOT NULL")
			}
			checkNull(t, table, c)
		})
	}
}

func emptySlice(v reflect.Value) bool { return v.Kind() == reflect.Slice && v.Len() == 0 }

// checkNull stores NULL: a field that can hold it becomes its zero value, and another one refuses it with a cause and
// its name.
func checkNull(t *testing.T, table *Table, c *Column) {
	t.Helper()
	row := holding(table, nil)
	err := c.Dest.Store(base(row), nil)
	if c.Null {
		if err != nil || !row.Field(1).IsZero() {
			t.Errorf("NULL: %v, and the field is %v", err, row.Field(1))
		}
		return
	}
	var decode *backend.DecodeError
	if !errors.Is(err, backend.ErrNull) || !errors.As(err, &decode) {
		t.Fatalf("NULL: got %v, want ErrNull", err)
	}
	if decode.Model != "Model" || decode.Field != "F" || decode.Column != "f" {
		t.Errorf("the error names %s.%s, %s", decode.Model, decode.Field, decode.Column)
	}
	var value *ValueError
	if _, err := c.Convert(nil); !errors.As(err, &value) {
		t.Errorf("Convert(nil): got %v, want a ValueError", err)
	}
}

// Some values are stored as another one, by intention.
func TestStoredOtherwise(t *testing.T) {
	tests := []struct {
		name  string
		tag   string
		value any
		want  any
	}{
		{"nil bytes are empty", "", []byte(nil), []byte{}},
		{"nil document", "", json.RawMessage(nil), backend.JSON("null")},
		{"nil array is empty", "array", []string(nil), backend.Array{Elem: backend.ColumnType{Kind: backend.KindText}, Values: []any{}}},
		{"nanoseconds are cut", "", noon, noon.Truncate(time.Microsecond)},
		{"nanoseconds before the epoch are cut downwards", "", time.Date(1901, 1, 1, 0, 0, 0, 1999, time.UTC), time.Date(1901, 1, 1, 0, 0, 0, 1000, time.UTC)},
		{"time of another zone", "", noon.Truncate(time.Second).In(time.FixedZone("east", 3600)), noon.Truncate(time.Second)},
		{"nanoseconds of a duration", "", -1999 * time.Nanosecond, int64(-1)},
		{"decimal, zeros added", "decimal=10:2", "7", backend.Decimal("7.00")},
		{"decimal, zeros taken off", "decimal=10:2", "007.5000", backend.Decimal("7.50")},
		{"UUID spelled otherwise", "type=uuid", "00112233445566778899AABBCCDDEEFF", backend.UUID(someUUID)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			table, c := fieldOf(t, reflect.TypeOf(test.value), test.tag)
			got, err := c.Read(base(holding(table, test.value)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Read (-want +got):\n%s", diff)
			}
			if at, ok := got.(time.Time); ok && at.Location() != time.UTC {
				t.Errorf("the time is in %v", at.Location())
			}
			converted, err := c.Convert(test.value)
			if diff := cmp.Diff(test.want, converted); diff != "" || err != nil {
				t.Errorf("Convert: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// What a column must not hold is refused on every way to it.
func TestRefusedValues(t *testing.T) {
	tests := []struct {
		name   string
		tag    string
		value  any
		reason string
	}{
		{"uint64 beyond int64", "", uint64(math.MaxInt64) + 1, "the number does not fit: the column holds a 64-bit integer"},
		{"uint beyond int64", "", uint(math.MaxUint), "the number does not fit: the column holds a 64-bit integer"},
		{"too wide for the column", "type=smallint", int64(32768), "the number does not fit: the column holds a 16-bit integer"},
		{"too low for the column", "type=int4", int64(math.MinInt32) - 1, "the number does not fit: the column holds a 32-bit integer"},
		{"text too long", "size=2", "äöü", "the text is longer than 2 characters"},
		{"text with a NUL", "", "a\x00b", "text must not contain a NUL byte"},
		{"text that is not UTF-8", "", "a\xff", "text must be valid UTF-8: use []byte for anything else"},
		{"none of the choices", "choices=a|b", Level("c"), "the value is none of a, b"},
		{"none of the numbers", "choices=1|2", Rank(3), "the value is none of 1, 2"},
		{"pointer to none of the choices", "choices=a|b", to("c"), "the value is none of a, b"},
		{"decimal with too many places", "decimal=5:2", "1.005", "the column has 2 decimal places, and the number has more: round it first"},
		{"decimal with too many digits", "decimal=5:2", cents(100000), "the column has 3 digits before the point, and the number has more"},
		{"decimal, NaN", "decimal=5:2", "NaN", errDecimal.Error()},
		{"decimal, empty", "decimal=5:2", "", errDecimal.Error()},
		{"UUID as text", "type=uuid", "not a UUID", errUUID.Error()},
		{"time too late", "", endOfTime, "the time is outside the years 4714 BC to 294276, which are all that PostgreSQL holds"},
		{"time too early", "", firstTime.Add(-time.Microsecond), "the time is outside the years 4714 BC to 294276, which are all that PostgreSQL holds"},
		{"document with NaN", "json", math.NaN(), "the value has no JSON form: NaN, an infinity, a cycle or a type that JSON does not know"},
		{"document with an infinity within", "json", map[string]any{"a": []float64{math.Inf(1)}}, "the value has no JSON form: NaN, an infinity, a cycle or a type that JSON does not know"},
		{"document with a function", "json", map[string]any{"a": func() {}}, "the value has no JSON form: NaN, an infinity, a cycle or a type that JSON does not know"},
		{"document with a NUL", "json", map[string]string{"a": "b\x00"}, "a JSON document must not contain a NUL character"},
		{"document with a NUL in a key", "json", map[string]string{"a\x00": "b"}, "a JSON document must not contain a NUL character"},
		{"raw document that is none", "", json.RawMessage("{"), "the bytes are not a JSON document in UTF-8"},
		{"raw document, empty", "", json.RawMessage{}, "the bytes are not a JSON document in UTF-8"},
		{"raw document that is not UTF-8", "", json.RawMessage("\"\xff\""), "the bytes are not a JSON document in UTF-8"},
		{"raw document with half of a pair", "", json.RawMessage(`"\ud83d"`), "a JSON document must not contain half of a surrogate pair"},
		{"array with a bad element", "array,size=1", []string{"a", "bc"}, "the text is longer than 1 characters"},
		{"Value fails", "", Failing{true}, "it is broken"},
		{"NullString too long", "size=1", sql.NullString{String: "ab", Valid: true}, "the text is longer than 1 characters"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			table, c := fieldOf(t, reflect.TypeOf(test.value), test.tag)
			want := &ValueError{Model: "Model", Field: "F", Column: "f", Reason: test.reason}
			_, err := c.Read(base(holding(table, test.value)))
			var refused *ValueError
			if !errors.As(err, &refused) {
				t.Fatalf("Read: got %v, want a ValueError", err)
			}
			if diff := cmp.Diff(want, refused); diff != "" {
				t.Errorf("Read (-want +got):\n%s", diff)
			}
			value, err := c.Convert(test.value)
			if !errors.As(err, &refused) {
				t.Fatalf("Convert: got %v, %v, want a ValueError", value, err)
			}
			if diff := cmp.Diff(want, refused); diff != "" {
				t.Errorf("Convert (-want +got):\n%s", diff)
			}
		})
	}
}

// What does not fit the field is an error when it is read, and never another number.
func TestStoreRefuses(t *testing.T) {
	tests := []struct {
		name  string
		tag   string
		field any
		value any
	}{
		{"int8", "", int8(0), int64(128)},
		{"int16", "", int16(0), int64(-32769)},
		{"int32", "", int32(0), int64(math.MaxInt32) + 1},
		{"uint8", "", uint8(0), int64(256)},
		{"uint16", "", uint16(0), int64(-1)},
		{"uint32", "", uint32(0), int64(math.MaxUint32) + 1},
		{"uint64", "", uint64(0), int64(-1)},
		{"named integer", "", Rank(0), int64(70000)},
		{"float32", "", float32(0), 1e300},
		{"duration", "", time.Duration(0), int64(math.MaxInt64/1000) + 1},
		{"pointer", "", to(uint8(0)), int64(-1)},
		{"array", "array", []int8{}, backend.Array{Values: []any{int64(128)}}},
		{"array with NULL", "array", []int8{}, backend.Array{Values: []any{nil}}},
		{"NullInt16", "", sql.NullInt16{}, int64(70000)},
		{"document of another form", "json", article{}, backend.JSON(`[]`)},
		{"text that UnmarshalText refuses", "", Color{}, "blue"},
		{"text that Scan refuses", "", Serial{}, "no UUID"},
		{"bool of a number", "", false, int64(1)},
		{"integer of text", "", int64(0), "1"},
		{"float of an integer", "", 0.0, int64(1)},
		{"string of bytes", "", "", []byte("a")},
		{"bytes of text", "", []byte{}, "a"},
		{"time of text", "", time.Time{}, "2024-01-01"},
		{"UUID of text", "", [16]byte{}, "00112233-4455-6677-8899-aabbccddeeff"},
		{"decimal of text", "decimal=5:2", "", "1"},
		{"string of a UUID's text", "type=uuid", "", "00112233-4455-6677-8899-aabbccddeeff"},
		{"raw document of bytes", "", json.RawMessage{}, []byte("{}")},
		{"array of a list", "array", []string{}, []any{"a"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			table, c := fieldOf(t, reflect.TypeOf(test.field), test.tag)
			row := holding(table, nil)
			err := c.Dest.Store(base(row), test.value)
			var decode *backend.DecodeError
			if !errors.As(err, &decode) || decode.Column != "f" {
				t.Fatalf("got %v, want a DecodeError", err)
			}
			if !row.Field(1).IsZero() {
				t.Errorf("the field is %v now", row.Field(1))
			}
		})
	}
}

func TestStoreReplacesWhatWasThere(t *testing.T) {
	table, c := fieldOf(t, reflect.TypeFor[map[string]int](), "json")
	row := holding(table, map[string]int{"old": 1})
	if err := c.Dest.Store(base(row), backend.JSON(`{"new":2}`)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"new": 2}, row.Field(1).Interface()); diff != "" {
		t.Errorf("the field (-want +got):\n%s", diff)
	}

	table, c = fieldOf(t, reflect.TypeFor[*int64](), "")
	shared := to(int64(1))
	row = holding(table, shared)
	if err := c.Dest.Store(base(row), int64(2)); err != nil {
		t.Fatal(err)
	}
	if *shared != 1 {
		t.Error("Store wrote through the pointer of another row")
	}

	for name, value := range map[string]any{"[]byte": []byte("abc"), "json.RawMessage": backend.JSON(`"a"`)} {
		typ := reflect.TypeFor[[]byte]()
		if name != "[]byte" {
			typ = reflect.TypeFor[json.RawMessage]()
		}
		table, c = fieldOf(t, typ, "")
		row = holding(table, nil)
		if err := c.Dest.Store(base(row), value); err != nil {
			t.Fatal(err)
		}
		reflect.ValueOf(value).Index(1).SetUint('x') // as a backend that uses its buffer again does
		if strings.ContainsRune(string(row.Field(1).Bytes()), 'x') {
			t.Errorf("%s: the field lies in the backend's buffer", name)
		}
	}
}

func TestSetNow(t *testing.T) {
	zoned := noon.In(time.FixedZone("east", 3600))
	for _, field := range []any{time.Time{}, (*time.Time)(nil)} {
		table, c := fieldOf(t, reflect.TypeOf(field), "auto_now")
		row := holding(table, nil)
		c.SetNow(base(row), zoned)
		got := reflect.Indirect(row.Field(1)).Interface().(time.Time)
		if got != noon.Truncate(time.Microsecond) {
			t.Errorf("%T: the time is %v", field, got)
		}
	}
}

// A single allocation, for the interface that holds the value.
func TestReadAllocatesNoMoreThanItsResult(t *testing.T) {
	for name, value := range map[string]any{"int64": int64(1 << 40), "string": "a text of some length", "float64": 0.1, "UUID": someUUID} {
		table, c := fieldOf(t, reflect.TypeOf(value), "")
		row := holding(table, value)
		at := base(row)
		if n := testing.AllocsPerRun(100, func() { _, _ = c.Read(at) }); n > 1 {
			t.Errorf("%s: Read allocates %v times", name, n)
		}
	}
	table, c := fieldOf(t, reflect.TypeFor[*int64](), "")
	at := base(holding(table, nil))
	if n := testing.AllocsPerRun(100, func() { _, _ = c.Read(at) }); n != 0 {
		t.Errorf("a nil pointer: Read allocates %v times", n)
	}
}
