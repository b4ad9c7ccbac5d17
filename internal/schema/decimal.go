package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hare-go/hare/hare/backend"
)

// maxExponent bounds the zeros that a decimal's exponent can ask for, well beyond any column.
const maxExponent = 2000

var errDecimal = errors.New("a decimal is written in digits, as \"-12.50\" or \"1.25e3\"; NaN and Infinity are not stored")

// fixDecimal brings a number to exactly scale decimal places. A digit that does not fit is an error: nothing is ever
// rounded.
func fixDecimal(text string, precision, scale int) (backend.Decimal, error) {
	negative, whole, fraction, err := splitDecimal(text)
	if err != nil {
		return "", err
	}
	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) > scale {
		return "", fmt.Errorf("the column has %d decimal places, and the number has more: round it first", scale)
	}
	if whole = strings.TrimLeft(whole, "0"); len(whole) > precision-scale {
		return "", fmt.Errorf("the column has %d digits before the point, and the number has more", precision-scale)
	}
	negative = negative && whole+fraction != ""
	if whole == "" {
		whole = "0"
	}

	var b strings.Builder
	if negative {
		b.WriteByte('-')
	}
	b.WriteString(whole)
	if scale > 0 {
		b.WriteByte('.')
		b.WriteString(fraction)
		b.WriteString(strings.Repeat("0", scale-len(fraction)))
	}
	return backend.Decimal(b.String()), nil
}

// splitDecimal reads the sign and the digits on both sides of the point, the exponent worked in.
func splitDecimal(text string) (negative bool, whole, fraction string, err error) {
	if text != "" && (text[0] == '-' || text[0] == '+') {
		negative, text = text[0] == '-', text[1:]
	}
	mantissa, exponent, hasExponent := text, 0, false
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa, hasExponent = text[:i], true
		if exponent, err = strconv.Atoi(text[i+1:]); err != nil {
			return false, "", "", errDecimal
		}
	}
	whole, fraction, _ = strings.Cut(mantissa, ".")
	if whole+fraction == "" || !digits(whole) || !digits(fraction) {
		return false, "", "", errDecimal
	}
	if !hasExponent {
		return negative, whole, fraction, nil
	}
	if strings.Trim(whole+fraction, "0") == "" {
		return negative, "", "", nil
	}
	if exponent < -maxExponent || exponent > maxExponent {
		return false, "", "", errors.New("the number's exponent is beyond any column")
	}
	if exponent > 0 {
		fraction += strings.Repeat("0", max(0, exponent-len(fraction)))
		return negative, whole + fraction[:exponent], fraction[exponent:], nil
	}
	whole = strings.Repeat("0", max(0, -exponent-len(whole))) + whole
	point := len(whole) + exponent
	return negative, whole[:point], whole[point:] + fraction, nil
}

func digits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return true
}
