package postgres

import (
	"bytes"
	"strings"

	"github.com/hare-go/hare/hare/backend"
)

// parseArray reads an array in PostgreSQL's text form, which arrays of enumerations and of other types without a binary
// form here come in: {a,"b c",NULL,{d}}.
func parseArray(text string) (backend.Array, error) {
	if strings.HasPrefix(text, "[") { // bounds of the index: [0:1]={a,b}
		_, text, _ = strings.Cut(text, "=")
	}
	p := arrayParser{rest: text}
	array, ok := p.array()
	if !ok || p.rest != "" {
		return backend.Array{}, errMalformed
	}
	return array, nil
}

// mostDimensions is PostgreSQL's limit.
const mostDimensions = 6

type arrayParser struct {
	rest  string
	depth int
}

// array reads {element,element}.
func (p *arrayParser) array() (backend.Array, bool) {
	array := backend.Array{Elem: backend.ColumnType{Kind: backend.KindText}, Values: []any{}}
	if p.depth++; p.depth > mostDimensions || !p.take("{") {
		return array, false
	}
	defer func() { p.depth-- }()
	if p.take("}") {
		return array, true
	}
	for {
		value, ok := p.element()
		if !ok {
			return array, false
		}
		if inner, nested := value.(backend.Array); nested {
			array.Elem = backend.ColumnType{Kind: backend.KindArray, Elem: &inner.Elem}
		}
		array.Values = append(array.Values, value)
		if p.take("}") {
			return array, true
		}
		if !p.take(",") {
			return array, false
		}
	}
}

// element reads one element: an array, a quoted text, NULL, or plain text.
func (p *arrayParser) element() (any, bool) {
	switch {
	case strings.HasPrefix(p.rest, "{"):
		return p.array()
	case p.take(`"`):
		return p.quoted()
	}
	end := strings.IndexAny(p.rest, ",}")
	if end <= 0 {
		return nil, false
	}
	plain := p.rest[:end]
	p.rest = p.rest[end:]
	if plain == "NULL" {
		return nil, true
	}
	return plain, true
}

// quoted reads a text up to its closing quote.
func (p *arrayParser) quoted() (any, bool) {
	var text strings.Builder
	for i := 0; i < len(p.rest); i++ {
		switch p.rest[i] {
		case '"':
			p.rest = p.rest[i+1:]
			return text.String(), true
		case '\\':
			if i++; i == len(p.rest) {
				return nil, false
			}
		}
		text.WriteByte(p.rest[i])
	}
	return nil, false
}

func (p *arrayParser) take(prefix string) bool {
	rest, ok := strings.CutPrefix(p.rest, prefix)
	p.rest = rest
	return ok
}

// appendArray appends an array in PostgreSQL's text form. Every element is quoted, so that nothing in it is read as part
// of the form.
func appendArray(buf []byte, values []any) ([]byte, bool) {
	buf = append(buf, '{')
	for i, value := range values {
		if i > 0 {
			buf = append(buf, ',')
		}
		if value == nil {
			buf = append(buf, "NULL"...)
			continue
		}
		if inner, nested := value.(backend.Array); nested {
			var ok bool
			if buf, ok = appendArray(buf, inner.Values); !ok {
				return buf, false
			}
			continue
		}
		var ok bool
		if buf, ok = appendElement(buf, value); !ok {
			return buf, false
		}
	}
	return append(buf, '}'), true
}

// appendElement appends a scalar between quotes.
func appendElement(buf []byte, value any) ([]byte, bool) {
	buf = append(buf, '"')
	start := len(buf)
	buf, ok := appendText(buf, untyped, value)
	if !ok {
		return buf, false
	}
	if bytes.ContainsAny(buf[start:], `"\`) {
		plain := string(buf[start:])
		buf = buf[:start]
		for i := range len(plain) {
			if plain[i] == '"' || plain[i] == '\\' {
				buf = append(buf, '\\')
			}
			buf = append(buf, plain[i])
		}
	}
	return append(buf, '"'), true
}
