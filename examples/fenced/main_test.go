package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/leases"
)

func TestMain(m *testing.M) { servers.Main(m) }

// gate is a network before the printer, in which an order can be held up.
type gate struct {
	printer *Printer

	mu     sync.Mutex
	orders int
	held   *heldOrder // of whoever sends the next order, if the test asks for it
}

// heldOrder is an order that has been sent and has not arrived.
type heldOrder struct {
	sent   chan int64 // gets its token
	arrive chan struct{}
	answer chan int // gets the printer's status
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.orders++
	held := g.held
	g.held = nil
	g.mu.Unlock()
	if held != nil {
		token, _ := strconv.ParseInt(r.Header.Get("Fencing-Token"), 10, 64) // 0 is no token
		held.sent <- token
		<-held.arrive
	}
	recorder := httptest.NewRecorder()
	g.printer.ServeHTTP(recorder, r)
	if held != nil {
		held.answer <- recorder.Code
	}
	w.WriteHeader(recorder.Code)
}

// hold holds the next order up.
func (g *gate) hold() *heldOrder {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = &heldOrder{sent: make(chan int64, 1), arrive: make(chan struct{}), answer: make(chan int, 1)}
	return g.held
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.orders
}

// await gets what comes in time.
func await[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(time.Minute):
		t.Fatalf("never: %s", what)
		panic("unreachable")
	}
}

// An order of an instance that was stopped arrives when the next one has printed already: the printer refuses it. An
// instance is killed: another goes on. In the database and on paper the terms only rise.
func TestNothingOfAnEarlierTerm(t *testing.T) {
	url := servers.Database(t)
	binary := filepath.Join(t.TempDir(), "fenced")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	var paper bytes.Buffer
	g := &gate{printer: &Printer{Out: &paper}}
	server := httptest.NewServer(g)
	defer server.Close()
	instances := map[int]*exec.Cmd{}
	for range 3 {
		cmd := exec.Command(binary, "-url", url, "-printer", server.URL, "-ttl", "12s", "-every", "50ms")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		instances[cmd.Process.Pid] = cmd
		defer func() {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()
		}()
	}
	atWork := func(token int64) *exec.Cmd { return instances[holder(t, url, token)] }

	late := g.hold()
	first := await(t, "an order", late.sent)
	stopped := atWork(first)
	if err := stopped.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	next := g.hold()
	second := await(t, "an order of the next term", next.sent)
	if second <= first {
		t.Fatalf("an order of term %d after one of term %d", second, first)
	}
	close(next.arrive)
	if status := await(t, "the printer's answer", next.answer); status != http.StatusOK {
		t.Errorf("the printer answers term %d with %d", second, status)
	}
	close(late.arrive)
	if status := await(t, "the printer's answer to the late order", late.answer); status != http.StatusConflict {
		t.Errorf("the printer answers the late order of term %d with %d", first, status)
	}
	if err := stopped.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}

	if err := atWork(second).Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for {
		again := g.hold()
		third := await(t, "an order after the kill", again.sent)
		close(again.arrive)
		await(t, "the printer's answer", again.answer)
		if third > second {
			break
		}
	}
	for before, end := g.count(), time.Now().Add(time.Minute); g.count() < before+5; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the last term does not go on")
		}
	}
	for pid := range instances {
		_ = syscall.Kill(pid, syscall.SIGTERM) // one is dead
	}
	wantRising(t, "on paper", printed(t, g, &paper), 2) // the only order of the first term was late
	wantRising(t, "in the database", written(t, url), 3)
}

// holder is the process that holds the term of a token.
func holder(t *testing.T, url string, token int64) (pid int) {
	t.Helper()
	connections, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"main": url}})
	if err != nil {
		t.Fatal(err)
	}
	defer connections.Close()
	client, err := connections.Client("main")
	if err != nil {
		t.Fatal(err)
	}
	list, err := leases.List(t.Context(), client)
	if err != nil || len(list) != 1 || list[0].Token != token {
		t.Fatalf("%+v, %v: want a lease of term %d", list, err, token)
	}
	_, process, _ := strings.Cut(list[0].Holder, ":")
	process, _, _ = strings.Cut(process, "/")
	if pid, err = strconv.Atoi(process); err != nil {
		t.Fatal(err)
	}
	return pid
}

// printed are the terms of the issues on paper, in their order.
func printed(t *testing.T, g *gate, paper *bytes.Buffer) (terms []int64) {
	t.Helper()
	g.printer.mu.Lock()
	defer g.printer.mu.Unlock()
	for line := range strings.Lines(paper.String()) {
		var term, issue int64
		if _, err := fmt.Sscanf(line, "term %d: issue %d", &term, &issue); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		terms = append(terms, term)
	}
	return terms
}

// written are the terms of the issues in the database, in their order.
func written(t *testing.T, url string) []int64 {
	t.Helper()
	connections, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"main": url}})
	if err != nil {
		t.Fatal(err)
	}
	defer connections.Close()
	issues, err := Issues.OrderBy("id").All(hare.WithConnections(t.Context(), connections))
	if err != nil {
		t.Fatal(err)
	}
	terms := make([]int64, len(issues))
	for i, issue := range issues {
		terms[i] = issue.Term
	}
	return terms
}

func wantRising(t *testing.T, where string, terms []int64, least int) {
	t.Helper()
	if !slices.IsSorted(terms) || len(slices.Compact(slices.Clone(terms))) < least {
		t.Errorf("%s: terms %d, want %d at least that only rise", where, terms, least)
	}
}
