package integration

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

// TestLeasesCommand runs the built command hare on leases of real databases.
func TestLeasesCommand(t *testing.T) {
	t.Parallel()
	binary := buildCommand(t)
	for name, test := range map[string]func(c *leasesCommand){
		"lists every database":                     leasesAreListed,
		"says so where there are none":             leasesThereAreNone,
		"ends a term by force":                     leasesAreReleased,
		"leaves another term alone":                leasesOfAnotherToken,
		"waits for a fenced transaction in vain":   leasesAreBlocked,
		"waits for a prepared transaction in vain": leasesAreBlockedByWhatIsPrepared,
		"is not allowed to":                        leasesOfAnotherRole,
		"cannot look at a database":                leasesOfWhatDoesNotAnswer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(&leasesCommand{command: &command{trio: newTrio(t, ""), binary: binary}})
		})
	}
}

// leasesCommand is the binary with three databases and, in its configuration, a SQLite file.
type leasesCommand struct{ *command }

// call calls hare leases.
func (c *leasesCommand) call(change func(urls map[string]string), args ...string) result {
	c.Helper()
	config := c.configuration(func(urls map[string]string) {
		urls["file"] = "sqlite:" + filepath.Join(c.TempDir(), "x.db")
		if change != nil {
			change(urls)
		}
	})
	return runHare(c.T, c.binary, append([]string{"leases", "--config", config}, args...)...)
}

// release calls hare leases with what ends a term.
func (c *leasesCommand) release(token int64, args ...string) result {
	c.Helper()
	return c.call(nil, append([]string{"--connection", "a", "--release", "job", "--token", strconv.FormatInt(token, 10)}, args...)...)
}

// hold takes the lease "job" of a database for the rest of the test. It is renewed too seldom to notice anything.
func (c *leasesCommand) hold(alias string) *leases.Term {
	c.Helper()
	l := leases.New(c.client(alias), "job", leases.Options{TTL: time.Hour, Holder: "the holder", Logger: slog.New(slog.DiscardHandler)})
	term, err := l.Acquire(c.ctx)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = term.Release() }) // it may have been ended
	return term
}

// row is the lease "job" in the database a.
func (c *leasesCommand) row() leases.Info {
	c.Helper()
	list, err := leases.List(c.ctx, c.client("a"))
	if err != nil || len(list) != 1 {
		c.Fatal(list, err)
	}
	return list[0]
}

// leasesInJSON is the JSON of the command. A field that is not here is an error.
type leasesInJSON struct {
	Version          int
	At               time.Time
	Clean            bool
	Error            string
	Leases           []leaseInJSON
	Unreachable      []struct{ Alias, Error string }
	Release          string
	Token            int64
	Finish, Released bool
	BlockedBy        []string `json:"blocked_by"`
}

type leaseInJSON struct {
	Alias, Name, Holder string
	Held                bool
	Token               int64
	Acquired            time.Time `json:"acquired_at"`
	Renewed             time.Time `json:"renewed_at"`
	Expires             time.Time `json:"expires_at"`
	Age                 float64   `json:"age_seconds"`
	SinceRenewed        float64   `json:"renewed_seconds"`
	Remaining           float64   `json:"remaining_seconds"`
	Free                float64   `json:"free_seconds"`
}

