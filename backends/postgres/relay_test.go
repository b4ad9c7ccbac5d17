package postgres_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay passes connections on to an address that can change, as the name of a database does in a move.
type relay struct {
	net.Listener
	mu     sync.Mutex
	target string
	others []string // take turns with target
	open   []net.Conn
}

func newRelay(t testing.TB, target string, others ...string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: listener, target: target, others: others}
	t.Cleanup(func() { listener.Close(); r.lead("") })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			r.pass(near)
		}
	}()
	return r
}

func (r *relay) pass(near net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	far, err := net.Dial("tcp", r.target)
	if err != nil {
		near.Close()
		return
	}
	r.open = append(r.open, near, far)
	if len(r.others) > 0 {
		r.target, r.others = r.others[0], append(r.others[1:], r.target)
	}
	go func() { _, _ = io.Copy(far, near); far.Close() }()
	go func() { _, _ = io.Copy(near, far); near.Close() }()
}

// lead breaks what is open and leads elsewhere from now on.
func (r *relay) lead(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
	for _, end := range r.open {
		end.Close()
	}
	r.open = nil
}
