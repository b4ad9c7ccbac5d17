package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// Printer is a system outside the lease's database. It takes no order with a token lower than the highest that it has seen:
// the term of that order is over, however late it arrives. What it has seen it must not forget when it is started again; this
// one would.
type Printer struct {
	Out io.Writer

	mu      sync.Mutex
	highest int64
}

// ServeHTTP prints an issue.
func (p *Printer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, err := strconv.ParseInt(r.Header.Get("Fencing-Token"), 10, 64)
	if err != nil {
		http.Error(w, "an order needs a Fencing-Token", http.StatusBadRequest)
		return
	}
	p.mu.Lock() // the comparison and the work belong together
	defer p.mu.Unlock()
	if token < p.highest {
		http.Error(w, fmt.Sprintf("term %d is over: there is a term %d", token, p.highest), http.StatusConflict)
		return
	}
	p.highest = token
	fmt.Fprintf(p.Out, "term %d: issue %s\n", token, strings.TrimPrefix(r.URL.Path, "/issues/"))
}
