package hare

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/compile"
	"github.com/hare-go/hare/internal/schema"
	"github.com/hare-go/hare/internal/session"
)

// BulkOption changes what [QuerySet.BulkCreate] does.
type BulkOption func(*bulk)

// defaultBatch is how many rows one statement writes at most. A million rows in one message would hold a server's and a
// client's memory at once; beyond some hundred rows a larger batch gains nothing.
const defaultBatch = 5000

// bulk is a BulkCreate under way.
type bulk struct {
	batch int // rows in one statement
	fault error
	conflicts

	client *Client
	table  *schema.Table
	at     func(i int) backend.Pointer // the object of row i
}

// BatchSize is how many rows one statement writes at most; 5000 where it is not given. All batches together are one
// transaction.
func BatchSize(rows int) BulkOption {
	return func(b *bulk) {
		b.batch = rows
		if rows < 1 {
			b.fault = &QueryError{Reason: "a batch has at least one row"}
		}
	}
}

// BulkCreate inserts all objects or none, in as few statements as the database allows, and fills them in as
// [QuerySet.Create] does: generated keys, defaults, one present time for all. When it fails the objects are unchanged.
// Without objects nothing is sent. [IgnoreConflicts], [OnConflict] and [DoUpdate] say what happens to rows that are there
// already.
func (qs QuerySet[T]) BulkCreate(ctx context.Context, objects []T, opts ...BulkOption) error {
	c, err := qs.set.on(ctx)
	if err != nil {
		return err
	}
	drafts := slices.Clone(objects)
	b := bulk{batch: defaultBatch, client: c, table: qs.set.query.Table, at: func(i int) backend.Pointer {
		return backend.Pointer(&drafts[i])
	}}
	for i, opt := range opts {
		if opt == nil {
			return nilOption(i)
		}
		opt(&b)
	}
	if err := b.create(ctx, len(drafts)); err != nil {
		return err
	}
	copy(objects, drafts)
	return nil
}

