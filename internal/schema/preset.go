package schema

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hare-go/hare/hare/backend"
)

// choose limits a column to its choices, in everything that goes through its codec.
func (c *Column) choose(codec *codec, o *options) error {
	if o.choices == nil {
		return nil
	}
	switch c.Type.Kind {
	case backend.KindText, backend.KindInt16, backend.KindInt32, backend.KindInt64:
	default:
		return faultf(o.word("choices"), "choices belong to text or an integer, and the column holds %s", kindNames[c.Type.Kind])
	}
	allowed := map[any]bool{}
	for _, text := range o.choices {
		choice, err := parse(c.Type.Kind, text, codec.convert)
		if err != nil {
			return faultf(o.word("choices"), "the choice %q does not fit: %v", text, err)
		}
		if allowed[choice] {
			return faultf(o.word("choices"), "the choice %q is there twice", text)
		}
		allowed[choice] = true
		c.Choices = append(c.Choices, choice)
	}
	read, convert := codec.read, codec.convert
	among := func(value any, err error) (any, error) {
		if err != nil || value == nil || allowed[value] {
			return value, err
		}
		return nil, errors.New("the value is none of " + strings.Join(o.choices, ", "))
	}
	codec.read = func(field backend.Pointer) (any, error) { return among(read(field)) }
	codec.convert = func(value any) (any, error) { return among(convert(value)) }
	return nil
}

// preset takes the default of the column.
func (c *Column) preset(o *options) error {
	if !o.has("default") {
		return nil
	}
	value, err := parse(c.Type.Kind, o.preset, c.convert)
	if err != nil {
		return faultf(o.word("default"), "the default does not fit: %v", err)
	}
	c.HasDefault, c.Default = true, value
	return nil
}

// parse reads a value of a kind as a tag has it.
func parse(kind backend.Kind, text string, convert func(any) (any, error)) (any, error) {
	var value any = text
	var err error
	switch kind {
	case backend.KindBool:
		if text != "true" && text != "false" {
			return nil, errors.New("it is true or false")
		}
		value = text == "true"
	case backend.KindInt16, backend.KindInt32, backend.KindInt64:
		if value, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, errors.New("it is a whole number of at most 64 bits")
		}
	case backend.KindFloat:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, errors.New("it is a finite number") // which is all that every database has a literal for
		}
		value = f
	case backend.KindDuration:
		if value, err = time.ParseDuration(text); err != nil {
			return nil, errors.New("it is a duration such as 1m30s")
		}
	case backend.KindText, backend.KindDecimal, backend.KindUUID:
	case backend.KindJSON:
		value = json.RawMessage(text)
	case backend.KindTime:
		return nil, errors.New("a time has no constant default: use auto_now_add for the time of creation")
	default:
		return nil, errors.New("such a column has no constant default: set the field before creating the row")
	}
	return convert(value)
}
