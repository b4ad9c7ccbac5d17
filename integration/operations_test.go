package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// page is what the operator reads.
func page(t *testing.T) string { return pageOf(t, "operations.md") }

// pageOf is a page of the documentation.
func pageOf(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var sqlBlock = regexp.MustCompile("(?s)```sql\n *-- (coordinator|participant|every server)([^\n]*)\n(.*?)```")

// The SQL of the operator's page does what the page says: here it leads through a crash and ends it by hand.
func TestOperationsSQL(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.crash(isDecision)
	gids := map[string]string{"a": f.prepared("a")[0], "b": f.prepared("b")[0]}
	xid := strings.TrimSuffix(gids["a"], ":a")
	rows := map[string]int64{}
	blocks := sqlBlock.FindAllStringSubmatch(page(t), -1)
	for _, block := range blocks {
		alias := map[string]string{"coordinator": "c", "participant": "a", "every server": "a"}[block[1]]
		sql := strings.ReplaceAll(strings.TrimRight(strings.TrimSpace(block[3]), ";"), ":'xid'", "'"+xid+"'")
		if strings.HasPrefix(sql, "INSERT") {
			f.exec(alias, sql)
			continue
		}
		rows[strings.Fields(sql)[1]] = f.count(alias, fmt.Sprintf("SELECT count(*) FROM (%s) block", sql))
	}
	if len(blocks) != 9 {
		t.Errorf("%d blocks of SQL", len(blocks))
	}
	for column, least := range map[string]int64{"gid,": 1, "p.gid,": 1, "outcome": 1} {
		if rows[column] < least {
			t.Errorf("SELECT %s ... gives %d rows, want %d", column, rows[column], least)
		}
	}
	if got := f.text("c", "SELECT outcome FROM public.hare_distributed_decisions WHERE xid = '"+xid+"'"); got != "abort" {
		t.Errorf("the outcome by hand is %q, want abort", got)
	}
	for alias, gid := range gids {
		f.exec(alias, "ROLLBACK PREPARED '"+gid+"'")
	}
	if report := f.recover(); !report.Clean() || len(report.Entries) > 0 {
		t.Errorf("recovery finds %+v", report)
	}
	f.wantCounts(0, 0, 0)
	f.wantUsable()
}

// The operator's page has the metrics and the log messages that there are.
func TestOperationsNames(t *testing.T) {
	t.Parallel()
	var files []string
	for _, folder := range []string{"transactions", filepath.Join("backends", "postgres")} {
		found, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	code := ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") {
			code += string(text)
		}
	}
	for what, both := range map[string][2]string{
		"metrics":  {`(?:Counter|Histogram|auge)\("(hare\.[a-z._]+)"`, "(?m)^\\| `(hare\\.[a-z._]+)` \\|"},
		"messages": {`"(distributed (?:transaction|recovery): [^"]+)"`, "`(distributed (?:transaction|recovery): [^`]+)` ?[|,]"},
	} {
		names := func(pattern, text string) (names []string) {
			for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
				names = append(names, match[1])
			}
			slices.Sort(names)
			return slices.Compact(names)
		}
		there, told := names(both[0], code), names(both[1], page(t))
		if diff := cmp.Diff(there, told); diff != "" || len(there) < 9 {
			t.Errorf("%s (-code +page):\n%s", what, diff)
		}
	}
}
