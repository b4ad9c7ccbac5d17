package main

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// Whatever is not a terminal gets plain lines: a buffer, a file, a pipe, and /dev/null, which is a device all the same.
func TestNoTerminal(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for name, s := range map[string]screen{
		"buffer": screenOf(&bytes.Buffer{}, environment("TERM", "xterm")),
		"file":   screenOf(file, environment("TERM", "xterm")),
		"pipe":   screenOf(write, environment("TERM", "xterm")),
		"null":   screenOf(null, environment("TERM", "xterm")),
	} {
		if s.terminal || s.colours || s.width != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, test := range []struct {
		name   string
		width  int
		indent int
		text   string
		want   []string
	}{
		{"no terminal", 0, 4, "one two three", []string{"one two three"}},
		{"too narrow to help", 20, 4, "one two three four five six seven", []string{"one two three four five six seven"}},
		{"fits", 40, 0, "one two", []string{"one two"}},
		{"exactly", 40, 33, "one two", []string{"one two"}},
		{"one too many", 40, 34, "one two", []string{"one", "two"}},
		{"a word is never broken", 40, 30, "a " + someXID + " b", []string{"a", someXID, "b"}},
		{"characters count, not bytes", 40, 33, "äöü äöü", []string{"äöü äöü"}},
		{"nothing", 40, 4, "", []string{""}},
	} {
		if diff := cmp.Diff(test.want, screen{width: test.width}.wrap(test.indent, test.text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestCut(t *testing.T) {
	for _, test := range []struct {
		width      int
		text, want string
	}{{0, "as it is", "as it is"}, {9, "as it is", "as it is"}, {8, "as it is", "as it …"}, {4, "äöüß", "äö…"}, {1, "x", "…"}} {
		if got := (screen{width: test.width}).cut(test.text); got != test.want {
			t.Errorf("width %d: %q, want %q", test.width, got, test.want)
		}
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1499 * time.Millisecond: "1s", 59*time.Second + 600*time.Millisecond: "1m0s", 131 * time.Second: "2m11s",
		3*time.Hour + 12*time.Minute + 59*time.Second: "3h12m", 53 * time.Hour: "2d5h", 400 * 24 * time.Hour: "400d0h", -3 * time.Second: "-3s",
	} {
		if got := short(d); got != want {
			t.Errorf("short(%s) = %s, want %s", d, got, want)
		}
	}
}
