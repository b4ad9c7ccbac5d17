package hare_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare"
)

func TestLoadConfig(t *testing.T) {
	t.Setenv("HARE_TEST_SECRET", "s3cr3t${HOME}")
	for _, tt := range []struct {
		name, file string
		want       hare.Config
	}{
		{"a URL for each alias", "connections:\n  library: sqlite:a.db\n  billing: sqlite:b.db\ndefault: library\n", hare.Config{
			Connections: map[string]string{"library": "sqlite:a.db", "billing": "sqlite:b.db"}, Default: "library",
		}},
		{"a mapping with url", "connections:\n  library:\n    url: sqlite:a.db\n", hare.Config{
			Connections: map[string]string{"library": "sqlite:a.db"},
		}},
		{"the environment, not expanded twice", "connections:\n  a: postgres://u:${HARE_TEST_SECRET}@h/d\n", hare.Config{
			Connections: map[string]string{"a": "postgres://u:s3cr3t${HOME}@h/d"},
		}},
		{"an escaped dollar", "connections:\n  a: sqlite:$${HARE_TEST_SECRET}$.db\n", hare.Config{
			Connections: map[string]string{"a": "sqlite:${HARE_TEST_SECRET}$.db"},
		}},
		{"YAML anchors", "connections:\n  a: &x sqlite:a.db\n  b: *x\ndefault: a\n", hare.Config{
			Connections: map[string]string{"a": "sqlite:a.db", "b": "sqlite:a.db"}, Default: "a",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := hare.LoadConfig(configFile(t, tt.file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestLoadConfigRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		option     string
		says       []string // the message has all of them
	}{
		{"unknown key", "connection:\n  a: sqlite:a.db\n", "connection", []string{":1:", `did you mean "connections"?`}},
		{"unknown key of a connection", "connections:\n  a:\n    ulr: sqlite:a.db\n", "ulr", []string{":3:", `did you mean "url"?`}},
		{"unknown key, nothing near", "connections:\n  a: sqlite:a.db\nzzzzzzzzzz: 1\n", "zzzzzzzzzz", []string{":3:", "connections, default"}},
		{"a key twice", "connections:\n  a: sqlite:a.db\n  a: sqlite:b.db\n", "a", []string{":3:", "twice"}},
		{"unset variable", "connections:\n  a: sqlite:${HARE_TEST_UNSET}\n", "connections.a", []string{":2:", "HARE_TEST_UNSET"}},
		{"unclosed variable", "connections:\n  a: sqlite:${HARE\n", "connections.a", []string{":2:", "not closed"}},
		{"number for a URL", "connections:\n  a: 5\n", "connections.a", []string{":2:", "must be a text"}},
		{"no URL", "connections:\n  a: {}\n", "connections.a", []string{":2:", "has no url"}},
		{"null", "connections:\n  a:\n", "connections.a", []string{":2:", "must be a text"}},
		{"list", "connections:\n  - sqlite:a.db\n", "connections", []string{":2:", "mapping"}},
		{"no connections", "default: a\n", "connections", []string{"no connection"}},
		{"empty", "", "connections", []string{"empty"}},
		{"unknown default", "connections:\n  library: sqlite:a.db\ndefault: libary\n", "default", []string{`did you mean "library"?`}},
		{"bad alias", "connections:\n  \"a,b\": sqlite:a.db\n", "", []string{"comma"}},
		{"two documents", "connections:\n  a: sqlite:a.db\n---\ndefault: a\n", "", []string{"more than one"}},
		{"not YAML", "connections: [\n", "", []string{"not YAML"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := hare.LoadConfig(configFile(t, tt.file))
			var wrong *hare.ConfigurationError
			if !errors.As(err, &wrong) {
				t.Fatalf("got %v and %v, want a ConfigurationError", cfg, err)
			}
			if wrong.Option != tt.option {
				t.Errorf("the error names the option %q, want %q: %v", wrong.Option, tt.option, err)
			}
			for _, text := range tt.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %q", err, text)
				}
			}
		})
	}
	_, err := hare.LoadConfig(filepath.Join(t.TempDir(), "missing.yml"))
	var wrong *hare.ConfigurationError
	if !errors.As(err, &wrong) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestConfigMasksSecrets(t *testing.T) {
	for _, tt := range []struct{ name, url, want string }{
		{"password", "postgres://user:hidden@host:5432/db?sslmode=require", "postgres://user:xxxxx@host:5432/db?sslmode=require"},
		{"option", "postgres://host/db?password=hidden&max_size=3", "postgres://host/db?password=xxxxx&max_size=3"},
		{"encoded option", "postgres://host/db?pass%77ord=hidden", "postgres://host/db?pass%77ord=xxxxx"},
		{"option that contains the word", "postgres://host/db?sslpassword=hidden", "postgres://host/db?sslpassword=xxxxx"},
		{"a space in the password", "postgres://user:hid den@host/db", "postgres://xxxxx"},
		{"a slash in the password", "postgres://user:1/hidden@host/db", "postgres://xxxxx"},
		{"a hash in the password", "postgres://user:1#hidden@host/db", "postgres://xxxxx"},
		{"a question mark in the password", "postgres://user:1?hidden@host/db", "postgres://xxxxx"},
		{"no URL at all", "hidden", "xxxxx"},
		{"a file", "sqlite:data/library.db?busy_timeout=5s", "sqlite:data/library.db?busy_timeout=5s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := hare.Config{Connections: map[string]string{"a": tt.url}, Default: "a"}
			want := "hare.Config{a: " + tt.want + "; default: a}"
			for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
				if diff := cmp.Diff(want, fmt.Sprintf(format, cfg)); diff != "" {
					t.Errorf("%s (-want +got)\n%s", format, diff)
				}
			}
			var log bytes.Buffer
			slog.New(slog.NewJSONHandler(&log, nil)).Info("start", "config", cfg)
			if strings.Contains(log.String(), "hidden") {
				t.Errorf("the log shows the secret: %s", &log)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, tt := range []struct {
		name        string
		connections map[string]string
		option      string
		says        string
	}{
		{"nothing", nil, "connections", "no connection"},
		{"empty alias", map[string]string{"": "sqlite:a.db"}, "", "empty"},
		{"control character", map[string]string{"a\x00": "sqlite:a.db"}, "", "control"},
		{"comma", map[string]string{"a,b": "sqlite:a.db"}, "", "comma"},
		{"space", map[string]string{"a ": "sqlite:a.db"}, "", "space"},
		{"not UTF-8", map[string]string{"a\xff": "sqlite:a.db"}, "", "UTF-8"},
		{"no scheme", map[string]string{"a": "localhost/db"}, "url", "scheme"},
		{"no import", map[string]string{"a": "clickhouse://host/db"}, "url", `import _ "github.com/hare-go/hare/backends/clickhouse"`},
		{"unknown scheme", map[string]string{"a": "sqlte:a.db"}, "url", `did you mean "sqlite"?`},
		{"bad option", map[string]string{"a": "sqlite:a.db?no_such_option=1"}, "no_such_option", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := hare.Open(t.Context(), hare.Config{Connections: tt.connections})
			var wrong *hare.ConfigurationError
			if !errors.As(err, &wrong) {
				t.Fatalf("got %v, want a ConfigurationError", err)
			}
			if wrong.Option != tt.option || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("option %q, want %q; %q must say %q", wrong.Option, tt.option, err, tt.says)
			}
		})
	}

	_, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"one": "nothing:x", "two": "sqlite:a.db?bad=1"}})
	for _, alias := range []string{`"one"`, `"two"`} {
		if !strings.Contains(err.Error(), alias) {
			t.Errorf("the mistake of %s is not reported: %v", alias, err)
		}
	}
	for _, url := range []string{
		"postgres://user:hidden@host/db?no_such_option=1", "postgres://user:hidden%zz@host/db",
		"postgres:hidden", "nothing://user:hidden@host/db", "user:hidden@host/db",
	} {
		_, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"a": url}})
		if !isA[*hare.ConfigurationError](err) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: the error shows the password, or there is none: %v", url, err)
		}
	}
}

