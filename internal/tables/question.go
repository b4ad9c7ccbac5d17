package tables

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
)

// trusted are the roles that have power over this role or its database anyway, so that a table of theirs is no danger: the
// role itself, the roles that it has been made a member of, superusers, the database's owner, and those that the
// configuration names.
//
// A membership counts if an administrator gave it: before PostgreSQL 16 any role may make another one a member of itself,
// unasked, and would have its tables trusted so. For a superuser pg_has_role says yes to every role; what was granted counts.
const trusted = `trusted AS (
	SELECT oid FROM pg_roles WHERE rolsuper OR rolname IN (current_user, %s)
	UNION SELECT datdba FROM pg_database WHERE datname = current_database()
	UNION SELECT oid FROM pg_roles WHERE rolname = 'pg_database_owner'
	UNION SELECT m.roleid FROM trusted_by m)`

// memberships are the roles that this role is a member of, directly or not, by grants of administrators.
const memberships = `administrators AS (
	SELECT oid FROM pg_roles WHERE rolsuper OR rolcreaterole OR rolname = current_user
	UNION SELECT datdba FROM pg_database WHERE datname = current_database()),
trusted_by AS (
	SELECT m.roleid FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.member
	WHERE r.rolname = current_user AND m.grantor IN (SELECT oid FROM administrators)
	UNION SELECT m.roleid FROM trusted_by t JOIN pg_auth_members m ON m.member = t.roleid
	WHERE m.grantor IN (SELECT oid FROM administrators))`

// Trusted are common table expressions, the first of them trusted(oid), for a WITH RECURSIVE under [Path].
func Trusted(owners []string) string {
	names := []string{"NULL"}
	for _, owner := range owners {
		names = append(names, backend.Literal(owner))
	}
	return memberships + ",\n" + fmt.Sprintf(trusted, strings.Join(names, ", "))
}

// Question asks the catalogue what the tables are: one row with one JSON array. It is for a transaction under [Path], which
// also decides how the catalogue spells expressions: what is not in pg_catalog has its schema before it. Where somebody has a
// table locked for himself it waits, as a look into the table would.
func Question(owners []string, tables ...Table) string {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = backend.Literal(t.Name)
	}
	return `WITH RECURSIVE ` + Trusted(owners) + `
SELECT coalesce(json_agg(t ORDER BY t."Name"), '[]') FROM (SELECT c.relname AS "Name", c.relkind AS "Kind", c.relpersistence AS "Persistence",
	o.rolname AS "Owner", coalesce(c.relowner IN (SELECT oid FROM trusted), false) AS "Trusted", current_user AS "Role",
	c.relrowsecurity OR c.relforcerowsecurity AS "RowSecurity", c.relispartition AS "Partition", c.reloftype <> 0 AS "Typed",
	(SELECT json_agg(i.inhrelid::regclass::text || ' inherits from ' || i.inhparent::regclass::text) FROM pg_inherits i WHERE c.oid IN (i.inhrelid, i.inhparent)) AS "Inherits",
	(SELECT json_agg(g.tgname ORDER BY g.tgname) FROM pg_trigger g WHERE g.tgrelid = c.oid) AS "Triggers",
	(SELECT json_agg(w.rulename ORDER BY w.rulename) FROM pg_rewrite w WHERE w.ev_class = c.oid AND c.relkind IN ('r', 'p')) AS "Rules",
	(SELECT json_agg(json_build_object('Name', a.attname, 'Type', format_type(a.atttypid, NULL), 'Nullable', NOT a.attnotnull, 'Generated', a.attgenerated <> '' OR a.attidentity <> '',
		'Default', CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, 0) END, 'Collation', CASE WHEN l.collisdeterministic AND l.collnamespace = 'pg_catalog'::regnamespace THEN '' ELSE l.collname END) ORDER BY a.attnum)
		FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum LEFT JOIN pg_collation l ON l.oid = a.attcollation
		WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS "Columns",
	(SELECT json_agg(json_build_object('Name', k.conname, 'Type', k.contype, 'Definition', pg_get_constraintdef(k.oid)) ORDER BY k.conname)
		FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype <> 'n') AS "Constraints",
	(SELECT json_agg(json_build_object('Name', x.relname, 'Unique', i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL, 'Distinct', i.indisunique, 'Primary', i.indisprimary,
		'Columns', (SELECT json_agg(a.attname ORDER BY u.n) FROM unnest(i.indkey) WITH ORDINALITY u(attnum, n) JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.attnum AND u.n <= i.indnkeyatts),
		'Computes', i.indexprs IS NOT NULL, 'Partial', i.indpred IS NOT NULL, 'Definition', pg_get_indexdef(i.indexrelid),
		'Foreign', EXISTS (SELECT FROM unnest(i.indclass) u(oid) JOIN pg_opclass oc ON oc.oid = u.oid WHERE oc.opcnamespace <> 'pg_catalog'::regnamespace)) ORDER BY x.relname)
		FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = c.oid) AS "Indexes"
	FROM pg_class c LEFT JOIN pg_roles o ON o.oid = c.relowner
	WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'public') AND c.relname IN (` + strings.Join(names, ", ") + `)) t`
}

// Owners are the roles that a database's configuration names as owners of hare's tables.
func Owners(db backend.Database) []string {
	if named, ok := db.(backend.TablesOwner); ok {
		return named.TablesOwners()
	}
	return nil
}

// Read judges the answer to a [Question]. absent are the tables that are not there; a table that cannot be trusted is a
// [*hare.ConfigurationError].
func Read(alias string, row []string, tables ...Table) (found Found, err error) {
	if found, err = Decode(row); err != nil {
		return nil, &hare.ConfigurationError{Alias: alias, Err: err, Reason: "what the catalogue says of hare's tables cannot be read"}
	}
	for _, t := range tables {
		if f := found.Table(t); f != nil {
			if wrong := f.Wrong(t); len(wrong) > 0 {
				return nil, &hare.ConfigurationError{Alias: alias, Reason: Describe(t, wrong)}
			}
		}
	}
	return found, nil
}

// Decode reads the answer to a [Question].
func Decode(row []string) (found Found, err error) {
	if len(row) != 1 {
		return nil, fmt.Errorf("the server answered with %d columns", len(row))
	}
	err = json.Unmarshal([]byte(row[0]), &found)
	return found, err
}

// Check asks on an idle connection, in one message, and judges the answer.
func Check(ctx context.Context, alias string, db backend.Database, conn backend.Conn, tables ...Table) (Found, error) {
	sql := Question(Owners(db), tables...)
	answer, err := conn.Control(ctx, `BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY`, Path, sql, "COMMIT")
	if err != nil {
		if conn.Status() != backend.StatusClosed {
			_, _ = conn.Control(ctx, "ROLLBACK")
		}
		return nil, hare.ErrorFrom(alias, "", err)
	}
	return Read(alias, answer.Row, tables...)
}

// MadeMeanwhile reports whether making a table failed because another process has just made it: it is to be looked at again.
func MadeMeanwhile(err error) bool {
	switch backend.SQLState(err) {
	// duplicate_table, duplicate_object (its row type), unique_violation of the catalogue, "tuple concurrently updated"
	case "42P07", "42710", "23505", "XX000":
		return true
	}
	return false
}
