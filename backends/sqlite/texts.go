package sqlite

import (
	"encoding/hex"
	"time"

	"github.com/hare-go/hare/hare/backend"
)

// The texts that instants and UUIDs are stored as.

// timeLayout has a fixed width, so that the order of the texts is the order of the instants.
const (
	timeLayout = "2006-01-02 15:04:05.000000+00:00"
	timeWidth  = len(timeLayout)

	uuidWidth   = 36
	longestText = max(timeWidth, uuidWidth)
)

// appendTime writes an instant. Years of another width than four digits would break the order.
func appendTime(b []byte, t time.Time) ([]byte, error) {
	t = backend.Microseconds(t)
	if year := t.Year(); year < 1 || year > 9999 {
		return b, refused(backend.ClassOther, "22008", "SQLite stores instants of the years 1 to 9999")
	}
	return t.AppendFormat(b, timeLayout), nil
}

// otherLayouts are the forms of an instant that SQLite's own functions and other programs write. A fraction of a second
// of any length may follow the seconds.
var otherLayouts = []string{
	"2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z07:00", "2006-01-02 15:04:05", "2006-01-02T15:04:05",
	"2006-01-02 15:04Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02",
}

// parseTime reads an instant; a text without an offset is in UTC.
func parseTime(text []byte) (time.Time, bool) {
	if t, ok := parseFixed(text); ok {
		return t, true
	}
	for _, layout := range otherLayouts {
		if t, err := time.Parse(layout, string(text)); err == nil {
			return backend.Microseconds(t), true
		}
	}
	return time.Time{}, false
}

// parseFixed reads the form that hare writes, at a tenth of what time.Parse costs.
func parseFixed(b []byte) (time.Time, bool) {
	if len(b) != timeWidth || string(b[26:]) != "+00:00" ||
		b[4] != '-' || b[7] != '-' || b[10] != ' ' || b[13] != ':' || b[16] != ':' || b[19] != '.' {
		return time.Time{}, false
	}
	year, ok1 := digits(b[0:4])
	month, ok2 := digits(b[5:7])
	day, ok3 := digits(b[8:10])
	hour, ok4 := digits(b[11:13])
	minute, ok5 := digits(b[14:16])
	second, ok6 := digits(b[17:19])
	micro, ok7 := digits(b[20:26])
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && ok7) || month < 1 || month > 12 || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, micro*1000, time.UTC)
	return t, t.Day() == day
}

// digits reads a number of digits only.
func digits(b []byte) (n int, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// appendUUID writes a UUID in its usual form.
func appendUUID(b []byte, id backend.UUID) []byte {
	for i, part := range [][]byte{id[0:4], id[4:6], id[6:8], id[8:10], id[10:16]} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, part)
	}
	return b
}

// parseUUID reads a UUID in its usual form.
func parseUUID(text []byte) (id backend.UUID, ok bool) {
	if len(text) != uuidWidth || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return id, false
	}
	at := 0
	for _, part := range [][]byte{text[0:8], text[9:13], text[14:18], text[19:23], text[24:36]} {
		n, err := hex.Decode(id[at:], part)
		if err != nil {
			return id, false
		}
		at += n
	}
	return id, true
}
