package backendtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

// testMembership: in and not_in of lists of any type and length.
func testMembership(t *testing.T, db *database) {
	db.create(t, everything{}, num{})
	ctx := db.ctx
	base := time.Date(2024, 1, 1, 0, 0, 0, 1000, time.UTC)
	rows := make([]everything, 5)
	for i := range rows {
		rows[i] = everything{
			Small: int16(i), Medium: int32(i), Large: int64(i) << 40, Quad: uint64(i), Float: float64(i) / 4, Text: fmt.Sprint("t", i),
			Blob: []byte{0, byte(i)}, At: base.Add(time.Duration(i) * time.Microsecond), Took: time.Duration(i) * time.Second,
			Key: [16]byte{15: byte(i)}, Amount: fmt.Sprintf("%d.5", i), Level: level(fmt.Sprint("l", i)), Status: status(i),
			MaybeText: to(fmt.Sprint("m", i)),
		}
	}
	rows[4].MaybeText = nil
	must(t, everythings.BulkCreate(ctx, rows))

	const long = 100_000
	small := make([]int16, long)
	large, floats, texts, maybe := make([]int64, long), make([]float64, long), make([]string, long), make([]*string, long)
	blobs, times, keys, amounts := make([][]byte, long), make([]time.Time, long), make([][16]byte, long), make([]string, long)
	tooks, levels := make([]time.Duration, long), make([]level, long)
	for i := range long {
		small[i], large[i], floats[i], texts[i] = -1, -int64(i)-1, -float64(i)-1, fmt.Sprint("none", i)
		blobs[i], times[i], keys[i] = []byte(fmt.Sprint(i)), base.Add(-time.Duration(i+1)*time.Hour), [16]byte{0: 1, 1: byte(i), 2: byte(i >> 8), 3: byte(i >> 16)}
		amounts[i], tooks[i], levels[i], maybe[i] = fmt.Sprint(i+100), -time.Duration(i+1)*time.Second, level(fmt.Sprint(i)), to("none")
	}
	for i, at := range []int{0, long / 2, long - 1} { // rows 1, 2 and 3
		row := rows[i+1]
		small[at], large[at], floats[at], texts[at], blobs[at], times[at] = row.Small, row.Large, row.Float, row.Text, row.Blob, row.At
		keys[at], amounts[at], tooks[at], levels[at], maybe[at] = row.Key, row.Amount, row.Took, row.Level, row.MaybeText
	}
	for column, list := range map[string]any{
		"small": small, "large": large, "float": floats, "text": texts, "blob": blobs, "at": times, "key": keys, "amount": amounts,
		"took": tooks, "level": levels, "maybe_text": maybe,
	} {
		t.Run(column, func(t *testing.T) {
			found, err := everythings.Filter(query.Q(column+"__in", list)).OrderBy("small").All(ctx)
			must(t, err)
			var got []int16
			for _, row := range found {
				got = append(got, row.Small)
			}
			equal(t, "in", []int16{1, 2, 3}, got)
			n, err := everythings.Filter(query.Q(column+"__not_in", list)).Count(ctx)
			must(t, err)
			equal(t, "not_in", int64(2), n)
			n, err = everythings.Exclude(query.Q(column+"__in", list)).Count(ctx)
			must(t, err)
			equal(t, "excluded", int64(2), n)
		})
	}

	t.Run("written by a list", func(t *testing.T) {
		n, err := everythings.Filter(query.Q("text__in", texts)).Update(ctx, query.Set("medium", 50))
		must(t, err)
		equal(t, "updated", int64(3), n)
		n, err = everythings.Filter(query.Q("key__in", keys), query.Q("medium", 50)).Delete(ctx)
		must(t, err)
		equal(t, "deleted", int64(3), n)
	})

	t.Run("bytes of a column of bytes", func(t *testing.T) {
		n, err := everythings.Filter(query.Q("byte__in", []uint8{0, 7})).Count(ctx)
		must(t, err)
		equal(t, "rows", int64(2), n)
	})

	t.Run("NULL in the list", func(t *testing.T) {
		must(t, nums.BulkCreate(ctx, []num{{N: 1, M: to[int64](1)}, {N: 2, M: to[int64](2)}, {N: 3}}))
		for _, tt := range []struct {
			name string
			p    query.Predicate
			want []int64
		}{
			{"nil pointers", query.Q("m__in", []*int64{to[int64](1), nil}), []int64{1, 3}},
			{"nil pointers, not in", query.Q("m__not_in", []*int64{to[int64](1), nil}), []int64{2}},
			{"nothing but nil", query.Q("m__in", []any{nil}), []int64{3}},
			{"nothing but nil, not in", query.Q("m__not_in", []any{nil, nil}), []int64{1, 2}},
			{"nil for a column without NULL", query.Q("n__in", []any{nil, 2}), []int64{2}},
			{"nil for a column without NULL, not in", query.Q("n__not_in", []any{nil, 2}), []int64{1, 3}},
			{"a nil slice", query.Q("m__in", []int64(nil)), []int64{}},
			{"not in a nil slice", query.Q("m__not_in", []int64(nil)), []int64{1, 2, 3}},
			{"twice the same", query.Q("m__in", []int64{2, 2, 2}), []int64{2}},
			{"an array", query.Q("m__in", [2]int{1, 2}), []int64{1, 2}},
			{"mixed integer types", query.Q("m__in", []any{int8(1), uint64(2)}), []int64{1, 2}},
			{"not in, negated", query.Not(query.Q("m__not_in", []any{1, nil})), []int64{1, 3}},
			{"equal to a nil pointer", query.Q("m", (*int64)(nil)), []int64{3}},
			{"not a nil pointer", query.Q("m__not", (*int64)(nil)), []int64{1, 2}},
		} {
			got, err := nums.Filter(tt.p).OrderBy("n").All(ctx)
			must(t, err)
			equal(t, tt.name, tt.want, values(got))
			rest, err := nums.Exclude(tt.p).Count(ctx)
			must(t, err)
			equal(t, tt.name+": the rest", int64(3-len(tt.want)), rest)
		}
	})

	t.Run("refused", func(t *testing.T) {
		for what, p := range map[string]query.Predicate{
			"a text":              query.Q("text__in", "abc"),
			"a number":            query.Q("small__in", 5),
			"nil":                 query.Q("small__not_in", nil),
			"bytes":               query.Q("blob__in", []byte{1}),
			"an expression":       query.Q("small__in", []any{query.F("medium")}),
			"an element too wide": query.Q("small__in", []int{1, 40000}),
			"another type":        query.Q("small__in", []string{"1"}),
			"isnull of a text":    query.Q("small__isnull", "yes"),
			"a range of one":      query.Q("small__range", []int{1}),
			"gt of nil":           query.Q("small__gt", nil),
			"text of a number":    query.Q("small__contains", "1"),
			"a number in a text":  query.Q("text__contains", 1),
			"a document":          query.Q("document", document{}),
		} {
			_, err := everythings.Filter(p).All(ctx)
			got := failure[*hare.ValidationError](t, what, err)
			equal(t, what, "everything", got.Model)
		}
	})
}
