package postgres_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare/backend"
)

// every has a field of each layout.
type every struct {
	Int      int
	Int8     int8
	Int16    int16
	Int32    int32
	Int64    int64
	Uint     uint
	Uint8    uint8
	Uint16   uint16
	Uint32   uint32
	Uint64   uint64
	Float32  float32
	Float64  float64
	Bool     bool
	String   string
	Bytes    []byte
	Time     time.Time
	Duration time.Duration
	UUID     [16]byte
	Decimal  decimal
	Document document
	Labels   labels
}

// Fields of other layouts, which Assign sets.
type (
	decimal  struct{ text string }
	document struct{ text string }
	labels   []any
)

// pointers has pointers to the same.
type pointers struct {
	Int      *int
	Int8     *int8
	Int16    *int16
	Int32    *int32
	Int64    *int64
	Uint     *uint
	Uint8    *uint8
	Uint16   *uint16
	Uint32   *uint32
	Uint64   *uint64
	Float32  *float32
	Float64  *float64
	Bool     *bool
	String   *string
	Bytes    *[]byte
	Time     *time.Time
	Duration *time.Duration
	UUID     *[16]byte
	Decimal  *decimal
	Document *document
	Labels   *labels
}

var layouts = map[reflect.Type]struct {
	layout backend.Layout
	kind   backend.Kind
}{
	reflect.TypeFor[int]():           {backend.LayoutInt, backend.KindInt64},
	reflect.TypeFor[int8]():          {backend.LayoutInt8, backend.KindInt16},
	reflect.TypeFor[int16]():         {backend.LayoutInt16, backend.KindInt16},
	reflect.TypeFor[int32]():         {backend.LayoutInt32, backend.KindInt32},
	reflect.TypeFor[int64]():         {backend.LayoutInt64, backend.KindInt64},
	reflect.TypeFor[uint]():          {backend.LayoutUint, backend.KindInt64},
	reflect.TypeFor[uint8]():         {backend.LayoutUint8, backend.KindInt16},
	reflect.TypeFor[uint16]():        {backend.LayoutUint16, backend.KindInt32},
	reflect.TypeFor[uint32]():        {backend.LayoutUint32, backend.KindInt64},
	reflect.TypeFor[uint64]():        {backend.LayoutUint64, backend.KindInt64},
	reflect.TypeFor[float32]():       {backend.LayoutFloat32, backend.KindFloat},
	reflect.TypeFor[float64]():       {backend.LayoutFloat64, backend.KindFloat},
	reflect.TypeFor[bool]():          {backend.LayoutBool, backend.KindBool},
	reflect.TypeFor[string]():        {backend.LayoutString, backend.KindText},
	reflect.TypeFor[[]byte]():        {backend.LayoutBytes, backend.KindBytes},
	reflect.TypeFor[time.Time]():     {backend.LayoutTime, backend.KindTime},
	reflect.TypeFor[time.Duration](): {backend.LayoutDuration, backend.KindDuration},
	reflect.TypeFor[[16]byte]():      {backend.LayoutUUID, backend.KindUUID},
	reflect.TypeFor[decimal]():       {backend.LayoutOther, backend.KindDecimal},
	reflect.TypeFor[document]():      {backend.LayoutOther, backend.KindJSON},
	reflect.TypeFor[labels]():        {backend.LayoutOther, backend.KindArray},
}

// dests are the destinations of the fields of a struct type.
func dests(t reflect.Type) []backend.Dest {
	var all []backend.Dest
	for i := range t.NumField() {
		field := t.Field(i)
		d := backend.Dest{Offset: field.Offset, Type: field.Type, Model: t.Name(), Field: field.Name, Column: field.Name}
		if field.Type.Kind() == reflect.Pointer {
			d.Pointer, d.Type = true, field.Type.Elem()
		}
		form := layouts[d.Type]
		d.Kind, d.Layout = form.kind, form.layout
		d.Assign = func(at backend.Pointer, value any) error { return assign(d, at, value) }
		all = append(all, d)
	}
	return all
}

// assign stores canonical values slowly, as far as these tests need it.
func assign(d backend.Dest, at backend.Pointer, value any) error {
	if value == nil {
		return backend.ErrNull
	}
	switch v := value.(type) {
	case backend.Decimal:
		value = decimal{string(v)}
	case backend.JSON:
		value = document{string(v)}
	case backend.Array:
		value = labels(v.Values)
	}
	into := reflect.New(d.Type).Elem()
	v := reflect.ValueOf(value)
	switch n, isInteger := value.(int64); {
	case isInteger && into.CanInt() && !into.OverflowInt(n):
		into.SetInt(n)
	case isInteger && into.CanUint() && n >= 0 && !into.OverflowUint(uint64(n)):
		into.SetUint(uint64(n))
	case !isInteger && v.CanConvert(d.Type) && !(into.CanFloat() && into.OverflowFloat(v.Float())):
		into.Set(v.Convert(d.Type))
	default:
		return fmt.Errorf("a %T does not fit", value)
	}
	if d.Pointer {
		reflect.NewAt(reflect.PointerTo(d.Type), at).Elem().Set(into.Addr())
	} else {
		reflect.NewAt(d.Type, at).Elem().Set(into)
	}
	return nil
}

