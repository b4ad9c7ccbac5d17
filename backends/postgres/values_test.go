package postgres_test

import (
	"database/sql"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare/backend"
)

// TestValues: canonical values go to the server and come back as they are.
func TestValues(t *testing.T) {
	conn := fresh(t)
	run(t, conn, "CREATE TYPE mood AS ENUM ('sad', 'so-so', 'a,b\"c\\{}'); CREATE DOMAIN raw AS bytea; CREATE DOMAIN moment AS timestamptz")
	at := func(text string) time.Time {
		v, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	array := func(kind backend.Kind, values ...any) backend.Array {
		if values == nil {
			values = []any{}
		}
		return backend.Array{Elem: backend.ColumnType{Kind: kind}, Values: values}
	}
	long := strings.Repeat("long äöü ", 50_000)
	cases := []struct {
		typ    string
		values []any
	}{
		{"boolean", []any{true, false}},
		{"smallint", []any{int64(0), int64(math.MinInt16), int64(math.MaxInt16)}},
		{"integer", []any{int64(0), int64(math.MinInt32), int64(math.MaxInt32)}},
		{"bigint", []any{int64(0), int64(math.MinInt64), int64(math.MaxInt64)}},
		{"oid", []any{int64(0), int64(math.MaxUint32)}},
		{"double precision", []any{0.0, -1.5, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1)}},
		{"real", []any{0.0, -1.5, float64(float32(0.1)), math.MaxFloat32, math.Inf(1)}},
		{"text", []any{"", "a", "Grüße 🐇", `it's "quoted" \ $1`, long}},
		{"varchar(10)", []any{"", "äöü"}},
		{"char(3)", []any{"abc"}},
		{"name", []any{"a"}},
		{"bytea", []any{[]byte{}, []byte{0, 1, 255}, []byte(long)}},
		{"raw", []any{[]byte{}, []byte(`\x'`)}},
		{"timestamptz", []any{
			at("2024-07-01T12:30:00.123456Z"), at("1999-12-31T23:59:59.999999Z"), at("1969-12-31T23:59:59.000001Z"),
			at("0001-01-01T00:00:00Z"), time.Date(-4700, 1, 2, 3, 4, 5, 6000, time.UTC), time.Date(294276, 12, 31, 23, 59, 59, 999999000, time.UTC),
		}},
		{"timestamp", []any{at("2024-07-01T12:30:00.123456Z"), at("0001-01-01T00:00:00Z")}},
		{"moment", []any{at("2024-07-01T12:30:00.123456Z"), at("0009-01-01T00:00:00Z"), time.Date(-43, 3, 15, 0, 0, 0, 0, time.UTC),
			time.Date(0, 3, 15, 0, 0, 0, 0, time.UTC), time.Date(20000, 3, 15, 0, 0, 0, 0, time.UTC)}},
		{"date", []any{at("2024-02-29T00:00:00Z"), at("1999-12-31T00:00:00Z"), at("0001-01-01T00:00:00Z"), time.Date(-4712, 1, 1, 0, 0, 0, 0, time.UTC)}},
		{"uuid", []any{backend.UUID{}, backend.UUID{0xff, 1: 2, 15: 0xaa}}},
		{"numeric", decimals("0", "0.00", "1", "-1", "10000", "9999", "100000000", "-0.5", "0.0001", "0.00001", "1.10", "12345678.90", "120000.0000",
			"0.00000000000000000001", "-99999999999999999999.9999999999", "1"+strings.Repeat("0", 500)+"."+strings.Repeat("0", 99)+"1")},
		{"numeric(12,4)", decimals("0.0000", "-12345678.1000")},
		{"jsonb", []any{backend.JSON(`{"a": [1, null, "x"]}`), backend.JSON("null")}},
		{"json", []any{backend.JSON(`{"a" :1}`)}},
		{"mood", []any{"so-so", "a,b\"c\\{}"}},
		{"inet", []any{"192.168.0.1/24"}},
		{"interval", []any{"1 mon -02:00:00"}},
		{"int4range", []any{"[1,5)"}},
		{"bigint[]", []any{array(backend.KindInt64), array(backend.KindInt64, int64(1), nil, int64(-1))}},
		{"smallint[]", []any{array(backend.KindInt16, int64(7))}},
		{"text[]", []any{array(backend.KindText, "", "a,b", nil, "NULL", `"\{}`)}},
		{"boolean[]", []any{array(backend.KindBool, true, nil)}},
		{"double precision[]", []any{array(backend.KindFloat, 1.5)}},
		{"bytea[]", []any{array(backend.KindBytes, []byte{0, 1}, []byte{})}},
		{"timestamptz[]", []any{array(backend.KindTime, at("2024-07-01T12:30:00.123456Z"))}},
		{"uuid[]", []any{array(backend.KindUUID, backend.UUID{1})}},
		{"numeric[]", []any{array(backend.KindDecimal, backend.Decimal("1.50"), nil)}},
		{"jsonb[]", []any{array(backend.KindJSON, backend.JSON(`{"a": "b\"c"}`))}},
		{"bigint[][]", []any{backend.Array{
			Elem: backend.ColumnType{Kind: backend.KindArray, Elem: &backend.ColumnType{Kind: backend.KindInt64}},
			Values: []any{
				array(backend.KindInt64, int64(1), int64(2)),
				array(backend.KindInt64, int64(3), nil),
			},
		}}},
	}
	for _, c := range cases {
		t.Run(c.typ, func(t *testing.T) {
			for _, want := range append(c.values, nil) {
				if got := value(t, conn, "SELECT $1::"+c.typ, want); !cmp.Equal(want, got) {
					t.Errorf("want %.200v, got %.200v", want, got)
				}
			}
			// The server's own text of each value is the same as that of the literal that hare would write.
			list := backend.List{Values: c.values}
			if strings.HasSuffix(c.typ, "[]") {
				return
			}
			n := value(t, conn, "SELECT count(*) FROM unnest($1::"+strings.Split(c.typ, "(")[0]+"[])", list)
			same(t, "the elements of a list", any(int64(len(c.values))), n)
		})
	}
}