func TestDefaultAlias(t *testing.T) {
	for _, tt := range []struct {
		name    string
		aliases []string
		def     string
		want    string // empty: a ConfigurationError
	}{
		{"the only one", []string{"library"}, "", "library"},
		{"the one named default", []string{"library", "default"}, "", "default"},
		{"the one that the configuration names", []string{"library", "default"}, "library", "library"},
		{"none", []string{"library", "billing"}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := hare.Config{Connections: map[string]string{}, Default: tt.def}
			for _, alias := range tt.aliases {
				cfg.Connections[alias] = "sqlite:" + filepath.Join(t.TempDir(), "a.db")
			}
			c, err := hare.Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			client, err := c.Client("")
			var wrong *hare.ConfigurationError
			switch {
			case tt.want == "" && !errors.As(err, &wrong):
				t.Errorf("got %v, want a ConfigurationError", err)
			case tt.want != "" && (err != nil || client.Alias() != tt.want):
				t.Errorf("got %v and %v, want %q", client, err, tt.want)
			}
		})
	}
}

func TestConnections(t *testing.T) {
	ctx := t.Context()
	c := sqliteConnections(t, "library", "billing")
	if diff := cmp.Diff([]string{"billing", "library"}, c.Aliases()); diff != "" {
		t.Errorf("Aliases (-want +got)\n%s", diff)
	}
	client, err := c.Client("library")
	if err != nil {
		t.Fatal(err)
	}
	if client.Alias() != "library" || client.Features().Backend != "sqlite" || client.InTransaction() {
		t.Errorf("the client is %q on %q, in a transaction: %v", client.Alias(), client.Features().Backend, client.InTransaction())
	}
	var wrong *hare.ConfigurationError
	if _, err := c.Client("libary"); !errors.As(err, &wrong) || !strings.Contains(err.Error(), `did you mean "library"?`) {
		t.Errorf("an unknown alias: %v", err)
	}

	hare.SetDefault(nil)
	if _, err := hare.FromContext(ctx); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "hare.SetDefault") {
		t.Errorf("without connections: %v", err)
	}
	hare.SetDefault(c)
	defer hare.SetDefault(nil)
	if got, err := hare.FromContext(ctx); got != c || err != nil {
		t.Errorf("FromContext gives %v, %v, want the default", got, err)
	}
	other := sqliteConnections(t, "other")
	if got, err := hare.FromContext(hare.WithConnections(ctx, other)); got != other || err != nil {
		t.Errorf("FromContext gives %v, %v, want those of the context", got, err)
	}

	c.Close()
	c.Close()
	var misuse *hare.QueryError
	if _, err := client.Exec(ctx, "SELECT 1"); !errors.As(err, &misuse) {
		t.Errorf("a statement after Close: %v, want a QueryError", err)
	}
}

func TestOpenWithEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := hare.Open(ctx, hare.Config{Connections: map[string]string{"a": "sqlite:a.db"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hare.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sqliteConnections are connections to a new file for each alias.
func sqliteConnections(t testing.TB, aliases ...string) *hare.Connections {
	t.Helper()
	cfg := hare.Config{Connections: map[string]string{}}
	for _, alias := range aliases {
		cfg.Connections[alias] = "sqlite:" + filepath.Join(t.TempDir(), alias+".db")
	}
	c, err := hare.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A configuration that is logged or marshalled inside another value shows no secret either.
func TestConfigInsideAnotherValue(t *testing.T) {
	outer := struct{ DB hare.Config }{hare.Config{Connections: map[string]string{"a": "postgres://u:hunter2@h/d?password=hunter2"}, Default: "a"}}
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("start", "app", outer)
	slog.New(slog.NewTextHandler(&logged, nil)).Info("start", "app", outer)
	marshalled, err := json.Marshal(outer)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{logged.String(), string(marshalled), fmt.Sprintf("%v %+v %#v", outer, outer, outer)} {
		if strings.Contains(text, "hunter2") || !strings.Contains(text, "xxxxx") {
			t.Errorf("the secret is not masked: %s", text)
		}
	}
}
