package sqlite

import (
	"bytes"
	"math/big"
	"strconv"
	"strings"
)

// decimal is an exact number: digits shifted right by scale places.
type decimal struct {
	digits big.Int
	scale  int
}

// The largest scale of a quotient, and the fewest digits of one, as in PostgreSQL.
const (
	maxScale       = 1000
	minSignificant = 16
	groupDigits    = 4 // PostgreSQL reckons the digits of a quotient in groups of four
)

var ten = big.NewInt(10)

func power(n int) *big.Int { return new(big.Int).Exp(ten, big.NewInt(int64(n)), nil) }

// parseDecimal reads digits with a sign, a point and an exponent, each of which may be missing.
func parseDecimal(text []byte) (d decimal, ok bool) {
	mantissa, exponent := string(text), 0
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		n, err := strconv.Atoi(mantissa[i+1:])
		if err != nil || n < -maxScale || n > maxScale {
			return d, false
		}
		mantissa, exponent = mantissa[:i], n
	}
	if !isDecimal([]byte(mantissa)) {
		return d, false
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	d.digits.SetString(whole+fraction, 10)
	if d.scale = len(fraction) - exponent; d.scale < 0 {
		d.digits.Mul(&d.digits, power(-d.scale))
		d.scale = 0
	}
	return d, true
}

// isDecimal: the text is digits with a sign and a point at most.
func isDecimal(text []byte) bool {
	_, _, _, ok := split(text)
	return ok
}

// String is the plain form, with as many decimal places as the scale says.
func (d *decimal) String() string {
	text := new(big.Int).Abs(&d.digits).String()
	if missing := d.scale + 1 - len(text); missing > 0 {
		text = strings.Repeat("0", missing) + text
	}
	if d.scale > 0 {
		text = text[:len(text)-d.scale] + "." + text[len(text)-d.scale:]
	}
	if d.digits.Sign() < 0 {
		text = "-" + text
	}
	return text
}

// compute gives results with the scale that PostgreSQL's numeric gives them.
func (d *decimal) compute(sign byte, other decimal) (result decimal, err error) {
	switch sign {
	case '*':
		result.scale = d.scale + other.scale
		result.digits.Mul(&d.digits, &other.digits)
		return result, nil
	case '/':
		if other.digits.Sign() == 0 {
			return result, errDivisionByZero
		}
		result.scale = quotientScale(d, &other)
		// One more place than wanted would be rounded twice: the remainder decides instead.
		return divide(&d.digits, &other.digits, result.scale-d.scale+other.scale, result.scale), nil
	}
	result.scale = max(d.scale, other.scale)
	a := new(big.Int).Mul(&d.digits, power(result.scale-d.scale))
	b := new(big.Int).Mul(&other.digits, power(result.scale-other.scale))
	switch sign {
	case '+':
		result.digits.Add(a, b)
	case '-':
		result.digits.Sub(a, b)
	default:
		if b.Sign() == 0 {
			return result, errDivisionByZero
		}
		result.digits.Rem(a, b)
	}
	return result, nil
}

// fit rounds to the scale, halves away from zero, and refuses what has more digits than the precision.
func (d *decimal) fit(precision, scale int) (decimal, error) {
	result := divide(&d.digits, big.NewInt(1), scale-d.scale, scale)
	if new(big.Int).Abs(&result.digits).Cmp(power(precision)) >= 0 {
		return result, errOutOfRange
	}
	return result, nil
}

// divide is a / b shifted left by so many places, rounded to a whole number with halves away from zero.
func divide(a, b *big.Int, shift, scale int) decimal {
	a, b = new(big.Int).Set(a), new(big.Int).Set(b)
	if shift >= 0 {
		a.Mul(a, power(shift))
	} else {
		b.Mul(b, power(-shift))
	}
	quotient, remainder := new(big.Int).QuoRem(a, b, new(big.Int))
	if remainder.Lsh(remainder.Abs(remainder), 1).CmpAbs(b) >= 0 {
		away := int64(1)
		if (a.Sign() < 0) != (b.Sign() < 0) {
			away = -1
		}
		quotient.Add(quotient, big.NewInt(away))
	}
	return decimal{digits: *quotient, scale: scale}
}

// quotientScale is how many decimal places PostgreSQL gives a quotient (select_div_scale in numeric.c): as many as the
// operands have, and enough for sixteen significant digits by an estimate from their leading groups of digits.
func quotientScale(a, b *decimal) int {
	weightA, leadA := leading(a)
	weightB, leadB := leading(b)
	weight := weightA - weightB
	if leadA <= leadB {
		weight--
	}
	return min(max(minSignificant-weight*groupDigits, a.scale, b.scale, 0), maxScale)
}

// leading is the first group of digits that is not zero, and its weight: the group left of the point has the weight 0.
func leading(d *decimal) (weight, group int) {
	if d.digits.Sign() == 0 {
		return 0, 0
	}
	text := new(big.Int).Abs(&d.digits).String()
	exponent := len(text) - 1 - d.scale // of the first digit
	weight = exponent / groupDigits
	if exponent < 0 && exponent%groupDigits != 0 {
		weight--
	}
	length := exponent - weight*groupDigits + 1
	if length > len(text) {
		text += strings.Repeat("0", length-len(text))
	}
	group, _ = strconv.Atoi(text[:length])
	return weight, group
}

// compareDecimals is the collation of decimals: by value, whatever zeros they are written with. What is no decimal comes
// after all that are, in the order of its bytes, so that the order stays one.
func compareDecimals(a, b []byte) int {
	negA, wholeA, fractionA, okA := split(a)
	negB, wholeB, fractionB, okB := split(b)
	switch {
	case !okA && !okB:
		return bytes.Compare(a, b)
	case !okA:
		return 1
	case !okB:
		return -1
	case negA != negB:
		if negA {
			return -1
		}
		return 1
	}
	order := len(wholeA) - len(wholeB)
	if order == 0 {
		order = bytes.Compare(wholeA, wholeB)
	}
	if order == 0 {
		order = bytes.Compare(fractionA, fractionB)
	}
	if negA {
		return -order
	}
	return order
}

// split takes a decimal apart: its sign, false for zero, and the digits on both sides of the point without the zeros that
// mean nothing. Nothing is copied: a sort calls it for each comparison.
func split(text []byte) (negative bool, whole, fraction []byte, ok bool) {
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		negative, text = text[0] == '-', text[1:]
	}
	whole, fraction, _ = bytes.Cut(text, []byte{'.'})
	if len(whole)+len(fraction) == 0 || !allDigits(whole) || !allDigits(fraction) {
		return false, nil, nil, false
	}
	for len(whole) > 0 && whole[0] == '0' {
		whole = whole[1:]
	}
	for len(fraction) > 0 && fraction[len(fraction)-1] == '0' {
		fraction = fraction[:len(fraction)-1]
	}
	return negative && len(whole)+len(fraction) > 0, whole, fraction, true
}

func allDigits(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
