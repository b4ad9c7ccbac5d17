package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/plaintext"
	"github.com/hare-go/hare/internal/tables"
)

// schema is a schema of the session's search_path, and which strangers may create things in it.
type schema struct {
	Name      string
	Strangers []string // quoted; PUBLIC is everybody
}

// askSchemas reads the path in the session as the application has it, and what the catalogue says of its schemas.
func askSchemas(ctx context.Context, d *database) error {
	const sql = `SELECT pg_catalog.array_to_json(pg_catalog.current_schemas(false))::pg_catalog.text`
	answer, err := d.conn.Control(ctx, sql)
	if err != nil {
		return hare.ErrorFrom(d.alias, sql, err)
	}
	var names []string
	if err := json.Unmarshal([]byte(strings.Join(answer.Row, "")), &names); err != nil {
		return err
	}
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = fmt.Sprintf("(%d, %s)", i, backend.Literal(name))
	}
	if len(list) == 0 {
		return nil
	}
	return d.rows(ctx, &d.schemas, "%s", `WITH RECURSIVE `+tables.Trusted(tables.Owners(d.db))+`
SELECT n.nspname AS name, (SELECT json_agg(DISTINCT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END)
	FROM (SELECT grantee FROM aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) WHERE privilege_type = 'CREATE' UNION SELECT n.nspowner) a
	WHERE a.grantee NOT IN (SELECT oid FROM trusted)) AS strangers
FROM (VALUES `+strings.Join(list, ", ")+`) AS p(place, name) JOIN pg_namespace n ON n.nspname = p.name ORDER BY p.place`)
}

// searchPath warns of strangers. hare's own statements find nothing by the path; querysets and the application's SQL do.
func searchPath(d *database, _ *examination) []Finding {
	var names, open, sql []string
	for _, s := range d.schemas {
		names = append(names, s.Name)
		if len(s.Strangers) == 0 {
			continue
		}
		who := strings.Join(s.Strangers, ", ")
		open = append(open, fmt.Sprintf("in %s: %s", s.Name, who))
		sql = append(sql, "REVOKE CREATE ON SCHEMA "+plaintext.Name(s.Name)+" FROM "+who)
	}
	if len(open) == 0 {
		return []Finding{found(OK, "no stranger may create things in its schemas: %s", strings.Join(names, ", "))}
	}
	f := found(Warning, "strangers may create things in its schemas, %s", strings.Join(open, "; "))
	f.Mend = "take the right away; a role that owns such a schema keeps it, and the schema does not belong on the path. The owner or a superuser:"
	f.SQL = sql
	return []Finding{f}
}
