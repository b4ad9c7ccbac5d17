package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/hare-go/hare/transactions"
)

// coordinatorRow is the row of the coordinator's table: its id, and which database it was given to.
type coordinatorRow struct{ ID, System, OID string }

func askCoordinator(ctx context.Context, d *database) error {
	if d.has(coordinatorTable) == nil {
		return d.unknown[coordinatorTable]
	}
	return d.rows(ctx, &d.made, "SELECT id, system_identifier AS system, database_oid AS oid FROM "+coordinatorTable)
}

// coordinates reports whether the database has coordinated distributed transactions.
func (d *database) coordinates() bool { return d.has(coordinatorTable) != nil }

// leads reports whether recovery can use this alias as that of a coordinator: it leads to the primary, which is not a copy,
// under a role that may read and write the decisions.
func (d *database) leads() bool {
	rights := d.has(decisionsTable)
	return len(d.made) == 1 && d.failed[serverIs] == nil && !d.server.Standby && rights != nil && len(rights.missing()) == 0 &&
		(d.failed[identityIs] != nil || d.identity.same(identity{System: d.made[0].System, OID: d.made[0].OID}))
}

// coordinated reports whether any of the databases has.
func (all *examination) coordinated() bool {
	return slices.ContainsFunc(all.databases, (*database).coordinates)
}

func coordinator(d *database, _ *examination) []Finding {
	switch {
	case !d.coordinates():
		return nil
	case len(d.made) != 1:
		return []Finding{found(OK, "no id yet: the next distributed transaction that it coordinates gives it one")}
	case d.failed[identityIs] == nil && !d.identity.same(identity{System: d.made[0].System, OID: d.made[0].OID}):
		f := found(Failure, "a copy: its id %s was given to the database with OID %s of the cluster %s, and this is %s", d.made[0].ID, d.made[0].OID, d.made[0].System, d.identity)
		f.Mend = "name the original in the configuration. If this is to be a coordinator of its own, let it get a new id; it then leaves what the old one prepared alone:"
		f.SQL = []string{"DELETE FROM " + coordinatorTable}
		return []Finding{f}
	}
	return []Finding{found(OK, "id %s", d.made[0].ID)}
}

// decision is the oldest decision to commit that is not resolved, and how many there are.
type decision struct {
	XID        string
	Age        float64
	Unresolved int
	Old        int
}

func askDecisions(ctx context.Context, d *database) error {
	if d.has(decisionsTable) == nil {
		return d.unknown[decisionsTable]
	}
	return d.rows(ctx, &d.waiting, `SELECT xid, extract(epoch FROM clock_timestamp() - created_at)::float8 AS age, count(*) OVER () AS unresolved,
	count(*) FILTER (WHERE created_at <= clock_timestamp() - make_interval(secs => %f)) OVER () AS old
FROM `+decisionsTable+` WHERE resolved_at IS NULL ORDER BY created_at LIMIT 1`, d.options.OlderThan.Seconds())
}

// overdue reports whether a coordinator has decisions that are old and not resolved.
func (all *examination) overdue(d *database) bool {
	return d.failed[reaching] == nil && d.failed[serverIs] == nil && !d.server.Standby && d.coordinates() && len(d.waiting) > 0 && d.waiting[0].Old > 0
}

// askRecovery asks recovery, which only reports, whether anybody still waits for the decisions: a program that ends right after
// its last call leaves the decision's row behind, and nothing else.
func (d *database) askRecovery(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, d.options.Within)
	defer cancel()
	report, err := transactions.Recover(ctx, d.alias, transactions.OlderThan(d.options.OlderThan), transactions.ParticipantTimeout(d.options.Within),
		transactions.RecoverLogger(slog.New(slog.DiscardHandler)))
	d.delivered = err == nil && report.Undelivered == 0
}

