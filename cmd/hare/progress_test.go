package main

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-go/hare/transactions"
)

// tape is a writer that may be read meanwhile.
type tape struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *tape) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(text)
}

func (w *tape) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// until waits for a text on the tape.
func (w *tape) until(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(w.String(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("there is no %q in %q", text, w.String())
		}
	}
}

func TestShortRunShowsNoProgress(t *testing.T) {
	var to tape
	for _, terminal := range []bool{true, false} {
		p := progressOn(screen{Writer: &to, terminal: terminal})
		p.step(1, 2, transactions.Entry{})
		p.stop()
	}
	if to.String() != "" {
		t.Errorf("it shows %q", to.String())
	}
}

func TestProgressOnATerminal(t *testing.T) {
	var to tape
	p := startProgress(screen{Writer: &to, terminal: true, width: 60}, time.Millisecond, time.Millisecond)
	to.until(t, rewrite+"looking into the databases for 0s")
	p.step(3, 200, transactions.Entry{})
	to.until(t, rewrite+"3 of 200 prepared transactions done after 0s")
	p.stop()
	got := to.String()
	if strings.Contains(got, "\n") || !strings.HasSuffix(got, rewrite) {
		t.Errorf("it leaves a trace: %q", got)
	}
	for _, line := range strings.Split(got, rewrite) {
		if columns(line) >= 60 {
			t.Errorf("%q does not fit", line)
		}
	}
}

func TestProgressElsewhere(t *testing.T) {
	var to tape
	p := startProgress(screen{Writer: &to}, time.Millisecond, time.Millisecond)
	to.until(t, "looking into the databases for 0s; one that does not answer is given up after 30s\n")
	p.step(3, 200, transactions.Entry{})
	to.until(t, "3 of 200 prepared transactions done after 0s\n")
	p.stop()
	if strings.ContainsAny(to.String(), "\r\x1b") {
		t.Errorf("it commands a terminal that is not there: %q", to.String())
	}
}
