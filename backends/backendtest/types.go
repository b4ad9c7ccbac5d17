package backendtest

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

// asStored compares what comes back with what was written: documents by content.
var asStored = cmp.Options{
	cmpopts.IgnoreUnexported(everything{}),
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() == reflect.TypeFor[json.RawMessage]() },
		cmp.Comparer(func(a, b json.RawMessage) bool {
			var x, y any
			return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && cmp.Equal(x, y)
		})),
}

// samples are rows with the values that are most likely to get lost.
func samples() map[string]everything {
	summer := time.Date(2024, 7, 1, 12, 30, 0, 123456000, time.UTC)
	typical := everything{
		Small: -7, Medium: 70000, Large: 1 << 40, Plain: 5, Tiny: -5, Byte: 200, Word: 60000, Double: 4000000000, Quad: 1 << 62,
		Float: 3.25, Single: 0.1, Flag: true, Text: "Grüße, 世界 'quoted' \"double\" \\ %_ $1 ? 🐇", Short: "äöüß€",
		Blob: []byte{0, 1, 255}, At: summer, Took: 90*time.Minute + 5*time.Microsecond, Key: [16]byte{1, 2, 3, 0xff},
		Amount: "12345678901234567890.0123456789", Level: "high", Status: -3,
		Document: document{Name: "doc", Tags: []string{"a", "b"}}, Raw: json.RawMessage(`{"b": [1, 2.5, null], "a": "x"}`),
		MaybeInt: to[int64](0), MaybeFloat: to(0.0), MaybeFlag: to(false), MaybeText: to(""), MaybeBlob: to([]byte{}),
		MaybeAt: to(summer), MaybeTook: to(time.Duration(0)), MaybeKey: to([16]byte{}), MaybeDec: to("-1.500"),
		MaybeDoc: &document{}, embedded: embedded{Remark: "flat"},
	}
	zero := everything{Amount: "0.0000000000", Blob: []byte{}, Raw: json.RawMessage(`null`)}
	smallest := zero
	smallest.Small, smallest.Medium, smallest.Large = math.MinInt16, math.MinInt32, math.MinInt64
	smallest.Tiny, smallest.Plain, smallest.Status = math.MinInt8, math.MinInt64, math.MinInt16
	smallest.Float, smallest.Single = -math.MaxFloat64, math.SmallestNonzeroFloat32
	smallest.At = time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC)
	smallest.Took = -time.Hour
	smallest.Amount = "-99999999999999999999.9999999999"
	largest := zero
	largest.Small, largest.Medium, largest.Large = math.MaxInt16, math.MaxInt32, math.MaxInt64
	largest.Tiny, largest.Byte, largest.Word, largest.Double = math.MaxInt8, math.MaxUint8, math.MaxUint16, math.MaxUint32
	largest.Quad, largest.Plain = math.MaxInt64, math.MaxInt64
	largest.Float, largest.Single = math.MaxFloat64, math.MaxFloat32
	largest.Text = strings.Repeat("long ", 20000)
	largest.Blob = make([]byte, 100000)
	largest.At = time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)
	largest.Key = [16]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}
	largest.Amount = "99999999999999999999.9999999999"
	return map[string]everything{"typical": typical, "zero": zero, "smallest": smallest, "largest": largest}
}

