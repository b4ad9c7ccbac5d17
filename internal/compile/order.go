package compile

import (
	"strings"

	"github.com/hare-go/hare/query"

	"github.com/hare-go/hare/internal/schema"
)

// Term is one column of a checked ordering.
type Term struct {
	place      *place
	descending bool
	nulls      query.Nulls
}

// OrderBy checks the terms of an ordering: a path, with "-" before it for the largest first, or a query.Order. "pk" and
// the name of a foreign key stand for all the columns of the key.
//
// A wrong name is a [*schema.NameError], anything else a [*UsageError].
func OrderBy(t *schema.Table, terms []any) ([]Term, error) {
	if len(terms) > maxTerms {
		return nil, usage("an order of %s has %d terms, and %d are the most", t.Model, len(terms), maxTerms)
	}
	order := make([]Term, 0, len(terms))
	for _, term := range terms {
		var o query.Order
		switch term := term.(type) {
		case string:
			o.Path, o.Descending = strings.CutPrefix(term, "-")
		case query.Order:
			o = term
		default:
			return nil, usage("an order of %s is a path or a query.Order, and got %T", t.Model, term)
		}
		to, err := resolveColumn(t, o.Path)
		if err != nil {
			return nil, err
		}
		for _, at := range to.places {
			order = append(order, Term{place: at, descending: o.Descending, nulls: o.Nulls})
		}
	}
	return order, nil
}

// PrimaryKeyOrder is the order by the primary key, smallest first; empty for a model without one.
func PrimaryKeyOrder(t *schema.Table) []Term {
	order := make([]Term, len(t.PK))
	for i, c := range t.PK {
		order[i] = Term{place: newPlace(nil, c)}
	}
	return order
}

// Reverse is the exact reverse of the order, the places of NULL included.
func Reverse(order []Term) []Term {
	reversed := make([]Term, len(order))
	for i, t := range order {
		o := query.Order{Descending: t.descending, Nulls: t.nulls}.Reverse()
		reversed[i] = Term{place: t.place, descending: o.Descending, nulls: o.Nulls}
	}
	return reversed
}
