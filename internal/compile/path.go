package compile

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/hare-go/hare/internal/schema"
)

// A path in a query is text: relations, then a column or a relation, then perhaps a lookup, joined by "__". What it
// stands for is found once for each table and kept.
//
// Paths may come from a program's users, so that a wrong one must cost little: it is never kept, and a right one only as
// long as there is room.
const (
	separator = "__"
	// pkName stands for the columns of the primary key, unless a column has that name.
	pkName = "pk"
	// maxPath and maxSteps bound what one path can make a statement grow to: SQLite joins 64 tables at most.
	maxPath  = 512
	maxSteps = 16
)

// route is the way over foreign keys from the table at hand to another one. nil is the table itself.
type route struct {
	parent   *route
	relation *schema.Relation
	table    *schema.Table // where it leads to
	steps    int
	key      string // the relations' indexes
}

// place is a column at the end of a route.
type place struct {
	route  *route
	column *schema.Column
	key    string // unique among the places that can be reached from one table; no key is the beginning of another
}

// target is what a path stands for.
type target struct {
	places []*place // several for a key of several columns
	lookup lookup
	named  bool // the path names the lookup
	// related is the model whose values may stand for their key: the path ends with a relation to it.
	related *schema.Table
}

var targets cache[*target]

func resolve(t *schema.Table, path string) (*target, error) {
	var buffer [64]byte
	key := append(buffer[:0], path...)
	if found, ok := targets.get(t, key); ok {
		return found, nil
	}
	if len(path) > maxPath {
		return nil, usage("a path of %s is %d bytes long, and %d are the most", t.Model, len(path), maxPath)
	}
	found, err := parse(t, strings.Split(path, separator))
	if err != nil {
		return nil, err
	}
	targets.put(t, key, found)
	return found, nil
}

// resolveColumn is resolve for the paths of expressions, orders and assignments, which have no lookup.
func resolveColumn(t *schema.Table, path string) (*target, error) {
	to, err := resolve(t, path)
	if err != nil {
		return nil, err
	}
	if to.named {
		at := to.places[0].column.Table
		return nil, unknown(at, path[strings.LastIndex(path, separator)+len(separator):], names(at))
	}
	return to, nil
}

func parse(t *schema.Table, steps []string) (*target, error) {
	var at *route
	for {
		name, rest := steps[0], steps[1:]
		if c, ok := t.Column(name); ok {
			return finish(t, at, name, []*schema.Column{c}, rest, nil)
		}
		r, ok := t.Relation(name)
		switch {
		case ok:
			to, err := r.Resolve()
			if err != nil {
				return nil, err
			}
			if len(rest) == 0 || len(rest) == 1 && lookups[rest[0]] != 0 {
				return finish(t, at, name, r.Columns, rest, to)
			}
			if at, err = at.over(t, r, to); err != nil {
				return nil, err
			}
			t, steps = to, rest
		case name == pkName && len(t.PK) > 0:
			return finish(t, at, name, t.PK, rest, nil)
		default:
			return nil, unknown(t, name, names(t))
		}
	}
}

// finish makes the target of the columns that a name stands for; rest is what follows it in the path.
func finish(t *schema.Table, at *route, name string, columns []*schema.Column, rest []string, related *schema.Table) (*target, error) {
	to := &target{lookup: lookupExact, named: len(rest) > 0, related: related}
	if to.named {
		if to.lookup = lookups[rest[0]]; to.lookup == 0 || len(rest) > 1 {
			return nil, unknownLookup(t, name, strings.Join(rest, separator))
		}
	}
	for _, c := range columns {
		to.places = append(to.places, newPlace(at, c))
	}
	return to, nil
}

// over is the route one foreign key further.
func (r *route) over(t *schema.Table, relation *schema.Relation, to *schema.Table) (*route, error) {
	next := &route{parent: r, relation: relation, table: to, steps: 1}
	if r != nil {
		next.key, next.steps = r.key, r.steps+1
	}
	if next.steps > maxSteps {
		return nil, usage("a path to %s goes over more than %d relations", to.Model, maxSteps)
	}
	next.key += string(binary.AppendUvarint(nil, uint64(slices.Index(t.Relations, relation))))
	return next, nil
}

func newPlace(at *route, c *schema.Column) *place {
	p := &place{route: at, column: c}
	if at == nil {
		p.key = string(binary.AppendUvarint([]byte{0}, uint64(c.Index)))
	} else {
		p.key = string(binary.AppendUvarint(append([]byte{byte(at.steps)}, at.key...), uint64(c.Index)))
	}
	return p
}

// only is the target's one place. what is the thing that takes no more than one.
func (to *target) only(what string) (*place, error) {
	if len(to.places) == 1 {
		return to.places[0], nil
	}
	columns := make([]string, len(to.places))
	for i, p := range to.places {
		columns[i] = p.column.Name
	}
	return nil, usage("%s of %s takes one column, and the key has several: name %s one by one", what,
		to.places[0].column.Table.Model, strings.Join(columns, ", "))
}

func unknown(t *schema.Table, name string, known []string) error {
	return &schema.NameError{Model: t.Model, Name: name, Nearest: schema.Nearest(name, known), Known: known}
}

// unknownLookup names the column with the lookup, as nothing else of the path is wrong.
func unknownLookup(t *schema.Table, column, rest string) error {
	e := &schema.NameError{Model: t.Model, Name: column + separator + rest}
	if nearest := schema.Nearest(rest, lookupNames); nearest != "" {
		e.Nearest = column + separator + nearest
	}
	for _, name := range lookupNames {
		e.Known = append(e.Known, column+separator+name)
	}
	return e
}

// names are the names that a path may go on with at the table.
func names(t *schema.Table) []string {
	known := map[string]bool{}
	for _, c := range t.Columns {
		known[c.Name] = true
	}
	for _, r := range t.Relations {
		known[r.Name] = true
	}
	return slices.Sorted(maps.Keys(known))
}
