package hare

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/compile"
	"github.com/hare-go/hare/internal/schema"
	"github.com/hare-go/hare/internal/session"
	"github.com/hare-go/hare/query"
)

// All reads every row. Without a row the slice is empty and not nil.
func (qs QuerySet[T]) All(ctx context.Context) ([]T, error) {
	rows, err := qs.set.read(ctx)
	if err != nil {
		return nil, err
	}
	list, err := collect[T](&rows, qs.set.query.Limit)
	if err = rows.end(err); err != nil {
		return nil, err
	}
	return list, nil
}

// collect decodes the rows straight into a slice.
func collect[T any](rows *modelRows, limit int) ([]T, error) {
	seen := rows.rooms.of(rows.sql)
	list := make([]T, 0, seen.room(limit))
	for rows.Next() {
		if len(list) == cap(list) {
			list = slices.Grow(list, max(len(list), 16))
		}
		list = list[:len(list)+1]
		if err := rows.Scan(backend.Pointer(&list[len(list)-1]), rows.table.Dests); err != nil {
			return nil, err
		}
	}
	if seen.note(len(list)); cap(list) > 64 && cap(list) > 2*len(list) {
		list = slices.Clone(list) // the guess was far too high: do not hold the memory
	}
	return list, nil
}

// Get reads the one row that matches. Without a row the error is [ErrDoesNotExist], with more than one
// [ErrMultipleObjects]; both name the model.
func (qs QuerySet[T]) Get(ctx context.Context, parts ...query.Predicate) (*T, error) {
	set := qs.set
	if len(parts) > 0 {
		set = set.where(parts, false)
	}
	return first[T](ctx, set.atMost(2), true)
}

// First reads the first row in the queryset's order, or in that of the primary key where it has none. Without a row
// the error is [ErrDoesNotExist].
func (qs QuerySet[T]) First(ctx context.Context) (*T, error) {
	return first[T](ctx, qs.set.sorted().atMost(1), false)
}

// Last reads the last row in the queryset's order, or in that of the primary key where it has none. Without a row the
// error is [ErrDoesNotExist]. Of a queryset with a limit or an offset there is no Last: order it the other way and take
// First.
func (qs QuerySet[T]) Last(ctx context.Context) (*T, error) {
	set := qs.set
	if set.sliced() {
		return nil, set.failed(&QueryError{Reason: "Last cannot be taken of a queryset with a limit or an offset: reverse the order and take First"}).err
	}
	return first[T](ctx, set.sorted().reversed().atMost(1), false)
}

// first reads the first row, and with only set makes sure that there is no second.
func first[T any](ctx context.Context, set rowSet, only bool) (*T, error) {
	rows, err := set.read(ctx)
	if err != nil {
		return nil, err
	}
	object, err := decodeFirst[T](&rows, only)
	if err = rows.end(err); err != nil {
		return nil, err
	}
	return object, nil
}

func decodeFirst[T any](rows *modelRows, only bool) (*T, error) {
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return nil, err
		}
		return nil, missing(rows.table)
	}
	object := new(T)
	if err := rows.Scan(backend.Pointer(object), rows.table.Dests); err != nil {
		return nil, err
	}
	if only && rows.Next() {
		return nil, &lookupError{rows.table.Model, ErrMultipleObjects}
	}
	return object, nil
}

// Count counts the rows, a limit and an offset included.
func (qs QuerySet[T]) Count(ctx context.Context) (int64, error) { return qs.set.count(ctx) }

// Exists reports whether there is a row.
func (qs QuerySet[T]) Exists(ctx context.Context) (bool, error) { return qs.set.exists(ctx) }

// Iterate reads the rows one by one, for results that need not fit into memory:
//
//	for loan, err := range Loans.Iterate(ctx) {
//		if err != nil {
//			return err
//		}
//		...
//	}
//
// Leaving the loop ends the query. An error is the last thing that the loop sees, with a nil pointer. During the loop
// the query holds a connection; inside a transaction it is the transaction's own, and nothing else can run in it.
func (qs QuerySet[T]) Iterate(ctx context.Context) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		rows, err := qs.set.stream(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		defer rows.Close() // also when the loop's body panics
		for rows.Next() {
			object := new(T)
			if err := rows.Scan(backend.Pointer(object), rows.table.Dests); err != nil {
				yield(nil, rows.end(err))
				return
			}
			if !yield(object, nil) {
				return
			}
		}
		if err := rows.end(nil); err != nil {
			yield(nil, err)
		}
	}
}

