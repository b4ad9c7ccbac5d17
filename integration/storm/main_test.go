package storm

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/hare-go/hare/backends/postgres"
	"github.com/hare-go/hare/integration/servers"
)

// TestMain runs the tests, or the program that a test wants to run as a process of its own: the test starts this very
// binary, with the program's name in the environment.
func TestMain(m *testing.M) {
	if run, ok := programs[os.Getenv(programVariable)]; ok {
		if err := run(json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	servers.Main(m)
}

const programVariable = "HARE_TEST_PROGRAM"

// programs are what tests run as processes of their own, by name. Their orders are JSON values; the end of the orders,
// which may be the death of the test, ends them.
var programs = map[string]func(orders *json.Decoder, words *json.Encoder) error{"candidate": candidateProgram, "voter": voterProgram}

// process is one life of a program.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	orders *json.Encoder
	words  *json.Decoder
	killed atomic.Bool // by us
}

// start starts a program, which writes about itself to a file.
func start(program, log string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p := &process{cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), programVariable+"="+program)
	p.cmd.Stderr = file
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for the test, with which they end
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.orders, p.words = json.NewEncoder(p.stdin), json.NewDecoder(bufio.NewReader(out))
	return p, p.cmd.Start()
}

// program starts a program for a test, which ends with it at the latest.
func program(t *testing.T, name string) *process {
	t.Helper()
	p, err := start(name, filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// kill ends the process as kill -9 does, and waits for its end.
func (p *process) kill() {
	p.killed.Store(true)
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()         // that it was killed is no news
}

// signal stops the process or lets it go on.
func (p *process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil // that it has ended by itself is noted elsewhere
}

// tell gives an order.
func (p *process) tell(t *testing.T, order any) {
	t.Helper()
	if err := p.orders.Encode(order); err != nil {
		t.Fatalf("the program takes no orders: %v", err)
	}
}

// hear waits for a word of the program. One that says nothing within a minute is ended.
func hear[T any](t *testing.T, p *process) (word T) {
	t.Helper()
	timer := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	if err := p.words.Decode(&word); err != nil {
		t.Fatalf("the program has ended, or says nothing: %v", err)
	}
	return word
}

// leave lets the process end in order.
func (p *process) leave(t *testing.T) {
	t.Helper()
	_ = p.stdin.Close() // one that has ended is found out below
	timer := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	for {
		var rest json.RawMessage
		if p.words.Decode(&rest) != nil {
			break
		}
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("a program ended with %v", err)
	}
}
