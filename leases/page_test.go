package leases

import (
	"os"
	"strings"
	"testing"
)

// docs/leases.md has the statements that make the table as they are, for those whose role may not run them, and every
// default as it is.
func TestThePageHasTheTable(t *testing.T) {
	text, err := os.ReadFile("../docs/leases.md")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.Join(strings.Fields(string(text)), " ")
	for _, statement := range createTable {
		if !strings.Contains(page, strings.Join(strings.Fields(statement), " ")+";") {
			t.Errorf("the page does not have\n%s", statement)
		}
	}
	o := Options{}.filled()
	for name, value := range map[string]string{
		"TTL": o.TTL.String(), "Margin": o.Margin.String(), "Interval": o.Interval.String(), "Poll": o.Poll.String(), "LockTimeout": o.LockTimeout.String(),
		"StatementTimeout": o.StatementTimeout.String(), "IdleTimeout": o.IdleTimeout.String(), "FenceIdleTimeout": o.FenceIdleTimeout.String(), "StallTimeout": o.StallTimeout.String(),
	} {
		if _, after, _ := strings.Cut(page, "| `"+name+"` | "); !strings.HasPrefix(after, value+" ") {
			t.Errorf("the page does not say that the default of %s is %s", name, value)
		}
	}
}
