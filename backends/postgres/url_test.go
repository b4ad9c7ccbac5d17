package postgres_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-go/hare/hare/backend"
)

// TestURLRefused: each wrong URL is refused before anything is dialled, by an error that names the option and says what
// would be right.
func TestURLRefused(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct{ url, option, reason string }{
		{"postgres:h/d", "url", "want postgres://"},
		{"postgres://h", "url", "names no database"},
		{"postgres://h/", "url", "names no database"},
		{"postgres://u:p@h:0/d", "port", "from 1 to 65535"},
		{"postgres://u:p@h:65536/d", "port", "from 1 to 65535"},
		{"postgres://u:p@h:/d", "url", "host and port"},
		{"postgres://u:p@[::1/d", "url", "host and port"},
		{"postgres://u:p@h:1:2/d", "port", "from 1 to 65535"},
		{"postgres://u:p@a,,b/d", "host", "empty element"},
		{"postgres://u:p@a%20b/d", "host", "space"},
		{"postgres://u:%zz@h/d", "password", "decoded"},
		{"postgres://u:p@h/d%00", "dbname", "decoded"},
		{"postgres://u:p@h/d?max_sise=3", "max_sise", `"max_size"`},
		{"postgres://u:p@h/d?bananas=3", "bananas", "the options are application_name,"},
		{"postgres://u:p?x@h/d", "url", "not repeated"},
		{"postgres://u:p@h/d?max_size", "max_size", "no value"},
		{"postgres://u:p@h/d?max_size=", "max_size", "empty"},
		{"postgres://u:p@h/d?max_size=1&max_size=1", "max_size", "twice"},
		{"postgres://u:p@h/d?host=g", "host", "twice"},
		{"postgres://u:p@h/d?user=v", "user", "twice"},
		{"postgres://u:p@h/d?password=q", "password", "twice"},
		{"postgres://u:p@h/d?dbname=e", "dbname", "twice"},
		{"postgres://u:p@h:1/d?port=2", "port", "twice"},
		{"postgres://u:p@a,b,c/d?port=1,2", "port", "another number"},
		{"postgres://h/d?max_size=0", "max_size", "from 1 to 10000"},
		{"postgres://h/d?max_size=10001", "max_size", "from 1 to 10000"},
		{"postgres://h/d?max_size=many", "max_size", "from 1 to 10000"},
		{"postgres://h/d?min_size=-1", "min_size", "from 0 to 10000"},
		{"postgres://h/d?min_size=17", "min_size", "more than max_size, which is 16"},
		{"postgres://h/d?statement_cache_size=1000001", "statement_cache_size", "from 0 to 1000000"},
		{"postgres://h/d?pool_acquire_timeout=0", "pool_acquire_timeout", "up to 86400"},
		{"postgres://h/d?pool_acquire_timeout=86401", "pool_acquire_timeout", "up to 86400"},
		{"postgres://h/d?pool_acquire_timeout=NaN", "pool_acquire_timeout", "up to 86400"},
		{"postgres://h/d?connect_timeout=-1s", "connect_timeout", "up to 86400"},
		{"postgres://h/d?connect_timeout=soon", "connect_timeout", "up to 86400"},
		{"postgres://h/d?statement_timeout=-1", "statement_timeout", "milliseconds"},
		{"postgres://h/d?statement_timeout=2147483648", "statement_timeout", "milliseconds"},
		{"postgres://h/d?lock_timeout=10us", "lock_timeout", "finer"},
		{"postgres://h/d?idle_in_transaction_session_timeout=1week", "idle_in_transaction_session_timeout", "milliseconds"},
		{"postgres://h/d?sslmode=verify", "sslmode", "verify-full"},
		{"postgres://h/d?sslrootcert=/nowhere", "sslrootcert", "read"},
		{"postgres://h/d?sslrootcert=" + empty, "sslrootcert", "no certificate"},
		{"postgres://h/d?sslmode=disable&sslrootcert=system", "sslmode", "never be used"},
		{"postgres://h/d?sslcert=/nowhere&sslkey=/nowhere", "sslcert", "read"},
		{"postgres://h/d?sslcert=" + empty, "sslcert", "needs sslkey"},
		{"postgres://h/d?sslkey=" + empty, "sslcert", "needs sslkey"},
		{"postgres://h/d?sslcert=" + empty + "&sslkey=" + empty, "sslcert", "PEM"},
		{"postgres://h/d?target_session_attrs=master", "target_session_attrs", "primary"},
		{"postgres://h/d?transaction_pooling=yes", "transaction_pooling", "true nor false"},
		{"postgres://h/d?transaction_pooling=1", "transaction_pooling", "true nor false"},
		{"postgres://h/d?direct_host=h", "direct_host", "transaction_pooling=true"},
		{"postgres://h/d?direct_port=1", "direct_port", "transaction_pooling=true"},
		{"postgres://h/d?transaction_pooling=false&direct_host=h", "direct_host", "transaction_pooling=true"},
		{"postgres://h/d?transaction_pooling=true&direct_port=1", "direct_port", "needs direct_host"},
		{"postgres://h/d?transaction_pooling=true&direct_host=a%20b", "direct_host", "space"},
		{"postgres://h/d?transaction_pooling=true&direct_host=a&direct_port=0", "direct_port", "from 1 to 65535"},
		{"postgres://h/d?transaction_pooling=true&direct_host=a,b,c&direct_port=1,2", "direct_port", "another number"},
	}
	for _, c := range cases {
		t.Run(c.url, func(t *testing.T) {
			_, err := tryOpen(t, c.url)
			var wrong *backend.OptionError
			if !errors.As(err, &wrong) {
				t.Fatalf("want an OptionError, got %v", err)
			}
			same(t, "the option", c.option, wrong.Option)
			if !strings.Contains(wrong.Reason, c.reason) {
				t.Errorf("the reason %q does not say %q", wrong.Reason, c.reason)
			}
		})
	}
}

