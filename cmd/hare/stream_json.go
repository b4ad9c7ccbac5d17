package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"iter"

	"github.com/hare-go/hare/internal/plaintext"
)

// streamJSON writes an object whose list may be long: the fields before the list, the elements as they come, and then the
// fields after it, which may tell what came of the elements. form gives the object with the list empty, and is asked before
// the first element and after the last.
func streamJSON(out io.Writer, list, indent string, form func() any, elements iter.Seq[any]) error {
	to := bufio.NewWriterSize(out, 64<<10)
	place := []byte(`"` + list + `":[]`)
	if indent != "" {
		place = []byte(`"` + list + `": []`)
	}
	around := func() (before, after []byte, err error) {
		text, err := encoded(form(), "", indent)
		before, after, _ = bytes.Cut(text, place)
		return before, after, err
	}
	before, _, err := around()
	if err != nil {
		return err
	}
	_, _ = to.Write(append(before, place[:len(place)-1]...)) // an error of the writer stays with it
	separator, end := "", "]"
	for element := range elements {
		text, err := encoded(element, indent+indent, indent)
		if err != nil {
			return err
		}
		if indent != "" {
			separator, end = separator+"\n"+indent+indent, "\n"+indent+"]"
		}
		_, _ = to.WriteString(separator)
		if _, err := to.Write(text); err != nil {
			return err
		}
		separator = ","
	}
	_, after, err := around()
	if err != nil {
		return err
	}
	_, _ = to.WriteString(end)
	_, _ = to.Write(append(after, '\n'))
	return to.Flush()
}

// encoded is a value as JSON, without a line's end.
func encoded(value any, prefix, indent string) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(plaintext.JSON(&b))
	encoder.SetIndent(prefix, indent)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
