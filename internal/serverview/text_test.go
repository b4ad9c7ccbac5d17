package serverview

import (
	"encoding/hex"
	"testing"
)

// quoted is what quote_literal makes of a text, after the cast to bytea has read its backslashes.
func TestText(t *testing.T) {
	t.Parallel()
	for quoted, want := range map[string]string{
		"'plain'": "plain", "''": "", "'it''s'": "it's", `E'back\slash'`: `back\slash`, "'E'": "E", "''''": "'", "'\xff\x81'": "\xff\x81",
		"": "", "plain": "", "'": "",
	} {
		if got := Text(hex.EncodeToString([]byte(quoted))); got != want {
			t.Errorf("Text of %q = %q, want %q", quoted, got, want)
		}
	}
	if got := Text("no hex"); got != "" {
		t.Errorf("what is no hex is read as %q", got)
	}
}
