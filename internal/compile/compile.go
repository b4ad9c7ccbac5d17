// Package compile turns what a queryset says into SQL.
//
// The work is split by how often it is done. Names and values are checked when a query is built ([Where], [OrderBy],
// [Assignments]), which needs no database. A statement's text depends only on the query's shape: the table, the
// lookups, the columns, which values are NULL; never on a value. So a [Compiler], one for each database, walks a query
// once to make the shape's key and the arguments side by side, and finds the text in its cache. Only a shape that is
// new is rendered, by squirrel, which sees numbered slots in the place of values.
package compile

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/schema"
)

// Query is a set of rows of a table.
type Query struct {
	Table *schema.Table
	// Where holds the conditions, all of which must be true. A nil one says nothing.
	Where []*Node
	// Order is the order of the rows; without one it is the database's.
	Order []Term
	// Limit is the largest number of rows and Offset how many to leave out before them. Unlimited, -1, is none.
	Limit, Offset int
}

// Unlimited is the [Query] Limit or Offset that is not there.
const Unlimited = -1

// All is the query for every row of a table.
func All(t *schema.Table) Query { return Query{Table: t, Limit: Unlimited, Offset: Unlimited} }

func (q *Query) sliced() bool { return q.Limit != Unlimited || q.Offset != Unlimited }

// Statement is the text of one statement, with placeholders $1, $2, ...
type Statement struct {
	SQL string

	rows bool // InsertRows: each argument is a backend.List with a value for every row
}

// UsageError says that a query is put together wrong. Nothing was sent.
type UsageError struct{ Reason string }

// Error is the reason.
func (e *UsageError) Error() string { return e.Reason }

func usage(format string, args ...any) error {
	return &UsageError{Reason: fmt.Sprintf(format, args...)}
}

// Compiler makes the statements for one database. It is safe for concurrent use.
type Compiler struct {
	dialect  backend.Dialect
	features features.Features
	alias    string
	cache    cache[Statement]
	renders  atomic.Uint64
}

// New is the compiler for the database that alias names in messages.
func New(d backend.Dialect, f features.Features, alias string) *Compiler {
	return &Compiler{dialect: d, features: f, alias: alias}
}

// Renders is how many statements have been rendered so far. It stands still while every shape is in the cache.
func (c *Compiler) Renders() uint64 { return c.renders.Load() }

// Select reads the rows of the query: every column, in the table's order.
func (c *Compiler) Select(ctx context.Context, q *Query) (Statement, []any, error) {
	return c.query(ctx, formSelect, q, nil)
}

// Count gives one row with the number of rows of the query, an integer.
func (c *Compiler) Count(ctx context.Context, q *Query) (Statement, []any, error) {
	return c.query(ctx, formCount, q, nil)
}

// Exists gives one row if the query has any, and no row otherwise.
func (c *Compiler) Exists(ctx context.Context, q *Query) (Statement, []any, error) {
	return c.query(ctx, formExists, q, nil)
}

// Delete deletes exactly the rows that the query would return.
func (c *Compiler) Delete(ctx context.Context, q *Query) (Statement, []any, error) {
	return c.query(ctx, formDelete, q, nil)
}

// Update assigns to exactly the rows that the query would return. Columns that hold the time of the last change
// follow with now, unless the assignments set them.
func (c *Compiler) Update(ctx context.Context, q *Query, set []Assignment, now time.Time) (Statement, []any, error) {
	if len(set) == 0 {
		return Statement{}, nil, usage("an update of %s sets no column", q.Table.Model)
	}
	return c.query(ctx, formUpdate, q, touch(q.Table, set, now))
}

// query is the way of every statement that has conditions: walk, look up and, for a shape not seen before, render.
//
// A context that ends stops the rendering: it is what takes long for a large query.
func (c *Compiler) query(ctx context.Context, f form, q *Query, set []Assignment) (Statement, []any, error) {
	if q.Limit < Unlimited || q.Offset < Unlimited {
		return Statement{}, nil, usage("limit and offset must not be negative")
	}
	if n, most := countArgs(q, set), c.features.MaxBindParameters; most > 0 && n > most {
		return Statement{}, nil, usage("the query has %d arguments, and connection %q takes at most %d: use the lookup \"in\", "+
			"whose list counts as one", n, c.alias, most)
	}
	w := newWalk(c.dialect)
	defer w.free()
	args := w.statement(f, q, set)
	if s, ok := c.cache.get(q.Table, w.key); ok {
		return s, args, nil
	}
	s, err := c.render(ctx, f, q, set)
	if err != nil {
		return Statement{}, nil, err
	}
	c.cache.put(q.Table, w.key, s)
	return s, args, nil
}

// form is what a statement does. It is the first byte of every key.
type form byte

const (
	formSelect form = iota
	formCount
	formExists
	formUpdate
	formDelete
	formInsert
	formInsertRows
	formUpdateRow
	formDeleteRow
	formSelectRow
)

// ordered: the order decides what the statement does, not only how its rows come.
func (f form) ordered(q *Query) bool {
	switch f {
	case formSelect:
		return len(q.Order) > 0
	case formUpdate, formDelete:
		return len(q.Order) > 0 && q.sliced()
	}
	return false
}
