package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// spin is the model checker, with the model.
type spin struct {
	model   string // the path of protocol.pml
	version string
}

func newSpin(ctx context.Context, folder string) (*spin, error) {
	model, err := filepath.Abs(filepath.Join(folder, "protocol.pml"))
	if err != nil {
		return nil, err
	}
	output, err := exec.CommandContext(ctx, "spin", "-V").Output()
	if err != nil {
		return nil, fmt.Errorf("spin -V: %w", err)
	}
	words := strings.Fields(string(output)) // Spin Version 6.5.2 -- ...
	if len(words) < 3 {
		return nil, fmt.Errorf("spin -V says %q", output)
	}
	return &spin{model: model, version: words[2]}, nil
}

// result is what a search has found.
type result struct {
	states    int
	broken    string // the rule, or empty
	unreached []string
	err       error // why there is no result
}

func (r result) String() string {
	if r.broken == "" {
		return fmt.Sprintf("holds in %s states", grouped(r.states))
	}
	return "breaks " + r.broken
}

// endless is the rule that speaks of all that ever happens: a cycle breaks it.
const endless = "finished_in_the_end"

// check searches a whole model, or for the shortest history that breaks a rule of a variant.
func (s *spin) check(ctx context.Context, c check) result {
	dir, cleanUp, err := s.compile(ctx, c)
	defer cleanUp()
	if err != nil {
		return result{err: err}
	}
	return search(ctx, dir, c)
}

// compile makes the program that searches, in a folder of its own.
func (s *spin) compile(ctx context.Context, c check) (dir string, cleanUp func(), err error) {
	dir, err = os.MkdirTemp("", "hare-protocol-")
	cleanUp = func() { _ = os.RemoveAll(dir) }
	if err != nil {
		return "", cleanUp, err
	}
	if _, err := command(ctx, dir, "spin", append(c.defines(), "-a", s.model)...); err != nil {
		return "", cleanUp, err
	}
	flags := []string{"-w", "-o", "pan", "pan.c"} // to optimize takes longer than the search
	if !c.endless() {
		flags = append(flags, "-DSAFETY")
		if c.breaks != "" {
			flags = append(flags, "-DBFS") // breadth first
		}
	}
	_, err = command(ctx, dir, "gcc", flags...)
	return dir, cleanUp, err
}

func search(ctx context.Context, dir string, c check) result {
	arguments := []string{"-m20000"}
	if c.endless() {
		arguments = []string{"-m2000000", "-a", "-f"} // cycles, in which no process stands still for ever
	}
	output, err := command(ctx, dir, "./pan", arguments...)
	if err != nil {
		return result{err: err}
	}
	return parse(output)
}

// command runs a program and gives what it has printed.
func command(ctx context.Context, dir, name string, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	program := exec.CommandContext(ctx, name, arguments...)
	program.Dir = dir
	output, err := program.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", name, err, output)
	}
	return string(output), nil
}

var (
	assertion   = regexp.MustCompile(`(?m)^pan:1: assertion violated (\w+) `)
	cycle       = regexp.MustCompile(`(?m)^pan:1: acceptance cycle `)
	otherError  = regexp.MustCompile(`(?m)^(pan:1: .*|.*error: .*|.*[Oo]ut of memory.*|.*max search depth too small.*)$`)
	errorsFound = regexp.MustCompile(`(?m), errors: (\d+)$`)
	stored      = regexp.MustCompile(`(?m)^ *(\d+) states, stored`)
	unreached   = regexp.MustCompile(`(?m)^\t(\S+\.pml:\d+), state \d+, "(.*)"$`)
)

// parse reads what pan prints. What it does not know is an error, so that nothing passes for a result that is none.
func parse(output string) (r result) {
	number := errorsFound.FindStringSubmatch(output)
	states := stored.FindStringSubmatch(output)
	found := assertion.FindStringSubmatch(output)
	switch {
	case number == nil || states == nil:
		return result{err: fmt.Errorf("pan has no result:\n%s", output)}
	case found != nil:
		r.broken = found[1]
	case cycle.MatchString(output):
		r.broken = endless
	case otherError.MatchString(output) || number[1] != "0":
		return result{err: fmt.Errorf("pan: %s\n%s", otherError.FindString(output), output)}
	}
	r.states, _ = strconv.Atoi(states[1])
	for _, line := range unreached.FindAllStringSubmatch(output, -1) {
		if line[2] != "-end-" {
			r.unreached = append(r.unreached, filepath.Base(line[1])+" "+line[2])
		}
	}
	return r
}

// counterexample lists the steps that break a rule.
func (s *spin) counterexample(ctx context.Context, c check) (steps []string, err error) {
	dir, cleanUp, err := s.compile(ctx, c)
	defer cleanUp()
	if err != nil {
		return nil, err
	}
	r := search(ctx, dir, c)
	if r.err != nil {
		return nil, r.err
	}
	if r.broken == "" {
		return nil, errors.New("it breaks no rule")
	}
	replay, err := command(ctx, dir, "spin", append(c.defines(), "-t", "-T", "-k", "protocol.pml.trail", s.model)...)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(replay) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "<<<<<START OF CYCLE"):
			steps = append(steps, "and from here on for ever:")
		case told.MatchString(line):
			steps = append(steps, line)
		}
	}
	return append(steps, "which breaks "+r.broken), nil
}

// told is what the model prints of its steps.
var told = regexp.MustCompile(`^(call|coordinator|participant|recoverer|operator)( \d+)?: `)
