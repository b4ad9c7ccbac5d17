package integration

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// buildCommand builds the command hare.
func buildCommand(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "hare")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../cmd/hare").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, output)
	}
	return binary
}

// writeConfiguration writes hare.yml.
func writeConfiguration(t *testing.T, urls map[string]string) string {
	t.Helper()
	text := "connections:\n"
	for _, alias := range slices.Sorted(maps.Keys(urls)) {
		text += fmt.Sprintf("  %s: %q\n", alias, urls[alias])
	}
	path := filepath.Join(t.TempDir(), "hare.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// result is what a call of the command comes to.
type result struct {
	out, errs string
	status    int
}

// runHare calls the command hare.
func runHare(t *testing.T, binary string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if strings.Contains(out.String()+errs.String(), "\x1b") {
		t.Errorf("colours without a terminal: %q", out.String())
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}
