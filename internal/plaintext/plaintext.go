// Package plaintext shows what strangers named: leases and their holders, prepared transactions, roles, databases, aliases,
// what servers say, what was typed as an option. Such a text may hold what moves a cursor, hides or reorders what is
// beside it, or ends a line: control characters, the marks of bidirectional text, characters without width, bytes that are
// no UTF-8. Whatever is not printable by itself is written as an escape, of a kind that suits the place.
package plaintext

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// plain: the text can be shown anywhere as it is.
func plain(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// Line is the text as one line for people. White space of all kinds becomes spaces, as messages have lines.
func Line(text string) string {
	if plain(text) {
		return text
	}
	return escape(text, func(b *strings.Builder, r rune, raw string) {
		switch {
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		default:
			quoted := strconv.Quote(raw)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	})
}

// Lines is the text for people with its lines and tabs, which are the author's own: an SQL statement, a message.
func Lines(text string) string {
	if plain(text) {
		return text
	}
	return escape(text, func(b *strings.Builder, r rune, raw string) {
		if r == '\n' || r == '\t' {
			b.WriteRune(r)
			return
		}
		quoted := strconv.Quote(raw)
		b.WriteString(quoted[1 : len(quoted)-1])
	})
}

// escape copies what is printable and gives the rest to other: a rune, or a byte that is none.
func escape(text string, other func(b *strings.Builder, r rune, raw string)) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if raw := text[:size]; unicode.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			b.WriteString(raw)
		} else {
			other(&b, r, raw)
		}
		text = text[size:]
	}
	return b.String()
}

// Shell is the text as one word of a POSIX shell. A word that cannot be shown as it is gets its bytes from printf, which
// every such shell has. ok is false where no word can be the text: a shell drops the line ends at the end of what a command
// prints, and knows no zero byte.
func Shell(text string) (word string, ok bool) {
	if !plain(text) {
		if strings.HasSuffix(text, "\n") || strings.IndexByte(text, 0) >= 0 {
			return "", false
		}
		var b strings.Builder
		for _, c := range []byte(text) {
			if ordinary(rune(c)) && c != '%' {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		}
		// A format that begins with a dash would be an option.
		return `"$(printf -- '` + b.String() + `')"`, true
	}
	if text != "" && strings.TrimFunc(text, ordinary) == "" {
		return text, true
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'", true
}

func ordinary(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r)
}

// Command is a command line of the words, empty where one cannot be told to a shell.
func Command(words ...string) string {
	line := make([]string, len(words))
	for i, text := range words {
		word, ok := Shell(text)
		if !ok {
			return ""
		}
		line[i] = word
	}
	return strings.Join(line, " ")
}

// Literal is the text as a string constant of PostgreSQL's SQL, to be shown and pasted. It means the same whatever
// standard_conforming_strings.
func Literal(text string) string {
	if plain(text) && !strings.Contains(text, `\`) {
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	text = strings.NewReplacer("'", "''", `\`, `\\`).Replace(text)
	return "E'" + escape(text, func(b *strings.Builder, r rune, raw string) {
		switch {
		case r < utf8.RuneSelf || len(raw) == 1:
			fmt.Fprintf(b, `\x%02x`, raw[0])
		case r > 0xffff:
			fmt.Fprintf(b, `\U%08x`, r)
		default:
			fmt.Fprintf(b, `\u%04x`, r)
		}
	}) + "'"
}

// Name is the text as a delimited name of PostgreSQL's SQL, to be shown and pasted. The form for what is not printable needs
// standard_conforming_strings, which is on by default, and is refused without it.
func Name(text string) string {
	if plain(text) {
		return `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
	}
	text = strings.NewReplacer(`"`, `""`, `\`, `\\`).Replace(text)
	return `U&"` + escape(text, func(b *strings.Builder, r rune, _ string) { fmt.Fprintf(b, `\+%06x`, r) }) + `"`
}

// JSON is a writer of JSON documents that writes what is not printable in their strings as \u escapes. encoding/json does so
// with the control characters of ASCII and no others. Each Write must end between two characters, as an Encoder's do.
func JSON(out io.Writer) io.Writer { return jsonWriter{out} }

type jsonWriter struct{ out io.Writer }

// Write writes the text with escapes.
func (w jsonWriter) Write(text []byte) (int, error) {
	if utf8.Valid(text) && strings.IndexFunc(string(text), func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }) < 0 {
		return w.out.Write(text)
	}
	escaped := escape(string(text), func(b *strings.Builder, r rune, raw string) {
		switch {
		case r == '\n': // between the fields: within a string it is escaped already
			b.WriteByte('\n')
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(b, `\u%04x`, r)
		}
	})
	if _, err := io.WriteString(w.out, escaped); err != nil {
		return 0, err
	}
	return len(text), nil
}
