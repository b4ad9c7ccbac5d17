package postgres

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/hare-go/hare/hare/backend"
)

// settings are the parts and options of a connection's URL by name, decoded. The parts of the address have the names
// that libpq gives them: host, port, user, password, dbname.
type settings map[string]string

// addressForm is what a reason shows instead of the URL itself, which may hold a password wherever it is malformed.
const addressForm = "want postgres://user:password@host:port/database?option=value, with %XX for special characters in a part"

// parseURL takes a URL apart. It does not use net/url, which refuses several hosts and quotes what it refuses, so that
// its errors can carry a password.
func parseURL(text string) (settings, error) {
	_, rest, ok := strings.Cut(text, "://")
	if !ok {
		return nil, wrongURL(addressForm)
	}
	address, query, _ := strings.Cut(rest, "?")
	authority, database, _ := strings.Cut(address, "/")
	s := settings{}
	if err := s.readAuthority(authority); err != nil {
		return nil, err
	}
	if err := s.put("dbname", database); err != nil {
		return nil, err
	}
	// An unencoded "@" after the authority means that the authority may have ended inside a password.
	doubtful := strings.Contains(strings.TrimPrefix(rest, authority), "@")
	if err := s.readQuery(query, doubtful); err != nil {
		return nil, err
	}
	return s, nil
}

// readAuthority reads user:password@host:port,host:port.
func (s settings) readAuthority(authority string) error {
	credentials, hosts := "", authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		credentials, hosts = authority[:at], authority[at+1:]
	}
	user, password, _ := strings.Cut(credentials, ":")
	if err := s.put("user", user); err != nil {
		return err
	}
	if err := s.put("password", password); err != nil {
		return err
	}
	host, port, err := splitHosts(hosts)
	if err != nil {
		return err
	}
	if err := s.put("host", host); err != nil {
		return err
	}
	return s.put("port", port)
}

// splitHosts separates the hosts from the ports of a comma-separated list, as libpq wants them. The ports are
// empty if no host has one.
func splitHosts(list string) (hosts, ports string, err error) {
	var host, port []string
	given := false
	for element := range strings.SplitSeq(list, ",") {
		name, number, found := splitPort(element)
		if found && number == "" || strings.ContainsAny(name, "[]:") {
			return "", "", wrongURL("the host and port cannot be read: " + addressForm)
		}
		given = given || found
		host, port = append(host, name), append(port, number)
	}
	if !given {
		return strings.Join(host, ","), "", nil
	}
	for i := range port {
		if port[i] == "" {
			port[i] = defaultPort
		}
	}
	return strings.Join(host, ","), strings.Join(port, ","), nil
}

// splitPort splits host:port and [address]:port. found tells whether there was a colon for a port.
func splitPort(element string) (host, port string, found bool) {
	if inner, ok := strings.CutPrefix(element, "["); ok {
		address, after, closed := strings.Cut(inner, "]")
		if !closed || after != "" && after[0] != ':' {
			return element, "", true
		}
		// The colons of an IPv6 address travel encoded until put decodes them.
		return strings.ReplaceAll(address, ":", "%3A"), strings.TrimPrefix(after, ":"), after != ""
	}
	return strings.Cut(element, ":")
}

// identifier is what an option's name looks like. Only such a name may be quoted.
var identifier = regexp.MustCompile(`^[A-Za-z_]{1,64}$`)

// readQuery reads option=value&option=value.
func (s settings) readQuery(query string, doubtful bool) error {
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		name, value, found := strings.Cut(pair, "=")
		if _, known := optionTable[name]; !known {
			return unknownOption(name, doubtful)
		}
		if !found {
			return &backend.OptionError{Option: name, Reason: "has no value: want " + name + "=value"}
		}
		if _, twice := s[name]; twice {
			return &backend.OptionError{Option: name, Reason: "is given twice, in the options or in the address and the options: keep one"}
		}
		if err := s.put(name, value); err != nil {
			return err
		}
		if s[name] == "" {
			return &backend.OptionError{Option: name, Reason: "is empty: leave it out for the default"}
		}
	}
	return nil
}

// put decodes and keeps a part of the URL. An empty part is one that was not given.
func (s settings) put(name, encoded string) error {
	value, err := url.PathUnescape(encoded)
	if err != nil || strings.ContainsRune(value, 0) {
		return &backend.OptionError{Option: name, Reason: "cannot be decoded: write a literal % as %25"}
	}
	if value != "" || encoded != "" {
		s[name] = value
	}
	return nil
}

// unknownOption names an unknown option, unless what stands there may be a piece of a password.
func unknownOption(name string, doubtful bool) error {
	if doubtful || !identifier.MatchString(name) {
		return wrongURL("it has an unknown option that is not repeated here because it may be part of a password: " + addressForm)
	}
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
