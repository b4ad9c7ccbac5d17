package integration

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/transactions"
)

// moves are how a coordinator's database comes to be another one: with another OID, with another system identifier as pg_upgrade
// gives it, with both. Each returns the URL afterwards.
var moves = map[string]func(f *trio) string{
	"CREATE DATABASE ... TEMPLATE": func(f *trio) string { return f.clone("c") },
	"pg_upgrade": func(f *trio) string { // the row is as it was, and the cluster has another identifier
		f.exec("c", "UPDATE public.hare_distributed_coordinator SET system_identifier = (system_identifier::numeric - 1)::text")
		return f.urls["c"]
	},
	"dump and restore": func(f *trio) string {
		moved := servers.Database(f.T)
		there := &trio{T: f.T, urls: map[string]string{"c": moved}, plan: f.plan}
		there.conns = f.connect(there.urls)
		there.ctx = hare.WithConnections(f.Context(), there.conns)
		for _, create := range regexp.MustCompile(`(?s)CREATE (?:TABLE|INDEX) .*?;`).FindAllString(pageOf(f.T, "distributed.md"), -1) {
			there.exec("c", create)
		}
		if err := hare.CreateTables(there.ctx, there.client("c"), Note{}); err != nil {
			f.Fatal(err)
		}
		for _, table := range []string{"hare_distributed_coordinator", "hare_distributed_decisions", "note"} {
			rows := f.text("c", fmt.Sprintf("SELECT coalesce(json_agg(t), '[]')::text FROM public.%s t", table))
			there.exec("c", fmt.Sprintf("INSERT INTO public.%[1]s SELECT * FROM json_populate_recordset(NULL::public.%[1]s, $1::text::json)", table), rows)
		}
		there.exec("c", "SELECT setval(pg_get_serial_sequence('note', 'id'), 1000)")
		return moved
	},
}

// moving are the statements of the operator's page about a move, by when and where they run.
func moving(t *testing.T) map[string]string {
	t.Helper()
	statements := map[string]string{}
	for _, match := range regexp.MustCompile("(?m)^ *-- ((?:before|after) the move, (?:coordinator|participant)).*\n *(.*);\n *```").FindAllStringSubmatch(page(t), -1) {
		statements[match[1]] = match[2]
	}
	if len(statements) != 3 {
		t.Fatalf("the page has %d statements: %q", len(statements), statements)
	}
	return statements
}

// A coordinator's database that was moved is refused before the function runs, and in recovery, and goes on as a participant. What
// docs/operations.md says to do first shows what is left and finishes it; what it says to do afterwards makes a coordinator of it
// again, under another id, with the old decisions beside it.
//
// Fault D13.
func TestOperationsMove(t *testing.T) {
	for name, move := range moves {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := moving(t)
			f := newTrio(t, "")
			if err := f.distributed(writeAll, transactions.KeepDecision()); err != nil {
				t.Fatal(err)
			}
			f.tidied()
			f.crash(isCommitPrepared)
			left := func() int64 {
				return f.count("c", steps["before the move, coordinator"]) + f.count("a", steps["before the move, participant"]) + f.count("b", steps["before the move, participant"])
			}
			if left() < 2 {
				t.Error("the page's statements do not show what a crash has left")
			}
			if report := f.recover(transactions.Finish()); !report.Clean() {
				t.Fatalf("recovery before the move: %+v", report)
			}
			if n := left(); n != 0 {
				t.Fatalf("%d are left after recovery", n)
			}
			id := f.text("c", "SELECT id FROM public.hare_distributed_coordinator")
			before := f.counts()

			f.urls["c"] = move(f)
			f.reconnect()
			for range 2 {
				err := f.distributed(func(*hare.Distributed) error { t.Error("the function ran"); return nil })
				if e := as[*hare.ConfigurationError](t, err); e.Alias != "c" || !named(e, "delete the row of public.hare_distributed_coordinator", "docs/operations.md") {
					t.Errorf("the error does not say the way out: %v", err)
				}
			}
			_, err := transactions.Recover(f.ctx, coordinator)
			as[*hare.ConfigurationError](t, err)
			err = transactions.Distributed(f.ctx, "a", []string{"c"}, func(d *hare.Distributed) error { return write(d, "a participant", "c") })
			if err != nil {
				t.Errorf("as a participant: %v", err)
			}

			f.exec("c", steps["after the move, coordinator"])
			if err := f.distributed(writeAll); err != nil {
				t.Fatalf("after the page's steps: %v", err)
			}
			f.wantCounts(before[0]+2, before[1]+1, before[2]+1)
			if now := f.text("c", "SELECT id FROM public.hare_distributed_coordinator"); now == id {
				t.Errorf("it still goes by the id %s", id)
			}
			f.tidied()
			if report := f.recover(); !report.Clean() || len(report.Entries) > 0 {
				t.Errorf("recovery after the move: %+v", report)
			}
			f.wantUsable()
			f.wantNothingPrepared()
		})
	}
}

// The page says that each call is refused until the row is deleted, in the part that an operator finds by the name of the tool.
//
// Fault D13.
func TestOperationsMoveIsOnThePage(t *testing.T) {
	_, part, _ := strings.Cut(page(t), "## Moving a database\n")
	part, _, _ = strings.Cut(part, "\n## ")
	for _, words := range []string{"pg_upgrade", "dump and restore", "logical replication", "TEMPLATE", "each distributed call, and recovery, is refused",
		"distributed-recover --coordinator library --finish", "before the move, coordinator", "before the move, participant", "after the move, coordinator"} {
		if !strings.Contains(part, words) {
			t.Errorf("the part on moves does not say %q", words)
		}
	}
}