const everyRow = `SELECT 1::bigint, 2::smallint, 3::smallint, 4::int, 5::bigint, 6::bigint, 7::smallint, 8::int, 9::bigint, 10::bigint,
	1.5::real, 2.5::float8, true, 'text'::text, '\x0102'::bytea, '2024-07-01 12:30:00.123456+00'::timestamptz, 1500000::bigint,
	'01020304-0000-0000-0000-0000000000ff'::uuid, 1.50::numeric, '{"a": 1}'::jsonb, ARRAY['a', NULL]`

var everyValue = every{
	Int: 1, Int8: 2, Int16: 3, Int32: 4, Int64: 5, Uint: 6, Uint8: 7, Uint16: 8, Uint32: 9, Uint64: 10, Float32: 1.5, Float64: 2.5, Bool: true,
	String: "text", Bytes: []byte{1, 2}, Time: time.Date(2024, 7, 1, 12, 30, 0, 123456000, time.UTC), Duration: 1500 * time.Millisecond,
	UUID: [16]byte{1, 2, 3, 4, 15: 255}, Decimal: decimal{"1.50"}, Document: document{`{"a": 1}`}, Labels: labels{"a", nil},
}

var unexported = cmp.AllowUnexported(decimal{}, document{})

// scan runs a query whose single row goes into a T.
func scan[T any](t *testing.T, conn backend.Conn, into *T, to []backend.Dest, sql string, args ...any) error {
	t.Helper()
	rows, err := conn.Query(t.Context(), backend.Call{SQL: sql, Args: args})
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if !rows.Next() {
		t.Fatal("no row")
	}
	return rows.Scan(unsafe.Pointer(into), to)
}

// TestScan: each layout, plain and behind a pointer, NULL, and the error of a NULL that a field cannot hold.
func TestScan(t *testing.T) {
	conn := fresh(t)
	var plain every
	if err := scan(t, conn, &plain, dests(reflect.TypeFor[every]()), everyRow); err != nil {
		t.Fatal(err)
	}
	same(t, "fields", everyValue, plain, unexported)

	var behind pointers
	to := dests(reflect.TypeFor[pointers]())
	if err := scan(t, conn, &behind, to, everyRow); err != nil {
		t.Fatal(err)
	}
	got, want := reflect.ValueOf(behind), reflect.ValueOf(everyValue)
	for i := range got.NumField() {
		same(t, to[i].Field, want.Field(i).Interface(), got.Field(i).Elem().Interface(), unexported)
	}

	nulls := "SELECT NULL::bigint"
	for range len(to) - 1 {
		nulls += ", NULL"
	}
	if err := scan(t, conn, &behind, to, nulls); err != nil {
		t.Fatal(err)
	}
	same(t, "NULL in pointers", pointers{}, behind, unexported)

	for _, d := range dests(reflect.TypeFor[every]()) {
		err := scan(t, conn, &plain, []backend.Dest{d}, "SELECT NULL::bigint")
		var decode *backend.DecodeError
		if !errors.As(err, &decode) || !errors.Is(err, backend.ErrNull) || decode.Field != d.Field || decode.Model != "every" {
			t.Errorf("%s: want an error that names the field, got %v", d.Field, err)
		}
	}
	if err := scan(t, conn, &plain, to[:2], "SELECT 1"); err == nil {
		t.Error("two destinations for one column are accepted")
	}
}

