package hare

import (
	"context"
	"fmt"
	"reflect"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/compile"
	"github.com/hare-go/hare/internal/schema"
	"github.com/hare-go/hare/internal/session"
)

// CreateTables creates the tables of the models, with their indexes and constraints, where they are missing:
//
//	err := hare.CreateTables(ctx, client, Author{}, Book{})
//
// A model is given as a struct or a pointer to one, which may be nil. The order does not matter: a table comes after
// those that its foreign keys refer to. A table that exists is left as it is, whatever its columns are.
//
// Everything happens in one transaction (a savepoint inside an open one) under a lock of the whole schema, so that
// any number of processes may start at once. When it fails nothing is created. A database that cannot roll DDL back is a
// features.UnsupportedError: create its tables by hand, with Client.Exec.
func CreateTables(ctx context.Context, c *Client, models ...any) error {
	if c == nil || c.db == nil {
		return c.refused()
	}
	if ctx == nil {
		return errNoContext
	}
	if err := features.Require(c.alias, c.Features(), features.RollbackDDL); err != nil {
		return err
	}
	tables, err := tablesOf(models)
	if err != nil {
		return err
	}
	statements, err := compile.Tables(c.db.Dialect(), c.Features(), c.alias, tables)
	if err != nil {
		return callError(err)
	}
	for _, statement := range statements { // defaults, checks and types stand in them as the model has them
		if err := c.refuseControl(statement); err != nil {
			return err
		}
	}
	if lock := c.db.Dialect().SchemaLock(); lock != "" {
		statements = append([]string{lock}, statements...)
	}
	return c.atomically(ctx, func(run session.Runner) error {
		for _, statement := range statements {
			if _, err := run.Exec(ctx, backend.Call{SQL: statement}); err != nil {
				return ErrorFrom(c.alias, statement, err)
			}
		}
		return nil
	})
}

func tablesOf(models []any) ([]*schema.Table, error) {
	tables := make([]*schema.Table, len(models))
	for i, model := range models {
		t := reflect.TypeOf(model)
		if t != nil && t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t == nil || t.Kind() != reflect.Struct {
			return nil, &QueryError{Reason: fmt.Sprintf("a model is a struct or a pointer to one, and argument %d is %T", i+1, model)}
		}
		table, err := schema.Of(t)
		if err != nil {
			return nil, callError(err)
		}
		tables[i] = table
	}
	return tables, nil
}
