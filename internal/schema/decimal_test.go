package schema

import (
	"math/big"
	"strings"
	"testing"

	"github.com/hare-go/hare/hare/backend"
)

func TestFixDecimal(t *testing.T) {
	const refused = "refused"
	tests := []struct {
		text             string
		precision, scale int
		want             backend.Decimal
	}{
		{"1", 5, 2, "1.00"}, {"1.5", 5, 2, "1.50"}, {"-1.50", 5, 2, "-1.50"}, {"+7", 5, 2, "7.00"}, {"0", 5, 2, "0.00"},
		{"-0", 5, 2, "0.00"}, {"-0.00", 5, 2, "0.00"}, {".5", 5, 2, "0.50"}, {"5.", 5, 2, "5.00"}, {"00012.30000", 5, 2, "12.30"},
		{"999.99", 5, 2, "999.99"}, {"-999.99", 5, 2, "-999.99"}, {"1000", 5, 2, refused}, {"1000.00", 5, 2, refused}, {"0.001", 5, 2, refused},
		{"0.0010", 5, 2, refused}, {"123", 3, 0, "123"}, {"123.0", 3, 0, "123"}, {"123.4", 3, 0, refused}, {"0.12", 2, 2, "0.12"}, {"1.12", 2, 2, refused},
		{"1.25e1", 5, 2, "12.50"}, {"125E-2", 5, 2, "1.25"}, {"1e2", 5, 2, "100.00"}, {"1e+2", 5, 2, "100.00"}, {"1e3", 5, 2, refused},
		{"5e-2", 5, 2, "0.05"}, {"5e-3", 5, 2, refused}, {"0e99999", 5, 2, "0.00"}, {"-0e-99999", 5, 2, "0.00"}, {"1e99999", 5, 2, refused},
		{"1e-99999", 5, 2, refused}, {"100000e-5", 5, 2, "1.00"}, {"1e99999999999999999999", 5, 2, refused}, {"0.00001e5", 5, 2, "1.00"},
		{"", 5, 2, refused}, {"-", 5, 2, refused}, {".", 5, 2, refused}, {"1.2.3", 5, 2, refused}, {"1,5", 5, 2, refused}, {"1 ", 5, 2, refused},
		{" 1", 5, 2, refused}, {"--1", 5, 2, refused}, {"NaN", 5, 2, refused}, {"Infinity", 5, 2, refused}, {"1e", 5, 2, refused}, {"e1", 5, 2, refused},
		{"1e1.5", 5, 2, refused}, {"0x10", 5, 2, refused}, {"1_000", 9, 2, refused}, {"١", 5, 2, refused}, {"1e1e1", 5, 2, refused},
		{strings.Repeat("9", 1000), 1000, 0, backend.Decimal(strings.Repeat("9", 1000))},
	}
	for _, test := range tests {
		got, err := fixDecimal(test.text, test.precision, test.scale)
		if err != nil {
			got = refused
		}
		if got != test.want {
			t.Errorf("%q in (%d,%d): %q, want %q (%v)", test.text, test.precision, test.scale, got, test.want, err)
		}
	}
}

// What is accepted has the value of the text, in the one form that the column has.
func FuzzFixDecimal(f *testing.F) {
	for _, text := range []string{"1.50", "-0", "1e5", ".5e-1", "999.999", "12e-0", "1e2000"} {
		f.Add(text, uint8(10), uint8(2))
	}
	f.Fuzz(func(t *testing.T, text string, precision, scale uint8) {
		p := max(1, int(precision))
		s := min(int(scale), p)
		got, err := fixDecimal(text, p, s)
		if err != nil {
			return
		}
		want, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatalf("%q is accepted as %q, and is no number", text, got)
		}
		value, _ := new(big.Rat).SetString(string(got))
		if value == nil || value.Cmp(want) != 0 {
			t.Errorf("%q became %q", text, got)
		}
		if again, err := fixDecimal(string(got), p, s); err != nil || again != got {
			t.Errorf("%q became %q, and that %q, %v", text, got, again, err)
		}
		digits := strings.TrimLeft(strings.ReplaceAll(strings.TrimPrefix(string(got), "-"), ".", ""), "0")
		if _, fraction, _ := strings.Cut(string(got), "."); len(fraction) != s || len(digits) > p {
			t.Errorf("%q in (%d,%d) is %q", text, p, s, got)
		}
	})
}
