package sqlite

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare/backend"
)

var (
	uuid1 = backend.UUID{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10}
	when  = time.Date(2026, 11, 29, 16, 30, 1, 123456000, time.UTC)
)

// columns has a column type for each kind that SQLite stores.
var columns = map[backend.Kind]backend.ColumnType{
	backend.KindBool:     {Kind: backend.KindBool},
	backend.KindInt16:    {Kind: backend.KindInt16},
	backend.KindInt32:    {Kind: backend.KindInt32},
	backend.KindInt64:    {Kind: backend.KindInt64},
	backend.KindFloat:    {Kind: backend.KindFloat},
	backend.KindText:     {Kind: backend.KindText},
	backend.KindBytes:    {Kind: backend.KindBytes},
	backend.KindTime:     {Kind: backend.KindTime},
	backend.KindDuration: {Kind: backend.KindDuration},
	backend.KindUUID:     {Kind: backend.KindUUID},
	backend.KindDecimal:  {Kind: backend.KindDecimal, Precision: 40, Scale: 10},
	backend.KindJSON:     {Kind: backend.KindJSON},
}

// samples are canonical values of each kind, the edges among them, no two of them equal.
var samples = map[backend.Kind][]any{
	backend.KindBool:  {false, true},
	backend.KindInt16: {int64(math.MinInt16), int64(-1), int64(0), int64(math.MaxInt16)},
	backend.KindInt32: {int64(math.MinInt32), int64(0), int64(math.MaxInt32)},
	backend.KindInt64: {int64(math.MinInt64), int64(-1), int64(0), int64(1 << 53), int64(1<<53 + 1), int64(math.MaxInt64)},
	backend.KindFloat: {math.Inf(-1), -math.MaxFloat64, -1.5, 0.0, math.SmallestNonzeroFloat64, 0.1, 1.0, 1e15, math.MaxFloat64, math.Inf(1)},
	backend.KindText: {"", " ", "a", "A", "abc", "'quoted'", `"double"`, "100%", "a_b", `back\slash`, "$1 ?", "Grüße 世界 🐇", "12", "12.0", "1e3",
		"line\nbreak", strings.Repeat("long", 100_000)},
	backend.KindBytes: {[]byte{}, []byte{0}, []byte{0, 1, 255}, []byte("text"), []byte(strings.Repeat("\xff\x00", 5_000))},
	backend.KindTime: {time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC),
		when, when.Add(time.Microsecond), time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)},
	backend.KindDuration: {int64(math.MinInt64 / 1000), int64(-1), int64(0), int64(90_000_000), int64(math.MaxInt64 / 1000)},
	backend.KindUUID:     {backend.UUID{}, uuid1},
	backend.KindDecimal: {backend.Decimal("-123456789012345678901234567890.0000000001"), backend.Decimal("-0.0000000001"), backend.Decimal("0.0000000000"),
		backend.Decimal("9.5000000000"), backend.Decimal("10.0000000000"), backend.Decimal("123456789012345678901234567890.0000000001")},
	backend.KindJSON: {backend.JSON(`null`), backend.JSON(`{"a": [1, 2.50, "ü", null]}`), backend.JSON(`12345678901234567890123`)},
}