// TestScanOtherTypes: fields take columns of other types where nothing is lost, and refuse them where something is.
func TestScanOtherTypes(t *testing.T) {
	conn := fresh(t)
	run(t, conn, "CREATE TYPE mood AS ENUM ('sad', 'ok')")
	at := time.Date(2024, 7, 1, 0, 0, 0, 0, time.UTC)
	cases := []struct {
		field, column string
		want          any // nil: refused
	}{
		{"Int64", "7::smallint", int64(7)},
		{"Int64", "7::int", int64(7)},
		{"Int64", "7::numeric(10,2)", int64(7)},
		{"Int64", "7.5::numeric", nil},
		{"Int64", "7::float8", int64(7)},
		{"Int64", "1e300::float8", nil},
		{"Int64", "'7'::text", int64(7)},
		{"Int64", "'x'::text", nil},
		{"Int64", "true", nil},
		{"Int8", "200::bigint", nil},
		{"Uint8", "(-1)::bigint", nil},
		{"Uint64", "(-1)::bigint", nil},
		{"Uint", "(-1)::bigint", nil},
		{"Uint32", "4294967296::bigint", nil},
		{"Float64", "7::bigint", 7.0},
		{"Float64", "7.25::numeric", 7.25},
		{"Float64", "'7.25'::text", 7.25},
		{"Float32", "0.1::float8", float32(0.1)},
		{"Float32", "1e300::float8", nil},
		{"Bool", "'t'::text", true},
		{"Bool", "1", nil},
		{"String", "'ok'::mood", "ok"},
		{"String", "'a'::name", "a"},
		{"String", "7", "7"},
		{"String", "'{\"a\": 1}'::jsonb", `{"a": 1}`},
		{"String", "'192.168.0.1'::inet", "192.168.0.1"},
		{"String", "'01020304-0000-0000-0000-0000000000ff'::uuid", "01020304-0000-0000-0000-0000000000ff"},
		{"String", "ARRAY[1,2]", `{"1","2"}`},
		{"Bytes", "'ab'::text", []byte("ab")},
		{"Bytes", "'{}'::jsonb", []byte("{}")},
		{"Bytes", "1", nil},
		{"Bytes", "''::bytea", []byte{}},
		{"Time", "'2024-07-01'::date", at},
		{"Time", "'2024-07-01'::timestamp", at},
		{"Time", "'infinity'::timestamptz", nil},
		{"Time", "'2024-07-01'::text", nil},
		{"Duration", "'7'::smallint", 7 * time.Microsecond},
		{"UUID", "'01020304-0000-0000-0000-0000000000ff'::text", everyValue.UUID},
		{"UUID", "'\\x010203040000000000000000000000ff'::bytea", everyValue.UUID},
		{"UUID", "'01020304'::text", nil},
		{"Decimal", "7", decimal{"7"}},
		{"Decimal", "0.5::float8", decimal{"0.5"}},
		{"Decimal", "'-0.50'::text", decimal{"-0.50"}},
		{"Decimal", "'NaN'::float8", nil},
		{"Decimal", "'1e3'::text", nil},
		{"Decimal", "'NaN'::numeric", nil},
		{"Document", "'[]'::json", document{"[]"}},
		{"Document", "'[1]'::text", document{"[1]"}},
		{"Document", "1", nil},
		{"Labels", "ARRAY['sad', NULL]::mood[]", labels{"sad", nil}},
		{"Labels", "'[0:1]={a,\"b c\"}'::text", labels{"a", "b c"}},
		{"Labels", "'{a'::text", nil},
		{"Labels", "repeat('{', 1000000) || repeat('}', 1000000)", nil},
		{"Labels", "1", nil},
	}
	byName := map[string]backend.Dest{}
	for _, d := range dests(reflect.TypeFor[every]()) {
		byName[d.Field] = d
	}
	for _, c := range cases {
		var into every
		err := scan(t, conn, &into, []backend.Dest{byName[c.field]}, "SELECT "+c.column)
		if c.want == nil {
			var decode *backend.DecodeError
			if !errors.As(err, &decode) || decode.Field != c.field {
				t.Errorf("%s of %s: want a DecodeError, got %v", c.field, c.column, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s of %s: %v", c.field, c.column, err)
			continue
		}
		same(t, c.field+" of "+c.column, c.want, reflect.ValueOf(into).FieldByName(c.field).Interface(), unexported)
	}
}

// TestScannedTextsAreCopies: what a row gave stays as it was when the next row is read, and bytes can be changed and
// grown without touching the texts beside them.
func TestScannedTextsAreCopies(t *testing.T) {
	conn := fresh(t)
	type row struct {
		A    string
		B    []byte
		C    string
		D    []byte
		Long string
	}
	rows, err := conn.Query(t.Context(), backend.Call{
		SQL:  "SELECT 'a' || i, convert_to('b' || i, 'UTF8'), 'c' || i, convert_to('d' || i, 'UTF8'), repeat('e' || i, 2000) FROM generate_series(1, $1::int) AS i",
		Args: []any{int64(3)},
	})
	if err != nil {
		t.Fatal(err)
	}
	to := dests(reflect.TypeFor[row]())
	var got [3]row
	for i := range got {
		if !rows.Next() {
			t.Fatal(rows.Close())
		}
		if err := rows.Scan(unsafe.Pointer(&got[i]), to); err != nil {
			t.Fatal(err)
		}
		got[i].B = append(got[i].B, "more"...)
		got[i].D[0] = 'D'
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	for i, r := range got {
		n := fmt.Sprint(i + 1)
		want := row{A: "a" + n, B: []byte("b" + n + "more"), C: "c" + n, D: []byte("D" + n), Long: ""}
		for range 2000 {
			want.Long += "e" + n
		}
		same(t, "row "+n, want, r)
	}
}

// TestSpecialFloats: NaN and the infinities come back.
func TestSpecialFloats(t *testing.T) {
	conn := fresh(t)
	var into struct{ F float64 }
	to := dests(reflect.TypeOf(into))
	for _, want := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)} {
		if err := scan(t, conn, &into, to, "SELECT $1::float8", want); err != nil {
			t.Fatal(err)
		}
		same(t, "bits", math.Float64bits(want), math.Float64bits(into.F))
	}
}
