package postgres

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-go/hare/hare/backend"
)

const defaultPort = "5432"

// options are the checked options that hare itself acts on. The others go to pgx, or to the server as run-time
// parameters of the session.
type options struct {
	minSize, maxSize int64
	statements       int64 // prepared statements kept for each connection
	acquireTimeout   time.Duration
	connectTimeout   time.Duration
	session          map[string]string // run-time parameters
	guards           map[string]string // those that a pooler may drop or refuse, see guards.go
	pooled           *bool             // transaction_pooling
	directHost       string
	directPort       string
	tablesOwners     []string // tables_owner
}

// defaultOptions holds the defaults that the package comment documents. The connect time-out is shorter than the
// acquire time-out, so that a server that does not answer is reported as such and not as a pool that is full.
func defaultOptions() options {
	return options{
		maxSize:        16,
		statements:     512,
		acquireTimeout: 30 * time.Second,
		connectTimeout: 10 * time.Second,
		session:        map[string]string{"timezone": "UTC", "client_encoding": "UTF8"},
		guards:         map[string]string{},
		directPort:     defaultPort,
	}
}

// check checks one option's value and keeps what hare itself acts on. It returns what is wrong with the value, and never
// quotes it.
type check func(o *options, value string) (wrong string)

// optionTable has every option by name.
var optionTable = map[string]check{
	"host":     hosts,
	"port":     ports,
	"user":     anything,
	"password": anything,
	"dbname":   anything,

	"min_size":             func(o *options, v string) string { return integer(v, 0, maxPool, &o.minSize) },
	"max_size":             func(o *options, v string) string { return integer(v, 1, maxPool, &o.maxSize) },
	"pool_acquire_timeout": func(o *options, v string) string { return seconds(v, &o.acquireTimeout) },
	"connect_timeout":      func(o *options, v string) string { return seconds(v, &o.connectTimeout) },
	"statement_cache_size": func(o *options, v string) string { return integer(v, 0, 1_000_000, &o.statements) },

	"statement_timeout":                   milliseconds("statement_timeout"),
	"lock_timeout":                        milliseconds("lock_timeout"),
	"idle_in_transaction_session_timeout": milliseconds("idle_in_transaction_session_timeout"),
	"search_path":                         searchPath,
	"synchronous_commit":                  synchronousCommit,
	"application_name":                    applicationName,

	"sslmode":     oneOf("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
	"sslrootcert": certificates,
	"sslcert":     readable,
	"sslkey":      readable,

	"require_auth":    requireAuth,
	"channel_binding": oneOf("disable", "prefer", "require"),

	"target_session_attrs": oneOf("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),

	"transaction_pooling": transactionPooling,
	"direct_host":         directHost,
	"direct_port":         directPort,
	"tables_owner":        tablesOwner,
}

// optionNames are the names in optionTable in order.
var optionNames = slices.Sorted(maps.Keys(optionTable))

// maxPool is the largest pool that an option can ask for.
const maxPool = 10_000

// checkSettings checks each setting and then what they mean together.
func checkSettings(s settings) (options, error) {
	o := defaultOptions()
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if wrong := optionTable[name](&o, s[name]); wrong != "" {
			return options{}, &backend.OptionError{Option: name, Reason: wrong}
		}
	}
	if wrong := together(s, &o); wrong != nil {
		return options{}, wrong
	}
	return o, nil
}

// together checks what no single option shows.
func together(s settings, o *options) error {
	if s["dbname"] == "" {
		return wrongURL("it names no database: " + addressForm)
	}
	if o.minSize > o.maxSize {
		return &backend.OptionError{Option: "min_size", Reason: fmt.Sprintf("is %d, more than max_size, which is %d", o.minSize, o.maxSize)}
	}
	if n := strings.Count(s["port"], ","); n > 0 && n != strings.Count(s["host"], ",") {
		return &backend.OptionError{Option: "port", Reason: "has another number of elements than host: give one port for all hosts, or one for each"}
	}
	if wrong := togetherDirect(s, o); wrong != nil {
		return wrong
	}
	if (s["sslcert"] == "") != (s["sslkey"] == "") {
		return &backend.OptionError{Option: "sslcert", Reason: "needs sslkey, and sslkey needs sslcert"}
	}
	if s["sslcert"] != "" {
		if _, err := tls.LoadX509KeyPair(s["sslcert"], s["sslkey"]); err != nil {
			return &backend.OptionError{Option: "sslcert", Reason: "and sslkey are not a certificate in PEM form and its unencrypted key"}
		}
	}
	if s["sslmode"] == "disable" && (s["sslrootcert"] != "" || s["sslcert"] != "") {
		return &backend.OptionError{Option: "sslmode", Reason: "is disable, so that the certificates given would never be used: want verify-full, or no certificates"}
	}
	return nil
}

func anything(*options, string) string { return "" }

func hosts(_ *options, value string) string {
	list := strings.Split(value, ",")
	if len(list) > 1 && slices.Contains(list, "") {
		return "has an empty element in its list"
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' }) {
		return "has a space or control character in it"
	}
	return ""
}

func ports(_ *options, value string) string {
	for port := range strings.SplitSeq(value, ",") {
		if wrong := integer(port, 1, math.MaxUint16, new(int64)); wrong != "" {
			return wrong
		}
	}
	return ""
}

// integer reads a whole number.
func integer(value string, low, high int64, into *int64) string {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < low || n > high {
		return fmt.Sprintf("is not a whole number from %d to %d", low, high)
	}
	*into = n
	return ""
}

// seconds reads a time-out of the client: a number is seconds, as libpq has them.
func seconds(value string, into *time.Duration) string {
	const longest = 86400 * time.Second
	d, err := time.ParseDuration(value)
	if n, numeric := strconv.ParseFloat(value, 64); numeric == nil && n >= 0 && n <= longest.Seconds() {
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || d <= 0 || d > longest {
		return "is not a time-out: want seconds above 0 and up to 86400, or a duration such as 15s or 250ms"
	}
	*into = d
	return ""
}

// milliseconds reads a time-out of the server: a number is milliseconds, as PostgreSQL has them, and 0 is none.
func milliseconds(name string) check {
	return func(o *options, value string) string {
		ms, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			var d time.Duration
			if d, err = time.ParseDuration(value); err == nil && d%time.Millisecond != 0 {
				return "is finer than a millisecond"
			}
			ms = d.Milliseconds()
		}
		if err != nil || ms < 0 || ms > math.MaxInt32 {
			return "is not a time-out: want whole milliseconds from 0, which is none, to 2147483647, or a duration such as 15s or 250ms"
		}
		o.guards[name] = strconv.FormatInt(ms, 10)
		return ""
	}
}

func searchPath(o *options, value string) string {
	o.guards["search_path"] = value
	return ""
}

// tablesOwner reads a list of roles.
func tablesOwner(o *options, value string) string {
	if o.tablesOwners = strings.Split(value, ","); slices.Contains(o.tablesOwners, "") {
		return "has an empty element in its list"
	}
	return ""
}

// synchronousCommit checks the values that PostgreSQL documents; others that it takes, such as "yes", it names "on".
func synchronousCommit(o *options, value string) string {
	o.guards["synchronous_commit"] = value
	return oneOf("on", "remote_apply", "remote_write", "local", "off")(o, value)
}

func applicationName(o *options, value string) string {
	o.session["application_name"] = value
	return ""
}

func oneOf(allowed ...string) check {
	return func(_ *options, value string) string {
		if slices.Contains(allowed, value) {
			return ""
		}
		return "is none of " + strings.Join(allowed, ", ")
	}
}

func readable(_ *options, path string) string {
	if _, err := os.ReadFile(path); err != nil {
		return "is not a file that can be read"
	}
	return ""
}

func certificates(_ *options, path string) string {
	if path == "system" {
		return ""
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return "is not a file that can be read"
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return "has no certificate in PEM form in it"
	}
	return ""
}
