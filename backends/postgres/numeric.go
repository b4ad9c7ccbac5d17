package postgres

import (
	"encoding/binary"
	"errors"

	"github.com/hare-go/hare/hare/backend"
)

// The signs of a numeric (PostgreSQL, src/backend/utils/adt/numeric.c).
const (
	numericNegative = 0x4000
	numericNaN      = 0xC000
	numericInfinity = 0xD000
	numericMinus    = 0xF000
)

var errNotFinite = errors.New("the database has NaN or infinity, which no decimal can hold")

// decodeNumeric reads PostgreSQL's binary numeric: base-10000 digits, the first of which has the weight 10000^weight, and
// the number of decimal places to show.
func decodeNumeric(src []byte) (backend.Decimal, error) {
	if len(src) < 8 || len(src) != 8+2*int(binary.BigEndian.Uint16(src)) {
		return "", errMalformed
	}
	weight := int(int16(binary.BigEndian.Uint16(src[2:])))
	sign := binary.BigEndian.Uint16(src[4:])
	places := int(binary.BigEndian.Uint16(src[6:]))
	digits := src[8:]
	if sign == numericNaN || sign == numericInfinity || sign == numericMinus {
		return "", errNotFinite
	}
	text := make([]byte, 0, 6+4*max(weight, 0)+places)
	if sign == numericNegative {
		text = append(text, '-')
	}
	text = appendWhole(text, digits, weight)
	if places > 0 {
		text = append(text, '.')
		text = appendFraction(text, digits, weight, places)
	}
	return backend.Decimal(text), nil
}

// groupAt is the base-10000 digit of the weight.
func groupAt(digits []byte, first, weight int) uint16 {
	if i := 2 * (first - weight); i >= 0 && i < len(digits) {
		return binary.BigEndian.Uint16(digits[i:])
	}
	return 0
}

// appendWhole appends the digits before the point, without leading zeros.
func appendWhole(text, digits []byte, first int) []byte {
	if first < 0 {
		return append(text, '0')
	}
	start := len(text)
	for weight := first; weight >= 0; weight-- {
		group := groupAt(digits, first, weight)
		text = append(text, byte('0'+group/1000), byte('0'+group/100%10), byte('0'+group/10%10), byte('0'+group%10))
	}
	zeros := start
	for zeros < len(text)-1 && text[zeros] == '0' {
		zeros++
	}
	return append(text[:start], text[zeros:]...)
}

// appendFraction appends the digits after the point, as many as there are places.
func appendFraction(text, digits []byte, first, places int) []byte {
	end := len(text) + places
	for weight := -1; len(text) < end; weight-- {
		group := groupAt(digits, first, weight)
		text = append(text, byte('0'+group/1000), byte('0'+group/100%10), byte('0'+group/10%10), byte('0'+group%10))
	}
	return text[:end]
}
