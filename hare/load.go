package hare

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// LoadConfig reads a configuration file, by custom hare.yml:
//
//	connections:
//	  library: postgres://hare:${LIBRARY_PASSWORD}@db1/library?max_size=20
//	  inventory:
//	    url: postgres://hare:${INVENTORY_PASSWORD}@db2/inventory
//	default: library
//
// ${NAME} in a value is the environment variable NAME, put in as it is (a password in a URL must be percent-encoded);
// a variable that is not set is an error, and $${ is a literal ${. Every mistake is a [*ConfigurationError] with the
// file and the line: an unknown key names the nearest known one. The URLs are checked by [Open].
func LoadConfig(path string) (Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, &ConfigurationError{Reason: "the configuration cannot be read: " + err.Error(), Err: err}
	}
	return parseConfig(path, text)
}

// configFile is where a mistake is reported.
type configFile struct{ path string }

func (f configFile) fault(node *yaml.Node, option, format string, args ...any) error {
	return &ConfigurationError{Option: option, Reason: fmt.Sprintf("%s:%d: ", f.path, node.Line) + fmt.Sprintf(format, args...)}
}

func parseConfig(path string, text []byte) (Config, error) {
	file := configFile{path}
	var document, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return Config{}, &ConfigurationError{Option: "connections", Reason: path + " is empty"}
	case err != nil:
		return Config{}, &ConfigurationError{Reason: fmt.Sprintf("%s is not YAML: %v", path, err), Err: err}
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return Config{}, &ConfigurationError{Reason: path + " holds more than one YAML document"}
	}
	var cfg Config
	err := file.mapping(document.Content[0], "", map[string]setter{
		"connections": func(key string, value *yaml.Node) (err error) {
			cfg.Connections, err = file.connections(value)
			return err
		},
		"default": func(key string, value *yaml.Node) (err error) {
			cfg.Default, err = file.text(value, key)
			return err
		},
	})
	if err != nil {
		return Config{}, err
	}
	return cfg, cfg.check()
}

// setter takes the value of one key of a mapping.
type setter func(key string, value *yaml.Node) error

// mapping gives each value of a mapping to the setter of its key.
func (f configFile) mapping(node *yaml.Node, option string, setters map[string]setter) error {
	return f.entries(node, option, func(key *yaml.Node, value *yaml.Node) error {
		set, ok := setters[key.Value]
		if !ok {
			known := make(map[string]string, len(setters))
			for name := range setters {
				known[name] = name
			}
			return f.fault(key, key.Value, "unknown key%s", nearest(key.Value, sortedKeys(known)))
		}
		return set(key.Value, value)
	})
}

// entries walks the entries of a mapping. yaml itself lets a key stand twice in a node and takes the last.
func (f configFile) entries(node *yaml.Node, option string, visit func(key, value *yaml.Node) error) error {
	node = resolved(node)
	if node.Kind != yaml.MappingNode {
		return f.fault(node, option, "must be a mapping of keys to values")
	}
	seen := map[string]bool{}
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			return f.fault(key, option, "a key must be a plain text")
		}
		if seen[key.Value] {
			return f.fault(key, key.Value, "stands twice")
		}
		seen[key.Value] = true
		if err := visit(key, value); err != nil {
			return err
		}
	}
	return nil
}

func (f configFile) connections(node *yaml.Node) (map[string]string, error) {
	connections := map[string]string{}
	err := f.entries(node, "connections", func(key, value *yaml.Node) error {
		address, err := f.address(key, resolved(value))
		if err != nil {
			return err
		}
		connections[key.Value] = address
		return nil
	})
	return connections, err
}

// address is the URL of one connection: the text itself, or the key url of a mapping.
func (f configFile) address(alias, value *yaml.Node) (string, error) {
	option := "connections." + alias.Value
	if value.Kind != yaml.MappingNode {
		return f.text(value, option)
	}
	var address string
	err := f.mapping(value, option, map[string]setter{
		"url": func(key string, value *yaml.Node) (err error) {
			address, err = f.text(value, option+"."+key)
			return err
		},
	})
	if err == nil && address == "" {
		err = f.fault(alias, option, "has no url")
	}
	return address, err
}

// text is a text value with its environment variables put in.
func (f configFile) text(node *yaml.Node, option string) (string, error) {
	node = resolved(node)
	if node.Kind != yaml.ScalarNode || node.Tag != "!!str" || node.Value == "" {
		return "", f.fault(node, option, "must be a text")
	}
	text, missing := expand(node.Value)
	if missing != "" {
		return "", f.fault(node, option, "%s", missing)
	}
	return text, nil
}

// expand puts the environment's values in for ${NAME}. What has been put in is not looked at again.
func expand(text string) (expanded, fault string) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			b.WriteString(text)
			return b.String(), ""
		}
		if escaped, ok := strings.CutSuffix(before, "$"); ok {
			b.WriteString(escaped + "${")
			text = rest
			continue
		}
		name, after, found := strings.Cut(rest, "}")
		if !found || name == "" {
			return "", "a ${ is not closed, or has no name; a literal ${ is written $${"
		}
		value, set := os.LookupEnv(name)
		if !set {
			return "", fmt.Sprintf("the environment variable %s is not set", name)
		}
		b.WriteString(before + value)
		text = after
	}
}

// resolved is the node that an alias of YAML stands for.
func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}
