package sqlite

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-go/hare/hare/backend"
)

// options are the checked options of a database.
type options struct {
	maxSize        int64
	statements     int64 // prepared statements kept for each connection
	acquireTimeout time.Duration
	busyTimeout    time.Duration
	mode           string
	pragmas        map[string]string
	asked          map[string]bool // pragmas that the URL names
}

// defaultOptions holds the defaults that the package comment documents.
func defaultOptions() options {
	return options{
		maxSize:        16,
		statements:     512,
		acquireTimeout: 30 * time.Second,
		busyTimeout:    5 * time.Second,
		mode:           "rwc",
		pragmas:        map[string]string{"foreign_keys": "on", "journal_mode": "wal", "synchronous": "normal"},
		asked:          map[string]bool{},
	}
}

// check checks one option's value and keeps it. It returns what is wrong with the value.
type check func(o *options, value string) (wrong string)

// optionTable has every option by name.
var optionTable = map[string]check{
	"max_size":             func(o *options, v string) string { return integer(v, 1, maxPool, &o.maxSize) },
	"pool_acquire_timeout": func(o *options, v string) string { return seconds(v, &o.acquireTimeout) },
	"statement_cache_size": func(o *options, v string) string { return integer(v, 0, 1_000_000, &o.statements) },
	"busy_timeout":         func(o *options, v string) string { return milliseconds(v, &o.busyTimeout) },
	"mode": func(o *options, v string) string {
		o.mode = v
		return word(v, "ro", "rw", "rwc")
	},

	"auto_vacuum":        words("auto_vacuum", "none", "full", "incremental"),
	"automatic_index":    words("automatic_index", "on", "off"),
	"cache_size":         numbers("cache_size", math.MinInt32, math.MaxInt32),
	"cell_size_check":    words("cell_size_check", "on", "off"),
	"foreign_keys":       words("foreign_keys", "on", "off"),
	"journal_mode":       words("journal_mode", "delete", "truncate", "persist", "memory", "wal", "off"),
	"journal_size_limit": numbers("journal_size_limit", -1, math.MaxInt64),
	"locking_mode":       words("locking_mode", "normal", "exclusive"),
	"max_page_count":     numbers("max_page_count", 1, math.MaxUint32-1),
	"page_size":          pageSize,
	"recursive_triggers": words("recursive_triggers", "on", "off"),
	"secure_delete":      words("secure_delete", "on", "off", "fast"),
	"synchronous":        words("synchronous", "off", "normal", "full", "extra"),
	"temp_store":         words("temp_store", "default", "file", "memory"),
	"trusted_schema":     words("trusted_schema", "on", "off"),
	"wal_autocheckpoint": numbers("wal_autocheckpoint", 0, math.MaxInt32),
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
	if o.pragmas["locking_mode"] == "exclusive" && o.maxSize != 1 {
		return options{}, &backend.OptionError{Option: "locking_mode", Reason: "is exclusive, which keeps every second connection out: set max_size=1"}
	}
	return o, nil
}

// first are the pragmas that must precede the others: those that shape a new file before journal_mode writes to it.
var first = []string{"page_size", "auto_vacuum", "locking_mode"}

// script is the pragmas as statements, journal_mode left out.
func (o *options) script() string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(o.pragmas)), func(name string) bool {
		return name == "journal_mode" || slices.Contains(first, name)
	})
	var text strings.Builder
	for _, name := range slices.Concat(first, names) {
		if value, ok := o.pragmas[name]; ok {
			fmt.Fprintf(&text, "PRAGMA %s=%s;", name, value)
		}
	}
	return text.String()
}

func (o *options) pragma(name, value string) {
	o.pragmas[name] = value
	o.asked[name] = true
}

// words is the check of a pragma that takes one of some words.
func words(name string, allowed ...string) check {
	return func(o *options, value string) string {
		o.pragma(name, value)
		return word(value, allowed...)
	}
}

// numbers is the check of a pragma that takes a whole number.
func numbers(name string, low, high int64) check {
	return func(o *options, value string) string {
		var n int64
		wrong := integer(value, low, high, &n)
		o.pragma(name, strconv.FormatInt(n, 10))
		return wrong
	}
}

func pageSize(o *options, value string) string {
	var n int64
	if wrong := integer(value, 512, 65536, &n); wrong != "" || n&(n-1) != 0 {
		return "is not a power of two from 512 to 65536"
	}
	o.pragma("page_size", value)
	return ""
}

func word(value string, allowed ...string) string {
	if slices.Contains(allowed, value) {
		return ""
	}
	return "is none of " + strings.Join(allowed, ", ")
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

// seconds reads a time-out of the pool: a number is seconds.
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

// milliseconds reads a time-out of SQLite: a number is milliseconds, as its PRAGMA has them.
func milliseconds(value string, into *time.Duration) string {
	d, err := time.ParseDuration(value)
	if n, numeric := strconv.ParseInt(value, 10, 32); numeric == nil {
		d, err = time.Duration(n)*time.Millisecond, nil
	}
	if err != nil || d < 0 || d.Milliseconds() > math.MaxInt32 || d%time.Millisecond != 0 {
		return "is not a time-out: want whole milliseconds from 0 to 2147483647, or a duration such as 5s or 250ms"
	}
	*into = d
	return ""
}
