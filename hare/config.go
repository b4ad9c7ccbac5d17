package hare

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hare-go/hare/hare/backend"
)

// Config says which databases a program uses. It holds passwords: its String, GoString, LogValue and JSON mask them, so
// that it can be printed and logged, also inside another value.
type Config struct {
	// Connections maps an alias to a URL: postgres://user:password@host:port/database?option=value,
	// sqlite:path?option=value, clickhouse://... The options are those of the backend. An alias is any text
	// without control characters, commas and spaces at its ends; it appears in the names of prepared transactions.
	Connections map[string]string
	// Default is the alias where none is named. Empty means the alias "default", or the only one there is; where
	// there is neither, each call must name an alias.
	Default string
}

// String lists the connections with their secrets masked.
func (c Config) String() string {
	var b strings.Builder
	b.WriteString("hare.Config{")
	for i, alias := range sortedKeys(c.Connections) {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s: %s", alias, maskURL(c.Connections[alias]))
	}
	if c.Default != "" {
		fmt.Fprintf(&b, "; default: %s", c.Default)
	}
	b.WriteString("}")
	return b.String()
}

// GoString is [Config.String], so that %#v prints no secret either.
func (c Config) GoString() string { return c.String() }

// LogValue is the configuration for log/slog, with the secrets masked.
func (c Config) LogValue() slog.Value {
	attrs := make([]slog.Attr, 0, len(c.Connections)+1)
	for _, alias := range sortedKeys(c.Connections) {
		attrs = append(attrs, slog.String(alias, maskURL(c.Connections[alias])))
	}
	if c.Default != "" {
		attrs = append(attrs, slog.String("default", c.Default))
	}
	return slog.GroupValue(attrs...)
}

// MarshalJSON is the configuration for programs that print it as JSON, inside another value too, with the secrets masked.
func (c Config) MarshalJSON() ([]byte, error) {
	masked := make(map[string]string, len(c.Connections))
	for alias, url := range c.Connections {
		masked[alias] = maskURL(url)
	}
	return json.Marshal(struct {
		Connections map[string]string
		Default     string
	}{masked, c.Default})
}

// check finds what is wrong without any backend: no connection, bad aliases, an unknown default.
func (c Config) check() error {
	if len(c.Connections) == 0 {
		return &ConfigurationError{Option: "connections", Reason: "there is no connection"}
	}
	aliases := sortedKeys(c.Connections)
	for _, alias := range aliases {
		if reason := aliasFault(alias); reason != "" {
			return &ConfigurationError{Alias: alias, Reason: reason}
		}
	}
	if _, ok := c.Connections[c.Default]; c.Default != "" && !ok {
		return &ConfigurationError{Option: "default", Reason: fmt.Sprintf("there is no connection %q%s", c.Default, nearest(c.Default, aliases))}
	}
	return nil
}

// defaultAlias follows the rule of [Config.Default]; it is empty where no alias is the default.
func (c Config) defaultAlias() string {
	if c.Default != "" {
		return c.Default
	}
	if _, ok := c.Connections["default"]; ok {
		return "default"
	}
	if len(c.Connections) == 1 {
		return sortedKeys(c.Connections)[0]
	}
	return ""
}

// aliasFault says why an alias cannot be used, or is empty. Aliases stand in the names of prepared transactions and,
// joined by commas, in the row that records a decision.
func aliasFault(alias string) string {
	switch {
	case alias == "":
		return "an alias must not be empty"
	case !utf8.ValidString(alias):
		return "an alias must be valid UTF-8"
	case strings.TrimSpace(alias) != alias:
		return "an alias must not begin or end with a space"
	case strings.Contains(alias, ","):
		return "an alias must not contain a comma"
	case strings.ContainsFunc(alias, unicode.IsControl):
		return "an alias must not contain a control character"
	}
	return ""
}

// imports are the packages that hare has for URL schemes, for the message about one that is not imported.
var imports = map[string]string{
	"postgres":   "github.com/hare-go/hare/backends/postgres",
	"postgresql": "github.com/hare-go/hare/backends/postgres",
	"sqlite":     "github.com/hare-go/hare/backends/sqlite",
	"clickhouse": "github.com/hare-go/hare/backends/clickhouse",
}

// driver finds the backend of a connection's URL.
func driver(alias, address string) (backend.Driver, error) {
	scheme, _, found := strings.Cut(address, ":")
	if !found || scheme == "" || strings.ContainsAny(scheme, "/@?=. ") {
		return nil, &ConfigurationError{Alias: alias, Option: "url", Reason: "it must begin with a scheme, such as postgres:// or sqlite:"}
	}
	if d, ok := backend.Lookup(scheme); ok {
		return d, nil
	}
	reason := fmt.Sprintf("no backend is imported for the scheme %q", scheme)
	if path, ok := imports[scheme]; ok {
		reason += fmt.Sprintf("; add import _ %q", path)
	} else {
		known := append(backend.Schemes(), sortedKeys(imports)...)
		slices.Sort(known)
		reason += nearest(scheme, slices.Compact(known))
	}
	return nil, &ConfigurationError{Alias: alias, Option: "url", Reason: reason}
}

const masked = "xxxxx"

// secretOptions are the words that mark a URL option as secret.
var secretOptions = []string{"password", "passwd", "pwd", "secret", "token"}

// maskURL is the URL with its password and secret options masked. Of a text that may be mistyped only the scheme is
// shown: a password with an unescaped '/', '#' or '?' in it lands anywhere.
func maskURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Fragment != "" || strings.Contains(u.Opaque+u.Path+u.RawQuery, "@") {
		scheme, _, found := strings.Cut(text, "://")
		if !found || strings.ContainsAny(scheme, ":@/ ") {
			return masked
		}
		return scheme + "://" + masked
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), masked)
	}
	options := strings.Split(u.RawQuery, "&")
	for i, option := range options {
		name, _, _ := strings.Cut(option, "=")
		if isSecret(name) {
			options[i] = name + "=" + masked
		}
	}
	u.RawQuery = strings.Join(options, "&")
	return u.String()
}

func isSecret(option string) bool {
	if decoded, err := url.QueryUnescape(option); err == nil {
		option = decoded
	}
	option = strings.ToLower(option)
	return slices.ContainsFunc(secretOptions, func(word string) bool { return strings.Contains(option, word) })
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
