package schema

import (
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare/backend"
)

// wrong is what Convert gives for a value that the column does not take.
type wrong struct{}

func TestConvert(t *testing.T) {
	instant := noon.Truncate(time.Microsecond)
	columns := []struct {
		name  string
		field any
		tag   string
		cases []struct{ value, want any }
	}{
		{"int64", int64(0), "", []struct{ value, want any }{
			{1, int64(1)}, {int8(-1), int64(-1)}, {uint16(7), int64(7)}, {uint64(math.MaxInt64), int64(math.MaxInt64)}, {Rank(3), int64(3)},
			{to(5), int64(5)}, {to(to(5)), int64(5)}, {2.0, int64(2)}, {float32(-3), int64(-3)}, {-0x1p63, int64(math.MinInt64)},
			{time.Duration(4), wrong{}}, {sql.NullInt64{Int64: 6, Valid: true}, int64(6)},
			{1.5, wrong{}}, {math.NaN(), wrong{}}, {math.Inf(1), wrong{}}, {0x1p63, wrong{}}, {uint64(math.MaxUint64), wrong{}},
			{"1", wrong{}}, {true, wrong{}}, {[]byte("1"), wrong{}}, {noon, wrong{}}, {nil, wrong{}}, {(*int)(nil), wrong{}},
			{sql.NullInt64{}, wrong{}}, {json.Number("1"), wrong{}}, {struct{}{}, wrong{}}, {big.NewInt(1), wrong{}}, {[]int64{1}, wrong{}},
		}},
		{"int8", int8(0), "", []struct{ value, want any }{{127, int64(127)}, {128, wrong{}}, {-129, wrong{}}, {127.0, int64(127)}, {200.0, wrong{}}}},
		{"int16", int16(0), "", []struct{ value, want any }{{32767, int64(32767)}, {32768, wrong{}}, {32768.0, wrong{}}}},
		{"int32", int32(0), "", []struct{ value, want any }{{math.MinInt32, int64(math.MinInt32)}, {math.MaxInt32 + 1, wrong{}}}},
		{"uint32", uint32(0), "", []struct{ value, want any }{{math.MaxUint32, int64(math.MaxUint32)}, {-1, wrong{}}, {math.MaxUint32 + 1, wrong{}}}},
		{"uint64", uint64(0), "", []struct{ value, want any }{{math.MaxInt64, int64(math.MaxInt64)}, {-1, wrong{}}, {uint64(math.MaxInt64) + 1, wrong{}}}},
		{"nullable", to(int64(0)), "", []struct{ value, want any }{{nil, nil}, {(*int64)(nil), nil}, {(*int32)(nil), nil}, {sql.NullInt64{}, nil}, {1, int64(1)}, {"", wrong{}}}},

		{"float64", 0.0, "", []struct{ value, want any }{
			{1.5, 1.5}, {float32(0.5), 0.5}, {1, 1.0}, {uint8(2), 2.0}, {1 << 53, 0x1p53}, {math.Inf(1), math.Inf(1)}, {to(2.5), 2.5},
			{1<<53 + 1, wrong{}}, {math.MaxInt64, wrong{}}, {uint64(math.MaxUint64), wrong{}}, {"1.5", wrong{}}, {false, wrong{}}, {nil, wrong{}},
		}},
		{"float32", float32(0), "", []struct{ value, want any }{{math.MaxFloat32, float64(math.MaxFloat32)}, {1e39, wrong{}}, {math.Inf(-1), math.Inf(-1)}, {1, 1.0}}},
		{"bool", false, "", []struct{ value, want any }{{true, true}, {to(false), false}, {sql.NullBool{Bool: true, Valid: true}, true}, {1, wrong{}}, {"true", wrong{}}, {nil, wrong{}}}},

		{"string", "", "size=3", []struct{ value, want any }{
			{"abc", "abc"}, {Level("low"), "low"}, {to("x"), "x"}, {"äöü", "äöü"}, {sql.NullString{String: "x", Valid: true}, "x"},
			{Mask{}, wrong{}}, {&Color{}, wrong{}}, {[]byte("x"), "x"}, {json.Number("12"), "12"},
			{"abcd", wrong{}}, {1, wrong{}}, {'x', wrong{}}, {true, wrong{}}, {noon, wrong{}}, {[]string{"x"}, wrong{}}, {nil, wrong{}},
		}},
		{"text by its methods", Color{}, "", []struct{ value, want any }{
			{Color{1, 2, 3}, "#010203"}, {&Color{1, 2, 3}, "#010203"}, {"#ffffff", "#ffffff"}, {(*Color)(nil), wrong{}}, {5, wrong{}},
		}},
		{"choices", Level(""), "choices=a|b", []struct{ value, want any }{{"a", "a"}, {Level("b"), "b"}, {to(Level("a")), "a"}, {"c", wrong{}}, {"", wrong{}}, {nil, wrong{}}}},
		{"nullable choices", to(Rank(1)), "choices=1|2", []struct{ value, want any }{{1, int64(1)}, {nil, nil}, {3, wrong{}}}},

		{"bytes", []byte{}, "", []struct{ value, want any }{
			{[]byte{1}, []byte{1}}, {[]byte(nil), []byte{}}, {Digest{2}, []byte{2}}, {to([]byte{3}), []byte{3}}, {"abc", wrong{}}, {[]int{1}, wrong{}}, {nil, wrong{}},
		}},
		{"time", time.Time{}, "", []struct{ value, want any }{
			{noon, instant}, {&noon, instant}, {noon.In(time.FixedZone("", 7200)), instant}, {sql.NullTime{Time: noon, Valid: true}, instant},
			{endOfTime, wrong{}}, {"2024-05-17T12:00:00Z", wrong{}}, {noon.Unix(), wrong{}}, {nil, wrong{}}, {(*time.Time)(nil), wrong{}},
		}},
		{"duration", time.Duration(0), "", []struct{ value, want any }{
			{time.Second, int64(1000000)}, {to(time.Second), int64(1000000)}, {5, int64(5)}, {int64(math.MaxInt64 / 1000), int64(math.MaxInt64 / 1000)},
			{int64(math.MaxInt64), wrong{}}, {"1s", wrong{}}, {1.5, wrong{}}, {nil, wrong{}},
		}},

		{"UUID", [16]byte{}, "", []struct{ value, want any }{
			{someUUID, backend.UUID(someUUID)}, {Key(someUUID), backend.UUID(someUUID)}, {Serial(someUUID), backend.UUID(someUUID)},
			{to(Serial(someUUID)), backend.UUID(someUUID)}, {Boxed{Serial(someUUID)}, backend.UUID(someUUID)}, {backend.UUID(someUUID), backend.UUID(someUUID)},
			{"00112233-4455-6677-8899-aabbccddeeff", backend.UUID(someUUID)}, {"00112233445566778899AABBCCDDEEFF", backend.UUID(someUUID)},
			{someUUID[:], backend.UUID(someUUID)}, {[]byte("00112233-4455-6677-8899-aabbccddeeff"), backend.UUID(someUUID)},
			{"00112233-4455-6677-8899-aabbccddeef", wrong{}}, {"00112233x4455-6677-8899-aabbccddeeff", wrong{}}, {"0011223344556677-8899-aabbccddeeffxx", wrong{}},
			{"{00112233-4455-6677-8899-aabbccddee}", wrong{}}, {"g0112233445566778899aabbccddeeff", wrong{}}, {"", wrong{}}, {[]byte{1}, wrong{}},
			{1, wrong{}}, {[15]byte{}, wrong{}}, {nil, wrong{}},
		}},
		{"UUID with Scan and Value", Serial{}, "", []struct{ value, want any }{
			{Serial(someUUID), backend.UUID(someUUID)}, {someUUID, backend.UUID(someUUID)}, {"00112233445566778899aabbccddeeff", backend.UUID(someUUID)}, {"x", wrong{}},
		}},
		{"decimal", Money{}, "decimal=6:2", []struct{ value, want any }{
			{cents(150), backend.Decimal("1.50")}, {to(cents(150)), backend.Decimal("1.50")}, {"1.5", backend.Decimal("1.50")}, {"15e-1", backend.Decimal("1.50")},
			{-3, backend.Decimal("-3.00")}, {uint8(4), backend.Decimal("4.00")}, {backend.Decimal("2"), backend.Decimal("2.00")}, {[]byte("7"), backend.Decimal("7.00")},
			{big.NewInt(12), backend.Decimal("12.00")}, {json.Number("0.10"), backend.Decimal("0.10")}, {Odometer{"9"}, backend.Decimal("9.00")},
			{1.5, wrong{}}, {2.0, wrong{}}, {10000, wrong{}}, {uint64(math.MaxUint64), wrong{}}, {"1.005", wrong{}}, {"", wrong{}}, {"Infinity", wrong{}},
			{true, wrong{}}, {nil, wrong{}}, {(*Money)(nil), wrong{}}, {noon, wrong{}},
		}},
		{"decimal of 20 digits", "", "decimal=20:0", []struct{ value, want any }{{uint64(math.MaxUint64), backend.Decimal("18446744073709551615")}}},

		{"document", article{}, "json", []struct{ value, want any }{
			{article{Name: "x"}, backend.JSON(`{"Name":"x"}`)}, {&article{Name: "x"}, backend.JSON(`{"Name":"x"}`)}, {map[string]any{"a": 1}, backend.JSON(`{"a":1}`)},
			{json.RawMessage("[1]"), backend.JSON("[1]")}, {backend.JSON("[1]"), backend.JSON("[1]")}, {"text", backend.JSON(`"text"`)}, {5, backend.JSON("5")},
			{math.NaN(), wrong{}}, {json.RawMessage("["), wrong{}}, {backend.JSON("\"\\u0000\""), wrong{}}, {nil, wrong{}}, {(*article)(nil), wrong{}},
		}},
		{"raw document", json.RawMessage{}, "", []struct{ value, want any }{{json.RawMessage("1"), backend.JSON("1")}, {article{Name: "x"}, backend.JSON(`{"Name":"x"}`)}, {nil, wrong{}}}},
		{"document by its methods", Settings{}, "json", []struct{ value, want any }{
			{Settings{"a": "b"}, backend.JSON(`{"a":"b"}`)}, {nil, nil}, {Settings(nil), nil}, {json.RawMessage("1"), backend.JSON("1")}, {5, wrong{}}, {"{", wrong{}},
		}},
		{"array", []int64{}, "array", []struct{ value, want any }{
			{[]int64{1}, integers(int64(1))}, {[]int{1, 2}, integers(int64(1), int64(2))}, {[]any{1, uint8(2)}, integers(int64(1), int64(2))}, {[2]int{1, 2}, integers(int64(1), int64(2))},
			{to([]int64{1}), integers(int64(1))}, {backend.Array{Values: []any{int64(1)}}, integers(int64(1))}, {[]int64(nil), integers()},
			{[]string{"a"}, wrong{}}, {[]any{nil}, wrong{}}, {1, wrong{}}, {"1", wrong{}}, {nil, wrong{}}, {(*[]int64)(nil), wrong{}},
		}},
		{"Null of text", sql.Null[string]{}, "", []struct{ value, want any }{{"a", "a"}, {sql.Null[string]{V: "a", Valid: true}, "a"}, {sql.NullString{}, nil}, {nil, nil}, {1, wrong{}}}},
	}
	for _, column := range columns {
		t.Run(column.name, func(t *testing.T) {
			_, c := fieldOf(t, reflect.TypeOf(column.field), column.tag)
			for _, test := range column.cases {
				got, err := c.Convert(test.value)
				var refused *ValueError
				switch {
				case test.want == wrong{}:
					if !errors.As(err, &refused) {
						t.Errorf("%T %v: got %v, %v; want a ValueError", test.value, test.value, got, err)
					}
				case err != nil:
					t.Errorf("%T %v: %v", test.value, test.value, err)
				default:
					if diff := cmp.Diff(test.want, got); diff != "" {
						t.Errorf("%T %v (-want +got):\n%s", test.value, test.value, diff)
					}
				}
			}
		})
	}
}

