package serverview

import (
	"fmt"
	"strings"
)

// Holders is a query for one row: who holds an advisory lock of this database, as [Bytes], and more columns. The row is NULL
// where nobody does. In more, l is the lock in pg_locks and a the session in pg_stat_activity, which a prepared transaction
// has none of; each must be an aggregate.
func Holders(key int64, more ...string) string {
	who := `CASE WHEN l.pid IS NULL THEN 'a prepared transaction' ELSE
		pg_catalog.concat('server process ', l.pid::pg_catalog.text, ' of the role "', a.usename::pg_catalog.text, '" (', coalesce(nullif(a.application_name, ''), 'no name'), ')') END`
	columns := append([]string{Bytes(`pg_catalog.string_agg(` + who + `, ', ' ORDER BY l.pid)`)}, more...)
	return fmt.Sprintf(`SELECT %s
FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) l.pid
WHERE l.locktype OPERATOR(pg_catalog.=) 'advisory' AND l.granted AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()
	AND l.database OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
	AND l.classid::pg_catalog.int8 OPERATOR(pg_catalog.=) %d AND l.objid::pg_catalog.int8 OPERATOR(pg_catalog.=) %d AND l.objsubid OPERATOR(pg_catalog.=) 1`,
		strings.Join(columns, ", "), key>>32, key&0xffffffff)
}

// Entitled is a condition: the role with an OID may write rows into a table, by itself or as a member of another role. A table
// that is not there is written by nobody.
func Entitled(role, table string) string {
	may := func(oid string) string {
		return fmt.Sprintf("pg_catalog.has_table_privilege(%s, pg_catalog.to_regclass('%s')::pg_catalog.oid, 'INSERT')", oid, table)
	}
	return fmt.Sprintf("coalesce(%s OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE pg_catalog.pg_has_role(%s, r.oid, 'MEMBER') AND %s), false)",
		may(role), role, may("r.oid"))
}