func (c *leasesCommand) parseLeases(r result) leasesInJSON {
	c.Helper()
	var report leasesInJSON
	decoder := json.NewDecoder(strings.NewReader(r.out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&report); err != nil || report.Version != 1 {
		c.Fatalf("%v\n%s%s", err, r.out, r.errs)
	}
	return report
}

func leasesAreListed(c *leasesCommand) {
	a, b := c.hold("a"), c.hold("b")
	if err := b.Release(); err != nil {
		c.Fatal(err)
	}
	r := c.call(nil)
	c.want(r, 0, "\na\n+  job ", "\nb\n~  job ", a.Holder()+"\n", b.Holder()+"\n", "in ", "  held ", "  free ", "\n1 held, 1 free\n")
	if r.errs != "" || strings.Contains(r.out, "file") {
		c.Errorf("%s%s", r.out, r.errs)
	}
	c.want(c.call(nil, "--connection", "b"), 0, "0 held, 1 free\n")

	report := c.parseLeases(c.call(nil, "--format", "json"))
	if !report.Clean || len(report.Leases) != 2 || len(report.Unreachable) != 0 {
		c.Fatalf("%+v", report)
	}
	first, second := report.Leases[0], report.Leases[1]
	if first.Alias != "a" || first.Name != "job" || first.Holder != a.Holder() || first.Token != a.Token() || !first.Held || first.Free != 0 ||
		first.Remaining <= 0 || first.Remaining > 3600 || first.Age < 0 || first.SinceRenewed < 0 || !first.Expires.Equal(first.Renewed.Add(time.Hour)) {
		c.Errorf("%+v", first)
	}
	if second.Alias != "b" || second.Held || second.Remaining != 0 || second.Free < 0 || second.Age < second.Free {
		c.Errorf("%+v", second)
	}
}

func leasesThereAreNone(c *leasesCommand) {
	c.want(c.call(nil), 0, "there are no leases\n")
	c.want(c.release(1), 1, `there is no lease "job" in "a"`, "next: hare leases --connection a")
	c.want(c.call(nil, "--connection", "nowhere"), 2, "nowhere")
	r := c.call(nil, "--connection", "file")
	c.want(r, 1, `"file"`, "next: name a connection to a PostgreSQL database\n")
	onlyFile := func(urls map[string]string) {
		for _, alias := range everybody {
			delete(urls, alias)
		}
	}
	c.want(c.call(onlyFile), 1, "no configured connection leads to a PostgreSQL database")
}

func leasesAreReleased(c *leasesCommand) {
	term := c.hold("a")
	before := c.row()
	r := c.release(term.Token())
	c.want(r, 1, `Ending term 1 of "job" would mean:`, term.Holder(), "within 15m0s", "nothing is released yet", "--release job --token 1 --finish\n")
	report := c.parseLeases(c.release(term.Token(), "--format", "json"))
	if report.Clean || report.Released || report.Finish || report.Release != "job" || report.Token != 1 || len(report.Leases) != 1 {
		c.Errorf("%+v", report)
	}
	after := c.row()
	before.Now, before.Remaining, after.Now, after.Remaining = time.Time{}, 0, time.Time{}, 0
	if before != after {
		c.Errorf("telling has changed the row from %+v to %+v", before, after)
	}

	c.want(c.release(term.Token(), "--finish"), 0, "means:", `lease "job": term 1 is ended`)
	if row := c.row(); row.Held() || row.Token <= term.Token() {
		c.Errorf("%+v after its release", row)
	}
	err := transactions.Atomic(c.ctx, term.Fence, transactions.Using("a"))
	as[*leases.LeaseLostError](c.T, err)

	next := c.hold("a") // the next holder need not wait, and the old token does it no harm
	c.want(c.release(term.Token(), "--finish"), 1, "is left alone", "next: hare leases --connection a")
	report = c.parseLeases(c.release(next.Token(), "--finish", "--format", "json"))
	if !report.Clean || !report.Released || report.Error != "" {
		c.Errorf("%+v", report)
	}
}

func leasesOfAnotherToken(c *leasesCommand) {
	term := c.hold("a")
	for _, token := range []int64{term.Token() + 1, 99} {
		r := c.release(token, "--finish")
		c.want(r, 1, `the token of lease "job" is 1, not `+strconv.FormatInt(token, 10))
		if strings.Contains(r.out, "mean") {
			c.Errorf("%s", r.out)
		}
	}
	if row := c.row(); !row.Held() || row.Token != term.Token() {
		c.Errorf("%+v: it was touched", row)
	}
	if err := term.Release(); err != nil {
		c.Fatal(err)
	}
	c.want(c.release(term.Token(), "--finish"), 0, "it is free, and there is nothing to release")
}

func leasesAreBlocked(c *leasesCommand) {
	term := c.hold("a")
	err := transactions.Atomic(c.ctx, func(ctx context.Context) error {
		if err := term.Fence(ctx); err != nil {
			return err
		}
		report := c.parseLeases(c.release(term.Token(), "--finish", "--format", "json"))
		if report.Clean || report.Released || len(report.BlockedBy) == 0 || !strings.Contains(strings.Join(report.BlockedBy, " "), "idle in transaction") {
			c.Errorf("%+v", report)
		}
		r := c.release(term.Token(), "--finish")
		c.want(r, 1, "its row is locked", "server process ", "next: ", "pg_terminate_backend")
		if strings.Contains(r.out, "mean") {
			c.Errorf("%s", r.out)
		}
		return term.Fence(ctx) // the term goes on
	}, transactions.Using("a"))
	if err != nil {
		c.Fatal(err)
	}
	c.want(c.release(term.Token(), "--finish"), 0, "term 1 is ended")
}

// A fenced transaction that a crash has left prepared keeps its fence, and has no server process.
func leasesAreBlockedByWhatIsPrepared(c *leasesCommand) {
	term := c.hold("a")
	c.plan.Set(always("a", "COMMIT PREPARED", ""), nil)
	err := c.distributed(func(d *hare.Distributed) error {
		if err := term.Fence(d.Context()); err != nil {
			return err
		}
		return writeAll(d)
	})
	wantOutcome(c.T, err, transactions.PartiallyCommitted)
	c.plan.Set(nil, nil)
	gids := c.prepared("a")
	if len(gids) != 1 {
		c.Fatalf("prepared: %q", gids)
	}
	r := c.release(term.Token(), "--finish")
	c.want(r, 1, "prepared transaction "+gids[0], "next: ", "hare distributed-recover")
	c.recover(transactions.Finish())
	c.want(c.release(term.Token(), "--finish"), 0, "term 1 is ended")
}

func leasesOfAnotherRole(c *leasesCommand) {
	term := c.hold("a")
	role, other := c.role("a")
	use := func(urls map[string]string) { urls["a"] = servers.Direct(other) } // a pooler would log in as itself
	args := []string{"--connection", "a", "--release", "job", "--token", "1", "--finish"}
	c.want(c.call(use), 1, "(SQLSTATE 42501)\n", `next: give the role of "a" SELECT on public.hare_leases`)
	c.exec("a", "GRANT SELECT ON public.hare_leases TO "+role)
	c.want(c.call(use), 0, "1 held")
	c.want(c.call(use, args...), 1, "SQLSTATE 42501", "for --finish also UPDATE")
	if row := c.row(); row.Token != term.Token() {
		c.Errorf("%+v", row)
	}
	c.exec("a", "GRANT UPDATE ON public.hare_leases TO "+role)
	c.want(c.call(use, args...), 0, "term 1 is ended")
}

func leasesOfWhatDoesNotAnswer(c *leasesCommand) {
	c.hold("a")
	r := c.call(unreachable(c.T, "b"))
	c.want(r, 1, "\na\n+  job", `! "b" could not be looked at`, "1 held, 0 free in the databases that answered", `next: run this again when "b" answers`)
	report := c.parseLeases(c.call(unreachable(c.T, "b"), "--format", "json"))
	if report.Clean || len(report.Leases) != 1 || len(report.Unreachable) != 1 || report.Unreachable[0].Alias != "b" || report.Unreachable[0].Error == "" {
		c.Errorf("%+v", report)
	}
	c.want(c.call(unreachable(c.T, "a"), "--connection", "a", "--release", "job", "--token", "1", "--finish"), 1, `when "a" answers`)
	c.want(c.call(unreachable(c.T, "a"), "--connection", "b"), 0, "there are no leases")
}