// modelRows are rows of a model, with what the errors about them need.
type modelRows struct {
	backend.Rows
	table *schema.Table
	rooms *rooms
	alias string
	sql   string
}

// end closes the rows. err, what went wrong while they were read, comes before their own error.
func (r *modelRows) end(err error) error {
	closed := r.Close()
	if err == nil {
		err = closed
	}
	return ErrorFrom(r.alias, r.sql, err)
}

// read runs the SELECT of the set.
func (s *rowSet) read(ctx context.Context) (modelRows, error) {
	c, err := s.on(ctx)
	if err != nil {
		return modelRows{}, err
	}
	statement, args, err := c.compiler.Select(ctx, &s.query)
	if err != nil {
		return modelRows{}, c.callError(err)
	}
	rows, err := c.query(ctx, backend.Call{SQL: statement.SQL, Args: args, ReadOnly: true})
	return modelRows{Rows: rows, table: s.query.Table, rooms: c.rooms, alias: c.alias, sql: statement.SQL}, err
}

// stream is read for rows that are taken at the caller's pace.
func (s *rowSet) stream(ctx context.Context) (modelRows, error) {
	c, err := s.on(ctx)
	if err != nil {
		return modelRows{}, err
	}
	if err := features.Require(c.alias, c.Features(), features.Streaming); err != nil {
		return modelRows{}, err
	}
	rows, err := s.read(ctx)
	if err == nil {
		rows.Rows = session.Stream(rows.Rows)
	}
	return rows, err
}

func (s *rowSet) count(ctx context.Context) (int64, error) {
	c, err := s.on(ctx)
	if err != nil {
		return 0, err
	}
	statement, args, err := c.compiler.Count(ctx, &s.query)
	if err != nil {
		return 0, c.callError(err)
	}
	values, err := c.row(ctx, backend.Call{SQL: statement.SQL, Args: args, ReadOnly: true})
	if err != nil {
		return 0, err
	}
	n, ok := values[0].(int64)
	if !ok {
		return 0, ErrorFrom(c.alias, statement.SQL, fmt.Errorf("a count came as a %T", values[0]))
	}
	return n, nil
}

func (s *rowSet) exists(ctx context.Context) (bool, error) {
	c, err := s.on(ctx)
	if err != nil {
		return false, err
	}
	statement, args, err := c.compiler.Exists(ctx, &s.query)
	if err != nil {
		return false, c.callError(err)
	}
	values, err := c.row(ctx, backend.Call{SQL: statement.SQL, Args: args, ReadOnly: true})
	return values != nil, err
}

// row runs a query and reads its first row, nil where there is none.
func (c *Client) row(ctx context.Context, call backend.Call) ([]any, error) {
	rows, err := c.query(ctx, call)
	if err != nil {
		return nil, err
	}
	var values []any
	if rows.Next() {
		values, err = rows.Values()
	}
	if closed := rows.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, ErrorFrom(c.alias, call.SQL, err)
	}
	return values, nil
}

// atMost is the set with at most n rows.
func (s rowSet) atMost(n int) rowSet {
	if s.query.Limit == compile.Unlimited || s.query.Limit > n {
		s.query.Limit = n
	}
	return s
}

// sorted is the set in an order: its own, else that of the primary key.
func (s rowSet) sorted() rowSet {
	if s.broken() || len(s.query.Order) > 0 {
		return s
	}
	if len(s.query.Table.PK) == 0 {
		return s.failed(&QueryError{Reason: s.query.Table.Model + " has no primary key to order by: call OrderBy"})
	}
	s.query.Order = compile.PrimaryKeyOrder(s.query.Table)
	return s
}

// reversed is the set in the reverse order.
func (s rowSet) reversed() rowSet {
	s.query.Order = compile.Reverse(s.query.Order)
	return s
}

// lookupError names the model of a row that is missing, or not alone.
type lookupError struct {
	model string
	kind  error
}

func (e *lookupError) Error() string { return e.model + ": " + e.kind.Error() }
func (e *lookupError) Unwrap() error { return e.kind }
func (e *lookupError) public()       {}

func missing(t *schema.Table) error { return &lookupError{t.Model, ErrDoesNotExist} }
