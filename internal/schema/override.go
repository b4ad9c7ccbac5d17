package schema

import (
	"slices"
	"strings"

	"github.com/hare-go/hare/hare/backend"
)

// kindsOf are the kinds that well-known names of types in DDL hold.
var kindsOf = map[string]backend.Kind{
	"smallint": backend.KindInt16, "int2": backend.KindInt16, "integer": backend.KindInt32, "int": backend.KindInt32,
	"int4": backend.KindInt32, "bigint": backend.KindInt64, "int8": backend.KindInt64,
	"real": backend.KindFloat, "float4": backend.KindFloat, "float8": backend.KindFloat, "double precision": backend.KindFloat,
	"numeric": backend.KindDecimal, "decimal": backend.KindDecimal,
	"boolean": backend.KindBool, "bool": backend.KindBool,
	"text": backend.KindText, "varchar": backend.KindText, "character varying": backend.KindText, "char": backend.KindText,
	"character": backend.KindText, "citext": backend.KindText,
	"bytea": backend.KindBytes, "blob": backend.KindBytes,
	"timestamptz": backend.KindTime, "timestamp": backend.KindTime, "date": backend.KindTime,
	"timestamp with time zone": backend.KindTime, "timestamp without time zone": backend.KindTime,
	"uuid": backend.KindUUID, "json": backend.KindJSON, "jsonb": backend.KindJSON,
}

// everyKind is for types whose own methods decide what they take.
var everyKind = []backend.Kind{
	backend.KindBool, backend.KindInt16, backend.KindInt32, backend.KindInt64, backend.KindFloat, backend.KindText,
	backend.KindBytes, backend.KindTime, backend.KindUUID, backend.KindDecimal, backend.KindJSON,
}

// overrideKind is the kind that type=... asks for, invalid where there is none or the name is not known.
func overrideKind(override string) backend.Kind {
	name, arguments, _ := strings.Cut(strings.ToLower(override), "(")
	if _, after, ok := strings.Cut(arguments, ")"); ok {
		name += after // timestamp(3) with time zone
	}
	return kindsOf[strings.Join(strings.Fields(name), " ")]
}

// kind is the kind of a column whose field holds natural: that of type=... where it is one of allowed. A type of the
// database that hare does not know, such as a domain, is taken to hold what the field does.
func (o *options) kind(natural backend.Kind, allowed ...backend.Kind) (backend.Kind, error) {
	kind := overrideKind(o.override)
	switch {
	case kind == backend.KindInvalid:
		return natural, nil
	case kind == backend.KindDecimal && !o.has("decimal"):
		return 0, faultf(o.word("type"), "say how many digits with decimal=digits:places; type is not needed then")
	case !slices.Contains(allowed, kind):
		return 0, faultf(o.word("type"), "the type holds %s, and the field %s", kindNames[kind], kindNames[natural])
	}
	return kind, nil
}
