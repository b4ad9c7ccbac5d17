package main

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// screen is where a command writes for people.
type screen struct {
	io.Writer
	terminal bool // a line can be rewritten
	colours  bool
	width    int // of a terminal, in columns; 0 where a line may be of any length
}

// screenOf finds out what a command writes to. Only a terminal gets colours, and not where NO_COLOR is set
// (https://no-color.org).
func screenOf(out io.Writer, getenv func(string) string) screen {
	s := screen{Writer: out}
	f, ok := out.(*os.File)
	if !ok || getenv("TERM") == "dumb" || !term.IsTerminal(int(f.Fd())) {
		return s
	}
	s.terminal, s.colours = true, getenv("NO_COLOR") == ""
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.width = width
	}
	return s
}

// A colour is what a terminal is told before the text (ECMA-48, SGR).
type colour string

const (
	bold   colour = "1"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
)

// paint is the text in a colour, if the screen has any.
func (s screen) paint(c colour, text string) string {
	if !s.colours || c == "" || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// rewrite begins the line anew that the cursor is in.
const rewrite = "\r\x1b[K"

// leastWrapped is the narrowest screen that lines are wrapped for; on a narrower one that would not help.
const leastWrapped = 40

// wrap breaks text between words for lines that begin after the column indent. A word is never broken, so that names can
// be copied.
func (s screen) wrap(indent int, text string) []string {
	room := s.width - indent
	if s.width < leastWrapped {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.SplitSeq(text, " ") {
		switch {
		case line == "":
			line = word
		case columns(line)+1+columns(word) > room:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// cut is the beginning of a text that fits into one line.
func (s screen) cut(text string) string {
	if s.width == 0 || columns(text) < s.width {
		return text
	}
	runes := []rune(text)
	return string(runes[:max(s.width-2, 0)]) + "…"
}

func columns(text string) int { return utf8.RuneCountInString(text) }

// spaces are n of them, or none.
func spaces(n int) string { return strings.Repeat(" ", max(n, 0)) }