func integers(values ...any) backend.Array {
	return backend.Array{Elem: backend.ColumnType{Kind: backend.KindInt64}, Values: append([]any{}, values...)}
}

func TestValueErrorsDoNotQuoteTheValue(t *testing.T) {
	_, c := fieldOf(t, reflect.TypeFor[string](), "size=3")
	_, err := c.Convert("secret")
	want := `Model.F (column "f"): the text is longer than 3 characters`
	if err == nil || err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestCanonical(t *testing.T) {
	channel := make(chan int)
	tests := []struct{ value, want any }{
		{nil, nil}, {1, int64(1)}, {int8(-1), int64(-1)}, {uint32(5), int64(5)}, {uint64(math.MaxUint64), uint64(math.MaxUint64)},
		{Rank(2), int64(2)}, {float32(0.5), 0.5}, {1.5, 1.5}, {true, true}, {"a", "a"}, {Level("low"), "low"}, {[]byte{1}, []byte{1}}, {Digest{1}, []byte{1}},
		{noon, noon.Truncate(time.Microsecond)}, {&noon, noon.Truncate(time.Microsecond)}, {noon.In(time.FixedZone("", 3600)), noon.Truncate(time.Microsecond)},
		{time.Second, int64(1000000)}, {to(time.Second), int64(1000000)}, {(*int)(nil), nil}, {(*time.Time)(nil), nil}, {(*Money)(nil), nil},
		{someUUID, backend.UUID(someUUID)}, {Key(someUUID), backend.UUID(someUUID)}, {Serial(someUUID), "00112233-4455-6677-8899-aabbccddeeff"},
		{cents(150), "1.50"}, {to(cents(150)), "1.50"}, {big.NewInt(7), "7"}, {&Color{}, "#000000"}, {&Temperature{1.5}, 1.5},
		{json.RawMessage("1"), backend.JSON("1")}, {backend.Decimal("1"), backend.Decimal("1")}, {sql.NullString{}, nil}, {sql.NullInt16{Int16: 3, Valid: true}, int64(3)},
		{backend.List{Values: []any{int64(1)}}, backend.List{Values: []any{int64(1)}}}, {[]string{"a"}, []string{"a"}}, {Failing{true}, Failing{true}},
		{article{Name: "x"}, article{Name: "x"}}, {map[string]int{"a": 1}, map[string]int{"a": 1}},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, Canonical(test.value), cmp.AllowUnexported(Failing{})); diff != "" {
			t.Errorf("%T %v (-want +got):\n%s", test.value, test.value, diff)
		}
	}
	if got := Canonical(channel); got != any(channel) {
		t.Errorf("a channel became %v", got)
	}
}
