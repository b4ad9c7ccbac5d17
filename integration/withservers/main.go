// Withservers runs a command with PostgreSQL servers around it:
//
//	go run ./integration/withservers [-n 3] [-fast] -- command argument...
//
// It finds or starts the servers as package servers does, prints one line that says which way, sets
// HARE_TEST_POSTGRES_URLS and HARE_SERVERS, and runs the command in a process group of its own, to which it passes
// signals on. When the command has ended, however it did, the servers are closed, and its exit status is that of the
// command (128 and the signal's number for a command that a signal ended).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/hare-go/hare/integration/servers"
)

func main() {
	n := flag.Int("n", 3, "number of servers")
	fast := flag.Bool("fast", false, "servers whose commits are not durable, with their data in memory")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: withservers [-n 3] [-fast] -- command argument...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	status, err := run(*n, *fast, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "withservers:", err)
		status = max(status, 1)
	}
	os.Exit(status)
}

// run runs the command with n servers around it and returns its exit status. The error is one of ours.
func run(n int, fast bool, command []string) (status int, err error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)

	way, environment, shut, err := open(signals, n, fast)
	defer func() { err = errors.Join(err, shut()) }()
	if err != nil {
		return 1, err
	}
	fmt.Fprintln(os.Stderr, "withservers:", way)

	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return 127, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			// To the whole group, as a terminal does: a shell or go run may not pass it on. It may have ended.
			_ = syscall.Kill(-cmd.Process.Pid, s.(syscall.Signal))
		case err := <-ended:
			return exitStatus(cmd.ProcessState), notExit(err)
		}
	}
}

// notExit is err unless it only says that the command has failed, which its status says, too.
func notExit(err error) error {
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return nil
	}
	return err
}

// exitStatus is the status as a shell gives it.
func exitStatus(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// open finds or starts n servers. It returns a line that says which way, the environment for the command, and what
// closes the servers, which is never nil. A signal stops it.
func open(signals <-chan os.Signal, n int, fast bool) (string, []string, func() error, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	opened := make(chan struct{})
	defer cancel(nil)
	defer close(opened)
	go func() {
		select {
		case s := <-signals:
			cancel(fmt.Errorf("signal: %v", s))
		case <-opened:
		}
	}()

	nothing := func() error { return nil }
	way, reason, err := servers.Choose(ctx)
	if err != nil {
		return "", nil, nothing, err
	}
	if way == servers.URLs {
		return "PostgreSQL servers: " + reason, nil, nothing, nil
	}
	started, err := start(ctx, way, n, fast)
	shut := func() error { return closeAll(started) }
	if cause := context.Cause(ctx); cause != nil {
		return "", nil, shut, cause
	}
	if err != nil {
		return "", nil, shut, err
	}
	var urls []string
	for _, s := range started {
		urls = append(urls, s.URL("postgres"))
	}
	return fmt.Sprintf("%d PostgreSQL servers: %s", n, reason), []string{
		"HARE_TEST_POSTGRES_URLS=" + strings.Join(urls, ","),
		"HARE_SERVERS=" + string(way), // for tests that start servers of their own
	}, shut, nil
}

// start starts n servers side by side and returns those that did start.
func start(ctx context.Context, way servers.Way, n int, fast bool) ([]*servers.Server, error) {
	type result struct {
		server *servers.Server
		err    error
	}
	results := make(chan result, n)
	for i := range n {
		go func() {
			s, err := servers.Start(ctx, servers.Options{Name: fmt.Sprintf("with-%d", i+1), Way: way, Volatile: fast})
			results <- result{s, err}
		}()
	}
	var started []*servers.Server
	var failed []error
	for range n {
		r := <-results
		if r.err != nil {
			failed = append(failed, r.err)
			continue
		}
		started = append(started, r.server)
	}
	return started, errors.Join(failed...)
}

// closeAll closes the servers side by side.
func closeAll(all []*servers.Server) error {
	failed := make(chan error, len(all))
	for _, s := range all {
		go func() { failed <- s.Close() }()
	}
	var errs []error
	for range all {
		errs = append(errs, <-failed)
	}
	return errors.Join(errs...)
}
