package hare

import (
	"context"
	"fmt"
	"reflect"
	"time"

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
// any number of processes may start at once. Where no lock_timeout bounds the wait for that lock it is 30 seconds, and the error
// names who holds it. When it fails nothing is created. A database that cannot roll DDL back is a
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
	return c.atomically(ctx, func(run session.Runner) error {
		if err := c.lockSchema(ctx, run); err != nil {
			return err
		}
		for _, statement := range statements {
			if _, err := run.Exec(ctx, backend.Call{SQL: statement}); err != nil {
				return ErrorFrom(c.alias, statement, err)
			}
		}
		return nil
	})
}

// schemaLockWait bounds the wait for the lock of the schema: anybody who may connect can take it and keep it.
const schemaLockWait = 30 * time.Second

// lockSchema keeps other processes from changing the schema until the transaction ends.
func (c *Client) lockSchema(ctx context.Context, run session.Runner) error {
	lock := c.db.Dialect().SchemaLock()
	if lock == "" {
		return nil
	}
	waiter, waits := c.db.Dialect().(backend.SchemaLockWaiter)
	statements := []string{lock}
	if waits {
		statements = []string{waiter.BoundLocks(schemaLockWait), lock, waiter.UnboundLocks()}
	}
	var err error
	for i := 0; i < len(statements) && err == nil; i++ {
		_, err = run.Exec(ctx, backend.Call{SQL: statements[i]})
	}
	if waits && backend.SQLState(err) == "55P03" { // lock_not_available
		if holder := c.schemaLockHolder(ctx, waiter); holder != "" {
			return fmt.Errorf("%w; the lock of schema changes is held by %s: let it end its transaction, or end it", ErrorFrom(c.alias, lock, err), holder)
		}
	}
	return ErrorFrom(c.alias, lock, err)
}

// schemaLockHolder asks beside the transaction, which is as good as over, who has kept it waiting.
func (c *Client) schemaLockHolder(ctx context.Context, waiter backend.SchemaLockWaiter) string {
	conn, err := c.db.Dial(ctx)
	if err != nil {
		return ""
	}
	defer conn.Release()
	return waiter.SchemaLockHolder(ctx, conn)
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
