package session

import (
	"context"
	"fmt"

	"github.com/hare-go/hare/hare/backend"
)

// Enclosure is whose a context is that is closed to all databases but those of one transaction: what is written elsewhere
// would not be undone with it.
type Enclosure struct {
	Transaction string   // its name
	Members     []string // the aliases that take part
}

// OutsideError says that a context is closed to a database. Nothing was sent.
type OutsideError struct {
	Alias string
	Enclosure
}

// Error names the database, the transaction and its members, and the ways out.
func (e *OutsideError) Error() string {
	return fmt.Sprintf("%q takes no part in the distributed transaction %s of %q, whose Context this is: what is written there would stay when it is rolled back. "+
		"Name %q as a participant; what is to stay whatever happens is for the ctx that Distributed was called with", e.Alias, e.Transaction, e.Members, e.Alias)
}

// Enclose gives a context that carries the levels and is closed to every other database, whatever ctx carries.
func Enclose(ctx context.Context, bound Enclosure, levels ...*Level) context.Context {
	chain := &node{bound: &bound}
	for _, level := range levels {
		chain = &node{level: level, outer: chain}
	}
	return context.WithValue(ctx, contextKey{}, chain)
}

// Join is the level that a statement of ctx on db belongs to, as [From] gives it, or nil: it belongs to none. A context that
// is closed to db is an [*OutsideError], in which alias names db.
func Join(ctx context.Context, alias string, db backend.Database) (*Level, error) {
	level, bound := find(ctx, db)
	if level == nil && bound != nil {
		return nil, &OutsideError{Alias: alias, Enclosure: *bound}
	}
	return level, nil
}

// find is the innermost open level of ctx on db, or nil, and what the search has stopped at before it came to the end.
func find(ctx context.Context, db backend.Database) (*Level, *Enclosure) {
	n, _ := ctx.Value(contextKey{}).(*node)
	for ; n != nil; n = n.outer {
		switch {
		case n.bound != nil:
			return nil, n.bound
		case n.level.session.DB == db:
			return n.level.enclosing(), nil
		}
	}
	return nil, nil
}
