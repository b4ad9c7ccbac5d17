package hare

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/compile"
	"github.com/hare-go/hare/internal/plaintext"
	"github.com/hare-go/hare/internal/schema"
)

// ErrDoesNotExist is returned, with the model's name around it, where exactly one row is expected and there is none.
// The statement was sent and has changed nothing. Retrying helps only if another program writes the row.
var ErrDoesNotExist = errors.New("no row matches")

// ErrMultipleObjects is returned, with the model's name around it, by Get when more than one row matches. The
// statement only read. Filter by a unique column, or take First.
var ErrMultipleObjects = errors.New("more than one row matches")

// QueryError says that a call makes no sense. Nothing was sent and nothing has changed; the same call fails again.
// Correct the call.
type QueryError struct {
	Reason string
	Err    error // what was wrong underneath, or nil
}

// Error is the reason.
func (e *QueryError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return e.Reason
}

// Unwrap gives the cause.
func (e *QueryError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// FieldError says that a model has no field of the name used. Nothing was sent and nothing has changed; the same
// call fails again. Correct the name.
type FieldError struct {
	Model   string   // the model that was asked
	Field   string   // the name that it does not have
	Nearest string   // the known name that is most like it, or empty
	Known   []string // all names that the model has
}

// Error names the model, the wrong name and the nearest known one, or all when none is near.
func (e *FieldError) Error() string {
	if e == nil {
		return "<nil>"
	}
	text := fmt.Sprintf("%s has no field %q", e.Model, e.Field)
	switch {
	case e.Nearest != "":
		text += fmt.Sprintf("; did you mean %q?", e.Nearest)
	case len(e.Known) > 0:
		text += "; it has " + strings.Join(e.Known, ", ")
	}
	return text
}

// ConfigurationError says that a setting of the program is wrong: the configuration file, a connection's URL, the
// declaration of a model, or what a server was set up to allow (its users, passwords and limits).
//
// Nothing was written. Retrying does not help before the setting is corrected.
type ConfigurationError struct {
	Alias  string // the connection, where one is concerned
	Option string // the option or key, where one is concerned
	Model  string // the model, where a declaration is wrong
	Field  string // its field
	Tag    string // the field's tag
	Reason string // what is wrong and what would be right; never a secret
	Err    error  // what was wrong underneath, or nil
}

// Error names what is set wrong and why.
func (e *ConfigurationError) Error() string {
	if e == nil {
		return "<nil>"
	}
	var b strings.Builder
	if e.Alias != "" {
		fmt.Fprintf(&b, "connection %q: ", e.Alias)
	}
	if e.Option != "" {
		fmt.Fprintf(&b, "option %q: ", e.Option)
	}
	if e.Model != "" {
		b.WriteString("model " + e.Model)
		if e.Field != "" {
			b.WriteString("." + e.Field)
		}
		if e.Tag != "" {
			fmt.Fprintf(&b, " (tag %q)", e.Tag)
		}
		b.WriteString(": ")
	}
	b.WriteString(e.Reason)
	return plaintext.Lines(b.String())
}

// Unwrap gives the cause.
func (e *ConfigurationError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// ValidationError says that a value does not fit its field: too long, too many digits, out of range, not one of the
// choices, of a wrong type. Nothing was sent and nothing has changed; the same value fails again. The message never
// contains the value.
type ValidationError struct {
	Model  string
	Field  string // the Go field
	Column string
	Reason string
}

// Error names the model, the field and the reason.
func (e *ValidationError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return fmt.Sprintf("%s.%s (column %q): %s", e.Model, e.Field, e.Column, e.Reason)
}

// nilOption refuses an option that is nil, by its place.
func nilOption(i int) error { return &QueryError{Reason: fmt.Sprintf("option %d is nil", i+1)} }

// callError turns what internal packages say about a wrong call into the public errors.
func callError(err error) error {
	if err == nil {
		return nil
	}
	var (
		name        *schema.NameError
		value       *schema.ValueError
		declaration *schema.DeclarationError
		usage       *compile.UsageError
	)
	switch {
	case errors.As(err, &name):
		return &FieldError{Model: name.Model, Field: name.Name, Nearest: name.Nearest, Known: name.Known}
	case errors.As(err, &value):
		return &ValidationError{Model: value.Model, Field: value.Field, Column: value.Column, Reason: value.Reason}
	case errors.As(err, &declaration):
		return &ConfigurationError{Model: declaration.Type, Field: declaration.Field, Tag: declaration.Tag, Reason: declaration.Reason}
	case errors.As(err, &usage):
		return &QueryError{Reason: usage.Reason}
	}
	return err
}

// callError is the error of a statement that could not be made: the call is wrong, or its context has ended.
func (c *Client) callError(err error) error {
	if ended := (*backend.Error)(nil); errors.As(err, &ended) {
		return ErrorFrom(c.alias, "", err)
	}
	return callError(err)
}

// nearest adds a proposal to a message about an unknown name.
func nearest(name string, known []string) string {
	if near := schema.Nearest(name, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	if len(known) == 0 {
		return ""
	}
	return "; there is " + strings.Join(known, ", ")
}
