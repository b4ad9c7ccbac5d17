package hare_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
)

func TestErrorFrom(t *testing.T) {
	const sql = "INSERT INTO author (name) VALUES ($1)"
	answer := func(class backend.Class, code string) error {
		return &backend.Error{
			Class: class, SQLState: code, Message: "says no", Detail: "Key (name)=(private)", Constraint: "author_name_key",
			Table: "author", Column: "name", NotDone: true, Err: errors.New("from the driver"),
		}
	}
	for _, tt := range []struct {
		name string
		err  error
		is   func(error) bool
	}{
		{"integrity", answer(backend.ClassIntegrity, "23505"), isA[*hare.IntegrityError]},
		{"retryable", answer(backend.ClassRetryable, "40001"), isA[*hare.RetryableError]},
		{"timeout", answer(backend.ClassTimeout, "57014"), isA[*hare.TimeoutError]},
		{"read-only", answer(backend.ClassReadOnly, "25006"), isA[*hare.ReadOnlyError]},
		{"connection", answer(backend.ClassConnection, "08006"), isA[*hare.ConnectionError]},
		{"pool", answer(backend.ClassPool, ""), isA[*hare.PoolTimeoutError]},
		{"pool, as a connection", answer(backend.ClassPool, ""), isA[*hare.ConnectionError]},
		{"aborted", answer(backend.ClassAborted, "25P02"), isA[*hare.AbortedError]},
		{"other", answer(backend.ClassOther, "42601"), isA[*hare.DatabaseError]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := hare.ErrorFrom("library", sql, fmt.Errorf("wrapped: %w", tt.err))
			if !tt.is(err) {
				t.Fatalf("got %T", err)
			}
			var base *hare.DatabaseError
			if !errors.As(err, &base) {
				t.Fatalf("%T is no DatabaseError", err)
			}
			got := []any{base.Alias, base.SQL, base.Constraint, base.Table, base.Column, base.NotDone, base.SQLState}
			want := []any{"library", sql, "author_name_key", "author", "name", true, backend.SQLState(tt.err)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if !errors.Is(err, tt.err) || !backend.NotDone(err) {
				t.Error("the backend's error is not visible any more")
			}
			for _, part := range []string{"library", sql, "says no"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "private") {
				t.Errorf("%q quotes a value", err)
			}
			if hare.ErrorFrom("other", "SELECT 1", err) != err {
				t.Error("an error of hare's own is turned again")
			}
		})
	}
}

func TestErrorFromOtherErrors(t *testing.T) {
	if err := hare.ErrorFrom("a", "", nil); err != nil {
		t.Errorf("nil became %v", err)
	}
	unsupported := &features.UnsupportedError{Backend: "x", Feature: features.Arrays}
	if err := hare.ErrorFrom("a", "", unsupported); err != error(unsupported) {
		t.Errorf("an UnsupportedError became %T", err)
	}
	login := hare.ErrorFrom("a", "SELECT 1", &backend.Error{Class: backend.ClassLogin, SQLState: "28P01", Message: "no"})
	if !isA[*hare.ConfigurationError](login) || isA[*hare.DatabaseError](login) || backend.SQLState(login) != "28P01" {
		t.Errorf("a refused login became %T", login)
	}
	option := hare.ErrorFrom("a", "", &backend.OptionError{Option: "max_size", Reason: "must be a number"})
	var wrong *hare.ConfigurationError
	if !errors.As(option, &wrong) || wrong.Option != "max_size" || wrong.Alias != "a" {
		t.Errorf("a wrong option became %#v", option)
	}
	decode := hare.ErrorFrom("a", "SELECT 1", &backend.DecodeError{Model: "Book", Field: "Title", Column: "title", Err: backend.ErrNull})
	var misfit *hare.DecodeError
	if !errors.As(decode, &misfit) || misfit.Model != "Book" || misfit.Field != "Title" || misfit.Column != "title" || !errors.Is(decode, backend.ErrNull) {
		t.Errorf("a DecodeError became %#v", decode)
	}
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		err := hare.ErrorFrom("a", "SELECT 1", &backend.Error{Class: backend.ClassOther, Err: cause})
		if !errors.Is(err, cause) || !isA[*hare.DatabaseError](err) {
			t.Errorf("%v became %v", cause, err)
		}
	}
	if err := hare.ErrorFrom("a", "", context.DeadlineExceeded); !isA[*hare.TimeoutError](err) {
		t.Errorf("a deadline became %T", err)
	}
}

func TestMessages(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&hare.FieldError{Model: "Book", Field: "titel", Nearest: "title", Known: []string{"id", "title"}}, `Book has no field "titel"; did you mean "title"?`},
		{&hare.FieldError{Model: "Book", Field: "x", Known: []string{"id", "title"}}, `Book has no field "x"; it has id, title`},
		{&hare.ValidationError{Model: "Book", Field: "Title", Column: "title", Reason: "too long"}, `Book.Title (column "title"): too long`},
		{&hare.ConfigurationError{Alias: "a", Option: "max_size", Reason: "no"}, `connection "a": option "max_size": no`},
		{&hare.ConfigurationError{Model: "Book", Field: "Title", Tag: "siz=3", Reason: "no"}, `model Book.Title (tag "siz=3"): no`},
		{&hare.TransactionError{Alias: "a", Reason: "it has ended"}, `transaction on "a": it has ended`},
	} {
		if diff := cmp.Diff(tt.want, tt.err.Error()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func isA[E error](err error) bool {
	var wanted E
	return errors.As(err, &wanted)
}

// TestErrorsCutLongSQL: an error's text shows the beginning of a long statement, whole characters of it, and its length. The
// field has the rest.
//
// Fault S9.
func TestErrorsCutLongSQL(t *testing.T) {
	for _, sql := range []string{"SELECT " + strings.Repeat("x", 993), "SELECT " + strings.Repeat("x", 994), "SELECT  " + strings.Repeat("é", 500_000)} {
		var refused *hare.DatabaseError
		err := hare.ErrorFrom("main", sql, &backend.Error{Class: backend.ClassIntegrity, Message: "says no"})
		if !errors.As(err, &refused) || refused.SQL != sql {
			t.Fatalf("%T", err)
		}
		text := err.Error()
		whole := len(sql) <= 1000
		if strings.HasSuffix(text, sql) != whole || len(text) > 1100 || !utf8.ValidString(text) || strings.HasSuffix(text, fmt.Sprintf("... (%d bytes in all)", len(sql))) == whole {
			t.Errorf("%d bytes of SQL: %q", len(sql), text)
		}
	}
}
