package postgres

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/hare-go/hare/hare/backend"
)

// coerce makes the canonical value that the model's column has of the one that is natural for the database's column: the
// two differ where a model overrides a type, and where a query computes.
func coerce(kind backend.Kind, value any) (any, error) {
	switch kind {
	case backend.KindBool:
		if v, ok := value.(bool); ok {
			return v, nil
		}
		if v, ok := value.(string); ok {
			if b, err := strconv.ParseBool(v); err == nil {
				return b, nil
			}
		}
	case backend.KindInt16, backend.KindInt32, backend.KindInt64, backend.KindDuration:
		if n, ok := toInteger(value); ok {
			return n, nil
		}
	case backend.KindFloat:
		if f, ok := toFloat(value); ok {
			return f, nil
		}
	case backend.KindText:
		if text, ok := appendText(nil, untyped, value); ok {
			return string(text), nil
		}
	case backend.KindBytes:
		switch v := value.(type) {
		case []byte:
			return v, nil
		case string:
			return []byte(v), nil
		case backend.JSON:
			return []byte(v), nil
		case backend.UUID:
			return v[:], nil
		}
	case backend.KindTime:
		if v, ok := value.(time.Time); ok {
			return v, nil
		}
	case backend.KindUUID:
		if v, ok := toUUID(value); ok {
			return v, nil
		}
	case backend.KindDecimal:
		if v, ok := toDecimal(value); ok {
			return v, nil
		}
	case backend.KindJSON:
		switch v := value.(type) {
		case backend.JSON:
			return v, nil
		case string:
			return backend.JSON(v), nil
		}
	case backend.KindArray:
		switch v := value.(type) {
		case backend.Array:
			return v, nil
		case string:
			return parseArray(v)
		}
	}
	return nil, fmt.Errorf("the database's column holds a %T that cannot become a value of the field", value)
}

func toInteger(value any) (int64, bool) {
	switch v := value.(type) {
	case int64:
		return v, true
	case float64:
		if v == math.Trunc(v) && v >= math.MinInt64 && v < math.MaxInt64 {
			return int64(v), true
		}
	case backend.Decimal:
		whole, fraction := cutPoint(string(v))
		n, err := strconv.ParseInt(whole, 10, 64)
		return n, err == nil && fraction == ""
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil
	}
	return 0, false
}

// cutPoint separates the digits before the point from those after it, without the zeros at the end.
func cutPoint(text string) (whole, fraction string) {
	for i := range len(text) {
		if text[i] == '.' {
			end := len(text)
			for end > i+1 && text[end-1] == '0' {
				end--
			}
			return text[:i], text[i+1 : end]
		}
	}
	return text, ""
}

func toFloat(value any) (float64, bool) {
	switch v := value.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case backend.Decimal:
		f, err := strconv.ParseFloat(string(v), 64)
		return f, err == nil
	case string:
		f, err := strconv.ParseFloat(v, 64)
		return f, err == nil
	}
	return 0, false
}

func toDecimal(value any) (backend.Decimal, bool) {
	switch v := value.(type) {
	case backend.Decimal:
		return v, true
	case int64:
		return backend.Decimal(strconv.FormatInt(v, 10)), true
	case float64:
		return backend.Decimal(strconv.FormatFloat(v, 'f', -1, 64)), !math.IsNaN(v) && !math.IsInf(v, 0)
	case string:
		return backend.Decimal(v), isDecimal(v)
	}
	return "", false
}

// isDecimal reports whether text is plain digits with an optional sign and an optional point between them.
func isDecimal(text string) bool {
	if text != "" && text[0] == '-' {
		text = text[1:]
	}
	digits, points := 0, 0
	for i := range len(text) {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c == '.' && i > 0 && i < len(text)-1:
			points++
		default:
			return false
		}
	}
	return digits > 0 && points <= 1
}

func toUUID(value any) (backend.UUID, bool) {
	switch v := value.(type) {
	case backend.UUID:
		return v, true
	case []byte:
		if len(v) == 16 {
			return backend.UUID(v), true
		}
	case string:
		return parseUUID(v)
	}
	return backend.UUID{}, false
}

// parseUUID reads xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx.
func parseUUID(text string) (id backend.UUID, ok bool) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return id, false
	}
	digits := text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	n, err := hex.Decode(id[:], []byte(digits))
	return id, err == nil && n == len(id)
}

// appendUUID appends xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx.
func appendUUID(buf []byte, id backend.UUID) []byte {
	for i := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			buf = append(buf, '-')
		}
		buf = hex.AppendEncode(buf, id[i:i+1])
	}
	return buf
}
