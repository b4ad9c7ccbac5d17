package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare/backend"
)

func TestRegistered(t *testing.T) {
	found, ok := backend.Lookup("sqlite")
	if !ok {
		t.Fatal("the scheme sqlite is not registered")
	}
	equal(t, "features", supported, found.Features())
}

func TestURL(t *testing.T) {
	for _, tt := range []struct {
		url, path string
		options   settings
	}{
		{"sqlite:library.db", "library.db", settings{}},
		{"sqlite:./a/library.db", "./a/library.db", settings{}},
		{"sqlite:/var/lib/library.db", "/var/lib/library.db", settings{}},
		{"sqlite:///var/lib/library.db", "/var/lib/library.db", settings{}},
		{"sqlite://library.db", "library.db", settings{}},
		{"sqlite::memory:", ":memory:", settings{}},
		{"sqlite://:memory:", ":memory:", settings{}},
		{"sqlite:a%3Fb%25c#d.db", "a?b%c#d.db", settings{}},
		{"sqlite:library.db?", "library.db", settings{}},
		{"sqlite:library.db?mode=ro&&busy_timeout=5s&", "library.db", settings{"mode": "ro", "busy_timeout": "5s"}},
		{"sqlite:library.db?mode=r%6F", "library.db", settings{"mode": "ro"}},
	} {
		path, options, err := parseURL(tt.url)
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		equal(t, tt.url, tt.path, path)
		equal(t, tt.url, tt.options, options)
	}
}

func TestWrongURL(t *testing.T) {
	for _, tt := range []struct{ url, option, reason string }{
		{"library.db", "url", "want sqlite:path"},
		{"sqlite:", "url", "names no file"},
		{"sqlite://", "url", "names no file"},
		{"sqlite:?mode=ro", "url", "names no file"},
		{"sqlite:%zz", "url", "write a literal % as %25"},
		{"sqlite:a%00b", "url", "NUL"},
		{"sqlite::memory:?mode=ro", "mode", "nothing to read"},
		{"sqlite:a?journalmode=wal", "journalmode", `did you mean "journal_mode"?`},
		{"sqlite:a?busy_timout=5s", "busy_timout", `did you mean "busy_timeout"?`},
		{"sqlite:a?colour=red", "colour", "the options are auto_vacuum, automatic_index, busy_timeout"},
		{"sqlite:a?mode", "mode", "has no value"},
		{"sqlite:a?mode=", "mode", "has no value"},
		{"sqlite:a?mode=ro&mode=ro", "mode", "given twice"},
		{"sqlite:a?mode=%zz", "mode", "write a literal % as %25"},
		{"sqlite:a?mode=memory", "mode", "none of ro, rw, rwc"},
		{"sqlite:a?max_size=0", "max_size", "from 1 to 10000"},
		{"sqlite:a?max_size=10001", "max_size", "from 1 to 10000"},
		{"sqlite:a?max_size=four", "max_size", "from 1 to 10000"},
		{"sqlite:a?statement_cache_size=-1", "statement_cache_size", "from 0 to 1000000"},
		{"sqlite:a?pool_acquire_timeout=0", "pool_acquire_timeout", "is not a time-out"},
		{"sqlite:a?pool_acquire_timeout=90000", "pool_acquire_timeout", "is not a time-out"},
		{"sqlite:a?busy_timeout=-1", "busy_timeout", "is not a time-out"},
		{"sqlite:a?busy_timeout=1.5", "busy_timeout", "is not a time-out"},
		{"sqlite:a?busy_timeout=5us", "busy_timeout", "is not a time-out"},
		{"sqlite:a?busy_timeout=600h", "busy_timeout", "is not a time-out"},
		{"sqlite:a?busy_timeout=596h", "", ""},
		{"sqlite:a?journal_mode=WAL2", "journal_mode", "none of delete, truncate"},
		{"sqlite:a?synchronous=maximal", "synchronous", "none of off, normal, full, extra"},
		{"sqlite:a?foreign_keys=1", "foreign_keys", "none of on, off"},
		{"sqlite:a?cache_size=2147483648", "cache_size", "whole number"},
		{"sqlite:a?page_size=1000", "page_size", "power of two"},
		{"sqlite:a?page_size=256", "page_size", "power of two"},
		{"sqlite:a?max_page_count=0", "max_page_count", "from 1"},
		{"sqlite:a?locking_mode=exclusive", "locking_mode", "max_size=1"},
		{"sqlite:a?secure_delete=slow", "secure_delete", "none of on, off, fast"},
	} {
		t.Run(tt.url, func(t *testing.T) {
			_, err := driver{}.Open(backend.Config{Alias: "main", URL: tt.url})
			var wrong *backend.OptionError
			switch {
			case tt.reason == "" && err != nil:
				t.Errorf("Open gave %v", err)
			case tt.reason == "":
			case !errors.As(err, &wrong):
				t.Errorf("Open gave %v, want an OptionError", err)
			case wrong.Option != tt.option || !strings.Contains(wrong.Reason, tt.reason):
				t.Errorf("Open gave %v, want option %q and a reason with %q", err, tt.option, tt.reason)
			}
		})
	}
}

