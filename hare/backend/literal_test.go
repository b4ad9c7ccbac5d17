package backend

import "testing"

func TestLiteral(t *testing.T) {
	for text, want := range map[string]string{
		"plain":    "'plain'",
		"it's":     "'it''s'",
		`back\`:    `E'back\\'`,
		`\'; drop`: `E'\\''; drop'`,
		"":         "''",
	} {
		if got := Literal(text); got != want {
			t.Errorf("Literal(%q) = %s, want %s", text, got, want)
		}
	}
}
