package backendtest

import (
	"math"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

// gauge has numbers of every width.
type gauge struct {
	ID     int64
	Small  int16
	Other  int16
	Medium int32
	Large  int64
	Float  float64
	Single float32
	Exact  string `hare:"decimal=12:2"`
	Fine   string `hare:"decimal=30:10"`
	Maybe  *int16 `hare:"column=maybe"`
	Text   string
	Short  string `hare:"size=5"`
}

var gauges = hare.Objects[gauge]()

// testArithmetic: an expression has one result, whatever the database and whatever the widths of its columns.
func testArithmetic(t *testing.T, db *database) {
	db.create(t, gauge{})
	ctx := db.ctx
	start := gauge{
		Small: 30000, Other: 7, Medium: 2_000_000_000, Large: 4_000_000_000, Float: 2.5, Single: 0.5, Exact: "10.25", Fine: "0.0000000003",
		Text: "a long text",
	}
	small, other, medium, large := query.F("small"), query.F("other"), query.F("medium"), query.F("large")
	float, exact, fine := query.F("float"), query.F("exact"), query.F("fine")

	// run assigns the expression and reads what has become of the column.
	run := func(t *testing.T, column string, e any) (gauge, error) {
		t.Helper()
		row := start
		must(t, gauges.Create(ctx, &row))
		n, err := gauges.Filter(query.Q("id", row.ID)).Update(ctx, query.Set(column, e))
		if err == nil {
			equal(t, "rows", int64(1), n)
			must(t, gauges.Refresh(ctx, &row))
		}
		return row, err
	}

	for _, tt := range []struct {
		name, column string
		expr         query.Expr
		want         any
	}{
		{"narrow sums do not overflow on the way", "large", small.Add(small), int64(60000)},
		{"narrow products do not overflow on the way", "large", small.Mul(small), int64(900_000_000)},
		{"nor those of two widths", "large", medium.Add(small).Add(medium), int64(4_000_030_000)},
		{"nor within a larger expression", "small", small.Add(small).Sub(small).Sub(other), int16(29993)},
		{"a wide column into a narrow one", "small", large.Sub(3_999_999_999), int16(1)},
		{"integers divide as integers", "large", other.Div(2), int64(3)},
		{"also for a float column", "float", other.Div(2), 3.0},
		{"also for a decimal column", "exact", other.Div(2), "3.00"},
		{"an integer over a decimal", "exact", other.Div("2"), "3.50"},
		{"an integer over a float", "float", other.Div(2.0), 3.5},
		{"a narrow column into a float", "float", small, 30000.0},
		{"a narrow column into a decimal", "exact", small, "30000.00"},
		{"a decimal into a float", "float", exact, 10.25},
		{"a float into a decimal", "exact", float, "2.50"},
		{"a fine decimal into a coarse one", "exact", fine, "0.00"},
		{"decimals are rounded once", "exact", exact.Mul("0.1"), "1.03"},
		{"half away from zero", "exact", exact.Sub(exact).Sub("0.125"), "-0.13"},
		{"thirds", "exact", exact.Div(3), "3.42"},
		{"fine thirds", "fine", query.Value("1").Div(exact.Sub("7.25")), "0.3333333333"},
		{"a decimal's remainder", "exact", exact.Mod(3), "1.25"},
		{"a negative remainder", "large", query.Value(-7).Mod(other.Sub(4)), int64(-1)},
		{"a float times a decimal", "float", float.Mul(exact), 25.625},
		{"a decimal times a float", "exact", exact.Mul(1.1), "11.28"},
		{"a large integer in a decimal", "fine", large.Mul(large), "16000000000000000000.0000000000"},
		{"the smallest integer", "large", query.Value(math.MinInt64).Add(0), int64(math.MinInt64)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			row, err := run(t, tt.column, tt.expr)
			if tt.name == "a large integer in a decimal" { // bigint times bigint is a bigint
				fails[*hare.DatabaseError](t, "overflow", err)
				return
			}
			must(t, err)
			got := map[string]any{"small": row.Small, "large": row.Large, "float": row.Float, "exact": row.Exact, "fine": row.Fine}
			equal(t, tt.column, tt.want, got[tt.column])
		})
	}

	t.Run("refused by the database", func(t *testing.T) {
		for what, tt := range map[string]struct {
			column, state string
			expr          query.Expr
		}{
			"a narrow column overflows":           {"small", "22003", small.Add(small)},
			"by a constant":                       {"small", "22003", small.Add(10000)},
			"from a wide column":                  {"small", "22003", large},
			"from a medium column":                {"small", "22003", medium},
			"the medium column":                   {"medium", "22003", medium.Add(medium)},
			"the widest column":                   {"large", "22003", large.Mul(large)},
			"beyond int64":                        {"large", "22003", query.Value(math.MaxInt64).Add(other)},
			"too many digits":                     {"exact", "22003", large.Mul(10)},
			"too many digits of a decimal column": {"exact", "22003", exact.Add("9999999999.00")},
			"a wide decimal into a narrow one":    {"exact", "22003", fine.Add("99999999999")},
			"division by zero":                    {"large", "22012", large.Div(other.Sub(7))},
			"a decimal's division by zero":        {"exact", "22012", exact.Div(0)},
			"a float's division by zero":          {"float", "22012", float.Div(0)},
			"remainder of zero":                   {"large", "22012", large.Mod(0)},
			"NULL into a column without NULL":     {"small", "23502", query.F("maybe")},
			"a long text into a short column":     {"short", "22001", query.F("text")},
			"NULL computed":                       {"small", "23502", query.F("maybe").Add(1)},
		} {
			_, err := run(t, tt.column, tt.expr)
			got := failure[*hare.DatabaseError](t, what, err)
			equal(t, what, tt.state, got.SQLState)
			equal(t, what+": nothing was done", true, got.NotDone)
		}
	})

	t.Run("refused before anything is sent", func(t *testing.T) {
		for what, tt := range map[string]struct {
			column string
			value  any
		}{
			"a fraction into an integer":     {"large", exact},
			"a float into an integer":        {"large", float.Add(1)},
			"text into a number":             {"large", query.F("text")},
			"a number into text":             {"text", large},
			"arithmetic on text":             {"text", query.F("text").Add(1)},
			"text beside a number":           {"large", large.Add("one")},
			"nothing":                        {"large", large.Add(nil)},
			"a time":                         {"large", large.Add(struct{}{})},
			"beyond int64":                   {"large", large.Add(uint64(1 << 63))},
			"an empty expression":            {"large", query.Expr{}},
			"a remainder of floats":          {"float", float.Mod(2)},
			"a constant beyond a narrow one": {"small", query.Value(40000)},
			"a constant fraction":            {"large", query.Value(1.5)},
		} {
			_, err := run(t, tt.column, tt.value)
			fails[*hare.ValidationError](t, what, err)
		}
	})

	t.Run("in filters", func(t *testing.T) {
		_, err := gauges.Unfiltered().Delete(ctx)
		must(t, err)
		row := start
		must(t, gauges.Create(ctx, &row))
		for what, p := range map[string]query.Predicate{
			"a narrow sum":                  query.Q("large__gt", small.Add(small)),
			"a narrow product":              query.Q("medium__gt", small.Mul(small)),
			"an integer beside a decimal":   query.Q("other__lt", exact),
			"a decimal beside an integer":   query.Q("exact__gt", other),
			"a decimal beside a sum":        query.Q("exact__gt", other.Add(3)),
			"not by its digits":             query.Q("exact__lt", small),
			"a decimal beside a float":      query.Q("exact__gt", float),
			"a float beside a decimal":      query.Q("float__lt", exact),
			"a float beside an integer":     query.Q("float__lt", other),
			"a decimal beside a decimal":    query.Q("exact__gt", fine),
			"an integer beside a computed":  query.Q("other__lt", exact.Sub(1)),
			"equal values of other kinds":   query.Q("exact", float.Mul(4).Add(0.25)),
			"an integer equal to a decimal": query.Q("other", exact.Sub("3.25")),
			"beside a tiny float":           query.Q("exact__gt", float.Mul(1e-9)),
			"beside an enormous float":      query.Q("exact__lt", float.Mul(1e30)),
			"not above an enormous float":   query.Not(query.Q("exact__gt", float.Mul(1e30))),
			"exactly equal":                 query.Q("large", query.Value("3999999999.5").Add("0.5")),
			"integer division":              query.Q("float", other.Div(3).Add(0.5)),
			"NULL is unknown":               query.Not(query.Q("small__gt", query.F("maybe"))),
		} {
			n, err := gauges.Filter(p).Count(ctx)
			must(t, err)
			equal(t, what, int64(1), n)
			n, err = gauges.Exclude(p).Count(ctx)
			must(t, err)
			equal(t, what+", excluded", int64(0), n)
		}
	})

	t.Run("texts", func(t *testing.T) {
		row := start
		for text, want := range map[string]string{"": "", "äöüß€": "äöüß€", "ab     ": "ab   "} {
			row.ID, row.Text = 0, text
			must(t, gauges.Create(ctx, &row))
			_, err := gauges.Filter(query.Q("id", row.ID)).Update(ctx, query.Set("short", query.F("text")))
			must(t, err)
			must(t, gauges.Refresh(ctx, &row))
			equal(t, "a text that fits", want, row.Short)
		}
	})

	t.Run("integers and decimals are compared exactly", func(t *testing.T) {
		row := gauge{Large: 9007199254740993, Exact: "0", Fine: "9007199254740993.0000000001"}
		must(t, gauges.Create(ctx, &row))
		for what, p := range map[string]query.Predicate{
			"an integer below a decimal":  query.Q("large__lt", fine),
			"a decimal above an integer":  query.Q("fine__gt", large),
			"not equal":                   query.Q("fine__not", large),
			"equal to a difference":       query.Q("large", fine.Sub("0.0000000001")),
			"a difference equal to it":    query.Q("fine", large.Add("0.0000000001")),
			"not equal to another number": query.Q("large__not", fine.Sub("1.0000000001")),
		} {
			found, err := gauges.Filter(query.Q("id", row.ID), p).Exists(ctx)
			must(t, err)
			equal(t, what, true, found)
		}
	})

	t.Run("single precision", func(t *testing.T) {
		row := start
		must(t, gauges.Create(ctx, &row))
		one := gauges.Filter(query.Q("id", row.ID))
		for what, value := range map[string]any{"as a float64": 0.1, "as a float32": float32(0.1)} {
			_, err := one.Update(ctx, query.Set("single", value))
			must(t, err)
			must(t, gauges.Refresh(ctx, &row))
			equal(t, what, float32(0.1), row.Single)
			for how, filter := range map[string]any{"float64": 0.1, "float32": float32(0.1), "what was read": row.Single} {
				found, err := one.Filter(query.Q("single", filter)).Exists(ctx)
				must(t, err)
				equal(t, "set "+what+", found by "+how, true, found)
			}
		}
	})
}
