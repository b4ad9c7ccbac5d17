package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"
)

// commandReport is what the tests read of the JSON.
type commandReport struct {
	Clean        bool
	Error        string
	Decided      string
	Resolved     int
	Entries      []struct{ XID, Alias, Owner, Action, State, Error string }
	Unreachable  []struct{ Alias string }
	Participants []struct{ Alias, Has string }
}

// parse reads a report, and makes sure that it has the fields that the command's page documents, each with its type, and no
// other.
func (c *command) parse(text string) commandReport {
	c.Helper()
	c.checkShape(text)
	var report commandReport
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		c.Fatalf("%v: %s", err, text)
	}
	return report
}

// checkShape returns the paths of the fields that are there.
func (c *command) checkShape(text string) map[string]bool {
	c.Helper()
	documented, err := documentedFields()
	if err != nil {
		c.Fatal(err)
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		c.Fatalf("%v: %s", err, text)
	}
	found := map[string]bool{}
	wrong := shapeOf("", value, documented, found)
	for path := range documented {
		parent, _, nested := strings.Cut(path, "[].")
		if !found[path] && (!nested || found[parent+"[]"]) {
			wrong = append(wrong, path+" is missing")
		}
	}
	if len(wrong) > 0 {
		c.Errorf("%s in\n%s", strings.Join(wrong, "; "), text)
	}
	return found
}

// shapeOf notes the paths of a value, and tells which are not as documented.
func shapeOf(path string, value any, documented map[string]string, found map[string]bool) (wrong []string) {
	kind := ""
	switch v := value.(type) {
	case map[string]any:
		prefix := ""
		if path != "" {
			prefix = path + "."
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			found[prefix+name] = true
			wrong = append(wrong, shapeOf(prefix+name, v[name], documented, found)...)
		}
		return wrong
	case []any:
		kind = "list"
		for _, element := range v {
			if _, ok := element.(map[string]any); ok {
				found[path+"[]"] = true
				wrong = append(wrong, shapeOf(path+"[]", element, documented, found)...)
			}
		}
	case string:
		kind = "string"
	case bool:
		kind = "boolean"
	case float64:
		kind = "number"
		if v == math.Trunc(v) && documented[path] == "integer" {
			kind = "integer"
		}
	}
	if documented[path] != kind {
		wrong = append(wrong, fmt.Sprintf("%s is a %s, documented as %q", path, kind, documented[path]))
	}
	return wrong
}

var documentedField = regexp.MustCompile("(?m)^\\| `([a-z_.\\[\\]]+)` \\| (string|integer|number|boolean|list) \\|")

// documentedFields are the types of the fields by their paths, as the page has them.
var documentedFields = sync.OnceValues(func() (map[string]string, error) {
	page, err := os.ReadFile("../docs/recover-command.md")
	if err != nil {
		return nil, err
	}
	types := map[string]string{}
	for _, match := range documentedField.FindAllStringSubmatch(string(page), -1) {
		types[match[1]] = match[2]
	}
	return types, nil
})

// One report has something in each of its lists, so that every field that is documented is seen.
func commandJSON(c *command) {
	xid := c.crashed(isCommitPrepared)
	r := c.run(c.configuration(unreachable(c.T, "b")), "--older-than", "0", "--xid", xid, "--format", "json")
	c.want(r, 1)
	found := c.checkShape(r.out)
	documented, err := documentedFields()
	if err != nil {
		c.Fatal(err)
	}
	for path := range documented {
		if !found[path] {
			c.Errorf("%s is documented and not there", path)
		}
	}
	report := c.parse(r.out)
	if len(report.Entries) != 2 || len(report.Unreachable) != 1 || report.Unreachable[0].Alias != "b" || report.Clean {
		c.Errorf("%s", r.out)
	}
	if diff := cmp.Diff([]struct{ Alias, Has string }{{"a", "prepared"}, {"b", "unknown"}}, report.Participants); diff != "" {
		c.Errorf("participants (-want +got):\n%s", diff)
	}

	r = c.run(c.configuration(unreachable(c.T, "c")), "--format", "json")
	c.want(r, 1)
	if report := c.parse(r.out); report.Error == "" || report.Clean || len(report.Entries) > 0 || !strings.Contains(r.errs, report.Error) {
		c.Errorf("%s%s", r.out, r.errs)
	}

	r = c.run(c.configuration(nil), "--older-than", "0", "--finish", "--format", "json")
	c.want(r, 0)
	if report := c.parse(r.out); !report.Clean || len(report.Entries) != 2 || report.Entries[0].State != "done" || report.Resolved != 1 {
		c.Errorf("%s", r.out)
	}
}
