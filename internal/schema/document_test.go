package schema

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestDocument(t *testing.T) {
	tests := map[string]bool{
		`{}`: true, `null`: true, ` [1, 2] `: true, `"a\\u0000b"`: true, `"\\\\u0000"`: true, `"\u00001"`: false, `"\\\u0000"`: false, `"a\u0000"`: false,
		`{"\u0000":1}`: false, `"\u0001"`: true, `"\ud83d\udc07"`: true, `"\uD83D\uDC07"`: true, `"\ud83d"`: false, `"\udc07"`: false, `"\udc07\ud83d"`: false,
		`"\ud83dx"`: false, `"\ud83d\n"`: false, `"\ud83d\\udc07"`: false, `"\ud83d\ud83d\udc07"`: false, `"🐇\""`: true, `{`: false, ``: false, `{"a":NaN}`: false,
		"\"\x00\"": false, "\"\xff\"": false, `1e400`: true, `{"a":1}{"b":2}`: false, `'a'`: false,
	}
	for text, want := range tests {
		if _, err := document([]byte(text)); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The escapes are judged as encoding/json reads them: it puts U+FFFD for half of a pair.
func FuzzDocument(f *testing.F) {
	for _, text := range []string{`"\u0000"`, `"\\u0000"`, `"\ud83d\udc07"`, `"\ud83d"`, `{"a\\\u0041":[1,"\t"]}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := document([]byte(text))
		var value any
		if json.Unmarshal([]byte(text), &value) != nil {
			if err == nil && json.Valid([]byte(text)) == false {
				t.Errorf("%q is accepted", text)
			}
			return
		}
		if strings.Contains(text, "\ufffd") || strings.Contains(strings.ToLower(text), `\ufffd`) {
			return // there by itself
		}
		if bad := holds(value, "\x00") || holds(value, "\ufffd"); bad != (err != nil) {
			t.Errorf("%q: %v, and the text has such a character: %v", text, err, bad)
		}
	})
}

// holds looks for a character in every text of a decoded document.
func holds(value any, character string) bool {
	switch v := value.(type) {
	case string:
		return strings.Contains(v, character)
	case []any:
		for _, element := range v {
			if holds(element, character) {
				return true
			}
		}
	case map[string]any:
		for key, element := range v {
			if holds(key, character) || holds(element, character) {
				return true
			}
		}
	}
	return false
}
