package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
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

// ttl is waited for, and long enough for a machine with much else to do.
const ttl = 12 * time.Second

// fleet is what the instances have said, line by line.
type fleet struct {
	*testing.T
	binary, url string

	mu    sync.Mutex
	lines []string
}

// start starts an instance.
func (f *fleet) start(name string) *exec.Cmd {
	f.Helper()
	cmd := exec.Command(f.binary, "-url", f.url, "-ttl", ttl.String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		f.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		f.Fatal(err)
	}
	var read sync.WaitGroup
	read.Go(func() {
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			f.mu.Lock()
			f.lines = append(f.lines, name+": "+scanner.Text())
			f.mu.Unlock()
		}
	})
	f.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		read.Wait()
		_ = cmd.Wait()
		if f.Failed() {
			f.Logf("%s:\n%s", name, errs.String())
		}
	})
	return cmd
}

// said waits for the n-th line that has a part, and returns which instance has said it.
func (f *fleet) said(n int, part string) (name string) {
	f.Helper()
	for patience := time.Now().Add(time.Minute); time.Now().Before(patience); time.Sleep(10 * time.Millisecond) {
		found := 0
		f.mu.Lock()
		for _, line := range f.lines {
			if strings.Contains(line, part) {
				if found++; found == n {
					name, _, _ = strings.Cut(line, ": ")
				}
			}
		}
		f.mu.Unlock()
		if name != "" {
			return name
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Fatalf("nobody said %q for the %d. time:\n%s", part, n, strings.Join(f.lines, "\n"))
	return ""
}

// reserve makes a reservation, and waits until it is given back.
func (f *fleet) reserve(n int) {
	f.Helper()
	if out, err := exec.CommandContext(f.Context(), f.binary, "-url", f.url, "-reserve", "1").CombinedOutput(); err != nil {
		f.Fatalf("%v\n%s", err, out)
	}
	f.said(n, "1 given back")
}

// Of three instances one works. When it is killed, stopped or terminated another takes its place, with a higher term, and one
// that comes back from a stop notices that its term is over.
func TestOneOfTheFleetWorks(t *testing.T) {
	f := &fleet{T: t, binary: filepath.Join(t.TempDir(), "fleet"), url: servers.Database(t)}
	if out, err := exec.Command("go", "build", "-o", f.binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	instances := map[string]*exec.Cmd{}
	for _, name := range []string{"a", "b", "c"} {
		instances[name] = f.start(name)
	}

	killed := f.said(1, "at work")
	f.reserve(1)
	if err := instances[killed].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	stopped := f.said(2, "at work")
	f.reserve(2)
	if err := instances[stopped].Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	terminated := f.said(3, "at work")
	f.reserve(3)
	if err := instances[stopped].Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	f.said(1, ": over: lease ")
	if err := instances[terminated].Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if last := f.said(4, "at work"); last != stopped {
		t.Errorf("%s works in the end, want %s, the only one that is left", last, stopped)
	}
	f.reserve(4)
	if killed == stopped || stopped == terminated {
		t.Errorf("%s, %s and %s worked: want three", killed, stopped, terminated)
	}
	f.wantTerms()
}

// wantTerms makes sure that terms only rise, and that nobody did any work after the next one had begun.
func (f *fleet) wantTerms() {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	var last int64
	for _, line := range f.lines {
		var name string
		var term int64
		if _, err := fmt.Sscanf(line, "%1s: term %d:", &name, &term); err != nil {
			f.Fatalf("%q: %v", line, err)
		}
		over := strings.Contains(line, ": over: ")
		if term < last && !over || term == last && strings.HasSuffix(line, "at work") {
			f.Errorf("%q after term %d", line, last)
		}
		last = max(last, term)
	}
}

// The lease is released when the program is told to end, so that nobody has to wait for the TTL.
func TestReleasedAtTheEnd(t *testing.T) {
	url := servers.Database(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, url, time.Hour, 0) }()
	connections, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"main": url}})
	if err != nil {
		t.Fatal(err)
	}
	defer connections.Close()
	client, err := connections.Client("main")
	if err != nil {
		t.Fatal(err)
	}
	held := func() bool {
		list, err := leases.List(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		return len(list) == 1 && list[0].Held()
	}
	for end := time.Now().Add(time.Minute); !held(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not held")
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if held() {
		t.Error("it is held after the end")
	}
}
