package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// page is README.md, whose tables say what is checked.
type page struct {
	path   string
	text   string
	checks []check
}

// check is a line of a table: a model, or a variant of one.
type check struct {
	name    string
	options []string // what it defines
	breaks  string   // the rule that it must break; empty for a model
	states  string   // the figure, as it stands there
}

func (c check) defines() []string {
	list := make([]string, len(c.options))
	for i, option := range c.options {
		list[i] = "-D" + option
	}
	return list
}

func (c check) endless() bool { return slices.Contains(c.options, "ENDLESS") }

// row is a line of a table that begins with a name.
var row = regexp.MustCompile("(?m)^\\| `([a-zA-Z_]+)` \\|(.*)\\|$")

// readPage reads the tables of the models, with their options and figures, and of the variants, each with the model that it
// changes and the rule that it must break.
func readPage(folder string) (*page, error) {
	path := filepath.Join(folder, "README.md")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w (run it in the root of the repository)", err)
	}
	p := &page{path: path, text: string(text)}
	for _, section := range strings.Split(p.text, "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		for _, found := range row.FindAllStringSubmatch(body, -1) {
			cells := strings.Split(found[2], "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			if err := p.add(title, found[1], cells); err != nil {
				return nil, err
			}
		}
	}
	if len(p.checks) == 0 {
		return nil, fmt.Errorf("%s lists nothing to check", path)
	}
	return p, nil
}

// add reads one line.
func (p *page) add(title, name string, cells []string) error {
	c := check{name: name}
	switch {
	case title != "Models" && title != "Rules dropped":
		return nil
	case len(cells) != 3:
		return fmt.Errorf("%s: the line of %s has %d columns", p.path, name, len(cells)+1)
	case title == "Models":
		c.options, c.states = strings.Fields(strings.Trim(cells[0], "`")), cells[2]
	default:
		base, ok := p.check(strings.Trim(cells[0], "`"))
		if !ok {
			return fmt.Errorf("%s: %s is a variant of %s, which is no model", p.path, name, cells[0])
		}
		c.options, c.breaks = append(slices.Clone(base.options), name), strings.Trim(cells[2], "`")
	}
	if _, twice := p.check(name); twice || c.breaks == "" && title != "Models" {
		return fmt.Errorf("%s: the line of %s is wrong", p.path, name)
	}
	p.checks = append(p.checks, c)
	return nil
}

func (p *page) check(name string) (check, bool) {
	i := slices.IndexFunc(p.checks, func(c check) bool { return c.name == name })
	if i < 0 {
		return check{}, false
	}
	return p.checks[i], true
}

// figures compares the numbers of states with the page, or writes them into it. They are those of one version of spin.
func (p *page) figures(results []result, version string, write bool) error {
	if !write && !strings.Contains(p.text, "spin "+version) {
		fmt.Printf("this is spin %s, and the figures in %s are of another version\n", version, p.path)
		return nil
	}
	text := p.text
	for i, c := range p.checks {
		now := grouped(results[i].states)
		if c.breaks != "" || c.states == now {
			continue
		}
		if !write {
			return fmt.Errorf("%s says that %s has %s states, and it has %s; write them with: go run ./docs/protocol -w", p.path, c.name, c.states, now)
		}
		line := regexp.MustCompile("(?m)^(\\| `" + c.name + "` \\|.*\\|) *[^|]* *\\|$")
		text = line.ReplaceAllString(text, "${1} "+now+" |")
	}
	if text == p.text {
		return nil
	}
	return os.WriteFile(p.path, []byte(text), 0o644)
}

// grouped is a number with spaces between the thousands.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + " " + digits[i:]
	}
	return digits
}
