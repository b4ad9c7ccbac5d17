package integration

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

var grantBlock = regexp.MustCompile("(?s)```sql\n-- (coordinator|report|leases)\n(.*?)```")

// The rights that docs/security.md gives to each part are all that it needs, and no more: with them the part works, and the other
// parts do not. A participant needs none.
func TestRolesOfTheSecurityPage(t *testing.T) {
	t.Parallel()
	blocks := grantBlock.FindAllStringSubmatch(pageOf(t, "security.md"), -1)
	if len(blocks) != 3 {
		t.Fatalf("%d blocks of rights", len(blocks))
	}
	f := newTrio(t, "")
	f.exec("c", "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	if err := f.distributed(writeAll); err != nil {
		t.Fatal(err)
	}
	holdLease(t, f.urls["c"], "made")
	owner := f.urls["c"]
	for _, alias := range participants { // they have no right to anything of hare's
		_, f.urls[alias] = f.role(alias)
	}
	limited := map[string]string{}
	for _, block := range append(blocks, []string{"", "nothing", ""}) {
		name, databaseURL := f.role("c")
		limited[block[1]] = databaseURL
		for _, grant := range strings.Split(strings.TrimSpace(block[2]), ";") {
			if grant = strings.TrimSpace(grant); grant != "" {
				f.exec("c", strings.ReplaceAll(grant, " TO app", " TO "+name))
			}
		}
	}
	f.reconnect()
	coordinates := func() error { return f.distributed(writeAll) }
	finishes := func() error {
		report, err := transactions.Recover(f.ctx, coordinator, transactions.OlderThan(0), transactions.Finish(), unheard)
		if err == nil && (!report.Clean() || len(report.Entries) != len(participants)) {
			err = errors.New("something is left")
		}
		return err
	}
	reports := func() error {
		report, err := transactions.Recover(f.ctx, coordinator, transactions.OlderThan(0), unheard)
		if err == nil && len(report.Entries) != len(participants) {
			err = errors.New("it does not see what is prepared")
		}
		return err
	}
	holds := func() error {
		term, err := leases.New(f.client("c"), "page", leases.Options{}).TryAcquire(f.ctx)
		if err == nil {
			err = term.Release()
		}
		return err
	}
	for _, test := range []struct {
		role   string
		may    []func() error
		mayNot []func() error
	}{
		{"nothing", nil, []func() error{reports, finishes, coordinates, holds}},
		{"leases", []func() error{holds}, []func() error{reports, finishes, coordinates}},
		{"report", []func() error{reports}, []func() error{finishes, coordinates, holds}},
		{"coordinator", []func() error{reports, finishes, coordinates}, []func() error{holds}},
	} {
		f.urls["c"] = owner
		f.reconnect()
		if len(f.prepared("a")) == 0 {
			f.crash(isDecision)
		}
		f.urls["c"] = limited[test.role]
		f.reconnect()
		before := f.counts()
		for i, try := range test.mayNot {
			var configuration *hare.ConfigurationError
			var refused *hare.DatabaseError
			if err := try(); !errors.As(err, &configuration) && (!errors.As(err, &refused) || refused.SQLState != "42501") {
				t.Errorf("%s, what it may not, %d: %v", test.role, i, err)
			}
		}
		if after := f.counts(); after != before {
			t.Errorf("%s has changed %v to %v", test.role, before, after)
		}
		for i, try := range test.may {
			if err := try(); err != nil {
				t.Errorf("%s, what it may, %d: %v", test.role, i, err)
			}
		}
	}
	f.urls["c"] = owner
	f.reconnect()
	f.wantNothingPrepared()
}
