package sqlite

import (
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hare-go/hare/hare/backend"
)

// settings are the options of a connection's URL by name, decoded.
type settings map[string]string

// inMemory is the path of a memory database.
const inMemory = ":memory:"

// parseURL takes a URL apart.
func parseURL(text string) (path string, s settings, err error) {
	rest, ok := strings.CutPrefix(text, "sqlite:")
	if !ok {
		return "", nil, wrongURL("want sqlite:path?option=value, or sqlite::memory:")
	}
	address, query, _ := strings.Cut(rest, "?")
	// With or without the two slashes of a URL: what follows them is the path.
	address = strings.TrimPrefix(address, "//")
	path, err = url.PathUnescape(address)
	switch {
	case err != nil:
		return "", nil, wrongURL("the path cannot be decoded: write a literal % as %25")
	case path == "":
		return "", nil, wrongURL("it names no file: want sqlite:path, or sqlite::memory:")
	case strings.ContainsRune(path, 0):
		return "", nil, wrongURL("a path has no NUL character in it")
	}
	s, err = readQuery(query)
	return path, s, err
}

// readQuery reads option=value&option=value.
func readQuery(query string) (settings, error) {
	s := settings{}
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		name, encoded, found := strings.Cut(pair, "=")
		if _, known := optionTable[name]; !known {
			return nil, unknownOption(name)
		}
		if !found || encoded == "" {
			return nil, &backend.OptionError{Option: name, Reason: "has no value: want " + name + "=value, or leave it out for the default"}
		}
		if _, twice := s[name]; twice {
			return nil, &backend.OptionError{Option: name, Reason: "is given twice: keep one"}
		}
		value, err := url.PathUnescape(encoded)
		if err != nil {
			return nil, &backend.OptionError{Option: name, Reason: "cannot be decoded: write a literal % as %25"}
		}
		s[name] = value
	}
	return s, nil
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

// fileURI is the file as SQLite's own URI, the only way to give it the mode together with a context. Clean leaves no
// two slashes at the start, after which SQLite would look for a host.
func fileURI(path, mode string) string {
	escape := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23")
	return "file:" + escape.Replace(filepath.ToSlash(filepath.Clean(path))) + "?mode=" + mode
}
