package hare

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/hare-go/hare/hare/backend"
)

// Rows are the rows of [Client.Query]. They hold a connection until they are closed, which reading to the end does by
// itself. They are not safe for concurrent use.
type Rows struct {
	rows  backend.Rows
	alias string
	sql   string
	err   error // what ended the rows before the database did
}

// Columns are the names of the columns.
func (r *Rows) Columns() []string {
	if r.none() != nil {
		return nil
	}
	return r.rows.Columns()
}

// none refuses rows that no query has given.
func (r *Rows) none() error {
	if r == nil || r.rows == nil {
		return &QueryError{Reason: "the rows are nil or a zero value: Client.Query gives some"}
	}
	return nil
}

// Next moves to the next row and reports whether there is one. After the last row, and after an error, it closes the
// rows; Err tells the two apart.
func (r *Rows) Next() bool {
	if r.none() != nil || r.err != nil {
		return false
	}
	if r.rows.Next() {
		return true
	}
	r.err = r.rows.Close()
	return false
}

// Values are the values of the current row: nil for NULL, bool, int64, float64, string, []byte, time.Time (UTC), a UUID or
// a decimal as its text, a JSON document as json.RawMessage, an array as []any. A database without a type of its own for
// one of these (SQLite) gives what it stores.
func (r *Rows) Values() ([]any, error) {
	if err := r.none(); err != nil {
		return nil, err
	}
	values, err := r.rows.Values()
	if err != nil {
		return nil, r.fault(err)
	}
	for i, value := range values {
		values[i] = plain(value)
	}
	return values, nil
}

// Scan stores the current row's values where the pointers point, one for each column: pointers to Go's basic types
// and types named after them, *[]byte, *time.Time, *[16]byte for a UUID, *json.RawMessage, *any, whatever has a Scan
// method, and pointers to pointers, which become nil for NULL. A value that does not fit, or a NULL without a place for
// it, is a [*DecodeError] that names the column; the wrong number of pointers is a [*QueryError].
func (r *Rows) Scan(dest ...any) error {
	if err := r.none(); err != nil {
		return err
	}
	values, err := r.rows.Values()
	if err != nil {
		return r.fault(err)
	}
	if len(dest) != len(values) {
		return &QueryError{Reason: fmt.Sprintf("the row has %d columns, and Scan got %d pointers", len(values), len(dest))}
	}
	for i, value := range values {
		if err := store(dest[i], value); err != nil {
			return &DecodeError{DatabaseError: DatabaseError{
				Alias: r.alias, SQL: r.sql, Column: r.rows.Columns()[i], Err: err,
				Message: fmt.Sprintf("column %q: %v", r.rows.Columns()[i], err),
			}}
		}
	}
	return nil
}

// All goes over the rows that are left and closes them at the end, also when the loop is left early. An error comes last,
// with nil values.
func (r *Rows) All() iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		defer r.Close()
		for r.Next() {
			values, err := r.Values()
			if !yield(values, err) || err != nil {
				return
			}
		}
		if err := r.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// Close ends the query and gives its connection back. It may be called more than once, and returns what Err does.
func (r *Rows) Close() error {
	if err := r.none(); err != nil {
		return err
	}
	if err := r.rows.Close(); r.err == nil {
		r.err = err
	}
	return r.Err()
}

// Err is the error that ended the rows, or nil. After Next returned false it is final.
func (r *Rows) Err() error {
	if err := r.none(); err != nil {
		return err
	}
	if r.err == nil {
		r.err = r.rows.Err()
	}
	return r.fault(r.err)
}

func (r *Rows) fault(err error) error { return ErrorFrom(r.alias, r.sql, err) }

// plain is a canonical value in Go's own types.
func plain(value any) any {
	switch v := value.(type) {
	case backend.UUID:
		return spellUUID(v)
	case backend.Decimal:
		return string(v)
	case backend.JSON:
		return json.RawMessage(v)
	case backend.Array:
		elements := make([]any, len(v.Values))
		for i, element := range v.Values {
			elements[i] = plain(element)
		}
		return elements
	}
	return value
}

func spellUUID(id backend.UUID) string {
	text := hex.EncodeToString(id[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
