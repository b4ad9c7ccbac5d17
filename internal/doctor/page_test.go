package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docs/doctor.md has a row for each check, in the order of the report, and for no other.
func TestPageHasTheChecks(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "doctor.md"))
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile(`(?s)\n## The checks\n(.*?)\n## `).FindSubmatch(page)
	if section == nil {
		t.Fatal("the page has no section of checks")
	}
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|.*$").FindAllSubmatch(section[1], -1) {
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllSubmatch(row[1], -1) {
			documented = append(documented, string(name[1]))
		}
	}
	var names []string
	for _, c := range slices.Concat(checks, between) {
		names = append(names, c.name)
	}
	if diff := cmp.Diff(names, documented); diff != "" {
		t.Errorf("checks (-code +page):\n%s", diff)
	}
}