func typeName(t testing.TB, column backend.ColumnType) string {
	t.Helper()
	name, err := dialect{}.TypeName(column)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// TestValuesRoundTrip: what is stored comes back by the column's declared type, and equal to itself only.
func TestValuesRoundTrip(t *testing.T) {
	for kind, values := range samples {
		t.Run(kindNames[kind]+fmt.Sprint(kind), func(t *testing.T) {
			c := acquire(t, openFile(t, ""))
			exec(t, c, "CREATE TABLE t (id INTEGER PRIMARY KEY, v "+typeName(t, columns[kind])+")")
			var want [][]any
			for i, v := range values {
				exec(t, c, "INSERT INTO t VALUES ($1, $2)", int64(i), v)
				want = append(want, []any{int64(i), v})
			}
			exec(t, c, "INSERT INTO t VALUES ($1, $2)", int64(len(values)), nil)
			want = append(want, []any{int64(len(values)), nil})
			equal(t, "rows", want, table(t, c, "SELECT id, v FROM t ORDER BY id"))
			for i, v := range values {
				equal(t, fmt.Sprintf("= value %d", i), [][]any{{int64(i)}}, table(t, c, "SELECT id FROM t WHERE v = $1", v))
				one := backend.List{Elem: columns[kind], Values: []any{v}}
				in := "SELECT id FROM t WHERE " + dialect{}.In("v", columns[kind], "$1")
				equal(t, fmt.Sprintf("IN value %d", i), [][]any{{int64(i)}}, table(t, c, in, one))
			}
			if kind != backend.KindJSON { // documents have no order
				sorted := table(t, c, "SELECT id FROM t WHERE v IS NOT NULL ORDER BY v, id")
				for i, row := range sorted {
					if kind != backend.KindText && row[0] != int64(i) {
						t.Errorf("ORDER BY puts value %v at %d", row[0], i)
					}
				}
			}
		})
	}
}

// TestLists: a list of any length and kind finds what = finds, by an index too.
func TestLists(t *testing.T) {
	for kind, values := range samples {
		t.Run(kindNames[kind]+fmt.Sprint(kind), func(t *testing.T) {
			c := acquire(t, openFile(t, ""))
			exec(t, c, "CREATE TABLE t (v "+typeName(t, columns[kind])+" UNIQUE)")
			for _, v := range values {
				exec(t, c, "INSERT INTO t VALUES ($1)", v)
			}
			exec(t, c, "INSERT INTO t VALUES (NULL)")
			find := func(elements ...any) int64 {
				list := backend.List{Elem: columns[kind], Values: elements}
				return value(t, c, "SELECT count(*) FROM t WHERE "+dialect{}.In("v", columns[kind], "$1"), list).(int64)
			}
			equal(t, "all", int64(len(values)), find(values...))
			equal(t, "none", int64(0), find())
			equal(t, "NULL", int64(0), find(nil))
			equal(t, "all and NULL", int64(len(values)), find(append([]any{nil}, values...)...))
			equal(t, "twice", int64(1), find(values[0], values[0]))
			_, err := c.Exec(t.Context(), backend.Call{SQL: "INSERT INTO t VALUES ($1)", Args: []any{values[0]}})
			failed(t, err, backend.ClassIntegrity, "23505")
		})
	}
}

func TestLongList(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE t (n BIGINT, s TEXT, d DECIMAL_TEXT(10,2) COLLATE HARE_DECIMAL)")
	exec(t, c, "WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 1000) INSERT INTO t SELECT i, 'n' || i, i || '.0' FROM s")
	n, s, d := make([]any, 100_000), make([]any, 100_000), make([]any, 100_000)
	for i := range n {
		n[i], s[i], d[i] = int64(i*2), fmt.Sprint("n", i*2), backend.Decimal(fmt.Sprint(i*2, ".00"))
	}
	for column, list := range map[string][]any{"n": n, "s": s, "d": d} {
		equal(t, column, int64(500), value(t, c, "SELECT count(*) FROM t WHERE "+dialect{}.In(column, backend.ColumnType{}, "$1"), backend.List{Values: list}))
	}
}

// TestListUsesTheIndex: each element is looked up, and the table is not read through.
func TestListUsesTheIndex(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE t (id INTEGER PRIMARY KEY, d DECIMAL_TEXT(10,2) COLLATE HARE_DECIMAL UNIQUE)")
	for _, column := range []string{"id", "d"} {
		plan := table(t, c, "EXPLAIN QUERY PLAN SELECT * FROM t WHERE "+dialect{}.In(column, backend.ColumnType{}, "$1"), backend.List{})
		if step := fmt.Sprint(plan[0][3]); !strings.HasPrefix(step, "SEARCH t USING") {
			t.Errorf("%s: the plan is %v", column, plan)
		}
	}
}

// fields has a field of every layout, as it is and by pointer.
type fields struct {
	Bool     bool
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
	String   string
	Bytes    []byte
	Time     time.Time
	Duration time.Duration
	UUID     [16]byte
	PBool    *bool
	PInt     *int
	PInt64   *int64
	PUint8   *uint8
	PFloat64 *float64
	PString  *string
	PBytes   *[]byte
	PTime    *time.Time
	PDur     *time.Duration
	PUUID    *[16]byte
}

var layouts = map[reflect.Type]struct {
	layout backend.Layout
	kind   backend.Kind
}{
	reflect.TypeFor[bool]():          {backend.LayoutBool, backend.KindBool},
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
	reflect.TypeFor[string]():        {backend.LayoutString, backend.KindText},
	reflect.TypeFor[[]byte]():        {backend.LayoutBytes, backend.KindBytes},
	reflect.TypeFor[time.Time]():     {backend.LayoutTime, backend.KindTime},
	reflect.TypeFor[time.Duration](): {backend.LayoutDuration, backend.KindDuration},
	reflect.TypeFor[[16]byte]():      {backend.LayoutUUID, backend.KindUUID},
}

// destsOf makes the destinations of fields. stored collects what goes the general way.
func destsOf(stored *[]any) []backend.Dest {
	var dests []backend.Dest
	for _, f := range reflect.VisibleFields(reflect.TypeFor[fields]()) {
		goType, pointer := f.Type, f.Type.Kind() == reflect.Pointer
		if pointer {
			goType = goType.Elem()
		}
		dests = append(dests, backend.Dest{
			Offset: f.Offset, Kind: layouts[goType].kind, Layout: layouts[goType].layout, Pointer: pointer, Type: goType,
			Model: "Fields", Field: f.Name, Column: strings.ToLower(f.Name),
			Assign: func(field backend.Pointer, value any) error {
				*stored = append(*stored, value)
				switch {
				case value == nil && !pointer:
					return backend.ErrNull
				case value == nil:
					*(*unsafe.Pointer)(field) = nil
				case f.Type == reflect.TypeFor[float32]():
					*(*float32)(field) = float32(value.(float64))
				}
				return nil
			},
		})
	}
	return dests
}

func selectFields(t *testing.T, c backend.Conn, args ...any) backend.Rows {
	t.Helper()
	var list []string
	for i := range args {
		list = append(list, fmt.Sprint("$", i+1))
	}
	rows, err := c.Query(t.Context(), backend.Call{SQL: "SELECT " + strings.Join(list, ", "), Args: args})
	if err != nil {
		t.Fatal(err)
	}
	if !rows.Next() {
		t.Fatal(rows.Err())
	}
	return rows
}

func ptr[T any](v T) *T { return &v }

func TestScan(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	rows := selectFields(t, c, true, int64(-1), int64(-128), int64(-32768), int64(math.MinInt32), int64(math.MinInt64), int64(1), int64(255), int64(65535),
		int64(math.MaxUint32), int64(math.MaxInt64), 1.5, -0.1, "ü", []byte{0, 1}, when, int64(-90_000_000), uuid1,
		false, int64(7), int64(8), int64(9), 2.5, "", []byte{}, when, int64(1), uuid1)
	defer rows.Close()
	var stored []any
	var got fields
	if err := rows.Scan(unsafe.Pointer(&got), destsOf(&stored)); err != nil {
		t.Fatal(err)
	}
	want := fields{
		Bool: true, Int: -1, Int8: -128, Int16: -32768, Int32: math.MinInt32, Int64: math.MinInt64, Uint: 1, Uint8: 255, Uint16: 65535,
		Uint32: math.MaxUint32, Uint64: math.MaxInt64, Float32: 1.5, Float64: -0.1, String: "ü", Bytes: []byte{0, 1}, Time: when,
		Duration: -90 * time.Second, UUID: uuid1,
		PBool: ptr(false), PInt: ptr(7), PInt64: ptr(int64(8)), PUint8: ptr(uint8(9)), PFloat64: ptr(2.5), PString: ptr(""), PBytes: ptr([]byte{}),
		PTime: ptr(when), PDur: ptr(time.Microsecond), PUUID: ptr([16]byte(uuid1)),
	}
	equal(t, "the struct", want, got)
	equal(t, "what went the general way", []any{1.5}, stored)
}

func TestScanNull(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	var stored []any
	for i, dest := range destsOf(&stored) {
		rows := selectFields(t, c, nil)
		got := fields{PBool: ptr(true), PInt: ptr(1), PInt64: ptr(int64(1)), PUint8: ptr(uint8(1)), PFloat64: ptr(1.0), PString: ptr("x"),
			PBytes: ptr([]byte{1}), PTime: ptr(when), PDur: ptr(time.Second), PUUID: ptr([16]byte(uuid1))}
		err := rows.Scan(unsafe.Pointer(&got), []backend.Dest{dest})
		var wrong *backend.DecodeError
		switch {
		case dest.Pointer && err != nil:
			t.Error(err)
		case dest.Pointer && !reflect.ValueOf(got).Field(i).IsNil():
			t.Errorf("%s is not nil after a NULL", dest.Field)
		case !dest.Pointer && (!errors.As(err, &wrong) || !errors.Is(err, backend.ErrNull) || wrong.Field != dest.Field || wrong.Column != dest.Column || wrong.Model != "Fields"):
			t.Errorf("%s: the error is %v, want a DecodeError of ErrNull", dest.Field, err)
		}
		_ = rows.Close()
	}
}

// TestScanRefuses: what does not fit leaves an error that names the field, and nothing is cut off.
func TestScanRefuses(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	var stored []any
	dests := map[string]backend.Dest{}
	for _, d := range destsOf(&stored) {
		dests[d.Field] = d
	}
	for _, tt := range []struct {
		field string
		value any
	}{
		{"Int8", int64(128)}, {"Int8", int64(-129)}, {"Int16", int64(32768)}, {"Int32", int64(math.MaxInt32 + 1)},
		{"Uint8", int64(256)}, {"Uint8", int64(-1)}, {"Uint16", int64(65536)}, {"Uint32", int64(math.MaxUint32 + 1)},
		{"Uint", int64(-1)}, {"Uint64", int64(-1)}, {"PUint8", int64(-1)},
		{"Duration", int64(math.MaxInt64)}, {"Duration", int64(math.MinInt64)},
		{"Int64", "7"}, {"Int64", 1.5}, {"Bool", "true"}, {"Bool", 1.0}, {"Float64", "1.5"}, {"String", int64(1)}, {"String", []byte("x")},
		{"Bytes", int64(1)}, {"Time", int64(0)}, {"Time", "yesterday"}, {"Time", "2026-02-30 00:00:00.000000+00:00"},
		{"Time", "2026-13-01 00:00:00.000000+00:00"}, {"Time", "2026-01-01 24:00:00.000000+00:00"},
		{"UUID", "01234567-89ab-cdef-fedc-ba987654321"}, {"UUID", "01234567-89ab-cdef-fedc-ba987654321g"}, {"UUID", []byte("0123456789abcdef")},
	} {
		rows := selectFields(t, c, tt.value)
		var got fields
		err := rows.Scan(unsafe.Pointer(&got), []backend.Dest{dests[tt.field]})
		var wrong *backend.DecodeError
		if !errors.As(err, &wrong) || wrong.Field != tt.field {
			t.Errorf("%v into %s: the error is %v, want a DecodeError of the field", tt.value, tt.field, err)
		}
		_ = rows.Close()
	}
	rows := selectFields(t, c, int64(1), int64(2))
	defer rows.Close()
	if err := rows.Scan(unsafe.Pointer(&fields{}), []backend.Dest{dests["Int64"]}); err == nil {
		t.Error("two columns went into one destination")
	}
}

// TestScanForeign: instants that other programs have written are read as well.
func TestScanForeign(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE t (at TIMESTAMP)")
	for text, want := range map[string]time.Time{
		"2026-11-29 16:30:01":              when.Truncate(time.Second),
		"2026-11-29T16:30:01Z":             when.Truncate(time.Second),
		"2026-11-29T18:30:01.123456+02:00": when,
		"2026-11-29 16:30:01.123456789":    when,
		"2026-11-29 16:30":                 when.Truncate(time.Minute),
		"2026-11-29":                       time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC),
		"2026-11-29 16:30:01.123456+00:00": when,
	} {
		exec(t, c, "DELETE FROM t")
		exec(t, c, "INSERT INTO t VALUES ($1)", text)
		equal(t, text, any(want), value(t, c, "SELECT at FROM t"))
		rows, err := c.Query(t.Context(), backend.Call{SQL: "SELECT at FROM t"})
		if err != nil {
			t.Fatal(err)
		}
		rows.Next()
		var got []any
		dest := backend.Dest{Kind: backend.KindTime, Layout: backend.LayoutTime, Assign: func(_ backend.Pointer, v any) error { got = append(got, v); return nil }}
		var at time.Time
		if err := rows.Scan(unsafe.Pointer(&at), []backend.Dest{dest}); err != nil {
			t.Error(err)
		}
		if !at.Equal(want) && !cmp.Equal(got, []any{want}) {
			t.Errorf("%s is %v and %v, want %v", text, at, got, want)
		}
		_ = rows.Close()
	}
	exec(t, c, "UPDATE t SET at = CURRENT_TIMESTAMP")
	if at, ok := value(t, c, "SELECT at FROM t").(time.Time); !ok || time.Since(at).Abs() > time.Hour {
		t.Errorf("CURRENT_TIMESTAMP is read as %v", at)
	}
}

