package compile

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"

	"github.com/hare-go/hare/internal/schema"
)

// Tables makes the statements that create the tables where they are missing: first each table with its constraints,
// after those that its foreign keys refer to, then the indexes. A table that a foreign key refers to and that is not
// in the list is taken to exist.
//
// Foreign keys that go in a circle, or two things of one name, are a [*schema.DeclarationError]; what the database does
// not have is a [*features.UnsupportedError].
func Tables(d backend.Dialect, f features.Features, alias string, tables []*schema.Table) ([]string, error) {
	ordered, err := byForeignKeys(tables)
	if err != nil {
		return nil, err
	}
	if err := distinctNames(ordered); err != nil {
		return nil, err
	}
	statements := make([]string, 0, len(ordered))
	for _, t := range ordered {
		statement, err := createTable(d, f, alias, t)
		if err != nil {
			return nil, err
		}
		statements = append(statements, statement)
	}
	for _, t := range ordered {
		for _, index := range t.Indexes {
			if !index.Unique {
				statements = append(statements, fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (%s)",
					quote(index.Name), quote(t.Name), quoted(index.Columns)))
			}
		}
	}
	return statements, nil
}

func createTable(d backend.Dialect, f features.Features, alias string, t *schema.Table) (string, error) {
	if err := features.Require(alias, f, needs(t)...); err != nil {
		return "", err
	}
	lines := make([]string, 0, len(t.Columns)+len(t.Indexes)+len(t.Relations)+1)
	keyed := len(t.PK) == 0
	for _, c := range t.Columns {
		if c.Generated {
			clause, inline := d.GeneratedKey(c.Type)
			keyed = keyed || inline
			lines = append(lines, quote(c.Name)+" "+clause)
			continue
		}
		line, err := definition(d, f, alias, c)
		if err != nil {
			return "", err
		}
		lines = append(lines, line)
	}
	if !keyed {
		lines = append(lines, constraint(schema.ConstraintName("pk", t.Name), "PRIMARY KEY ("+quoted(t.PK)+")"))
	}
	for _, index := range t.Indexes {
		if index.Unique {
			lines = append(lines, constraint(index.Name, "UNIQUE ("+quoted(index.Columns)+")"))
		}
	}
	for _, c := range t.Columns {
		if len(c.Choices) > 0 {
			lines = append(lines, constraint(schema.ConstraintName("ck", t.Name, c.Name, "choices"), "CHECK ("+among(c)+")"))
		}
	}
	for _, c := range t.Columns {
		if condition, ok := fieldRange(c); ok && !c.Generated && f.SupportsCheckConstraints {
			lines = append(lines, constraint(schema.ConstraintName("ck", t.Name, c.Name, "range"), "CHECK ("+condition+")"))
		}
	}
	for _, check := range t.Checks {
		lines = append(lines, constraint(check.Name, "CHECK ("+check.SQL+")"))
	}
	for _, r := range t.Relations {
		line, err := foreignKey(r)
		if err != nil {
			return "", err
		}
		lines = append(lines, line)
	}
	return "CREATE TABLE IF NOT EXISTS " + quote(t.Name) + " (\n\t" + strings.Join(lines, ",\n\t") + "\n)", nil
}

// needs are the constraints that the table relies on. Where a database would leave one out silently, the table is
// refused.
func needs(t *schema.Table) (flags []features.Flag) {
	if len(t.Relations) > 0 {
		flags = append(flags, features.ForeignKeys)
	}
	for _, index := range t.Indexes {
		if index.Unique {
			flags = append(flags, features.UniqueConstraints)
		}
	}
	if len(t.Checks) > 0 {
		flags = append(flags, features.CheckConstraints)
	}
	for _, c := range t.Columns {
		if len(c.Choices) > 0 {
			flags = append(flags, features.CheckConstraints)
		}
	}
	return flags
}

// definition is a column that the database does not make up.
func definition(d backend.Dialect, f features.Features, alias string, c *schema.Column) (string, error) {
	if c.Type.Kind == backend.KindArray {
		if err := features.Require(alias, f, features.Arrays); err != nil {
			return "", unsupported(err, f, alias, c)
		}
	}
	name, err := d.TypeName(c.Type)
	if err != nil {
		return "", unsupported(err, f, alias, c)
	}
	line := quote(c.Name) + " " + name
	if !c.Null {
		line += " NOT NULL"
	}
	if c.HasDefault {
		line += " DEFAULT " + literal(c.Default)
	}
	return line, nil
}

// unsupported names the connection and the column in the error for a type that the database does not have.
func unsupported(err error, f features.Features, alias string, c *schema.Column) error {
	var missing *features.UnsupportedError
	if !errors.As(err, &missing) {
		return err
	}
	named := *missing
	named.Alias, named.Backend = alias, f.Backend
	named.Detail = strings.TrimSuffix(fmt.Sprintf("%s.%s needs it; %s", c.Table.Model, c.Field, missing.Detail), "; ")
	return &named
}

func foreignKey(r *schema.Relation) (string, error) {
	target, err := r.Resolve()
	if err != nil {
		return "", err
	}
	names := make([]string, len(r.Columns))
	for i, c := range r.Columns {
		names[i] = c.Name
	}
	return constraint(schema.ConstraintName("fk", r.Table.Name, names...), fmt.Sprintf(
		"FOREIGN KEY (%s) REFERENCES %s (%s) ON DELETE %s", quoted(r.Columns), quote(target.Name), quoted(target.PK),
		strings.ToUpper(strings.ReplaceAll(r.OnDelete, "_", " ")))), nil
}

func constraint(name, rule string) string { return "CONSTRAINT " + quote(name) + " " + rule }

// among is the condition that a column has one of its choices. NULL passes, as in every CHECK.
func among(c *schema.Column) string {
	choices := make([]string, len(c.Choices))
	for i, choice := range c.Choices {
		choices[i] = literal(choice)
	}
	return quote(c.Name) + " IN (" + strings.Join(choices, ", ") + ")"
}

func quoted(columns []*schema.Column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = quote(c.Name)
	}
	return strings.Join(names, ", ")
}

// literal is a canonical value in DDL, where there are no placeholders. A text literal takes the column's type: it
// spells UUIDs, decimals and documents too.
func literal(value any) string {
	switch v := value.(type) {
	case bool:
		return strings.ToUpper(strconv.FormatBool(v))
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case backend.UUID:
		return text(fmt.Sprintf("%x-%x-%x-%x-%x", v[:4], v[4:6], v[6:8], v[8:10], v[10:]))
	case backend.Decimal:
		return text(string(v))
	case backend.JSON:
		return text(string(v))
	case string:
		return text(v)
	}
	panic(fmt.Sprintf("compile: no literal for %T: internal/schema lets no such default through", value))
}

// text is a string literal of standard SQL, in which a backslash is a character as any other.
func text(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
