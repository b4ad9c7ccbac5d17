package clickhouse

import (
	"fmt"
	"maps"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-go/hare/hare/backend"
)

// optionTable checks each option's value and returns what is wrong with it.
var optionTable = map[string]func(value string) (wrong string){
	"max_size":             func(v string) string { return integer(v, 1, 10_000) },
	"pool_acquire_timeout": seconds,
	"connect_timeout":      seconds,
	"secure":               func(v string) string { return word(v, "true", "false") },
	"compression":          func(v string) string { return word(v, "none", "lz4", "zstd") },
}

// optionNames are the names in optionTable in order.
var optionNames = slices.Sorted(maps.Keys(optionTable))

// addressForm is what a reason shows instead of the URL itself, which may hold a password wherever it is malformed.
const addressForm = "want clickhouse://user:password@host:port/database?option=value, with %XX for special characters in a part"

// checkURL checks a URL. It does not use url.Parse, whose errors quote what they refuse.
func checkURL(text string) error {
	_, rest, ok := strings.Cut(text, "://")
	if !ok {
		return wrongURL(addressForm)
	}
	address, query, _ := strings.Cut(rest, "?")
	authority, database, _ := strings.Cut(address, "/")
	host := authority[strings.LastIndexByte(authority, '@')+1:]
	if err := checkHost(host); err != nil {
		return err
	}
	if strings.Contains(database, "@") || strings.Contains(query, "@") {
		return wrongURL("an @ stands behind the address, which may have ended inside a password: " + addressForm)
	}
	credentials := strings.TrimSuffix(authority, host)
	for name, part := range map[string]string{"user and password": credentials, "database": database} {
		if _, err := url.PathUnescape(part); err != nil {
			return wrongURL("the " + name + " cannot be decoded: write a literal % as %25")
		}
	}
	if strings.Trim(database, "/") == "" || strings.Contains(database, "/") {
		return wrongURL("it names no database: " + addressForm)
	}
	return checkOptions(query)
}

// checkHost checks host or host:port.
func checkHost(address string) error {
	host := address
	if strings.LastIndexByte(address, ':') > strings.LastIndexByte(address, ']') {
		name, port, err := net.SplitHostPort(address)
		if err != nil {
			return wrongURL("the host and port cannot be read: " + addressForm)
		}
		host = name
		if wrong := integer(port, 1, math.MaxUint16); wrong != "" {
			return &backend.OptionError{Option: "port", Reason: wrong}
		}
	}
	if host == "" || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' }) {
		return &backend.OptionError{Option: "host", Reason: "is missing, or has a space or control character in it: " + addressForm}
	}
	return nil
}

// checkOptions checks option=value&option=value.
func checkOptions(query string) error {
	seen := map[string]bool{}
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		name, encoded, found := strings.Cut(pair, "=")
		check, known := optionTable[name]
		value, err := url.PathUnescape(encoded)
		var reason string
		switch {
		case !known:
			return unknownOption(name)
		case !found || value == "":
			reason = "has no value: want " + name + "=value, or leave it out for the default"
		case err != nil:
			reason = "cannot be decoded: write a literal % as %25"
		case seen[name]:
			reason = "is given twice: keep one"
		default:
			reason = check(value)
		}
		if reason != "" {
			return &backend.OptionError{Option: name, Reason: reason}
		}
		seen[name] = true
	}
	return nil
}

func unknownOption(name string) error {
	reason := "is unknown: the options are " + strings.Join(optionNames, ", ")
	if near := backend.Nearest(name, optionNames); near != "" {
		reason = "is unknown: did you mean " + strconv.Quote(near) + "?"
	}
	return &backend.OptionError{Option: name, Reason: reason}
}

// wrongURL is the error for an address that is wrong as a whole.
func wrongURL(reason string) error {
	return &backend.OptionError{Option: "url", Reason: reason}
}

func word(value string, allowed ...string) string {
	if slices.Contains(allowed, value) {
		return ""
	}
	return "is none of " + strings.Join(allowed, ", ")
}

func integer(value string, low, high int64) string {
	if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < low || n > high {
		return fmt.Sprintf("is not a whole number from %d to %d", low, high)
	}
	return ""
}

// seconds checks a time-out: a number is seconds.
func seconds(value string) string {
	const longest = 86400 * time.Second
	d, err := time.ParseDuration(value)
	if n, numeric := strconv.ParseFloat(value, 64); numeric == nil && n >= 0 && n <= longest.Seconds() {
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || d <= 0 || d > longest {
		return "is not a time-out: want seconds above 0 and up to 86400, or a duration such as 15s or 250ms"
	}
	return ""
}
