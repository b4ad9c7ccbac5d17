package tables

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Found are the relations that are there under the names of hare's tables.
type Found []Relation

// Relation is one of them, as the catalogue describes it.
type Relation struct {
	Name, Kind, Persistence       string
	Owner, Role                   string // Role is the one that asked
	Trusted                       bool
	RowSecurity, Partition, Typed bool
	Inherits, Triggers, Rules     []string
	Columns                       []column
	Constraints                   []constraint
	Indexes                       []index
}

type column struct {
	Name, Type, Collation string
	Nullable, Generated   bool
	Default               string
}

type constraint struct{ Name, Type, Definition string }

type index struct {
	Name              string
	Columns           []string
	Unique            bool // certainly, for all rows and at once
	Distinct          bool
	Primary           bool
	Computes, Partial bool // it has expressions, a condition
	Definition        string
	Foreign           bool // it uses an operator class that is not PostgreSQL's own
}

// Wrong is one thing that keeps a table from being trusted.
type Wrong struct {
	What string   // for people
	Mend string   // what to do
	SQL  []string // what does it, to be run by the owner or a superuser
}

// Table finds a table, or nil.
func (f Found) Table(t Table) *Relation {
	if i := slices.IndexFunc(f, func(r Relation) bool { return r.Name == t.Name }); i >= 0 {
		return &f[i]
	}
	return nil
}

// Complete reports whether the table is there with all its columns.
func (f Found) Complete(t Table) bool {
	r := f.Table(t)
	return r != nil && len(r.Columns) == len(t.Columns)
}

// Has reports whether the relation has a column.
func (r *Relation) Has(name string) bool {
	return slices.ContainsFunc(r.Columns, func(c column) bool { return c.Name == name })
}

// Describe is the refusal of a table in one sentence for each thing.
func Describe(t Table, wrong []Wrong) string {
	parts := make([]string, len(wrong))
	for i, w := range wrong {
		parts[i] = w.What + ": " + w.Mend
		if len(w.SQL) > 0 {
			parts[i] += " " + strings.Join(w.SQL, "; ")
		}
	}
	return "hare does not touch " + t.Qualified() + ", because it " + strings.Join(parts, "; and it ")
}

// kinds are the relations that are no tables, as DROP names them (PostgreSQL documentation, catalog pg_class).
var kinds = map[string]string{"v": "VIEW", "m": "MATERIALIZED VIEW", "f": "FOREIGN TABLE", "p": "TABLE", "S": "SEQUENCE", "c": "TYPE", "i": "INDEX", "I": "INDEX", "t": "TABLE"}

// Wrong is what is wrong with the relation. Where it is no table, or somebody else's, nothing else matters.
func (r *Relation) Wrong(t Table) (wrong []Wrong) {
	name := t.Qualified()
	switch {
	case r.Kind == "p":
		return []Wrong{{"is a partitioned table, whose parts are tables of their own", "let a superuser look at it and drop it:", []string{"DROP TABLE " + name}}}
	case r.Kind != "r":
		kind := kinds[r.Kind]
		return []Wrong{{fmt.Sprintf("is no table but a %s of the role %q", strings.ToLower(kind), r.Owner), "let a superuser look at it and drop it:",
			[]string{"DROP " + kind + " " + name}}}
	case !r.Trusted:
		return []Wrong{{fmt.Sprintf("belongs to the role %q, who could run code as the role %q", r.Owner, r.Role),
			fmt.Sprintf("its owner must be the role itself, a role that an administrator made it a member of, a superuser, the database's owner, or named in the URL: "+
				"if %q is to be trusted, say tables_owner=%s there; else let a superuser look at it and drop it, or take it over:", r.Owner, r.Owner),
			[]string{"ALTER TABLE " + name + " OWNER TO " + quote(r.Role)}}}
	}
	wrong = append(r.wrongRelation(t), r.wrongColumns(t)...)
	return append(append(wrong, r.wrongConstraints(t)...), r.wrongIndexes(t)...)
}

// wrongRelation looks at what runs with every statement.
func (r *Relation) wrongRelation(t Table) (wrong []Wrong) {
	name := t.Qualified()
	add := func(what string, sql ...string) {
		wrong = append(wrong, Wrong{what, "its owner or a superuser mends it:", sql})
	}
	for _, trigger := range r.Triggers {
		if strings.HasPrefix(trigger, "RI_ConstraintTrigger") {
			wrong = append(wrong, Wrong{What: "has a foreign key", Mend: "drop the constraint, here or in the table that refers to it"})
			continue
		}
		add(fmt.Sprintf("has the trigger %q", trigger), "DROP TRIGGER "+quote(trigger)+" ON "+name)
	}
	for _, rule := range r.Rules {
		add(fmt.Sprintf("has the rule %q", rule), "DROP RULE "+quote(rule)+" ON "+name)
	}
	if r.RowSecurity {
		add("has row security", "ALTER TABLE "+name+" DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY")
	}
	for _, inherits := range r.Inherits {
		wrong = append(wrong, Wrong{What: "has a part in inheritance (" + inherits + ")", Mend: "end that by ALTER TABLE ... NO INHERIT or DETACH PARTITION"})
	}
	if r.Typed {
		add("is a table of a type", "ALTER TABLE "+name+" NOT OF")
	}
	if r.Persistence != "p" {
		add("does not survive a crash (UNLOGGED)", "ALTER TABLE "+name+" SET LOGGED")
	}
	return wrong
}

