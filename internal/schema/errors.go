package schema

import (
	"errors"
	"fmt"
	"strings"
)

// DeclarationError says what is wrong with a model's declaration and what would be right. It is found before anything
// is sent.
type DeclarationError struct {
	Type   string // the model
	Field  string // empty where the model as a whole is wrong
	Tag    string // the part of the tag in question, or empty
	Reason string
}

// Error names the model, the field and the tag.
func (e *DeclarationError) Error() string {
	var text strings.Builder
	text.WriteString("model " + e.Type)
	if e.Field != "" {
		text.WriteString(", field " + e.Field)
	}
	if e.Tag != "" {
		fmt.Fprintf(&text, ", tag %q", e.Tag)
	}
	return text.String() + ": " + e.Reason
}

// NameError says that a model has no column or relation of a name.
type NameError struct {
	Model   string
	Name    string
	Nearest string   // the name that was probably meant, or empty
	Known   []string // all names that would have been right
}

// Error names the nearest known name, or else all of them.
func (e *NameError) Error() string {
	text := fmt.Sprintf("%s has no column or relation %q", e.Model, e.Name)
	switch {
	case e.Nearest != "":
		return fmt.Sprintf("%s: did you mean %q?", text, e.Nearest)
	case len(e.Known) != 0:
		return text + "; it has " + strings.Join(e.Known, ", ")
	}
	return text
}

// ValueError says that a column must not hold a value. It never quotes the value.
type ValueError struct {
	Model, Field, Column string
	Reason               string
}

// Error names the model, the field and the column.
func (e *ValueError) Error() string {
	return fmt.Sprintf("%s.%s (column %q): %s", e.Model, e.Field, e.Column, e.Reason)
}

// fault is a DeclarationError in the making, by code that knows the tag but not the field.
type fault struct{ tag, reason string }

func (f *fault) Error() string { return f.reason }

func faultf(tag, format string, args ...any) error {
	return &fault{tag: tag, reason: fmt.Sprintf(format, args...)}
}

func declaration(model, field string, err error) *DeclarationError {
	var f *fault
	if errors.As(err, &f) {
		return &DeclarationError{Type: model, Field: field, Tag: f.tag, Reason: f.reason}
	}
	return &DeclarationError{Type: model, Field: field, Reason: err.Error()}
}

var errNotNull = errors.New("the column is NOT NULL, so nil cannot go there: make the field a pointer to allow NULL")
