// Package tables knows hare's own tables and makes sure that they are hare's, by the catalogue alone.
//
// The tables stand in the schema public, where others may create things, too. Whoever owns a table can run code in the
// session of everybody who touches it, even who only reads it: by a view, a trigger, a rule, a default, a check, a policy
// of row security, an expression of an index, the type of a column, a table that inherits from it. And he can write what he
// likes into it. So before anything in one of them is read or written the catalogue, which nobody can forge, has to say that
// it is a plain table as hare makes it, and that its owner is somebody who has power over this role or its database anyway.
// Then nobody else can change that afterwards, and the answer may be remembered.
//
// What is not known to be harmless is refused.
package tables

// Path is the statement that keeps the rest of a transaction from finding anything outside pg_catalog by a bare name:
// functions, operators and types of the same name in a schema of the session's search_path are a way to run code in it
// (CVE-2018-1058). It stands right behind BEGIN, in the same message. In a start-up parameter poolers refuse it.
const Path = `SET LOCAL search_path = pg_catalog, pg_temp`

// Table is one of hare's tables as it has to be.
type Table struct {
	Name    string // in the schema public
	Key     string // the column of the primary key
	Columns map[string]Column
	Later   []string // columns that the table may lack: hare adds them on its first use
	Checks  []string // as pg_get_constraintdef gives them
	Unique  []string // the columns of a unique index that it needs besides the primary key
	Rights  []string // what hare does with it
}

// Column is a column as it has to be.
type Column struct {
	Type     string   // as format_type gives it
	Defaults []string // what its default may be, as pg_get_expr gives it; none is always right
	NotNull  bool     // hare relies on the column's refusal of NULL
}

var now = []string{"now()", "CURRENT_TIMESTAMP", "clock_timestamp()"}

const instant = "timestamp with time zone"

// The tables.
var (
	Decisions = Table{Name: "hare_distributed_decisions", Key: "xid", Columns: map[string]Column{
		"xid": {Type: "text"}, "coordinator_alias": {Type: "text", NotNull: true}, "participant_aliases": {Type: "text"},
		"created_at": {Type: instant, Defaults: now}, "resolved_at": {Type: instant},
		"outcome":      {Type: "text", Defaults: []string{"'commit'::text"}},
		"participants": {Type: "jsonb", Defaults: []string{"'[]'::jsonb"}},
	}, Later: []string{"outcome", "participants"}, Checks: []string{"CHECK ((outcome = ANY (ARRAY['commit'::text, 'abort'::text])))"},
		Rights: []string{"SELECT", "INSERT", "UPDATE", "DELETE"}}

	Coordinator = Table{Name: "hare_distributed_coordinator", Key: "singleton", Columns: map[string]Column{
		"singleton": {Type: "boolean", Defaults: []string{"true"}}, "id": {Type: "text"}, "system_identifier": {Type: "text"},
		"database_oid": {Type: "text"}, "created_at": {Type: instant, Defaults: now},
	}, Checks: []string{"CHECK (singleton)"}, Rights: []string{"SELECT"}}

	Leases = Table{Name: "hare_leases", Key: "name", Columns: map[string]Column{
		"name": {Type: "text"}, "holder": {Type: "text"}, "token": {Type: "bigint"},
		"acquired_at": {Type: instant}, "renewed_at": {Type: instant}, "expires_at": {Type: instant},
	}, Unique: []string{"name", "token"}, Rights: []string{"SELECT", "INSERT", "UPDATE"}}
)

// Qualified is the table's name with its schema.
func (t Table) Qualified() string { return "public." + t.Name }
