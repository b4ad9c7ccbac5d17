package sqlite

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-go/hare/hare/backend"
)

func TestCompareDecimals(t *testing.T) {
	ordered := [][]string{ // equal ones together
		{"-123456789012345678901234567890.02"},
		{"-123456789012345678901234567890.01", "-0123456789012345678901234567890.0100"},
		{"-10", "-10.00", "-010."},
		{"-9.5", "-9.50"},
		{"-0.01", "-.01"},
		{"0", "0.00", "-0", "-0.000", "+0", ".0", "0."},
		{"0.0000000000000000000000000000001"},
		{"0.01", "+.01"},
		{"9.50", "9.5"},
		{"10.00", "10"},
		{"99999999999999999999.99"},
		{"100000000000000000000"},
		{""}, {"-"}, {"."}, {"1e3"}, {"1x"}, {"NaN"}, {"no number"},
	}
	for i, same := range ordered {
		for _, a := range same {
			for j, other := range ordered {
				for _, b := range other {
					if got := sign(compareDecimals([]byte(a), []byte(b))); got != sign(i-j) {
						t.Errorf("%q against %q gives %d, want %d", a, b, got, sign(i-j))
					}
				}
			}
		}
	}
}

func sign(n int) int { return big.NewInt(int64(n)).Sign() }

// TestCompareDecimalsAsRationals compares random decimals, many of them close to one another.
func TestCompareDecimalsAsRationals(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	texts := make([]string, 300)
	for i := range texts {
		texts[i] = fmt.Sprintf("%s%0*d.%0*d", []string{"", "-"}[random.IntN(2)], 1+random.IntN(30), random.IntN(3), 1+random.IntN(30), random.IntN(30))
	}
	for _, a := range texts {
		for _, b := range texts {
			x, _ := new(big.Rat).SetString(a)
			y, _ := new(big.Rat).SetString(b)
			if got := sign(compareDecimals([]byte(a), []byte(b))); got != x.Cmp(y) {
				t.Fatalf("%s against %s gives %d, want %d", a, b, got, x.Cmp(y))
			}
		}
	}
}

// TestDecimalColumn: =, <, ORDER BY, IN, MIN and unique indexes go by the number.
func TestDecimalColumn(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	exec(t, c, "CREATE TABLE t (d "+typeName(t, backend.ColumnType{Kind: backend.KindDecimal, Precision: 40, Scale: 2})+" UNIQUE)")
	for _, d := range []string{"10.00", "9.50", "-1.00", "-10.00", "123456789012345678901234567890.01", "123456789012345678901234567890.02", "0.00"} {
		exec(t, c, "INSERT INTO t VALUES ($1)", backend.Decimal(d))
	}
	got := []any{}
	for _, row := range table(t, c, "SELECT d FROM t ORDER BY d DESC") {
		got = append(got, row[0])
	}
	want := []any{}
	for _, d := range []backend.Decimal{"123456789012345678901234567890.02", "123456789012345678901234567890.01", "10.00", "9.50", "0.00", "-1.00", "-10.00"} {
		want = append(want, d)
	}
	equal(t, "ORDER BY", want, got)
	count := func(where string, args ...any) any {
		t.Helper()
		return value(t, c, "SELECT count(*) FROM t WHERE "+where, args...)
	}
	equal(t, "equal", any(int64(1)), count("d = $1", backend.Decimal("9.5")))
	equal(t, "equal, from the other side", any(int64(1)), count("$1 = d", backend.Decimal("9.5")))
	equal(t, "distinct", any(int64(6)), count("d IS DISTINCT FROM $1", backend.Decimal("9.5")))
	equal(t, "greater", any(int64(3)), count("d > $1", backend.Decimal("9.5")))
	equal(t, "less than a long one", any(int64(6)), count("d < $1", backend.Decimal("123456789012345678901234567890.02")))
	equal(t, "an integer", any(int64(1)), count("d = $1", int64(10)))
	equal(t, "list", any(int64(2)), count(dialect{}.In("d", backend.ColumnType{}, "$1"), backend.List{Values: []any{backend.Decimal("10"), backend.Decimal("0009.500"), backend.Decimal("7")}}))
	equal(t, "extremes", [][]any{{"-10.00", "123456789012345678901234567890.02"}}, table(t, c, "SELECT min(d), max(d) FROM t"))
	equal(t, "a computed one", any(int64(1)), count("d = "+dialect{}.Compute("/", backend.ColumnType{Kind: backend.KindDecimal}, "$1", "$2"), backend.Decimal("19.00"), int64(2)))
	_, err := c.Exec(t.Context(), backend.Call{SQL: "INSERT INTO t VALUES ($1)", Args: []any{backend.Decimal("010.0")}})
	failed(t, err, backend.ClassIntegrity, "23505")
}