// TestURLAccepted: what libpq accepts, and the options' forms. Nothing is dialled, so that the hosts need not exist.
func TestURLAccepted(t *testing.T) {
	for _, url := range []string{
		"postgres://h/d",
		"postgresql://h/d",
		"postgres:///d",
		"postgres:///d?host=/run/postgresql&user=u",
		"postgres://u:p%40%3A%2F@h:1/d",
		"postgres://u@[::1]:5432/d",
		"postgres://u@[fe80::1]/d",
		"postgres://u:p@a,b:5433,c/d?target_session_attrs=read-write",
		"postgres://u:p@h/d?port=5433",
		"postgres://h/d?min_size=2&max_size=2&pool_acquire_timeout=0.5&connect_timeout=250ms",
		"postgres://h/d?statement_timeout=15s&lock_timeout=250&idle_in_transaction_session_timeout=0",
		"postgres://h/d?application_name=a%20%26%20b's&search_path=a,%22b%22&statement_cache_size=0",
		"postgres://h/d?sslmode=verify-full&sslrootcert=system",
		"postgres://h/d?transaction_pooling=false",
		"postgres://h/d?transaction_pooling=true&direct_host=g&lock_timeout=1s",
		"postgres://h/d?transaction_pooling=true&direct_host=a,b&direct_port=1,2",
	} {
		db, err := tryOpen(t, url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		db.Close()
	}
}

// TestURLWithBrokenEnvironment: a setting from the environment is not blamed on the URL's password.
func TestURLWithBrokenEnvironment(t *testing.T) {
	t.Setenv("PGSSLMODE", "nonsense")
	_, err := tryOpen(t, "postgres://u:sesame@h/d")
	var wrong *backend.OptionError
	if !errors.As(err, &wrong) || !strings.Contains(wrong.Reason, "environment") || strings.Contains(wrong.Reason, "sesame") {
		t.Errorf("want an OptionError that names the environment, got %v", err)
	}
}

// FuzzURL: no URL makes Open panic, every refusal is an OptionError, and none of them repeats the password, however
// badly the URL is put together around it.
func FuzzURL(f *testing.F) {
	const secret = "Xq7Zk9Wv3Jm5"
	for _, around := range [][2]string{
		{"postgres://u:", "@h:1/d?max_size=4"}, {"postgres://", "@h/d"}, {"postgres://u:a/", "@h/d"}, {"postgres://u:a?", "@h/d"},
		{"postgres://u:a?", "=b@h/d"}, {"postgres://u:a%", "@h/d"}, {"postgres://u@h:", "@h/d"}, {"postgres://u:a#", "@h/d"},
		{"postgres://u:a?max_size=", "@h/d"}, {"postgres://h/d?password=", "&password=x"}, {"postgres://h/d?password=%", ""},
		{"postgres://u:[", "@h/d?x=y"}, {"postgres://u:,", "@h/d"}, {"postgres://h/d?sslmode=disable&password=", "%00"},
	} {
		f.Add(around[0], around[1])
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		driver, _ := backend.Lookup("postgres")
		// A secret that stands in the place of an option's name, host or user is no password of a URL that is
		// meant to be one: there must be a host after it, or the option before it.
		if !strings.Contains(after, "@") && !strings.HasSuffix(before, "password=") {
			after = "@" + after
		}
		db, err := driver.Open(backend.Config{Alias: "main", URL: before + secret + after})
		if err == nil {
			db.Close()
			return
		}
		var wrong *backend.OptionError
		if !errors.As(err, &wrong) {
			t.Fatalf("want an OptionError, got %T", err)
		}
		if strings.Contains(err.Error(), secret) {
			t.Fatalf("the error repeats the password: %v", err)
		}
	})
}
