package postgres

import (
	"fmt"
	"unsafe"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hare-go/hare/hare/backend"
)

// rows are the rows of a call, of all its runs one after the other.
type rows struct {
	flight  *flight
	columns []string
	types   []uint32 // of the columns; untyped where values come as text
	values  [][]byte // of the current row, until the next
	slab    []byte   // what is left for the current row's texts
	leave   func()   // gives the connection back for other calls

	reading bool // the current run's rows have not ended
	ahead   bool // the first row has been read before Next
	landed  bool
	err     error
}

func newRows(f *flight) *rows {
	return &rows{flight: f, columns: f.statement.columns, types: f.statement.types}
}

// Columns are the names of the columns.
func (r *rows) Columns() []string { return r.columns }

// Next moves to the next row.
func (r *rows) Next() bool {
	if r.ahead {
		r.ahead = false
		return true
	}
	return r.advance()
}

// advance reads the next row, of this run or of those that follow.
func (r *rows) advance() bool {
	for !r.landed {
		if r.reading && r.flight.reader.NextRow() {
			r.values = r.flight.reader.Values()
			r.slab = nil
			return true
		}
		if r.reading {
			r.reading = false
			r.flight.close()
		}
		if r.reading = r.flight.next(); !r.reading {
			r.land()
		} else if fields := r.flight.reader.FieldDescriptions(); r.types == nil {
			r.describe(fields)
		} else if r.flight.differs(fields) {
			r.changed(fields)
		}
	}
	return false
}

// describe takes the columns from the answer, for a statement whose preparation did not know them.
func (r *rows) describe(fields []pgconn.FieldDescription) {
	for _, field := range fields {
		r.columns = append(r.columns, field.Name)
		r.types = append(r.types, untyped)
	}
}

// changed takes the columns from an answer that has others than the statement was described with. Their values are read
// only if they come in the form in which they would have been asked for.
func (r *rows) changed(fields []pgconn.FieldDescription) {
	r.flight.session.statements.retire(r.flight.statement.SQL)
	columns, types := make([]string, len(fields)), make([]uint32, len(fields))
	for i, field := range fields {
		if field.Format != formatOf(field.DataTypeOID) {
			r.land()
			if r.err == nil {
				r.err = &backend.Error{Class: backend.ClassOther, Err: errChanged, Message: "the statement has run, but a table was altered since it was described, " +
					"so that its rows came in a form that cannot be read: look before running it again"}
			}
			return
		}
		columns[i] = field.Name
		if field.Format == binaryFormat {
			types[i] = field.DataTypeOID
		}
	}
	r.columns, r.types = columns, types
}

func (r *rows) land() {
	r.landed = true
	r.values = nil
	r.err = r.flight.land()
	if r.leave != nil {
		r.leave()
	}
}

// Close ends the query. Rows that have not been read are read and dropped.
func (r *rows) Close() error {
	r.ahead = false
	if !r.landed {
		r.land()
	}
	return r.err
}

// Err is the error that ended the rows.
func (r *rows) Err() error { return r.err }

// Values decodes the current row into the values that are natural for its columns.
func (r *rows) Values() ([]any, error) {
	if err := r.check(len(r.types)); err != nil {
		return nil, err
	}
	row := make([]any, len(r.values))
	for i, src := range r.values {
		if src == nil {
			continue
		}
		value, err := decode(r.types[i], src)
		if err != nil {
			return nil, &backend.DecodeError{Column: r.columns[i], Err: err}
		}
		row[i] = value
	}
	return row, nil
}

// Scan decodes the current row into the struct at base.
func (r *rows) Scan(base backend.Pointer, dests []backend.Dest) error {
	if err := r.check(len(dests)); err != nil {
		return err
	}
	for i := range dests {
		d, src := &dests[i], r.values[i]
		switch {
		case src != nil:
			if r.store(d, d.At(base), i, src) {
				continue
			}
			if err := convert(d, base, r.types[i], src); err != nil {
				return err
			}
		case d.Pointer:
			*(*unsafe.Pointer)(d.At(base)) = nil
		default:
			if err := d.Store(base, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// check makes sure that there is a row with as many values as are wanted.
func (r *rows) check(wanted int) error {
	if r.values == nil && (r.landed || len(r.types) > 0) {
		return unsent("there is no current row: Next has not been called, or returned false")
	}
	if len(r.values) != wanted || len(r.values) != len(r.types) {
		return fmt.Errorf("the row has %d values, the query %d columns, and %d are wanted", len(r.values), len(r.types), wanted)
	}
	return nil
}
