package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hare-go/hare/internal/plaintext"
)

// hare's tables. They stand in the schema public whatever the search_path.
const (
	decisionsTable   = "public.hare_distributed_decisions"
	coordinatorTable = "public.hare_distributed_coordinator"
	leasesTable      = "public.hare_leases"
)

// table is one of hare's, and what the role may do with it.
type table struct {
	Name    string
	Columns []string
	Owned   bool // the role is its owner, or a member of it
	Selects bool
	Inserts bool
	Updates bool
	Deletes bool
}

// tables are hare's tables that are there, and what the role may do in their schema.
type tables struct {
	Uses, Creates bool
	Tables        []table
}

// askTables reads the catalogue alone, which everybody may: a look at a table that one may not use is an error.
func askTables(ctx context.Context, d *database) error {
	return one(ctx, d, &d.tables, `SELECT coalesce(has_schema_privilege(n.oid, 'USAGE'), false) AS uses, coalesce(has_schema_privilege(n.oid, 'CREATE'), false) AS creates,
	(SELECT coalesce(json_agg(t), '[]') FROM (SELECT 'public.' || c.relname AS name, pg_has_role(c.relowner, 'USAGE') AS owned,
		has_table_privilege(c.oid, 'SELECT') AS selects, has_table_privilege(c.oid, 'INSERT') AS inserts,
		has_table_privilege(c.oid, 'UPDATE') AS updates, has_table_privilege(c.oid, 'DELETE') AS deletes,
		(SELECT json_agg(a.attname) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns
		FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'p')
		AND c.relname IN ('hare_distributed_decisions', 'hare_distributed_coordinator', 'hare_leases') ORDER BY c.relname) t) AS tables
FROM (SELECT 1) one LEFT JOIN pg_namespace n ON n.nspname = 'public'`)
}

// has finds a table of hare's.
func (d *database) has(name string) *table {
	if i := slices.IndexFunc(d.tables.Tables, func(t table) bool { return t.Name == name }); i >= 0 {
		return &d.tables.Tables[i]
	}
	return nil
}

// needs are what hare does with its tables. A lease's row is never deleted, nor is the coordinator's ever changed.
var needs = map[string][]string{
	decisionsTable:   {"SELECT", "INSERT", "UPDATE", "DELETE"},
	coordinatorTable: {"SELECT"},
	leasesTable:      {"SELECT", "INSERT", "UPDATE"},
}

// missing are the rights on the table that the role lacks.
func (t table) missing() (list []string) {
	has := map[string]bool{"SELECT": t.Selects, "INSERT": t.Inserts, "UPDATE": t.Updates, "DELETE": t.Deletes}
	for _, right := range needs[t.Name] {
		if !has[right] {
			list = append(list, right)
		}
	}
	return list
}

// rights judges whether the role can use the tables that are there and create those that are not. Not every database needs
// them: where another one coordinates, or has the leases, this one may do without.
func rights(d *database, all *examination) []Finding {
	role := plaintext.Name(d.server.Role)
	var refused, sql []string
	if !d.tables.Uses {
		refused, sql = append(refused, "schema public: no USAGE"), append(sql, "GRANT USAGE ON SCHEMA public TO "+role)
	}
	if old := d.has(decisionsTable); old != nil && !old.Owned && !slices.Contains(old.Columns, "participants") {
		refused = append(refused, decisionsTable+": made by hare for Python, it lacks columns that only its owner can add")
		sql = append(sql, "ALTER TABLE "+decisionsTable+" ADD COLUMN IF NOT EXISTS outcome text NOT NULL DEFAULT 'commit' CHECK (outcome IN ('commit', 'abort')), ADD COLUMN IF NOT EXISTS participants jsonb NOT NULL DEFAULT '[]'")
	}
	var usable, absent []string
	for _, name := range []string{decisionsTable, coordinatorTable, leasesTable} {
		t := d.has(name)
		if t == nil {
			absent = append(absent, name)
			continue
		}
		if missing := t.missing(); len(missing) > 0 {
			refused = append(refused, fmt.Sprintf("%s: no %s", name, strings.Join(missing, ", ")))
			sql = append(sql, fmt.Sprintf("GRANT %s ON %s TO %s", strings.Join(missing, ", "), name, role))
			continue
		}
		usable = append(usable, name)
	}
	if len(refused) > 0 {
		f := found(Failure, "the role %q lacks rights on %s", d.server.Role, strings.Join(refused, "; "))
		f.Mend, f.SQL = "their owner or a superuser gives them:", sql
		return []Finding{f}
	}
	var parts []string
	if len(usable) > 0 {
		parts = append(parts, "may use "+strings.Join(usable, ", "))
	}
	if len(absent) > 0 && d.tables.Creates {
		parts = append(parts, "may create "+strings.Join(absent, ", "))
	}
	if len(absent) == 0 || d.tables.Creates {
		return []Finding{found(OK, "%s", strings.Join(parts, "; "))}
	}
	f := found(OK, "%s", strings.Join(append(parts, "may not create "+strings.Join(absent, ", ")), "; "))
	if lacks := all.nowhere(absent); lacks != "" {
		f.State = Warning
		f.Why = lacks + ", as long as the tables are not there; no other database has them"
		f.Mend = "if it is to, let a superuser or the owner of the schema allow it, or create the tables with another role:"
		f.SQL = []string{"GRANT CREATE ON SCHEMA public TO " + role}
	}
	return []Finding{f}
}

// nowhere says what cannot be done for want of tables that no database has.
func (all *examination) nowhere(absent []string) string {
	lacks := func(name string) bool {
		return slices.Contains(absent, name) && !slices.ContainsFunc(all.databases, func(o *database) bool { return o.has(name) != nil })
	}
	var parts []string
	if lacks(coordinatorTable) || lacks(decisionsTable) {
		parts = append(parts, "it can take part in distributed transactions, but not coordinate them")
	}
	if lacks(leasesTable) {
		parts = append(parts, "it cannot have leases")
	}
	return strings.Join(parts, ", and ")
}
