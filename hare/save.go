package hare

import (
	"context"
	"time"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/compile"
	"github.com/hare-go/hare/internal/schema"
)

// SaveOption changes what [QuerySet.Save] does.
type SaveOption func(*saving)

// saving is what a Save was asked to do.
type saving struct {
	insert, update bool
	some           bool // only the columns
	columns        []string
}

// ForceInsert makes Save insert without looking for the row first: an existing key is an [*IntegrityError].
func ForceInsert() SaveOption { return func(s *saving) { s.insert = true } }

// ForceUpdate makes Save update and never insert: without the row the error is [ErrDoesNotExist].
func ForceUpdate() SaveOption { return func(s *saving) { s.update = true } }

// UpdateFields makes Save update only these columns, and auto_now columns with them. It never inserts: without the row
// the error is [ErrDoesNotExist]. Without any column Save does nothing. The key cannot be among them.
func UpdateFields(columns ...string) SaveOption {
	return func(s *saving) { s.update, s.some, s.columns = true, true, append(s.columns, columns...) }
}

// Save writes the object: a new row where its generated key is still zero, else an UPDATE by its key and, when that finds
// no row, an INSERT. So a row that another program has deleted is written again; use [ForceUpdate] where it must not be.
//
// An UPDATE writes every column but the key, and auto_now_add columns only where the field is not zero. auto_now
// fields get the present time. When Save fails the object is unchanged, and so is the row. The filters of the queryset
// take no part.
func (qs QuerySet[T]) Save(ctx context.Context, object *T, opts ...SaveOption) error {
	var asked saving
	for i, opt := range opts {
		if opt == nil {
			return nilOption(i)
		}
		opt(&asked)
	}
	return onObject(ctx, &qs.set, object, func(c *Client, t *schema.Table, base backend.Pointer) error {
		return c.save(ctx, t, base, asked)
	})
}

func (c *Client) save(ctx context.Context, t *schema.Table, base backend.Pointer, asked saving) error {
	if asked.insert && asked.update {
		return &QueryError{Reason: "ForceInsert goes with neither ForceUpdate nor UpdateFields"}
	}
	columns, err := asked.set(t, base)
	if err != nil {
		return err
	}
	if asked.some && len(asked.columns) == 0 {
		return nil
	}
	now := time.Now()
	if asked.insert || !asked.update && unkeyed(t, base) {
		return c.insert(ctx, t, base, now)
	}
	if err := keyed(t, base, "update"); err != nil {
		return err
	}
	n, err := c.updateRow(ctx, t, base, columns, now)
	switch {
	case err != nil || n > 0:
		return err
	case asked.update:
		return missing(t)
	}
	return c.insert(ctx, t, base, now)
}

// set are the columns that an UPDATE of the object at base writes.
func (s *saving) set(t *schema.Table, base backend.Pointer) (compile.ColumnSet, error) {
	var set compile.ColumnSet
	for _, name := range s.columns {
		column, ok := t.Column(name)
		switch {
		case !ok:
			return set, unknownColumn(t, name)
		case column.PK:
			return set, &QueryError{Reason: "the key of a " + t.Model + " cannot be updated: it names the row"}
		}
		set = set.With(column)
	}
	for _, column := range t.Columns {
		if column.AutoNow || !s.some && !column.PK && !(column.AutoNowAdd && column.IsZero(base)) {
			set = set.With(column)
		}
	}
	return set, nil
}

// updateRow writes the columns of the object at base to the row with its key.
func (c *Client) updateRow(ctx context.Context, t *schema.Table, base backend.Pointer, set compile.ColumnSet, now time.Time) (int64, error) {
	if set.Len() == 0 { // a model of nothing but its key: all there is to know is whether the row is there
		set = compile.Columns(t.PK...)
	}
	if err := features.Require(c.alias, c.Features(), features.RowUpdates); err != nil {
		return 0, err
	}
	args := make([]any, 0, set.Len()+len(t.PK))
	for column := range set.In(t) {
		if column.AutoNow {
			column.SetNow(base, now)
		}
		value, err := column.Read(base)
		if err != nil {
			return 0, callError(err)
		}
		args = append(args, value)
	}
	args, err := read(args, t.PK, base)
	if err != nil {
		return 0, err
	}
	s, err := c.compiler.UpdateRow(t, set, compile.ColumnSet{})
	if err != nil {
		return 0, callError(err)
	}
	return c.exec(ctx, backend.Call{SQL: s.SQL, Args: args})
}

func unknownColumn(t *schema.Table, name string) error {
	known := make([]string, len(t.Columns))
	for i, column := range t.Columns {
		known[i] = column.Name
	}
	return &FieldError{Model: t.Model, Field: name, Nearest: schema.Nearest(name, known), Known: known}
}
