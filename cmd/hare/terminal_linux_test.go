package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// openTerminal opens a terminal of some width: both ends of it (Linux manual, pts).
func openTerminal(t *testing.T, width uint16) (near, far *os.File) {
	t.Helper()
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	fd := int(near.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	far, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: width}); err != nil {
		t.Fatal(err)
	}
	return near, far
}

func TestTerminal(t *testing.T) {
	_, far := openTerminal(t, 77)
	type seen struct {
		Terminal, Colours bool
		Width             int
	}
	for _, test := range []struct {
		name string
		env  func(string) string
		want seen
	}{
		{"plain", environment("TERM", "xterm"), seen{true, true, 77}},
		{"NO_COLOR", environment("TERM", "xterm", "NO_COLOR", "1"), seen{true, false, 77}},
		{"NO_COLOR, but empty", environment("TERM", "xterm", "NO_COLOR", ""), seen{true, true, 77}},
		{"one that can nothing", environment("TERM", "dumb"), seen{}},
	} {
		s := screenOf(far, test.env)
		if diff := cmp.Diff(test.want, seen{s.terminal, s.colours, s.width}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// What the command writes to a terminal is in colours, and nothing there is wider than it.
func TestCommandOnATerminal(t *testing.T) {
	near, far := openTerminal(t, 66)
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	c := &recovering{opts: library(nil), out: far, errs: far}
	if status := c.once(round{report: stuck()}); status != exitFound {
		t.Errorf("status %d", status)
	}
	if err := far.Close(); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for chunk := make([]byte, 4096); ; {
		n, err := near.Read(chunk)
		got = append(got, chunk[:n]...)
		if err != nil { // the other end is closed
			break
		}
	}
	text := string(got)
	for _, part := range []string{"\x1b[1m" + someXID + "\x1b[0m\r\n", "\x1b[33m~\x1b[0m  inventory  1h15m", "sure that it never will\r\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("there is no %q in\n%q", part, text)
		}
	}
}
