// Protocol checks the model of the distributed commit with spin. README.md beside it lists what is checked: the models, which
// must keep every rule, and the variants, each of which drops one and must break what its line names. A figure there that
// is not the one found is an error, too.
//
//	go run ./docs/protocol            check everything
//	go run ./docs/protocol NO_FENCE   show the shortest counterexample of a variant
//	go run ./docs/protocol -w         check, and write the figures into README.md
//
// It needs spin and gcc, and installs them where it may: as root on Debian and its like. Exit status: 0 when all holds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	write := flag.Bool("w", false, "write the figures into README.md")
	folder := flag.String("folder", "docs/protocol", "where README.md and the model are")
	flag.Parse()
	if err := run(ctx, *folder, *write, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "protocol:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, folder string, write bool, names []string) error {
	page, err := readPage(folder)
	if err != nil {
		return err
	}
	spin, err := findSpin(ctx, folder)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return showAll(ctx, spin, page, names)
	}
	found := spin.checkAll(ctx, page.checks)
	results := make([]result, len(page.checks))
	wrong := 0
	for i, c := range page.checks {
		results[i] = <-found[i]
		if err := results[i].judge(c); err != nil {
			wrong++
			fmt.Printf("%-26s WRONG: %v\n", c.name, err)
		} else {
			fmt.Printf("%-26s %s\n", c.name, results[i])
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d checks are wrong", wrong, len(page.checks))
	}
	return page.figures(results, spin.version, write)
}

// checkAll runs all checks, as many at a time as there are processors, and gives their results as they come.
func (s *spin) checkAll(ctx context.Context, checks []check) []chan result {
	results := make([]chan result, len(checks))
	for i := range checks {
		results[i] = make(chan result, 1)
	}
	next := make(chan int)
	for range runtime.NumCPU() {
		go func() {
			for i := range next {
				results[i] <- s.check(ctx, checks[i])
			}
		}()
	}
	go func() {
		defer close(next)
		for i := range checks {
			next <- i
		}
	}()
	return results
}

// judge says what is wrong with the result of a check.
func (r result) judge(c check) error {
	switch {
	case r.err != nil:
		return r.err
	case r.broken != c.breaks && c.breaks == "":
		return fmt.Errorf("it breaks %s; see how: go run ./docs/protocol %s", r.broken, c.name)
	case r.broken == "" && c.breaks != "":
		return fmt.Errorf("it breaks nothing, and should break %s", c.breaks)
	case r.broken != c.breaks:
		return fmt.Errorf("it breaks %s, and should break %s", r.broken, c.breaks)
	case c.breaks == "" && len(r.unreached) > 0:
		return fmt.Errorf("it never comes to: %s", strings.Join(r.unreached, "; "))
	}
	return nil
}

// showAll prints counterexamples.
func showAll(ctx context.Context, spin *spin, page *page, names []string) error {
	for _, name := range names {
		c, ok := page.check(name)
		if !ok {
			return fmt.Errorf("README.md lists no %s", name)
		}
		steps, err := spin.counterexample(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Println(strings.Join(steps, "\n"))
	}
	return nil
}

// findSpin finds the programs that are needed, and installs them if they are missing and that is possible.
func findSpin(ctx context.Context, folder string) (*spin, error) {
	if err := programs(); err != nil {
		if _, debian := os.Stat("/etc/debian_version"); debian != nil || os.Getuid() != 0 {
			return nil, err
		}
		install := exec.CommandContext(ctx, "sh", "-c", `
			export DEBIAN_FRONTEND=noninteractive
			apt="apt-get -qq -o DPkg::Lock::Timeout=300"
			$apt update && $apt install -y --no-install-recommends spin gcc libc6-dev`)
		output, installing := install.CombinedOutput()
		if err := programs(); err != nil {
			return nil, errors.Join(err, installing, errors.New(strings.TrimSpace(string(output))))
		}
	}
	return newSpin(ctx, folder)
}

func programs() error {
	for _, name := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%s is missing, and the model cannot be checked without it: install the Debian packages spin and gcc, or their like", name)
		}
	}
	return nil
}

// limit bounds one check, on a machine that is busy with others.
const limit = 10 * time.Minute
