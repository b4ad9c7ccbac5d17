package servers

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// child is a program that runs as a child of this process, with the processes that it starts itself.
type child struct {
	logFile    string
	credential *syscall.Credential // nil: the program runs as this process's user
	pid        int
	ended      chan struct{} // closed when the program's first process has ended
}

// newChild is a program that has not been started.
func newChild(logFile string, credential *syscall.Credential) child {
	c := child{logFile: logFile, credential: credential, ended: make(chan struct{})}
	close(c.ended)
	return c
}

// launch starts the program, whose output is added to the log.
func (c *child) launch(directory, program string, args ...string) error {
	log, err := os.OpenFile(c.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Dir = directory
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = serverAttributes(c.credential)

	started, ended := make(chan error), make(chan struct{})
	go func() {
		// The program dies with the thread that started it, so that thread stays until the program has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how a server ends is in its log
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	c.pid, c.ended = cmd.Process.Pid, ended
	return nil
}

func (c *child) kill(ctx context.Context) error {
	if !c.running() {
		return errNotRunning
	}
	// Its children would notice its death and end by themselves, unless they are frozen, but after a while. Frozen itself, it
	// starts none meanwhile, which would still have its memory when it starts again.
	_ = syscall.Kill(c.pid, syscall.SIGSTOP)
	family := append([]int{c.pid}, children(c.pid)...)
	for _, pid := range family {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	if err := c.end(ctx, syscall.SIGKILL); err != nil && !errors.Is(err, errNotRunning) {
		return err
	}
	for slices.ContainsFunc(family, alive) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// end sends the program's first process a signal and waits for its end.
func (c *child) end(ctx context.Context, signal syscall.Signal) error {
	if !c.running() {
		return errNotRunning
	}
	// It may have ended by itself a moment ago, and waiting for it ends at once then.
	if err := syscall.Kill(c.pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *child) pause(context.Context) error {
	// Frozen, the first process starts no more children that could be missed.
	return c.signalFamily(syscall.SIGSTOP)
}

func (c *child) resume(context.Context) error {
	return c.signalFamily(syscall.SIGCONT)
}

func (c *child) signalFamily(signal syscall.Signal) error {
	if !c.running() {
		return errNotRunning
	}
	if err := syscall.Kill(c.pid, signal); err != nil {
		return err
	}
	for _, pid := range children(c.pid) {
		_ = syscall.Kill(pid, signal) // it may have ended
	}
	return nil
}

func (c *child) running() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

func (c *child) log() string {
	log, err := os.ReadFile(c.logFile)
	if err != nil {
		return err.Error()
	}
	return tail(log)
}

// errNotRunning says that there is no program to send a signal to.
var errNotRunning = errors.New("the server is not running")