func decisions(d *database, all *examination) []Finding {
	switch {
	case d.has(decisionsTable) == nil:
		return nil
	case d.failed[serverIs] == nil && d.server.Standby && all.primaryOf(d) != "":
		return []Finding{found(OK, "those of %q, its primary", all.primaryOf(d))}
	case len(d.waiting) == 0:
		return []Finding{found(OK, "none is unresolved")}
	}
	oldest := d.waiting[0]
	if oldest.Old == 0 {
		return []Finding{found(OK, "%d unresolved, younger than %s", oldest.Unresolved, age(all.options.OlderThan.Seconds()))}
	}
	if d.delivered {
		return []Finding{found(OK, "%d unresolved, committed in all of their databases: recovery marks them as resolved", oldest.Unresolved)}
	}
	f := found(Failure, "%d unresolved for longer than %s, the oldest for %s: %s", oldest.Old, age(all.options.OlderThan.Seconds()), age(oldest.Age), oldest.XID)
	f.Mend = "nobody has finished it yet: is transactions.RunRecoverer running? At once:"
	f.Command = all.recover(d.alias)
	return []Finding{f}
}

// standby is what streams the server's log: PostgreSQL tells everybody how many there are, and only some roles more.
type standby struct {
	Connected   int
	Synchronous int
	Seen        bool // the role may see which are synchronous
}

func askStandbys(ctx context.Context, d *database) error {
	return d.rows(ctx, &d.standbys, `SELECT count(*) AS connected, count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) AS synchronous,
	count(*) = count(sync_state) AS seen FROM pg_stat_replication WHERE coalesce(state, 'streaming') = 'streaming'`)
}

// durability judges what a crash could undo. PREPARE TRANSACTION and COMMIT PREPARED always wait for the disk, and hare makes
// its decisions do so; nothing helps against fsync = off. Standbys matter where decisions are.
func durability(d *database, _ *examination) []Finding {
	return []Finding{judgeDurability(d)}
}

func judgeDurability(d *database) Finding {
	commit, names := d.settings["synchronous_commit"], d.settings["synchronous_standby_names"].Value
	waits := commit.Value != "off" && commit.Value != "local"
	var s standby
	if len(d.standbys) == 1 && d.failed[standbysAre] == nil {
		s = d.standbys[0]
	}
	f := found(OK, "synchronous_commit = %s, %s", commit.Value, describeStandbys(names, s))
	switch {
	case d.settings["fsync"].Value == "off":
		f.State, f.Value = Failure, "fsync = off: "+f.Value
		f.Why = "a crash of the machine may lose what was committed or prepared, and the database with it"
		f.Mend = "turn it on, and reload the configuration; where the server's command line sets it, there:"
		f.SQL = []string{"ALTER SYSTEM SET fsync = on", "SELECT pg_reload_conf()"}
	case names != "" && waits && s.Connected == 0 && d.failed[standbysAre] == nil && !d.server.Standby:
		f.State = Failure
		f.Why = "every commit waits for a standby that is not there"
		f.Mend = "bring the standby back. To go on without one, which a failover may pay for with what was committed meanwhile:"
		f.SQL = []string{"ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()"}
	case !d.coordinates():
	case commit.Value == "off":
		f.State = Warning
		f.Why = "a crash may undo commits that were reported; decisions of distributed transactions hare waits for all the same"
		f.Mend, f.SQL = "as a default of the role:", d.roleDefault("synchronous_commit", "on")
	case names != "" && !waits:
		f.State = Warning
		f.Why = "a failover to the standby may lose decisions, after which transactions are in some of their databases only"
		f.Mend, f.SQL = "as a default of the role:", d.roleDefault("synchronous_commit", "on")
	case names == "" && s.Connected > 0:
		f.State = Warning
		f.Why = "a failover to a standby that is behind loses decisions, after which transactions are in some of their databases only"
		f.Mend = "make the standby that would take over a synchronous one; every commit then waits for it. For any one of them:"
		f.SQL = []string{"ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'", "SELECT pg_reload_conf()"}
	}
	return f
}

func describeStandbys(names string, s standby) string {
	number := fmt.Sprintf("%d standbys", s.Connected)
	if s.Connected == 1 {
		number = "1 standby"
	}
	switch {
	case names == "" && s.Connected == 0:
		return "no standby"
	case names == "":
		return number + ", none of them synchronous"
	case s.Seen && s.Connected > 0:
		return fmt.Sprintf("synchronous_standby_names = %s, %s, %d of them synchronous", names, number, s.Synchronous)
	}
	return fmt.Sprintf("synchronous_standby_names = %s, %s", names, number)
}
