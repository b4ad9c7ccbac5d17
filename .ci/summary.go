//go:build ignore

// Summary reads the output of go test -json, shows what failed and one line for each package, and ends with status 1
// unless every package passed, every package that must have run did, and no test was skipped that may not be:
//
//	go test -json ./... | go run .ci/summary.go [-must pattern,...] [-may-skip regexp] [-totals file]
//
// A pattern is a package or, ending in /..., a package and all below it, from the module's root. The regexp is matched
// against "package Test/subtest". Numbers of passed, failed and skipped tests are appended to the file as one line.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
)

const module = "github.com/hare-go/hare"

// event is what go test -json says, see go doc test2json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

func main() {
	must := flag.String("must", "", "packages in which a test must have passed, separated by commas")
	maySkip := flag.String("may-skip", "^$", "tests that may be skipped")
	totals := flag.String("totals", "", "file that a line with the numbers is appended to")
	flag.Parse()
	s := summary{passed: map[string]int{}, output: map[string]*strings.Builder{}, maySkip: regexp.MustCompile(*maySkip)}

	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Println(lines.Text()) // of the go command itself
			continue
		}
		s.take(e)
	}
	if err := lines.Err(); err != nil {
		s.complain("the output of go test cannot be read: %v", err)
	}
	for pattern := range strings.SplitSeq(*must, ",") {
		if pattern != "" && !s.ran(pattern) {
			s.complain("no test of %s has run", pattern)
		}
	}
	if *totals != "" {
		if err := appendLine(*totals, fmt.Sprintln(s.passes, s.failures, s.skips)); err != nil {
			s.complain("%v", err)
		}
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", s.passes, s.failures, s.skips)
	if s.wrong {
		os.Exit(1)
	}
}

// summary is what has been read so far.
type summary struct {
	passes, failures, skips int
	passed                  map[string]int              // passed tests by package
	output                  map[string]*strings.Builder // by package and test, until it has ended
	maySkip                 *regexp.Regexp
	wrong                   bool
}

func (s *summary) complain(format string, args ...any) {
	s.wrong = true
	fmt.Printf("FAIL: "+format+"\n", args...)
}

// take takes one event.
func (s *summary) take(e event) {
	name := strings.TrimPrefix(strings.TrimPrefix(e.Package+e.ImportPath, module), "/")
	key := name + " " + e.Test
	switch e.Action {
	case "output", "build-output":
		if s.output[key] == nil {
			s.output[key] = new(strings.Builder)
		}
		s.output[key].WriteString(e.Output)
		return
	case "pass":
		s.races(key)
		if e.Test != "" {
			s.passes++
			s.passed[name]++
		} else {
			fmt.Printf("ok    %7.1fs  %s\n", e.Elapsed, name)
		}
	case "skip":
		if e.Test == "" {
			break // a package without tests
		}
		s.skips++
		if !s.maySkip.MatchString(key) {
			s.complain("%s was skipped:\n%s", key, s.output[key])
		}
	case "fail", "build-fail":
		if e.Test != "" {
			s.failures++
		}
		s.complain("%s\n%s", key, s.output[key])
	default:
		return
	}
	delete(s.output, key)
}

// races shows what the race detector says in a test that passed: it stands wherever the tests' output stood just then, while those
// that fail for it say only that there was one.
func (s *summary) races(key string) {
	if text := s.output[key]; text != nil && strings.Contains(text.String(), "WARNING: DATA RACE") {
		s.complain("%s passed, beside a race\n%s", key, text)
	}
}

// ran says whether a test passed in a package of the pattern.
func (s *summary) ran(pattern string) bool {
	prefix, below := strings.CutSuffix(pattern, "/...")
	for name := range s.passed {
		if name == prefix || below && strings.HasPrefix(name, prefix+"/") {
			return true
		}
	}
	return false
}

func appendLine(name, line string) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := file.WriteString(line); err != nil {
		return err
	}
	return file.Close()
}
