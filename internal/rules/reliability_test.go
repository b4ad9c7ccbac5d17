package rules

import (
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testName = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z0-9]\\w*)`")
	caseRow  = regexp.MustCompile(`(?m)^\| ([WLDS]?[0-9]+) \|.*$`)
	caseTag  = regexp.MustCompile(`\b(?:Field case ([0-9]+)|Lease field case ([0-9]+)|((?:W|Fault [DS])[0-9]+))\.`)
)

// claims are what a page says of tests: every test that it names, and those in the row of each case, by its number.
func claims(page string) (named []string, byCase map[string][]string) {
	byCase = map[string][]string{}
	for _, match := range testName.FindAllStringSubmatch(page, -1) {
		named = append(named, match[1])
	}
	for _, row := range caseRow.FindAllStringSubmatch(page, -1) {
		for _, match := range testName.FindAllStringSubmatch(row[0], -1) {
			byCase[row[1]] = append(byCase[row[1]], match[1])
		}
		if len(byCase[row[1]]) == 0 {
			byCase[row[1]] = []string{} // a row without a test
		}
	}
	return named, byCase
}

// tested are the names of all tests, and those whose comment says that they stand for a case, by its number.
func tested(files []*file) (all map[string]bool, byCase map[string][]string) {
	all, byCase = map[string]bool{}, map[string][]string{}
	for _, f := range files {
		if !f.isTest() {
			continue
		}
		for _, declaration := range f.syntax.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Recv != nil || !testName.MatchString("`"+function.Name.Name+"`") {
				continue
			}
			all[function.Name.Name] = true
			for _, match := range caseTag.FindAllStringSubmatch(function.Doc.Text(), -1) {
				number := cmp.Or(match[1], strings.TrimPrefix(match[3], "Fault "))
				if match[2] != "" {
					number = "L" + match[2]
				}
				byCase[number] = append(byCase[number], function.Name.Name)
			}
		}
	}
	return all, byCase
}

// untrue finds what a page says of tests that is not so, and what tests say of cases that the page does not.
func untrue(page string, files []*file) (found []string) {
	named, onPage := claims(page)
	all, inCode := tested(files)
	for _, name := range named {
		if !all[name] {
			found = append(found, fmt.Sprintf("the page names %s, and there is no such test", name))
		}
	}
	numbers := map[string]bool{}
	for number := range onPage {
		numbers[number] = true
	}
	for number := range inCode {
		numbers[number] = true
	}
	for _, number := range slices.Sorted(maps.Keys(numbers)) {
		row, known := onPage[number]
		if known && len(row) == 0 {
			found = append(found, fmt.Sprintf("case %s: its row names no test", number))
		}
		for _, name := range inCode[number] {
			if !slices.Contains(row, name) {
				found = append(found, fmt.Sprintf("case %s: its row does not name %s", number, name))
			}
		}
		for _, name := range row {
			if all[name] && !slices.Contains(inCode[number], name) {
				found = append(found, fmt.Sprintf("case %s: the comment of %s does not say that it stands for it", number, name))
			}
		}
	}
	return found
}

// What docs/reliability.md says of tests is so: each test is there, and says itself which cases it stands for.
func TestReliabilityPageIsTrue(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reliability.md"))
	if err != nil {
		t.Fatal(err)
	}
	named, byCase := claims(string(page))
	if len(named) < 50 || len(byCase) < 60 {
		t.Fatalf("%d tests and %d cases: the page is not read as it is written", len(named), len(byCase))
	}
	for _, wrong := range untrue(string(page), repository(t)) {
		t.Error(wrong)
	}
}

// docs/security.md promises nothing without a test: each promise, an item that begins in bold, names one, and each test is there.
func TestSecurityPageIsTrue(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range unproved(string(page), repository(t)) {
		t.Error(wrong)
	}
	if promises := promise.FindAllString(string(page), -1); len(promises) < 15 {
		t.Errorf("%d promises: the page is not read as it is written", len(promises))
	}
}

var promise = regexp.MustCompile(`(?m)^- \*\*.*(?:\n  .*)*`)

// unproved finds the promises of a page that name no test, and names of tests that there are not.
func unproved(page string, files []*file) (found []string) {
	all, _ := tested(files)
	for _, name := range testName.FindAllStringSubmatch(page, -1) {
		if !all[name[1]] {
			found = append(found, fmt.Sprintf("the page names %s, and there is no such test", name[1]))
		}
	}
	for _, item := range promise.FindAllString(page, -1) {
		if !testName.MatchString(item) {
			found = append(found, "no test shows this: "+item)
		}
	}
	return found
}

func TestUnprovedPromisesAreSeen(t *testing.T) {
	files := []*file{parse(t, "x/x_test.go", "package x\nfunc TestOne() {}")}
	page := "- **This holds** (`TestOne`).\n- **So does\n  this** (`TestOne`).\n- **And this.**\n- plain\n- **This** (`TestTwo`)"
	want := []string{"the page names TestTwo, and there is no such test", "no test shows this: - **And this.**"}
	if got := unproved(page, files); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestUntruePagesAreSeen(t *testing.T) {
	files := []*file{parse(t, "x/x_test.go", strings.Join([]string{
		"package x",
		"// One.\n//\n// Field case 7. W2.\nfunc TestOne() {}",
		"// Two.\n//\n// Field case 7.\nfunc TestTwo() {}",
		"func TestThree() {}",
		"// Four.\n//\n// Lease field case 7.\nfunc TestFour() {}",
		"// Five.\n//\n// Fault D7.\nfunc TestD() {}",
	}, "\n"))}
	for _, test := range []struct {
		page string
		want []string
	}{
		{"| 7 | words | `TestOne`, `TestTwo` |\n| W2 | words | `TestOne` |\n| L7 | words | `TestFour` |\n| D7 | words | `TestD` |\nAnd `TestThree`.", nil},
		{"| 7 | words | `TestOne` |\n| W2 | words | `TestOne`, `TestThree` |", []string{
			"case 7: its row does not name TestTwo", "case D7: its row does not name TestD", "case L7: its row does not name TestFour", "case W2: the comment of TestThree does not say that it stands for it"}},
		{"| 7 | words | `TestOne`, `TestTwo` |\n| 8 | words | |\n`TestFive`", []string{
			"the page names TestFive, and there is no such test", "case 8: its row names no test", "case D7: its row does not name TestD", "case L7: its row does not name TestFour", "case W2: its row does not name TestOne"}},
	} {
		if got := untrue(test.page, files); !slices.Equal(got, test.want) {
			t.Errorf("%q:\n%q, want\n%q", test.page, got, test.want)
		}
	}
}
