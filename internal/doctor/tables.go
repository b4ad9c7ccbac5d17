package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/internal/plaintext"
	"github.com/hare-go/hare/internal/tables"
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

// rights are hare's tables that are there, and what the role may do with them and in their schema.
type rights struct {
	Uses, Creates bool
	Tables        []table
}

// askTables reads the catalogue alone, which everybody may: a look at a table that one may not use is an error.
func askTables(ctx context.Context, d *database) error {
	d.unknown = map[string]error{}
	for _, t := range ours { // one by one, because somebody may have one of them locked
		answer, err := d.message(ctx, tables.Question(tables.Owners(d.db), t))
		found, wrong := tables.Decode(answer.Row)
		if err != nil {
			wrong = hare.ErrorFrom(d.alias, "", err)
		}
		if wrong != nil {
			d.unknown[t.Qualified()] = wrong
		}
		d.relations = append(d.relations, found...)
	}
	err := d.askRights(ctx)
	for _, t := range ours {
		err = errors.Join(d.unknown[t.Qualified()], err)
	}
	return err
}

func (d *database) askRights(ctx context.Context) error {
	return one(ctx, d, &d.tables, `SELECT coalesce(has_schema_privilege(n.oid, 'USAGE'), false) AS uses, coalesce(has_schema_privilege(n.oid, 'CREATE'), false) AS creates,
	(SELECT coalesce(json_agg(t), '[]') FROM (SELECT 'public.' || c.relname AS name, pg_has_role(c.relowner, 'USAGE') AS owned,
		has_table_privilege(c.oid, 'SELECT') AS selects, has_table_privilege(c.oid, 'INSERT') AS inserts,
		has_table_privilege(c.oid, 'UPDATE') AS updates, has_table_privilege(c.oid, 'DELETE') AS deletes,
		(SELECT json_agg(a.attname) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns
		FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'p')
		AND c.relname IN ('hare_distributed_decisions', 'hare_distributed_coordinator', 'hare_leases') ORDER BY c.relname) t) AS tables
FROM (SELECT 1) one LEFT JOIN pg_namespace n ON n.nspname = 'public'`)
}

// has finds a table of hare's. One that cannot be trusted is none: nothing of it is read.
func (d *database) has(name string) *table {
	if d.unknown[name] != nil {
		return nil
	}
	for _, t := range ours {
		if r := d.relations.Table(t); t.Qualified() == name && r != nil && len(r.Wrong(t)) > 0 {
			return nil
		}
	}
	if i := slices.IndexFunc(d.tables.Tables, func(t table) bool { return t.Name == name }); i >= 0 {
		return &d.tables.Tables[i]
	}
	return nil
}

// ours are hare's tables.
var ours = []tables.Table{tables.Decisions, tables.Coordinator, tables.Leases}

// strange finds what stands in the place of a table of hare's and is not one, or has something that could run code.
func strange(d *database) (findings []Finding) {
	for _, t := range ours {
		r := d.relations.Table(t)
		if r == nil {
			continue
		}
		for _, wrong := range r.Wrong(t) {
			f := found(Failure, "hare does not touch %s, because it %s", t.Qualified(), wrong.What)
			f.Why = "whoever can change a table that hare uses can run code as this role, and decide what becomes of its transactions and leases"
			f.Mend, f.SQL = wrong.Mend, wrong.SQL
			findings = append(findings, f)
		}
	}
	return findings
}

// missing are the rights on the table that the role lacks.
func (t table) missing() (list []string) {
	has := map[string]bool{"SELECT": t.Selects, "INSERT": t.Inserts, "UPDATE": t.Updates, "DELETE": t.Deletes}
	for _, one := range ours {
		for _, right := range one.Rights {
			if one.Qualified() == t.Name && !has[right] {
				list = append(list, right)
			}
		}
	}
	return list
}

// usable judges whether the role can use the tables that are there and create those that are not. Not every database needs
// them: where another one coordinates, or has the leases, this one may do without.
func usable(d *database, all *examination) []Finding {
	if findings := strange(d); len(findings) > 0 {
		return findings
	}
	role := plaintext.Name(d.server.Role)
	var refused, sql []string
	if !d.tables.Uses {
		refused, sql = append(refused, "schema public: no USAGE"), append(sql, "GRANT USAGE ON SCHEMA public TO "+role)
	}
	if old := d.has(decisionsTable); old != nil && !old.Owned && !slices.Contains(old.Columns, "participants") {
		refused = append(refused, decisionsTable+": made by hare for Python, it lacks columns that only its owner can add")
		sql = append(sql, "ALTER TABLE "+decisionsTable+" ADD COLUMN IF NOT EXISTS outcome text NOT NULL DEFAULT 'commit' CHECK (outcome IN ('commit', 'abort')), ADD COLUMN IF NOT EXISTS participants jsonb NOT NULL DEFAULT '[]'")
	}
	var fit, absent []string
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
		fit = append(fit, name)
	}
	if len(refused) > 0 {
		f := found(Failure, "the role %q lacks rights on %s", d.server.Role, strings.Join(refused, "; "))
		f.Mend, f.SQL = "their owner or a superuser gives them:", sql
		return []Finding{f}
	}
	var parts []string
	if len(fit) > 0 {
		parts = append(parts, "may use "+strings.Join(fit, ", "))
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
