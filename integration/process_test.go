package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// process is a program of this binary, on the test's side.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	orders io.WriteCloser
	words  *json.Decoder
	stderr bytes.Buffer
}

// launch starts a program, with more variables in its environment. It is killed at the end of the test.
func launch(t *testing.T, program string, environment ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(self)}
	p.cmd.Env = append(append(os.Environ(), programVariable+"="+program), environment...)
	p.cmd.Stderr = &p.stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.orders, p.words = stdin, json.NewDecoder(stdout)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// fail fails the test, with what the program has written about itself.
func (p *process) fail(format string, args ...any) {
	p.t.Helper()
	p.kill()
	p.t.Fatalf(format+"\n%s", append(args, &p.stderr)...)
}

func (p *process) signal(signal syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
}

// kill ends the program at once and waits for its death.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()         // that it was killed is no news
}

// pause stops the program and waits until it stands still.
func (p *process) pause() {
	p.t.Helper()
	pid := p.cmd.Process.Pid
	p.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || !status.Stopped() {
			p.fail("the program does not stop: %v, status %v", err, status)
		}
		return
	}
}

// resume lets the stopped program run.
func (p *process) resume() {
	p.t.Helper()
	p.signal(syscall.SIGCONT)
}