func TestTimeouts(t *testing.T) {
	o, err := checkSettings(settings{"pool_acquire_timeout": "1.5", "busy_timeout": "250"})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "pool_acquire_timeout", 1500*time.Millisecond, o.acquireTimeout)
	equal(t, "busy_timeout", 250*time.Millisecond, o.busyTimeout)
	o, err = checkSettings(settings{"pool_acquire_timeout": "250ms", "busy_timeout": "0"})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "pool_acquire_timeout", 250*time.Millisecond, o.acquireTimeout)
	equal(t, "busy_timeout", time.Duration(0), o.busyTimeout)
}

func FuzzURL(f *testing.F) {
	f.Add("sqlite:a%3fb?mode=ro&busy_timeout=5s")
	f.Add("sqlite://:memory:?page_size=4096&cache_size=-100")
	f.Fuzz(func(t *testing.T, url string) {
		path, s, err := parseURL(url)
		if err == nil {
			_, err = checkSettings(s)
		}
		var wrong *backend.OptionError
		if err != nil && !errors.As(err, &wrong) {
			t.Errorf("%q gave %v, want an OptionError", url, err)
		}
		if err == nil && (path == "" || strings.ContainsRune(path, 0)) {
			t.Errorf("%q has the path %q", url, path)
		}
	})
}

// TestOptionsReachTheEngine sets every option to a value that is not SQLite's default.
func TestOptionsReachTheEngine(t *testing.T) {
	set := map[string]string{
		"busy_timeout": "1234", "foreign_keys": "off", "journal_mode": "truncate", "synchronous": "extra", "auto_vacuum": "incremental",
		"automatic_index": "off", "cache_size": "-321", "cell_size_check": "on", "journal_size_limit": "4096", "locking_mode": "exclusive",
		"max_page_count": "5000", "page_size": "8192", "recursive_triggers": "on", "secure_delete": "on", "temp_store": "memory",
		"trusted_schema": "off", "wal_autocheckpoint": "77", "max_size": "1", "pool_acquire_timeout": "1s", "statement_cache_size": "3", "mode": "rwc",
	}
	var query []string
	for _, name := range optionNames {
		if set[name] == "" {
			t.Errorf("the test sets no %s", name)
		}
		query = append(query, name+"="+set[name])
	}
	c := acquire(t, openFile(t, strings.Join(query, "&")))
	exec(t, c, "CREATE TABLE t (a)")
	want := map[string]any{
		"busy_timeout": int64(1234), "foreign_keys": int64(0), "journal_mode": "truncate", "synchronous": int64(3), "auto_vacuum": int64(2),
		"automatic_index": int64(0), "cache_size": int64(-321), "cell_size_check": int64(1), "journal_size_limit": int64(4096),
		"locking_mode": "exclusive", "max_page_count": int64(5000), "page_size": int64(8192), "recursive_triggers": int64(1),
		"secure_delete": int64(1), "temp_store": int64(2), "trusted_schema": int64(0), "wal_autocheckpoint": int64(77),
	}
	got := map[string]any{}
	for name := range want {
		got[name] = value(t, c, "PRAGMA "+name)
	}
	equal(t, "pragmas", want, got)
}

