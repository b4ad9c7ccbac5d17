package schema

import (
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Types as programs have them.

type (
	Level  string // an enumeration by text
	Rank   int16  // and one by number
	Key    [16]byte
	Digest []byte
)

// Money is a decimal type that is a struct with Scan and Value.
type Money struct{ cents *big.Int }

func (m Money) Value() (driver.Value, error) {
	cents := m.cents
	if cents == nil {
		cents = new(big.Int)
	}
	return new(big.Rat).SetFrac(cents, big.NewInt(100)).FloatString(2), nil
}

func (m *Money) Scan(value any) error {
	if raw, ok := value.([]byte); ok {
		value = string(raw) // of a document
	}
	text, ok := value.(string)
	r, good := new(big.Rat).SetString(text)
	if !ok || !good {
		return fmt.Errorf("Money from %T", value)
	}
	m.cents = r.Mul(r, big.NewRat(100, 1)).Num()
	return nil
}

func (m Money) Equal(other Money) bool {
	a, _ := m.Value()
	b, _ := other.Value()
	return a == b
}

func cents(n int64) Money { return Money{big.NewInt(n)} }

// Odometer is a decimal type with MarshalText and UnmarshalText.
type Odometer struct{ digits string }

func (o Odometer) MarshalText() ([]byte, error) {
	if o.digits == "" {
		return []byte("0"), nil
	}
	return []byte(o.digits), nil
}

func (o *Odometer) UnmarshalText(text []byte) error {
	o.digits = string(text)
	return nil
}

// Color is stored as text, by methods on its pointer.
type Color struct{ r, g, b byte }

func (c *Color) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "#%02x%02x%02x", c.r, c.g, c.b), nil
}

func (c *Color) UnmarshalText(text []byte) error {
	if len(text) != 7 {
		return errors.New("a color has six digits")
	}
	raw, err := hex.DecodeString(string(text[1:]))
	if err == nil {
		c.r, c.g, c.b = raw[0], raw[1], raw[2]
	}
	return err
}

// Serial is a UUID type with Scan and Value, as those of the well-known packages are.
type Serial [16]byte

func (s Serial) Value() (driver.Value, error) { return formatUUID([16]byte(s)), nil }

func (s *Serial) Scan(value any) error {
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf("Serial from %T", value)
	}
	id, err := parseUUID(text)
	*s = Serial(id)
	return err
}

// Boxed is a UUID type that is a struct.
type Boxed struct{ id Serial }

func (b Boxed) Value() (driver.Value, error) { return b.id.Value() }

func (b *Boxed) Scan(value any) error { return b.id.Scan(value) }

// Temperature is stored as a float, by methods on its pointer.
type Temperature struct{ kelvin float64 }

func (t *Temperature) Value() (driver.Value, error) { return t.kelvin, nil }

func (t *Temperature) Scan(value any) error {
	f, ok := value.(float64)
	if !ok {
		return fmt.Errorf("Temperature from %T", value)
	}
	t.kelvin = f
	return nil
}

// Mask is stored as text that its Value method gives as bytes.
type Mask struct{ bits uint8 }

func (m Mask) Value() (driver.Value, error) { return []byte(fmt.Sprintf("m%08b", m.bits)), nil }

func (m *Mask) Scan(value any) error {
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf("Mask from %T", value)
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "m"), 2, 8)
	m.bits = uint8(n)
	return err
}

// Settings is a document with Scan and Value.
type Settings map[string]string

func (s Settings) Value() (driver.Value, error) {
	if s == nil {
		return nil, nil
	}
	var b strings.Builder
	for key, value := range s {
		fmt.Fprintf(&b, "{%q:%q}", key, value)
	}
	return b.String(), nil
}

func (s *Settings) Scan(value any) error {
	*s = nil
	if value == nil {
		return nil
	}
	raw, ok := value.([]byte)
	if !ok {
		return fmt.Errorf("Settings from %T", value)
	}
	key, text, _ := strings.Cut(strings.Trim(string(raw), "{}"), ":")
	*s = Settings{strings.Trim(key, `"`): strings.Trim(text, `"`)}
	return nil
}

// Failing has a Value method that says no.
type Failing struct{ broken bool }

func (f Failing) Value() (driver.Value, error) {
	if f.broken {
		return nil, errors.New("it is broken")
	}
	return "", nil
}

func (*Failing) Scan(any) error { return nil }

type OnlyScan struct{ v any }

func (o *OnlyScan) Scan(value any) error { o.v = value; return nil }

type OnlyValue struct{ s string }

func (o OnlyValue) Value() (driver.Value, error) { return o.s, nil }

type Strange struct{ s string }

func (s Strange) Value() (driver.Value, error) { return []string{s.s}, nil }
func (s *Strange) Scan(any) error              { return nil }

type Silent struct{ s *string }

func (s Silent) Value() (driver.Value, error) {
	if s.s == nil {
		return nil, nil
	}
	return *s.s, nil
}
func (s *Silent) Scan(any) error { return nil }

// made is the table of an anonymous struct, called Model.
func made(tb testing.TB, model any) *Table {
	tb.Helper()
	t, err := build(reflect.TypeOf(model), "Model")
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func to[T any](v T) *T { return &v }

var noon = time.Date(2024, 5, 17, 12, 0, 0, 123456789, time.UTC)

func asError[E error](err error, target *E) bool { return errors.As(err, target) }
