// Demo shows hare's main job on real servers: the library example over three PostgreSQL databases, processes
// killed in the middle of a distributed commit, and their recovery, by hand and by themselves. It runs the unmodified example and the unmodified command hare,
// prints what happens, and checks every expectation:
//
//	go run ./integration/withservers -n 3 -- go run ./integration/demo
//
// The servers are those of HARE_TEST_POSTGRES_URLS; with fewer than three they share. It creates the databases library,
// inventory and billing and drops them afterwards. Exit status: 0 when every expectation held.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// aliases are the three databases, the coordinator first.
var aliases = []string{"library", "inventory", "billing"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "hare-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d := &demo{ctx: ctx, dir: dir, out: os.Stdout}
	databases, err := createDatabases(ctx)
	defer func() { err = errors.Join(err, databases.drop()) }()
	if err != nil {
		return err
	}
	d.databases = databases
	if err := d.build(); err != nil {
		return err
	}
	if err := d.play(); err != nil {
		return err
	}
	if d.wrong > 0 {
		return fmt.Errorf("%d expectations did not hold", d.wrong)
	}
	fmt.Fprintln(d.out, "\nEvery expectation held.")
	return nil
}

// demo is one run.
type demo struct {
	ctx       context.Context
	dir       string
	out       io.Writer
	databases *databases
	wrong     int
}

// build builds the example and the command, and writes the configuration.
func (d *demo) build() error {
	for _, pkg := range []string{"./examples/library", "./cmd/hare"} {
		cmd := exec.CommandContext(d.ctx, "go", "build", "-o", d.dir, pkg)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("go build %s: %w", pkg, err)
		}
	}
	return d.configure("hare.yml", d.databases.urls)
}

func (d *demo) configure(name string, urls map[string]string) error {
	var b strings.Builder
	b.WriteString("connections:\n")
	for _, alias := range aliases {
		fmt.Fprintf(&b, "  %s: %q\n", alias, urls[alias])
	}
	b.WriteString("default: library\n")
	return os.WriteFile(filepath.Join(d.dir, name), []byte(b.String()), 0o600)
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, "\n== "+format+"\n", args...) }

// expect counts what did not come as it should.
func (d *demo) expect(held bool, what string) {
	word := "ok "
	if !held {
		word = "NOT"
		d.wrong++
	}
	fmt.Fprintf(d.out, "   [%s] %s\n", word, what)
}

// command runs one of the programs, prints what it prints, and returns it with the exit status.
func (d *demo) command(program string, args ...string) (output string, status int, err error) {
	fmt.Fprintf(d.out, "$ %s %s\n", program, strings.Join(args, " "))
	output, status, err = d.quiet(program, args...)
	fmt.Fprint(d.out, output)
	return output, status, err
}

// start starts one of the programs and does not wait for it.
func (d *demo) start(program string, args ...string) (*exec.Cmd, error) {
	fmt.Fprintf(d.out, "$ %s %s\n", program, strings.Join(args, " "))
	cmd := exec.CommandContext(d.ctx, filepath.Join(d.dir, program), args...)
	cmd.Dir, cmd.Stderr = d.dir, d.out
	return cmd, cmd.Start()
}

func (d *demo) quiet(program string, args ...string) (output string, status int, err error) {
	var b bytes.Buffer
	cmd := exec.CommandContext(d.ctx, filepath.Join(d.dir, program), args...)
	cmd.Dir = d.dir
	cmd.Stdout, cmd.Stderr = &b, &b
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	return b.String(), cmd.ProcessState.ExitCode(), err
}

// show prints the three tables and returns what they say.
func (d *demo) show() (string, error) {
	output, status, err := d.command("library", "show")
	if err == nil && status != 0 {
		err = errors.New("the tables cannot be shown")
	}
	return output, err
}
