package postgres

import (
	"testing"

	"github.com/hare-go/hare/hare/backend"
)

// FuzzDecode: whatever a server sends, decoding it is an error or a value, and never a panic.
func FuzzDecode(f *testing.F) {
	f.Add(uint32(oidNumeric), []byte{0, 2, 0, 0, 0, 0, 0, 2, 0, 1, 0x13, 0x88})
	f.Add(uint32(oidNumeric), []byte{0, 0, 0xff, 0xff, 0xc0, 0, 0, 0})
	f.Add(uint32(1016), []byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff})
	f.Add(uint32(1016), []byte{0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 20, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1})
	f.Add(uint32(untyped), []byte(`{a,"b\"c",{NULL}}`))
	for _, oid := range []uint32{oidBool, oidInt8, oidFloat4, oidBytea, oidTimestampTZ, oidDate, oidUUID, oidJSONB} {
		f.Add(oid, []byte{1, 2, 3, 4})
	}
	f.Fuzz(func(t *testing.T, oid uint32, src []byte) {
		value, err := decode(oid, src)
		if err != nil {
			return
		}
		for kind := backend.KindBool; kind <= backend.KindArray; kind++ {
			if converted, err := coerce(kind, value); err == nil && converted == nil {
				t.Errorf("a %T became nil for kind %d", value, kind)
			}
		}
	})
}

// FuzzArrayText: an array that hare writes as text is read back as it was.
func FuzzArrayText(f *testing.F) {
	f.Add("", `a"b\c`, "NULL")
	f.Add("{", "},", " ")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		text, ok := appendArray(nil, []any{a, nil, backend.Array{Values: []any{b, c}}})
		if !ok {
			t.Fatal("texts could not be written")
		}
		array, err := parseArray(string(text))
		if err != nil {
			t.Fatal(err)
		}
		inner, nested := array.Values[2].(backend.Array)
		if len(array.Values) != 3 || array.Values[0] != a || array.Values[1] != nil || !nested ||
			len(inner.Values) != 2 || inner.Values[0] != b || inner.Values[1] != c {
			t.Errorf("%q was read as %v", text, array)
		}
	})
}