func TestDefaults(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	got := []any{value(t, c, "PRAGMA journal_mode"), value(t, c, "PRAGMA synchronous"), value(t, c, "PRAGMA foreign_keys"), value(t, c, "PRAGMA busy_timeout")}
	equal(t, "journal_mode, synchronous, foreign_keys, busy_timeout", []any{"wal", int64(1), int64(1), int64(5000)}, got)
}

func TestFileNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"plain.db", "with space.db", "a?b#c%d&e=f.db", "ünïcode.db", "'quoted'.db", "file:x"} {
		escaped := strings.NewReplacer("%", "%25", "?", "%3F").Replace(filepath.Join(dir, name))
		c := acquire(t, openURL(t, "sqlite:"+escaped))
		exec(t, c, "CREATE TABLE t (a)")
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.db")
	_, err := openURL(t, "sqlite:"+path+"?mode=rw").Acquire(t.Context())
	failed(t, err, backend.ClassConnection, "08001")

	writer := acquire(t, openURL(t, "sqlite:"+path+"?mode=rwc"))
	exec(t, writer, "CREATE TABLE t (a); INSERT INTO t VALUES (7)")
	exec(t, acquire(t, openURL(t, "sqlite:"+path+"?mode=rw")), "INSERT INTO t VALUES (8)")

	reader := acquire(t, openURL(t, "sqlite:"+path+"?mode=ro"))
	equal(t, "rows", [][]any{{int64(7)}, {int64(8)}}, table(t, reader, "SELECT a FROM t ORDER BY a"))
	_, err = reader.Exec(t.Context(), backend.Call{SQL: "INSERT INTO t VALUES (9)"})
	failed(t, err, backend.ClassReadOnly, "25006")
}

// TestNoDatabase: what cannot be opened is an error of the connection that names the path.
func TestNoDatabase(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "missing", "main.db"), dir, text, filepath.Join(text, "main.db")} {
		for _, mode := range []string{"ro", "rw", "rwc"} {
			db := openURL(t, "sqlite:"+path+"?mode="+mode)
			_, acquired := db.Acquire(t.Context())
			_, dialled := db.Dial(t.Context())
			for _, err := range []error{acquired, dialled} {
				e := failed(t, err, backend.ClassConnection, "08001")
				if !strings.Contains(e.Error(), path) {
					t.Errorf("the error does not name %s: %v", path, e)
				}
			}
		}
	}
}

// TestJournalImpossible: a journal mode that is asked for and cannot be had is not passed over.
func TestJournalImpossible(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.db")
	holder := acquire(t, openURL(t, "sqlite:"+path))
	exec(t, holder, "CREATE TABLE t (a)")
	rows, err := holder.Query(t.Context(), backend.Call{SQL: "SELECT 1 UNION SELECT 2"})
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	_, err = openURL(t, "sqlite:"+path+"?journal_mode=delete&busy_timeout=20").Acquire(t.Context())
	failed(t, err, backend.ClassRetryable, "40001")
}

func TestURIKeepsThePath(t *testing.T) {
	want := map[string]string{
		"a.db":      "file:a.db?mode=rwc",
		"//a/b.db":  "file:/a/b.db?mode=rwc",
		"a%b?c#d":   "file:a%25b%3fc%23d?mode=rwc",
		"./a/../b":  "file:b?mode=rwc",
		"/tmp/a.db": "file:/tmp/a.db?mode=rwc",
	}
	got := map[string]string{}
	for path := range want {
		got[path] = fileURI(path, "rwc")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