func (b *bulk) create(ctx context.Context, n int) error {
	if b.fault != nil {
		return b.fault
	}
	if err := b.check(b.table); err != nil || n == 0 {
		return err
	}
	now := time.Now()
	for i := range n {
		if err := prepare(b.table, b.at(i), now); err != nil {
			return err
		}
	}
	inserts, err := b.inserts(n)
	if err != nil {
		return err
	}
	if len(inserts) == 1 && len(inserts[0].call.Batch) == 0 { // one statement is all or nothing by itself
		run, err := b.client.runner(ctx)
		if err != nil {
			return err
		}
		return b.run(ctx, run, &inserts[0])
	}
	return b.client.atomically(ctx, func(run session.Runner) error {
		for i := range inserts {
			if err := b.run(ctx, run, &inserts[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// bulkInsert is one statement of a BulkCreate.
type bulkInsert struct {
	call      backend.Call
	rows      []int // the objects that it writes
	returning compile.ColumnSet
}

// bulkShape is what a statement writes and what it leaves to the database.
type bulkShape struct{ columns, returning compile.ColumnSet }

// inserts makes the statements. Rows that leave the same columns to the database go together; the order within them is
// that of the objects. Where two objects may be for one row the statements come in the objects' order, too.
func (b *bulk) inserts(n int) ([]bulkInsert, error) {
	shapes := make([]bulkShape, n)
	for i := range shapes {
		shapes[i].columns, shapes[i].returning = written(b.table, b.at(i))
		switch {
		case b.ignore:
			shapes[i].returning = compile.ColumnSet{}
		case len(b.update) > 0 && b.client.Features().SupportsReturning:
			for _, key := range b.table.PK { // the row may be there with another one than the object has
				if !b.plan.Target.Has(key) {
					shapes[i].returning = shapes[i].returning.With(key)
				}
			}
		}
	}
	runs, err := b.apart(shapes)
	if err != nil {
		return nil, err
	}
	var inserts []bulkInsert
	for start, end := range runs {
		if inserts, err = b.grouped(inserts, shapes, start, end); err != nil {
			return nil, err
		}
	}
	return inserts, nil
}

// grouped appends the statements of the objects from start to end, the order of which does not matter.
func (b *bulk) grouped(inserts []bulkInsert, shapes []bulkShape, start, end int) ([]bulkInsert, error) {
	var order []bulkShape
	groups := map[bulkShape][]int{}
	for i := start; i < end; i++ {
		if groups[shapes[i]] == nil {
			order = append(order, shapes[i])
		}
		groups[shapes[i]] = append(groups[shapes[i]], i)
	}
	for _, s := range order {
		if s.returning.Len() > 0 {
			if err := features.Require(b.client.alias, b.client.Features(), features.Returning); err != nil {
				return nil, err
			}
		}
		for rows := range slices.Chunk(groups[s], b.batch) {
			call, err := b.call(s.columns, s.returning, rows)
			if err != nil {
				return nil, err
			}
			inserts = append(inserts, bulkInsert{call: call, rows: rows, returning: s.returning})
		}
	}
	return inserts, nil
}

// call writes the rows in one statement where the database can, and says which key belongs to which; else in one run of
// a statement for each row.
func (b *bulk) call(columns, returning compile.ColumnSet, rows []int) (backend.Call, error) {
	if len(rows) > 1 && (returning.Len() == 0 || b.client.Features().GuaranteesReturningOrder) {
		s, whole, err := b.statement(columns, returning)
		if err != nil {
			return backend.Call{}, callError(err)
		}
		if whole {
			args, err := b.lists(columns, rows)
			return backend.Call{SQL: s.SQL, Args: args}, err
		}
	}
	s, err := b.single(columns, returning)
	if err != nil {
		return backend.Call{}, callError(err)
	}
	runs, err := b.runs(columns, rows)
	if err != nil || len(runs) > 1 {
		return backend.Call{SQL: s.SQL, Batch: runs}, err
	}
	return backend.Call{SQL: s.SQL, Args: runs[0]}, nil
}

// statement writes any number of rows, if the database can (whole), else one row.
func (b *bulk) statement(columns, returning compile.ColumnSet) (s compile.Statement, whole bool, err error) {
	if b.handled {
		return b.client.compiler.UpsertRows(b.table, columns, returning, b.plan)
	}
	return b.client.compiler.InsertRows(b.table, columns, returning)
}

// single writes one row.
func (b *bulk) single(columns, returning compile.ColumnSet) (compile.Statement, error) {
	if b.handled {
		return b.client.compiler.Upsert(b.table, columns, returning, b.plan)
	}
	return b.client.compiler.Insert(b.table, columns, returning)
}

// lists are the rows' values as one list for each column.
func (b *bulk) lists(columns compile.ColumnSet, rows []int) ([]any, error) {
	args := make([]any, 0, columns.Len())
	for column := range columns.In(b.table) {
		values := make([]any, len(rows))
		for i, row := range rows {
			var err error
			if values[i], err = b.read(column, row); err != nil {
				return nil, err
			}
		}
		args = append(args, backend.List{Elem: column.Type, Values: values})
	}
	return args, nil
}

// runs are the rows' values as one list of arguments for each row.
func (b *bulk) runs(columns compile.ColumnSet, rows []int) ([][]any, error) {
	width := columns.Len()
	all := make([]any, 0, width*len(rows))
	runs := make([][]any, len(rows))
	for i, row := range rows {
		for column := range columns.In(b.table) {
			value, err := b.read(column, row)
			if err != nil {
				return nil, err
			}
			all = append(all, value)
		}
		runs[i] = all[i*width : (i+1)*width : (i+1)*width]
	}
	return runs, nil
}

func (b *bulk) read(column *schema.Column, row int) (any, error) {
	value, err := column.Read(b.at(row))
	if err != nil {
		return nil, fmt.Errorf("object %d: %w", row, callError(err))
	}
	return value, nil
}

// run sends one statement and fills in what the database made up.
func (b *bulk) run(ctx context.Context, run session.Runner, insert *bulkInsert) error {
	alias, sql := b.client.alias, insert.call.SQL
	if insert.returning.Len() == 0 {
		_, err := run.Exec(ctx, insert.call)
		return ErrorFrom(alias, sql, err)
	}
	rows, err := run.Query(ctx, insert.call)
	if err != nil {
		return ErrorFrom(alias, sql, err)
	}
	err = b.fill(rows, insert)
	if closed := rows.Close(); err == nil {
		err = closed
	}
	return ErrorFrom(alias, sql, err)
}

func (b *bulk) fill(rows backend.Rows, insert *bulkInsert) error {
	into := dests(b.table, insert.returning)
	got := 0
	for ; got < len(insert.rows) && rows.Next(); got++ {
		if err := rows.Scan(b.at(insert.rows[got]), into); err != nil {
			return err
		}
	}
	surplus := rows.Next()
	if err := rows.Err(); err != nil {
		return err
	}
	if surplus || got < len(insert.rows) {
		return fmt.Errorf("%d rows were written, and another number came back: a trigger or a rule has changed the statement", len(insert.rows))
	}
	return nil
}
