package sqlite

import (
	"bytes"
	"errors"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"unicode"

	"github.com/ncruces/go-sqlite3"

	"github.com/hare-go/hare/hare/backend"
)

// decimalCollation is the collation of decimal columns. Its name is part of the tables that hare has created.
const decimalCollation = "HARE_DECIMAL"

// operations are the names of the operators in the names of the functions, hare_integer_add and so on.
var operations = map[string]string{"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod"}

// What arithmetic fails with, as on PostgreSQL.
var (
	errDivisionByZero = refused(backend.ClassOther, "22012", "division by zero")
	errOutOfRange     = refused(backend.ClassOther, "22003", "a computed number is beyond the range of its type")
	errTooLong        = refused(backend.ClassOther, "22001", "a text is longer than its column")
	errNoNumber       = refused(backend.ClassOther, "22P02", "arithmetic met a value that is no number")
)

// register adds the functions and the collation to the connection. They depend on nothing but their arguments, so that
// indexes may use them.
func (s *session) register() error {
	const flags = sqlite3.DETERMINISTIC | sqlite3.INNOCUOUS
	failures := []error{
		s.engine.CreateCollation(decimalCollation, compareDecimals),
		s.engine.CreateFunction("hare_fold", 1, flags, foldValue),
		s.engine.CreateFunction("hare_text", 2, flags, s.function(textOfSize)),
	}
	for sign, name := range operations {
		failures = append(failures,
			s.engine.CreateFunction("hare_integer_"+name, 3, flags, s.function(func(c sqlite3.Context, args []sqlite3.Value) error {
				return computeIntegers(c, sign[0], args)
			})),
			s.engine.CreateFunction("hare_float_"+name, 2, flags, s.function(func(c sqlite3.Context, args []sqlite3.Value) error {
				return computeFloats(c, sign[0], args)
			})),
			s.engine.CreateFunction("hare_decimal_"+name, -1, flags, s.function(func(c sqlite3.Context, args []sqlite3.Value) error {
				return computeDecimals(c, sign[0], args)
			})),
		)
	}
	return errors.Join(failures...)
}

// function makes an SQL function of arithmetic: NULL where an operand is NULL, and an error that keeps its SQLSTATE on
// its way through the engine.
func (s *session) function(compute func(sqlite3.Context, []sqlite3.Value) error) sqlite3.ScalarFunction {
	return func(c sqlite3.Context, args ...sqlite3.Value) {
		if args[0].Type() == sqlite3.NULL || args[1].Type() == sqlite3.NULL {
			return
		}
		if err := compute(c, args); err != nil {
			errors.As(err, &s.raised)
			c.ResultError(err)
		}
	}
}

// computeIntegers is integer arithmetic within the number of bits that the third argument says.
func computeIntegers(c sqlite3.Context, sign byte, args []sqlite3.Value) error {
	if args[0].Type() != sqlite3.INTEGER || args[1].Type() != sqlite3.INTEGER {
		return errNoNumber
	}
	result, err := integers(sign, args[0].Int64(), args[1].Int64())
	if err != nil {
		return err
	}
	if unused := 64 - args[2].Int(); result<<unused>>unused != result {
		return errOutOfRange
	}
	c.ResultInt64(result)
	return nil
}

// integers cuts quotients towards zero, as PostgreSQL does; a remainder has the sign of the dividend.
func integers(sign byte, a, b int64) (result int64, err error) {
	var fits bool
	switch sign {
	case '+':
		result = a + b
		fits = (result > a) == (b > 0)
	case '-':
		result = a - b
		fits = (result < a) == (b > 0)
	case '*':
		result = a * b
		high, low := bits.Mul64(magnitude(a), magnitude(b))
		fits = high == 0 && low == magnitude(result) && (result == 0 || (result < 0) == ((a < 0) != (b < 0)))
	default:
		if b == 0 {
			return 0, errDivisionByZero
		}
		if sign == '%' {
			return a % b, nil
		}
		result = a / b
		fits = b != -1 || a != math.MinInt64
	}
	if !fits {
		return 0, errOutOfRange
	}
	return result, nil
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// computeFloats is arithmetic in double precision.
func computeFloats(c sqlite3.Context, sign byte, args []sqlite3.Value) error {
	a, b := args[0].Float(), args[1].Float()
	var result float64
	switch sign {
	case '+':
		result = a + b
	case '-':
		result = a - b
	case '*':
		result = a * b
	case '/':
		result = a / b
	case '%':
		result = math.Mod(a, b)
	}
	switch infinite := math.IsInf(a, 0) || math.IsInf(b, 0); {
	case b == 0 && (sign == '/' || sign == '%'):
		return errDivisionByZero
	case math.IsNaN(result), math.IsInf(result, 0) && !infinite:
		return errOutOfRange
	case result == 0 && a != 0 && !infinite && (sign == '/' || sign == '*' && b != 0):
		return errOutOfRange // too small, which PostgreSQL does not take for zero
	}
	c.ResultFloat(result)
	return nil
}

// computeDecimals is exact arithmetic on two decimals. The third and fourth argument, if given, are the precision and the
// scale of the result.
func computeDecimals(c sqlite3.Context, sign byte, args []sqlite3.Value) error {
	a, ok := operand(args[0])
	b, okb := operand(args[1])
	if !ok || !okb {
		return errNoNumber
	}
	result, err := a.compute(sign, b)
	if err == nil && len(args) == 4 {
		result, err = result.fit(args[2].Int(), args[3].Int())
	}
	if err != nil {
		return err
	}
	c.ResultText(result.String())
	return nil
}

// operand is a number of any storage class as a decimal. A float counts with its first fifteen digits, as PostgreSQL
// converts it.
func operand(v sqlite3.Value) (decimal, bool) {
	if v.Type() == sqlite3.FLOAT {
		return parseDecimal(strconv.AppendFloat(nil, v.Float(), 'g', 15, 64))
	}
	return parseDecimal(v.RawText())
}

// textOfSize is hare_text: a text that has as many characters as the second argument says at most. Spaces beyond them
// are cut off, as PostgreSQL does it.
func textOfSize(c sqlite3.Context, args []sqlite3.Value) error {
	text, size := args[0].Text(), args[1].Int()
	for at := range text {
		if size--; size >= 0 {
			continue
		}
		if strings.Trim(text[at:], " ") != "" {
			return errTooLong
		}
		c.ResultText(text[:at])
		return nil
	}
	c.ResultValue(args[0])
	return nil
}

// foldValue is hare_fold: the text with each character folded.
func foldValue(c sqlite3.Context, args ...sqlite3.Value) {
	if args[0].Type() == sqlite3.NULL {
		return
	}
	text := args[0].RawText()
	for _, b := range text {
		if b >= 'a' && b <= 'z' || b >= 0x80 {
			c.ResultRawText(bytes.Map(foldRune, text))
			return
		}
	}
	c.ResultValue(args[0])
}

// fold makes texts equal that differ in the case of their characters only.
func fold(text string) string { return string(bytes.Map(foldRune, []byte(text))) }

// foldRune folds character by character, as PostgreSQL's UPPER does: ß stays as it is, and no language has rules of its
// own.
func foldRune(r rune) rune { return unicode.ToUpper(r) }