// wrongColumns looks at what runs for a column.
func (r *Relation) wrongColumns(t Table) (wrong []Wrong) {
	alter := "ALTER TABLE " + t.Qualified() + " "
	add := func(what, sql string) {
		wrong = append(wrong, Wrong{what, "its owner or a superuser mends it:", []string{alter + sql}})
	}
	for _, c := range r.Columns {
		want, expected := t.Columns[c.Name]
		switch {
		case !expected:
			add(fmt.Sprintf("has a column that is none of hare's, %q", c.Name), "DROP COLUMN "+quote(c.Name))
		case c.Type != want.Type:
			add(fmt.Sprintf("has the column %s as %s, which is to be %s", c.Name, c.Type, want.Type), "ALTER COLUMN "+c.Name+" TYPE "+want.Type)
		case c.Collation != "":
			add(fmt.Sprintf("has the column %s with the collation %q", c.Name, c.Collation), "ALTER COLUMN "+c.Name+" TYPE "+want.Type)
		case c.Generated:
			add(fmt.Sprintf("generates the column %s", c.Name), "ALTER COLUMN "+c.Name+" DROP EXPRESSION")
		case want.NotNull && c.Nullable: // it keeps a decision out of every other database
			add(fmt.Sprintf("takes NULL in the column %s", c.Name), "ALTER COLUMN "+c.Name+" SET NOT NULL")
		case c.Default != "" && !slices.Contains(want.Defaults, c.Default):
			add(fmt.Sprintf("has a default of the column %s that is none of hare's", c.Name), "ALTER COLUMN "+c.Name+" DROP DEFAULT")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Columns)) {
		if !r.Has(name) && !slices.Contains(t.Later, name) {
			add("lacks the column "+name, "ADD COLUMN "+name+" "+t.Columns[name].Type)
		}
	}
	return wrong
}

// wrongConstraints looks at the checks, and makes sure of the key: two rows of one name would be two decisions, or two holders.
func (r *Relation) wrongConstraints(t Table) (wrong []Wrong) {
	for _, c := range r.Constraints {
		switch {
		case c.Type == "c" && slices.Contains(t.Checks, c.Definition), c.Type == "p", c.Type == "u":
			continue // the keys are judged by their indexes
		}
		wrong = append(wrong, Wrong{fmt.Sprintf("has a constraint that is none of hare's, %q", c.Name), "its owner or a superuser mends it:",
			[]string{"ALTER TABLE " + t.Qualified() + " DROP CONSTRAINT " + quote(c.Name)}})
	}
	return wrong
}

// plainCondition is the end of a partial index whose condition runs nobody's code. A condition is in parentheses, so that nothing
// longer ends like that.
var plainCondition = regexp.MustCompile(` WHERE \([a-z_]+ IS (NOT )?NULL\)$`)

// wrongIndexes looks at the indexes. More than hare needs may be there, as long as they compute nothing and refuse no row.
func (r *Relation) wrongIndexes(t Table) (wrong []Wrong) {
	key, unique := false, len(t.Unique) == 0
	for _, x := range r.Indexes {
		if x.Unique {
			key = key || x.Primary && slices.Equal(x.Columns, []string{t.Key})
			unique = unique || slices.Equal(x.Columns, t.Unique)
		}
		computes := x.Computes || x.Foreign || x.Partial && !plainCondition.MatchString(x.Definition)
		if computes || x.Distinct && !slices.Contains(x.Columns, t.Key) {
			wrong = append(wrong, Wrong{fmt.Sprintf("has an index that is none of hare's and computes something or refuses rows, %q", x.Name), "its owner or a superuser mends it:",
				[]string{"DROP INDEX public." + quote(x.Name)}})
		}
	}
	if !key {
		wrong = append(wrong, Wrong{"lacks its primary key", "its owner or a superuser mends it:", []string{"ALTER TABLE " + t.Qualified() + " ADD PRIMARY KEY (" + t.Key + ")"}})
	}
	if !unique {
		wrong = append(wrong, Wrong{"lacks a unique index", "its owner or a superuser mends it:",
			[]string{"CREATE UNIQUE INDEX ON " + t.Qualified() + " (" + strings.Join(t.Unique, ", ") + ")"}})
	}
	return wrong
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
