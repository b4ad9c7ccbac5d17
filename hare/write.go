package hare

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/compile"
	"github.com/hare-go/hare/internal/schema"
	"github.com/hare-go/hare/query"
)

// Create inserts one row. Zero values are written as they are, with these exceptions: a generated integer key that is
// zero comes from the database, a single UUID key that is zero is made up, a nil pointer whose column has a default
// gets the default, and auto_now and auto_now_add fields get the present time (an auto_now_add field only if it is
// zero). What was filled in stands in the object afterwards; when Create fails the object is unchanged.
//
// The filters, the order and the limit of the queryset take no part.
func (qs QuerySet[T]) Create(ctx context.Context, object *T) error {
	return onObject(ctx, &qs.set, object, func(c *Client, t *schema.Table, base backend.Pointer) error {
		return c.insert(ctx, t, base, time.Now())
	})
}

// Update assigns to every row of the queryset, in one statement, and returns how many rows there were. auto_now
// columns follow unless they are assigned. A key cannot be assigned.
//
// Without a filter it is a [*QueryError], unless [QuerySet.Unfiltered] was called. With a limit or an offset exactly the
// rows that All would return are updated.
func (qs QuerySet[T]) Update(ctx context.Context, set ...query.Assignment) (int64, error) {
	c, err := qs.set.toChange(ctx, "update", features.RowUpdates)
	if err != nil {
		return 0, err
	}
	assignments, err := compile.Assignments(qs.set.query.Table, set)
	if err != nil {
		return 0, callError(err)
	}
	s, args, err := c.compiler.Update(ctx, &qs.set.query, assignments, backend.Microseconds(time.Now()))
	if err != nil {
		return 0, c.callError(err)
	}
	return c.exec(ctx, backend.Call{SQL: s.SQL, Args: args})
}

// Delete deletes every row of the queryset, in one statement, and returns how many rows there were; rows that the
// database deletes along with them (ON DELETE CASCADE) are not counted. The rules for a queryset without a filter, and
// with a limit or an offset, are those of [QuerySet.Update].
func (qs QuerySet[T]) Delete(ctx context.Context) (int64, error) {
	c, err := qs.set.toChange(ctx, "delete", features.RowDeletes)
	if err != nil {
		return 0, err
	}
	s, args, err := c.compiler.Delete(ctx, &qs.set.query)
	if err != nil {
		return 0, c.callError(err)
	}
	return c.exec(ctx, backend.Call{SQL: s.SQL, Args: args})
}

// DeleteObject deletes the row with the object's key. Without such a row the error is [ErrDoesNotExist]. The filters of
// the queryset take no part, and the object is left as it is.
func (qs QuerySet[T]) DeleteObject(ctx context.Context, object *T) error {
	return onObject(ctx, &qs.set, object, func(c *Client, t *schema.Table, base backend.Pointer) error {
		if err := features.Require(c.alias, c.Features(), features.RowDeletes); err != nil {
			return err
		}
		if err := keyed(t, base, "delete"); err != nil {
			return err
		}
		args, err := read(nil, t.PK, base)
		if err != nil {
			return err
		}
		s, err := c.compiler.DeleteRow(t)
		if err != nil {
			return callError(err)
		}
		n, err := c.exec(ctx, backend.Call{SQL: s.SQL, Args: args})
		if err == nil && n == 0 {
			err = missing(t)
		}
		return err
	})
}

// Refresh reads the row with the object's key into the object again: every column; other fields stay. Without such a
// row the error is [ErrDoesNotExist]. The filters of the queryset take no part. When Refresh fails the object is
// unchanged.
func (qs QuerySet[T]) Refresh(ctx context.Context, object *T) error {
	return onObject(ctx, &qs.set, object, func(c *Client, t *schema.Table, base backend.Pointer) error {
		if err := keyed(t, base, "refresh"); err != nil {
			return err
		}
		args, err := read(nil, t.PK, base)
		if err != nil {
			return err
		}
		s, err := c.compiler.SelectRow(t)
		if err != nil {
			return callError(err)
		}
		rows, err := c.query(ctx, backend.Call{SQL: s.SQL, Args: args, ReadOnly: true})
		if err != nil {
			return err
		}
		return c.scanOne(rows, s.SQL, base, t.Dests, missing(t))
	})
}

// onObject runs do on a copy of the object, which replaces the object when do has succeeded: no failure leaves half of
// a change in it.
func onObject[T any](ctx context.Context, set *rowSet, object *T, do func(c *Client, t *schema.Table, base backend.Pointer) error) error {
	c, err := set.on(ctx)
	if err != nil {
		return err
	}
	if object == nil {
		return &QueryError{Reason: "the object is nil: give a pointer to a " + set.query.Table.Model}
	}
	draft := *object
	if err := do(c, set.query.Table, backend.Pointer(&draft)); err != nil {
		return err
	}
	*object = draft
	return nil
}

