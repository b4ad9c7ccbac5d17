package hare

import (
	"database/sql"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare/backend"
)

type mood string

func TestStore(t *testing.T) {
	id := backend.UUID{0: 0x12, 15: 0xff}
	noon := time.Date(2024, 5, 6, 12, 0, 0, 1000, time.UTC)
	seven := int64(7)
	for _, tt := range []struct {
		name  string
		value any
		dest  any // a pointer to a zero value
		want  any // what it points to afterwards; nil: an error
	}{
		{"int64", int64(7), new(int64), int64(7)},
		{"int8", int64(-128), new(int8), int8(-128)},
		{"int8 overflows", int64(128), new(int8), nil},
		{"uint16", int64(65535), new(uint16), uint16(65535)},
		{"uint16 overflows", int64(65536), new(uint16), nil},
		{"uint of a negative number", int64(-1), new(uint64), nil},
		{"named string", "glad", new(mood), mood("glad")},
		{"string of a decimal", backend.Decimal("1.50"), new(string), "1.50"},
		{"string of a UUID", id, new(string), "12000000-0000-0000-0000-0000000000ff"},
		{"string of a number", int64(1), new(string), nil},
		{"number of a string", "1", new(int), nil},
		{"bool", true, new(bool), true},
		{"bool of 1", int64(1), new(bool), true},
		{"bool of 2", int64(2), new(bool), nil},
		{"float", 1.5, new(float64), 1.5},
		{"float of an integer", int64(3), new(float32), float32(3)},
		{"float of an integer that it cannot hold", int64(1<<53 + 1), new(float64), nil},
		{"bytes", []byte{1}, new([]byte), []byte{1}},
		{"bytes of NULL", nil, new([]byte), []byte(nil)},
		{"document", backend.JSON(`{}`), new(json.RawMessage), json.RawMessage(`{}`)},
		{"time", noon, new(time.Time), noon},
		{"time of text", "2024-05-06 12:00:00.000001+00:00", new(time.Time), noon},
		{"time of other text", "noon", new(time.Time), nil},
		{"UUID", id, new([16]byte), [16]byte(id)},
		{"UUID of text", "x", new([16]byte), nil},
		{"any", backend.Decimal("1"), new(any), any("1")},
		{"any of an array", backend.Array{Values: []any{int64(1), nil}}, new(any), []any{int64(1), nil}},
		{"any of NULL", nil, new(any), any(nil)},
		{"pointer", int64(7), new(*int64), &seven},
		{"pointer of NULL", nil, new(*int64), (*int64)(nil)},
		{"NULL into a number", nil, new(int64), nil},
		{"NULL into a time", nil, new(time.Time), nil},
		{"scanner", "x", new(sql.NullString), sql.NullString{String: "x", Valid: true}},
		{"scanner of NULL", nil, new(sql.NullInt64), sql.NullInt64{}},
		{"scanner of a document", backend.JSON(`[1]`), new(sql.NullString), sql.NullString{String: "[1]", Valid: true}},
		{"no pointer", int64(1), int64(0), nil},
		{"nil", int64(1), nil, nil},
		{"nil pointer", int64(1), (*int64)(nil), nil},
		{"struct", int64(1), new(struct{}), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := store(tt.dest, tt.value)
			if tt.want == nil && reflect.TypeOf(tt.dest) != reflect.TypeFor[*any]() {
				if err == nil {
					t.Errorf("stored without an error: %v", reflect.ValueOf(tt.dest).Elem())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, reflect.ValueOf(tt.dest).Elem().Interface()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