// TestUndeclared: where no column's type is known, values come as SQLite holds them.
func TestUndeclared(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE t (flag BOOLEAN, at TIMESTAMP, id CHAR(36), amount DECIMAL_TEXT(5,2), doc JSON_TEXT, r REAL)")
	exec(t, c, "INSERT INTO t VALUES ('maybe', 'never', 'short', 'much', x'01', 'x')")
	equal(t, "values of other kinds than declared", [][]any{{"maybe", "never", "short", "much", []byte{1}, "x"}}, table(t, c, "SELECT * FROM t"))
	equal(t, "expressions", [][]any{{int64(2), 1.5, "ab", []byte{1}, nil, int64(1)}}, table(t, c, "SELECT 1 + 1, 3 / 2.0, 'a' || 'b', x'01', NULL, true"))
}

func TestArguments(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	equal(t, "other Go types", [][]any{{int64(-1), int64(2), int64(3), int64(4), int64(5), int64(6), int64(7), int64(8), int64(9), int64(1_000_000), 1.5, nil}},
		table(t, c, "SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12", -1, int8(2), int16(3), int32(4), uint(5), uint8(6), uint16(7), uint32(8), uint64(9), time.Second, float32(1.5), []byte(nil)))
	equal(t, "by number, and again", [][]any{{"b", "a", "b"}}, table(t, c, "SELECT $2, $1, $2", "a", "b"))
	for _, tt := range []struct {
		name, sql, state string
		args             []any
	}{
		{"too few", "SELECT $1, $2", "08P01", []any{int64(1)}},
		{"too many", "SELECT $1", "08P01", []any{int64(1), int64(2)}},
		{"none", "SELECT $1", "08P01", nil},
		{"question mark", "SELECT ?", "42P02", []any{int64(1)}},
		{"numbered question mark", "SELECT ?1", "42P02", []any{int64(1)}},
		{"name", "SELECT :one", "42P02", []any{int64(1)}},
		{"no number", "SELECT $one", "42P02", []any{int64(1)}},
		{"number zero", "SELECT $0", "42P02", []any{int64(1)}},
		{"NaN", "SELECT $1", "22003", []any{math.NaN()}},
		{"beyond int64", "SELECT $1", "22003", []any{uint64(math.MaxInt64 + 1)}},
		{"NUL", "SELECT $1", "22021", []any{"a\x00b"}},
		{"not UTF-8", "SELECT $1", "22021", []any{"a\xffb"}},
		{"year 0", "SELECT $1", "22008", []any{time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)}},
		{"year 10000", "SELECT $1", "22008", []any{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}},
		{"array", "SELECT $1", "42804", []any{backend.Array{}}},
		{"struct", "SELECT $1", "42804", []any{struct{}{}}},
		{"NaN in a list", "SELECT 1 IN (SELECT value FROM array($1))", "22003", []any{backend.List{Values: []any{1.0, math.NaN()}}}},
	} {
		_, err := c.Query(t.Context(), backend.Call{SQL: tt.sql, Args: tt.args})
		t.Run(tt.name, func(t *testing.T) { failed(t, err, backend.ClassOther, tt.state) })
	}
	equal(t, "the connection afterwards", any(int64(1)), value(t, c, "SELECT 1"))
}

