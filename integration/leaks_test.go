package integration

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
)

// A program that closes its connections right after its last call leaves no row of a decision, and no goroutine.
func TestCloseRightAfterTheLastCall(t *testing.T) {
	f := newTrio(t, "")
	before := goroutines()
	conns := f.connect(f.urls)
	ctx := hare.WithConnections(t.Context(), conns)
	f2 := *f
	f2.ctx, f2.conns = ctx, conns
	if err := f2.distributed(writeAll); err != nil {
		t.Fatal(err)
	}
	conns.Close()
	if n := f.decisions("true"); n != 0 {
		t.Errorf("%d decisions are left", n)
	}
	deadline := time.Now().Add(10 * time.Second)
	for goroutines() > before && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	if after := goroutines(); after > before {
		t.Errorf("%d of hare's goroutines, %d before:\n%s", after, before, stacks())
	}
}

// goroutines counts those that hare or pgx are at work in.
func goroutines() int {
	n := 0
	for _, stack := range strings.Split(stacks(), "\n\n") {
		if strings.Contains(stack, "hare-go/hare/transactions") || strings.Contains(stack, "hare-go/hare/internal/session") ||
			strings.Contains(stack, "hare-go/hare/backends") || strings.Contains(stack, "pgxpool") {
			n++
		}
	}
	return n
}

func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}