func decimals(texts ...string) []any {
	values := make([]any, len(texts))
	for i, text := range texts {
		values[i] = backend.Decimal(text)
	}
	return values
}

// TestArgumentsAsText: a value for a parameter of another type is sent as text, and the server reads it.
func TestArgumentsAsText(t *testing.T) {
	conn := fresh(t)
	cases := []struct {
		sql  string
		arg  any
		want any
	}{
		{"SELECT $1::text", int64(7), "7"},
		{"SELECT $1::text", true, "true"},
		{"SELECT $1::text", 1e21, "1000000000000000000000"},
		{"SELECT $1::text", []byte("raw"), "raw"},
		{"SELECT $1::text", backend.UUID{0xab}, "ab000000-0000-0000-0000-000000000000"},
		{"SELECT $1::text", backend.Decimal("1.50"), "1.50"},
		{"SELECT $1::text", backend.JSON("{}"), "{}"},
		{"SELECT $1::text", backend.Array{Values: []any{int64(1), "a b", nil}}, `{"1","a b",NULL}`},
		{"SELECT $1::text", time.Date(2024, 7, 1, 1, 2, 3, 4000, time.UTC), "2024-07-01 01:02:03.000004Z"},
		{"SELECT $1::bigint", "12", int64(12)},
		{"SELECT $1::bigint", 12.0, int64(12)},
		{"SELECT $1::numeric", int64(12), backend.Decimal("12")},
		{"SELECT $1::numeric", math.MaxFloat32, backend.Decimal("340282346638528860000000000000000000000")},
		{"SELECT $1::double precision", int64(3), 3.0},
		{"SELECT $1::double precision", "Infinity", math.Inf(1)},
		{"SELECT $1::jsonb", `{"a": 1}`, backend.JSON(`{"a": 1}`)},
		{"SELECT $1::jsonb", []byte(`[]`), backend.JSON(`[]`)},
		{"SELECT $1::uuid", "AB000000-0000-0000-0000-000000000000", backend.UUID{0xab}},
		{"SELECT $1::timestamptz", "2024-07-01 03:02:03+02", time.Date(2024, 7, 1, 1, 2, 3, 0, time.UTC)},
		{"SELECT $1::date", time.Date(1999, 1, 1, 23, 59, 59, 0, time.FixedZone("", -3600)), time.Date(1999, 1, 2, 0, 0, 0, 0, time.UTC)},
		{"SELECT $1::bytea", `\x00ff`, []byte{0, 255}},
		// These are not canonical: pgx encodes them.
		{"SELECT $1::bigint", int32(5), int64(5)},
		{"SELECT $1::text[]", []string{"a", "b"}, backend.Array{Elem: backend.ColumnType{Kind: backend.KindText}, Values: []any{"a", "b"}}},
		{"SELECT $1::text", sql.NullString{String: "a", Valid: true}, "a"},
		{"SELECT $1::text", sql.NullString{}, nil},
		{"SELECT $1::interval", 90 * time.Second, "00:01:30"},
	}
	for _, c := range cases {
		same(t, c.sql, c.want, value(t, conn, c.sql, c.arg))
	}
}

// TestValuesThatFitNothing: what no canonical value can hold is an error that names the column.
func TestValuesThatFitNothing(t *testing.T) {
	conn := fresh(t)
	for _, literal := range []string{"'NaN'::numeric", "'Infinity'::numeric", "'-Infinity'::numeric", "'infinity'::timestamptz",
		"'-infinity'::timestamp", "'infinity'::date", "ARRAY['NaN'::numeric]"} {
		_, err := table(t.Context(), conn, backend.Call{SQL: "SELECT 1, " + literal + " AS odd"})
		var decode *backend.DecodeError
		if !errors.As(err, &decode) || decode.Column != "odd" {
			t.Errorf("%s: want a DecodeError of the column, got %v", literal, err)
		}
	}
	_, err := conn.Exec(t.Context(), backend.Call{SQL: "SELECT $1::timestamptz", Args: []any{time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC)}})
	same(t, "a year beyond the range was not sent", true, backend.NotDone(err))
}

// TestLongLists: a list is one argument however long it is, with and without NULL.
func TestLongLists(t *testing.T) {
	conn := fresh(t)
	numbers, texts, amounts := make([]any, 10_000), make([]any, 10_000), make([]any, 10_000)
	for i := range numbers {
		numbers[i], texts[i], amounts[i] = int64(i), strings.Repeat("x", i%10), backend.Decimal("0.50")
	}
	numbers[5], texts[5] = nil, nil
	got, err := table(t.Context(), conn, backend.Call{
		SQL:  "SELECT count(*), count(n), sum(n)::bigint, count(s), sum(length(s))::bigint, sum(a) FROM unnest($1::bigint[], $2::text[], $3::numeric[]) AS r (n, s, a)",
		Args: []any{backend.List{Values: numbers}, backend.List{Values: texts}, backend.List{Values: amounts}},
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the sums", [][]any{{int64(10_000), int64(9999), int64(49_995_000 - 5), int64(9999), int64(45_000 - 5), backend.Decimal("5000.00")}}, got)
}
