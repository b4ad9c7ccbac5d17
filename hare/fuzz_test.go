package hare_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-go/hare/hare"
)

// FuzzMasking: however a password is mistyped into a URL, printing the configuration does not show it.
func FuzzMasking(f *testing.F) {
	for _, around := range []string{"", "@", "/", "#", "?", "%", "%zz", ":", " ", "@h/", "@h/?", "@h#", "\\", "&password=", "[", "\x00"} {
		f.Add(around, "")
		f.Add("", around)
		f.Add(around, around)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		url := "postgres://user:" + before + "hidden" + after + "@host/db?max_size=3"
		cfg := hare.Config{Connections: map[string]string{"a": url}}
		for _, text := range []string{cfg.String(), fmt.Sprintf("%#v", cfg), fmt.Sprint(cfg.LogValue())} {
			if strings.Contains(text, "hidden") {
				t.Errorf("%q prints as %q", url, text)
			}
		}
	})
}

// FuzzLoadConfig: any file is a configuration or a ConfigurationError.
func FuzzLoadConfig(f *testing.F) {
	for _, text := range []string{
		"connections:\n  a: sqlite:a.db\ndefault: a\n", "connections: {a: {url: b:c}}", "a: &x [*x]", "<<: {}", "? [a]\n: b", "connections: *a",
		"connections: &c\n  a: x:${HOME}\n", "--- a\n--- b", "\t", "connections:\n  a: !!binary aGk=\n", "connections:\n  a: ${", "default: 1",
	} {
		f.Add(text)
	}
	path := filepath.Join(f.TempDir(), "hare.yml")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := hare.LoadConfig(path)
		if err != nil && !isA[*hare.ConfigurationError](err) {
			t.Errorf("%T: %v", err, err)
		}
		if err == nil && len(cfg.Connections) == 0 {
			t.Error("a configuration without a connection is accepted")
		}
	})
}
