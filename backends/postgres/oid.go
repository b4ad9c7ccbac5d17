package postgres

// The types that are sent and read in binary form, by their object identifiers, which are part of PostgreSQL's protocol
// (src/include/catalog/pg_type.dat). untyped stands for a column whose values come as text, whatever its type.
const (
	untyped        = 0
	oidBool        = 16
	oidBytea       = 17
	oidName        = 19
	oidInt8        = 20
	oidInt2        = 21
	oidInt4        = 23
	oidText        = 25
	oidOID         = 26
	oidJSON        = 114
	oidFloat4      = 700
	oidFloat8      = 701
	oidBpchar      = 1042
	oidVarchar     = 1043
	oidDate        = 1082
	oidTimestamp   = 1114
	oidTimestampTZ = 1184
	oidNumeric     = 1700
	oidUUID        = 2950
	oidJSONB       = 3802
)

// elementOf gives the element type of the array types that are read in binary form.
var elementOf = map[uint32]uint32{
	199:  oidJSON,
	1000: oidBool,
	1001: oidBytea,
	1003: oidName,
	1005: oidInt2,
	1007: oidInt4,
	1009: oidText,
	1014: oidBpchar,
	1015: oidVarchar,
	1016: oidInt8,
	1021: oidFloat4,
	1022: oidFloat8,
	1028: oidOID,
	1115: oidTimestamp,
	1182: oidDate,
	1185: oidTimestampTZ,
	1231: oidNumeric,
	2951: oidUUID,
	3807: oidJSONB,
}

// Format codes of the protocol.
const (
	textFormat   int16 = 0
	binaryFormat int16 = 1
)

// isText reports whether values of the type are the same bytes in text and in binary form.
func isText(oid uint32) bool {
	switch oid {
	case untyped, oidText, oidVarchar, oidBpchar, oidName:
		return true
	}
	return false
}

// isScalar reports whether decode knows the type's binary form.
func isScalar(oid uint32) bool {
	switch oid {
	case oidBool, oidBytea, oidInt8, oidInt2, oidInt4, oidOID, oidFloat4, oidFloat8, oidJSON, oidJSONB,
		oidDate, oidTimestamp, oidTimestampTZ, oidNumeric, oidUUID:
		return true
	}
	return oid != untyped && isText(oid)
}

// formatOf is the form in which values of the type are asked for.
func formatOf(oid uint32) int16 {
	if isScalar(oid) || elementOf[oid] != 0 {
		return binaryFormat
	}
	return textFormat
}