// toChange is the client for a statement that changes rows, once it is clear that the caller means these rows.
func (s *rowSet) toChange(ctx context.Context, verb string, need features.Flag) (*Client, error) {
	c, err := s.on(ctx)
	if err != nil {
		return nil, err
	}
	if len(s.query.Where) == 0 && !s.unfiltered && s.query.Limit == compile.Unlimited && s.query.Offset <= 0 {
		return nil, &QueryError{Reason: fmt.Sprintf(
			"this would %s every %s: filter the rows, or say so with Unfiltered()", verb, s.query.Table.Model)}
	}
	return c, features.Require(c.alias, c.Features(), need)
}

// keyed makes sure that the object at base has a key to find its row by.
func keyed(t *schema.Table, base backend.Pointer, verb string) error {
	switch {
	case len(t.PK) == 0:
		return &QueryError{Reason: fmt.Sprintf("cannot %s one %s: the model has no primary key", verb, t.Model)}
	case unkeyed(t, base):
		return &QueryError{Reason: fmt.Sprintf("cannot %s a %s that has no key yet", verb, t.Model)}
	}
	return nil
}

// unkeyed reports whether the object's key is still to be made, by the database or by hare.
func unkeyed(t *schema.Table, base backend.Pointer) bool {
	return len(t.PK) == 1 && (t.PK[0].Generated || t.PK[0].NewUUID) && t.PK[0].IsZero(base)
}

// insert writes the object at base as a new row and fills in what hare or the database made up.
func (c *Client) insert(ctx context.Context, t *schema.Table, base backend.Pointer, now time.Time) error {
	if err := prepare(t, base, now); err != nil {
		return err
	}
	columns, returning := written(t, base)
	args := make([]any, 0, columns.Len())
	for column := range columns.In(t) {
		value, err := column.Read(base)
		if err != nil {
			return callError(err)
		}
		args = append(args, value)
	}
	s, err := c.compiler.Insert(t, columns, returning)
	if err != nil {
		return callError(err)
	}
	call := backend.Call{SQL: s.SQL, Args: args}
	if returning.Len() == 0 {
		_, err := c.exec(ctx, call)
		return err
	}
	if err := features.Require(c.alias, c.Features(), features.Returning); err != nil {
		return err
	}
	rows, err := c.query(ctx, call)
	if err != nil {
		return err
	}
	return c.scanOne(rows, s.SQL, base, dests(t, returning), errNoRowBack)
}

var errNoRowBack = errors.New("the database accepted the row and returned none: a trigger or a rule has taken it away")

// scanOne reads one row into the struct at base and closes the rows; absent is the error where there is none.
func (c *Client) scanOne(rows backend.Rows, sql string, base backend.Pointer, into []backend.Dest, absent error) error {
	var err error
	switch {
	case rows.Next():
		err = rows.Scan(base, into)
	case rows.Err() == nil:
		err = absent
	}
	if closed := rows.Close(); err == nil {
		err = closed
	}
	return ErrorFrom(c.alias, sql, err)
}

// prepare fills in what hare itself makes up for a new row.
func prepare(t *schema.Table, base backend.Pointer, now time.Time) error {
	for _, column := range t.Columns {
		switch {
		case column.AutoNow, column.AutoNowAdd && column.IsZero(base):
			column.SetNow(base, now)
		case column.NewUUID && column.IsZero(base):
			if err := column.Dest.Store(base, schema.NewUUID()); err != nil {
				return err
			}
		}
	}
	return nil
}

// written are the columns that an INSERT of the object at base writes; the others are left to the database, and
// returned by it.
func written(t *schema.Table, base backend.Pointer) (columns, returning compile.ColumnSet) {
	for _, column := range t.Columns {
		left := (column.Generated || column.HasDefault && column.Null) && column.IsZero(base)
		if left {
			returning = returning.With(column)
		} else {
			columns = columns.With(column)
		}
	}
	return columns, returning
}

// read appends the canonical values of the columns of the object at base.
func read(args []any, columns []*schema.Column, base backend.Pointer) ([]any, error) {
	for _, column := range columns {
		value, err := column.Read(base)
		if err != nil {
			return nil, callError(err)
		}
		args = append(args, value)
	}
	return args, nil
}

// dests are where the columns of the set go.
func dests(t *schema.Table, set compile.ColumnSet) []backend.Dest {
	n := set.Len()
	list := make([]backend.Dest, 0, n)
	for column := range set.In(t) {
		if n == 1 { // a generated key, as a rule
			return t.Dests[column.Index : column.Index+1]
		}
		list = append(list, column.Dest)
	}
	return list
}
