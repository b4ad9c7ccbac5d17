package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// section is the text of README.md under a heading.
func section(t *testing.T, title string) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, body, ok := strings.Cut(string(text), "\n## "+title+"\n")
	if !ok {
		t.Fatalf("README.md has no section %q", title)
	}
	body, _, _ = strings.Cut(body, "\n## ")
	return body
}

// matches are the different first groups of an expression in a text, sorted.
func matches(expression, text string) (list []string) {
	for _, found := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		list = append(list, found[1])
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("%s:\n%q, want\n%q", what, got, want)
	}
}

// model is the text of all files of the model.
func model(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob("*.pml")
	if err != nil || len(names) == 0 {
		t.Fatal("there is no model: ", err)
	}
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// Everything by which the model can be configured is checked, and nothing that it does not know.
func TestEveryOptionIsChecked(t *testing.T) {
	page, err := readPage(".")
	if err != nil {
		t.Fatal(err)
	}
	var used []string
	for _, c := range page.checks {
		for _, option := range c.options {
			name, _, _ := strings.Cut(option, "=")
			used = append(used, name)
		}
	}
	slices.Sort(used)
	known := matches(`(?m)^#(?:ifdef|ifndef|(?:el)?if defined) (\w+)`, model(t))
	same(t, "options", slices.Compact(used), known)
}

// The rules of the page are those of the model, and each is broken by a variant.
func TestEveryRuleIsBroken(t *testing.T) {
	page, err := readPage(".")
	if err != nil {
		t.Fatal(err)
	}
	var broken []string
	for _, c := range page.checks {
		if c.breaks != "" {
			broken = append(broken, c.breaks)
		}
	}
	slices.Sort(broken)
	rules := matches("(?m)^\\| `(\\w+)`", section(t, "Rules"))
	same(t, "rules that a variant breaks", slices.Compact(broken), rules)
	same(t, "rules of the model", matches(`(?:assert\(|ltl )(\w+)`, model(t)), rules)
}

// The functions that the page names are there.
func TestStepsNameTheCode(t *testing.T) {
	var there []string
	names, err := filepath.Glob("../../transactions/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok {
				there = append(there, receiver(f)+f.Name.Name)
			}
		}
	}
	named := matches("`([\\w.]+)`", strings.Join(matches(`(?m)^\|.*\|(.*)\|$`, section(t, "Steps")), " "))
	if len(named) < 20 {
		t.Fatalf("the page names %q", named)
	}
	for _, name := range named {
		if !slices.Contains(there, name) {
			t.Errorf("package transactions has no function %s", name)
		}
	}
}

func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	kind := f.Recv.List[0].Type
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	if name, ok := kind.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

// What pan prints is read with care: what is no result does not pass for one.
func TestParse(t *testing.T) {
	const end = "\nState-vector 84 byte, depth reached 71, errors: 0\n  2615601 states, stored\n"
	for name, c := range map[string]struct {
		output string
		want   result
		fails  bool
	}{
		"it holds":            {end, result{states: 2615601}, false},
		"a rule is broken":    {"pan:1: assertion violated told_the_truth (at depth 3)" + strings.Replace(end, "errors: 0", "errors: 1", 1), result{states: 2615601, broken: "told_the_truth"}, false},
		"a cycle":             {"pan:1: acceptance cycle (at depth 3)" + strings.Replace(end, "errors: 0", "errors: 1", 1), result{states: 2615601, broken: endless}, false},
		"an end that is none": {"pan:1: invalid end state (at depth 3)" + strings.Replace(end, "errors: 0", "errors: 1", 1), result{}, true},
		"a search cut short":  {"error: max search depth too small" + end, result{}, true},
		"no memory":           {"pan: reached -DMEMLIM bound\npan: out of memory" + end, result{}, true},
		"nothing":             {"", result{}, true},
	} {
		got := parse(c.output)
		if (got.err != nil) != c.fails || !c.fails && (got.states != c.want.states || got.broken != c.want.broken) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	r := parse(end + "unreached in proctype Call\n\t/x/call.pml:11, state 4, \"vote[0] = yes\"\n\t/x/call.pml:12, state 9, \"-end-\"\n")
	same(t, "unreached", r.unreached, []string{"call.pml:11 vote[0] = yes"})
}
