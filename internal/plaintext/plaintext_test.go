package plaintext

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// hostile are names as strangers may choose them.
var hostile = []string{
	"", " ", "a b", "it's", `back\slash`, "$HOME `id` $(id)", "-n", "--x", "%s%%", "é", "日本", "'", `"`, "a;b|c&d", "~", "*", "\\'",
	"esc\x1b[2J", "bel\a", "nul\x01", "del\x7f", "tab\ta", "two\nlines", "cr\rback", "-\x1b", "%d\x1b", "q'\x1b\\", "c1\u0085\u009b", "\u202aleft\u202e",
	"\u2066\u2069", "\u200e\u200f\u061c", "zero\u200b\u200c\u200d\u2060", "\ufeffbom", "line\u2028para\u2029", "nbsp\u00a0x", "soft\u00adhyphen",
	"tag\U000e0041", "bad\xff\x9b", "\xe2\x80", "\ufffd", "é\x1b日",
}

// unsafe is what must never be shown, apart from allowed characters.
func unsafe(text, allowed string) bool {
	return !utf8.ValidString(text) || strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && !strings.ContainsRune(allowed, r) }) >= 0
}

// TestNothingIsShownRaw: whatever a text holds, what is shown of it is printable.
//
// Fault S11.
func TestNothingIsShownRaw(t *testing.T) {
	for _, text := range hostile {
		word, _ := Shell(text)
		for form, shown := range map[string]string{"line": Line(text), "shell": word, "literal": Literal(text), "name": Name(text)} {
			if unsafe(shown, "") {
				t.Errorf("%s of %q: %q", form, text, shown)
			}
		}
		if unsafe(Lines(text), "\n\t") {
			t.Errorf("lines of %q: %q", text, Lines(text))
		}
		if !unsafe(text, "") && Line(text) != text {
			t.Errorf("%q becomes %q", text, Line(text))
		}
	}
}

// TestShellWords: a shell reads the words as the texts that they stand for.
//
// Fault S11.
func TestShellWords(t *testing.T) {
	for _, text := range hostile {
		command := Command("printf", `%s|`, text)
		if command == "" {
			t.Errorf("%q has no word", text)
			continue
		}
		for _, shell := range []string{"sh", "bash"} {
			out, err := exec.Command(shell, "-c", command).Output()
			if err != nil || string(out) != text+"|" {
				t.Errorf("%s: %q as %s: %q, %v", shell, text, command, out, err)
			}
		}
	}
	for _, text := range []string{"ends\n", "a\x00b"} {
		if command := Command("hare", text); command != "" {
			t.Errorf("%q as %s", text, command)
		}
	}
}

// TestJSONStaysTheSame: the escapes mean what they stand for, inside the document and its strings.
//
// Fault S11.
func TestJSONStaysTheSame(t *testing.T) {
	for _, indent := range []string{"", "  "} {
		var out strings.Builder
		encoder := json.NewEncoder(JSON(&out))
		encoder.SetIndent("", indent)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(hostile); err != nil {
			t.Fatal(err)
		}
		var got []string
		if err := json.Unmarshal([]byte(out.String()), &got); err != nil || len(got) != len(hostile) || unsafe(out.String(), "\n") {
			t.Fatalf("%v\n%q", err, out.String())
		}
		for i, text := range hostile {
			if got[i] != strings.ToValidUTF8(text, "\ufffd") && utf8.ValidString(text) {
				t.Errorf("%q became %q", text, got[i])
			}
		}
	}
}