func TestTypeNames(t *testing.T) {
	got := map[backend.Kind]string{}
	for kind, column := range columns {
		got[kind] = typeName(t, column)
	}
	want := map[backend.Kind]string{
		backend.KindBool: "BOOLEAN", backend.KindInt16: "SMALLINT", backend.KindInt32: "INTEGER", backend.KindInt64: "BIGINT", backend.KindFloat: "REAL",
		backend.KindText: "TEXT", backend.KindBytes: "BLOB", backend.KindTime: "TIMESTAMP", backend.KindDuration: "BIGINT", backend.KindUUID: "CHAR(36)",
		backend.KindDecimal: "DECIMAL_TEXT(40,10) COLLATE HARE_DECIMAL", backend.KindJSON: "JSON_TEXT",
	}
	equal(t, "type names", want, got)
	equal(t, "sized text", "VARCHAR(20)", typeName(t, backend.ColumnType{Kind: backend.KindText, Size: 20}))
	equal(t, "override", "ANYTHING", typeName(t, backend.ColumnType{Kind: backend.KindText, Override: "ANYTHING"}))
	if _, err := (dialect{alias: "main"}).TypeName(backend.ColumnType{Kind: backend.KindArray}); err == nil ||
		!strings.Contains(err.Error(), `connection "main" (sqlite) does not have SupportsArrays`) {
		t.Errorf("an array column gives %v, want an UnsupportedError", err)
	}
}