// TestDecimalArithmetic has what PostgreSQL 15 answers to the same, SELECT left op right.
func TestDecimalArithmetic(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	for _, tt := range []struct {
		left  any
		op    string
		right any
		want  any
	}{
		{"0.1", "+", "0.2", "0.3"},
		{"1.50", "+", "2.505", "4.005"},
		{"1", "-", "0.00000000000000000001", "0.99999999999999999999"},
		{"-1.10", "-", "-1.10", "0.00"},
		{"1.10", "*", "1.10", "1.2100"},
		{"-0.05", "*", "0.05", "-0.0025"},
		{"123456789012345678901234567890.12", "*", "98765432109876543210.98", "12193263113702179522617558295481414418287658588617.5176"},
		{"1", "/", "3", "0.33333333333333333333"},
		{"2", "/", "3", "0.66666666666666666667"},
		{"-2", "/", "3", "-0.66666666666666666667"},
		{"10.00", "/", "4", "2.5000000000000000"},
		{"7", "/", "7", "1.00000000000000000000"},
		{"1000000", "/", "3", "333333.333333333333"},
		{"1", "/", "30000", "0.000033333333333333333333"},
		{"0.00012", "/", "7", "0.000017142857142857142857"},
		{"100000000000000000000", "/", "3", "33333333333333333333"},
		{"1.000000000000000000000000", "/", "3", "0.333333333333333333333333"},
		{"0", "/", "3", "0.00000000000000000000"},
		{"7.5", "%", "2", "1.5"},
		{"-7.5", "%", "2", "-1.5"},
		{"7.5", "%", "-2.25", "0.75"},
		{int64(2), "*", "1.25", "2.50"},
		{"1.25", "*", 0.5, "0.625"},
		{0.1, "+", "0", "0.1"},
		{nil, "+", "1", nil},
		{"1", "/", nil, nil},
	} {
		argument := func(v any) any {
			if text, ok := v.(string); ok {
				return backend.Decimal(text)
			}
			return v
		}
		sql := "SELECT " + dialect{}.Compute(tt.op, backend.ColumnType{Kind: backend.KindDecimal}, "$1", "$2")
		equal(t, fmt.Sprint(tt.left, tt.op, tt.right), tt.want, value(t, c, sql, argument(tt.left), argument(tt.right)))
	}
	for _, tt := range []struct {
		left, op, right any
		state           string
	}{
		{"1", "/", "0.00", "22012"}, {"1", "%", "0", "22012"}, {"one", "+", "1", "22P02"}, {"1", "+", "", "22P02"}, {[]byte("x"), "+", "1", "22P02"},
	} {
		sql := "SELECT " + dialect{}.Compute(tt.op.(string), backend.ColumnType{Kind: backend.KindDecimal}, "$1", "$2")
		_, err := c.Query(t.Context(), backend.Call{SQL: sql, Args: []any{tt.left, tt.right}})
		t.Run(fmt.Sprint(tt.left, tt.op, tt.right), func(t *testing.T) { failed(t, err, backend.ClassOther, tt.state) })
	}
}

// TestDecimalFits: a result for a column has the column's digits. What is between has as many as it needs.
func TestDecimalFits(t *testing.T) {
	c := acquire(t, openFile(t, ""))
	column, any40 := backend.ColumnType{Kind: backend.KindDecimal, Precision: 5, Scale: 2}, backend.ColumnType{Kind: backend.KindDecimal}
	for left, want := range map[string]string{"1": "1.00", "0.005": "0.01", "-0.005": "-0.01", "0.00499999": "0.00", "999.994": "999.99", "-999.99": "-999.99"} {
		equal(t, left, any(want), value(t, c, "SELECT "+dialect{}.Compute("+", column, "$1", "0"), backend.Decimal(left)))
	}
	for _, left := range []string{"1000", "999.995", "-999.995"} {
		_, err := c.Query(t.Context(), backend.Call{SQL: "SELECT " + dialect{}.Compute("+", column, "$1", "0"), Args: []any{backend.Decimal(left)}})
		failed(t, err, backend.ClassOther, "22003")
	}
	inner := dialect{}.Compute("*", any40, "$1", "$1")
	equal(t, "0.05 * 0.05 * 400", any("1.00"), value(t, c, "SELECT "+dialect{}.Compute("*", column, "("+inner+")", "$2"), backend.Decimal("0.05"), int64(400)))
}

func TestDecimalsArithmeticAsRationals(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		a, b := randomDecimal(random), randomDecimal(random)
		x, _ := new(big.Rat).SetString(a.String())
		y, _ := new(big.Rat).SetString(b.String())
		for op, want := range map[byte]*big.Rat{'+': new(big.Rat).Add(x, y), '-': new(big.Rat).Sub(x, y), '*': new(big.Rat).Mul(x, y)} {
			got, err := a.compute(op, b)
			if exact, _ := new(big.Rat).SetString(got.String()); err != nil || exact.Cmp(want) != 0 {
				t.Fatalf("%v %c %v = %v, %v, want %v", &a, op, &b, &got, err, want)
			}
		}
		if b.digits.Sign() == 0 {
			continue
		}
		got, err := a.compute('/', b)
		quotient, _ := new(big.Rat).SetString(got.String())
		half := new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Mul(big.NewInt(2), power(got.scale)))
		if off := quotient.Sub(quotient, new(big.Rat).Quo(x, y)); err != nil || off.Abs(off).Cmp(half) > 0 {
			t.Fatalf("%v / %v = %v, %v, which is off by %v", &a, &b, &got, err, off)
		}
	}
}

func randomDecimal(random *rand.Rand) decimal {
	d := decimal{scale: random.IntN(12)}
	text := make([]byte, 1+random.IntN(25))
	for i := range text {
		text[i] = byte('0' + random.IntN(10))
	}
	d.digits.SetString(string(text), 10)
	if random.IntN(2) == 0 {
		d.digits.Neg(&d.digits)
	}
	return d
}

func FuzzCompareDecimals(f *testing.F) {
	f.Add("1.0", "01", "-0")
	f.Add("x", "1.", ".1")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		texts := [][]byte{[]byte(a), []byte(b), []byte(c)}
		for _, x := range texts {
			for _, y := range texts {
				if sign(compareDecimals(x, y)) != -sign(compareDecimals(y, x)) {
					t.Errorf("%q and %q have no order", x, y)
				}
			}
		}
		slices.SortFunc(texts, compareDecimals)
		if compareDecimals(texts[0], texts[2]) > 0 {
			t.Errorf("%q: the order is not transitive", texts)
		}
	})
}