// testTypes: every type comes back as it was written, by each way of writing and reading.
func testTypes(t *testing.T, db *database) {
	db.create(t, everything{})
	for name, sample := range samples() {
		t.Run(name, func(t *testing.T) {
			row := sample
			must(t, everythings.Create(db.ctx, &row))
			sample.ID = row.ID
			equal(t, "the object after Create", sample, row, asStored)

			got, err := everythings.Get(db.ctx, query.Q("id", row.ID))
			must(t, err)
			equal(t, "Get", &sample, got, asStored)

			for row, err := range everythings.Filter(query.Q("id", row.ID)).Iterate(db.ctx) {
				must(t, err)
				equal(t, "Iterate", &sample, row, asStored)
			}

			row.ID = 0
			must(t, everythings.Save(db.ctx, &row, hare.ForceInsert()))
			must(t, everythings.Save(db.ctx, got))
			must(t, everythings.Refresh(db.ctx, got))
			equal(t, "Save and Refresh", &sample, got, asStored)

			filters := map[string]any{
				"small": sample.Small, "medium": sample.Medium, "large": sample.Large, "plain": sample.Plain, "tiny": sample.Tiny,
				"byte": sample.Byte, "word": sample.Word, "double": sample.Double, "quad": sample.Quad, "float": sample.Float,
				"single": sample.Single, "flag": sample.Flag, "text": sample.Text, "short": sample.Short, "blob": sample.Blob,
				"at": sample.At, "took": sample.Took, "key": sample.Key, "amount": sample.Amount, "level": sample.Level,
				"status": sample.Status, "remark": sample.Remark, "maybe_int": sample.MaybeInt, "maybe_float": sample.MaybeFloat,
				"maybe_flag": sample.MaybeFlag, "maybe_text": sample.MaybeText, "maybe_at": sample.MaybeAt,
				"maybe_took": sample.MaybeTook, "maybe_key": sample.MaybeKey, "maybe_dec": sample.MaybeDec,
			}
			for column, value := range filters {
				for _, lookup := range []string{"", "__in"} {
					if lookup == "__in" {
						value = []any{value}
					}
					found, err := everythings.Filter(query.Q("id", sample.ID, column+lookup, value)).Exists(db.ctx)
					if err != nil || !found {
						t.Errorf("the row is not found by %s%s: %v", column, lookup, err)
					}
				}
			}
			for column, value := range filters {
				if _, err := everythings.Filter(query.Q("id", sample.ID)).Update(db.ctx, query.Set(column, value)); err != nil {
					t.Errorf("Update of %s: %v", column, err)
				}
			}
			must(t, everythings.Refresh(db.ctx, got))
			equal(t, "after Update with the same values", &sample, got, asStored)
		})
	}

	t.Run("bulk", func(t *testing.T) {
		var rows []everything
		for _, sample := range samples() {
			rows = append(rows, sample)
		}
		must(t, everythings.BulkCreate(db.ctx, rows))
		ids := make([]int64, len(rows))
		for i, row := range rows {
			ids[i] = row.ID
		}
		got, err := everythings.Filter(query.Q("id__in", ids)).OrderBy("id").All(db.ctx)
		must(t, err)
		equal(t, "BulkCreate and All", rows, got, asStored, cmpopts.SortSlices(func(a, b everything) bool { return a.ID < b.ID }))
	})

	t.Run("time", func(t *testing.T) {
		zone := time.FixedZone("east", 5*3600)
		row := everything{Amount: "0", At: time.Date(2024, 2, 29, 3, 0, 0, 1999, zone)}
		must(t, everythings.Create(db.ctx, &row))
		got, err := everythings.Get(db.ctx, query.Q("id", row.ID))
		must(t, err)
		equal(t, "UTC and microseconds", time.Date(2024, 2, 28, 22, 0, 0, 1000, time.UTC), got.At)
		if got.At.Location() != time.UTC {
			t.Errorf("the time is in %v", got.At.Location())
		}
		found, err := everythings.Filter(query.Q("id", row.ID, "at", row.At)).Exists(db.ctx)
		must(t, err)
		equal(t, "found by the time with its nanoseconds and its zone", true, found)
	})

	t.Run("decimals sort as numbers", func(t *testing.T) {
		_, err := everythings.Unfiltered().Delete(db.ctx)
		must(t, err)
		for _, amount := range []string{"10", "9", "-2", "-10", "0.5", "9.0000000001"} {
			must(t, everythings.Create(db.ctx, &everything{Amount: amount}))
		}
		rows, err := everythings.OrderBy("amount").All(db.ctx)
		must(t, err)
		var got []string
		for _, row := range rows {
			got = append(got, row.Amount)
		}
		equal(t, "order", []string{
			"-10.0000000000", "-2.0000000000", "0.5000000000", "9.0000000000", "9.0000000001", "10.0000000000",
		}, got)
		n, err := everythings.Filter(query.Q("amount__gt", "9")).Count(db.ctx)
		must(t, err)
		equal(t, "above 9", int64(2), n)
	})
}

func testArrays(t *testing.T, db *database) {
	db.create(t, listing{})
	rows := []listing{
		{Numbers: []int64{1, -2, math.MaxInt64}, Words: []string{"a", "", "it's, {\"x\"}", "NULL", "世界"}, Ratios: []float64{0.5}, Maybe: to([]bool{true, false})},
		{Numbers: []int64{}, Words: []string{}, Ratios: []float64{}},
	}
	must(t, listings.BulkCreate(db.ctx, rows))
	single := rows[0]
	single.ID = 0
	must(t, listings.Create(db.ctx, &single))
	got, err := listings.OrderBy("id").All(db.ctx)
	must(t, err)
	equal(t, "arrays", append(rows, single), got, cmpopts.EquateEmpty())
	n, err := listings.Filter(query.Q("words", rows[0].Words)).Count(db.ctx)
	must(t, err)
	equal(t, "found by an array", int64(2), n)
}

func testNoArrays(t *testing.T, db *database) {
	err := hare.CreateTables(db.ctx, db.client, listing{})
	got := failure[*features.UnsupportedError](t, "an array column", err)
	equal(t, "feature", features.Arrays, got.Feature)
	equal(t, "alias", db.client.Alias(), got.Alias)
	if _, err := listings.Count(db.ctx); err == nil {
		t.Error("the table is there all the same")
	}
	row := listing{ID: 1, Numbers: []int64{1}}
	for what, err := range map[string]error{
		"All": second(listings.All(db.ctx)), "Create": listings.Create(db.ctx, &row), "Save": listings.Save(db.ctx, &row),
		"BulkCreate": listings.BulkCreate(db.ctx, []listing{row, row}), "Refresh": listings.Refresh(db.ctx, &row),
		"a filter": second(listings.Filter(query.Q("words", []string{"a"})).Count(db.ctx)),
		"Update":   second(listings.Unfiltered().Update(db.ctx, query.Set("words", []string{"a"}))),
	} {
		fails[*features.UnsupportedError](t, what, err)
	}
}
