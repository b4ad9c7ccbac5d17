package hare

import (
	"context"
	"reflect"

	"github.com/hare-go/hare/internal/compile"
	"github.com/hare-go/hare/internal/schema"
	"github.com/hare-go/hare/query"
)

// QuerySet is a set of rows of the model T that nobody has asked for yet. It is an immutable value: each method
// returns a new one, and any number of goroutines may use one. Nothing is sent before a terminal method (All, Get,
// Create, Update, ...).
//
// Names and values are checked when they are given. The first mistake stays with the queryset, and every terminal
// method returns it before anything is sent: a [*FieldError] for a name, a [*ValidationError] for a value, a
// [*QueryError] for a call that makes no sense, a [*ConfigurationError] for a model that is declared wrong.
type QuerySet[T any] struct{ set rowSet }

// Objects is the queryset of all rows of the model T, a struct type:
//
//	var Loans = hare.Objects[Loan]()
func Objects[T any]() QuerySet[T] {
	return QuerySet[T]{set: newRowSet(reflect.TypeFor[T]())}
}

// Using binds the queryset to a connection, or to the transaction that a [Distributed] handed it out for.
func (qs QuerySet[T]) Using(c *Client) QuerySet[T] {
	if c == nil {
		return QuerySet[T]{set: qs.set.failed(&QueryError{Reason: "Using takes a client, and got nil"})}
	}
	qs.set.client = c
	return qs
}

// UsingAlias binds the queryset to the connection of that alias, which is looked up when a terminal method runs, in
// the connections of its context. "" is the default alias.
func (qs QuerySet[T]) UsingAlias(alias string) QuerySet[T] {
	qs.set.client, qs.set.alias = nil, alias
	return qs
}

// Filter keeps the rows for which every predicate is true.
func (qs QuerySet[T]) Filter(parts ...query.Predicate) QuerySet[T] {
	return QuerySet[T]{set: qs.set.where(parts, false)}
}

// Exclude leaves out the rows for which all the predicates together are true. A row for which they are unknown,
// because of a NULL, stays.
func (qs QuerySet[T]) Exclude(parts ...query.Predicate) QuerySet[T] {
	return QuerySet[T]{set: qs.set.where(parts, true)}
}

// OrderBy sets the order, in place of an earlier one: names of columns, with a "-" in front for descending order, or
// query.Order values, which also say where NULL goes. "pk" is the whole key. Without a term the rows have no order.
func (qs QuerySet[T]) OrderBy(terms ...any) QuerySet[T] {
	return QuerySet[T]{set: qs.set.orderBy(terms)}
}

// Limit keeps the first n rows, in place of an earlier limit.
func (qs QuerySet[T]) Limit(n int) QuerySet[T] {
	if n < 0 {
		return QuerySet[T]{set: qs.set.failed(&QueryError{Reason: "a limit must not be negative"})}
	}
	qs.set.query.Limit = n
	return qs
}

// Offset leaves out the first n rows, in place of an earlier offset.
func (qs QuerySet[T]) Offset(n int) QuerySet[T] {
	if n < 0 {
		return QuerySet[T]{set: qs.set.failed(&QueryError{Reason: "an offset must not be negative"})}
	}
	qs.set.query.Offset = n
	return qs
}

// Unfiltered allows Update and Delete on a queryset without a filter: every row of the table.
func (qs QuerySet[T]) Unfiltered() QuerySet[T] {
	qs.set.unfiltered = true
	return qs
}

// SQL is the statement that All would send, and its arguments, for debugging. It is written for the connection that
// the queryset is bound to, else the process's default one, and sends nothing.
func (qs QuerySet[T]) SQL() (string, []any, error) {
	c, err := qs.set.on(context.Background())
	if err != nil {
		return "", nil, err
	}
	s, args, err := c.compiler.Select(context.Background(), &qs.set.query)
	return s.SQL, args, callError(err)
}

// rowSet is a queryset without its model's type, so that the code exists once and not once for each model.
type rowSet struct {
	query      compile.Query
	client     *Client // or nil: the connection of the alias
	alias      string
	unfiltered bool
	err        error
}

func newRowSet(model reflect.Type) rowSet {
	if model.Kind() != reflect.Struct { // a pointer to a model would pass for the model, and rows go where it points
		return rowSet{err: &ConfigurationError{Model: model.String(), Reason: "a model is a struct type"}}
	}
	t, err := schema.Of(model)
	if err != nil {
		return rowSet{err: callError(err)}
	}
	return rowSet{query: compile.All(t)}
}

// failed is the set with an error. The first one wins.
func (s rowSet) failed(err error) rowSet {
	if s.err == nil {
		s.err = err
	}
	return s
}

func (s rowSet) where(parts []query.Predicate, exclude bool) rowSet {
	switch {
	case s.broken():
		return s
	case s.sliced():
		return s.failed(&QueryError{Reason: "a queryset with a limit or an offset cannot be filtered further: filter first"})
	}
	node, err := compile.Where(s.query.Table, parts, exclude)
	if err != nil {
		return s.failed(callError(err))
	}
	if node == nil {
		return s
	}
	where, err := compile.And(s.query.Table, s.query.Where, node)
	if err != nil {
		return s.failed(callError(err))
	}
	s.query.Where = where
	return s
}

func (s rowSet) orderBy(terms []any) rowSet {
	switch {
	case s.broken():
		return s
	case s.sliced():
		return s.failed(&QueryError{Reason: "a queryset with a limit or an offset cannot be ordered again: order first"})
	}
	order, err := compile.OrderBy(s.query.Table, terms)
	if err != nil {
		return s.failed(callError(err))
	}
	s.query.Order = order
	return s
}

// broken reports whether there is no table to go on with: the queryset carries an error, or was not made by Objects.
func (s *rowSet) broken() bool { return s.err != nil || s.query.Table == nil }

func (s *rowSet) sliced() bool {
	return s.query.Limit != compile.Unlimited || s.query.Offset != compile.Unlimited
}

// check is the first mistake in the queryset.
func (s *rowSet) check() error {
	if s.err == nil && s.query.Table == nil {
		return &QueryError{Reason: "a queryset is made by hare.Objects"}
	}
	return s.err
}

// on is the client that a terminal method of ctx works on.
func (s *rowSet) on(ctx context.Context) (*Client, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, errNoContext
	}
	c := s.client
	if c == nil {
		var err error
		if c, err = clientOf(ctx, s.alias); err != nil {
			return nil, err
		}
	}
	if c.db == nil {
		return nil, c.refused()
	}
	return c, nil
}

// clientOf is the client of an alias in the connections of ctx.
func clientOf(ctx context.Context, alias string) (*Client, error) {
	connections, err := FromContext(ctx)
	if err != nil {
		return nil, err
	}
	return connections.Client(alias)
}
