package backendtest

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

// note has what its users write: texts, documents and times.
type note struct {
	ID    int64
	Text  string
	Data  any             `hare:"json"`
	Raw   json.RawMessage `hare:"column=raw"`
	Maybe *map[string]any `hare:"json"`
	At    time.Time
	Float float64
}

var noteS = hare.Objects[note]()

// testContent: texts, documents and times mean the same on every database.
func testContent(t *testing.T, db *database) {
	db.create(t, note{})
	ctx := db.ctx

	t.Run("case", func(t *testing.T) {
		for stored, looked := range map[string]string{
			"Größe": "GRÖßE", "ÄPFEL": "äpfel", "Привет": "ПРИВЕТ", "Ωmega": "ωMEGA", "Ñandú": "ñANDÚ", "abc": "ABC", "100%_\\": "100%_\\",
		} {
			row := note{Text: stored}
			must(t, noteS.Create(ctx, &row))
			for _, lookup := range []string{"iexact", "icontains", "istartswith", "iendswith"} {
				n, err := noteS.Filter(query.Q("id", row.ID, "text__"+lookup, looked)).Count(ctx)
				must(t, err)
				equal(t, stored+" "+lookup+" "+looked, int64(1), n)
			}
			n, err := noteS.Filter(query.Q("id", row.ID, "text__iexact", looked+"x")).Count(ctx)
			must(t, err)
			equal(t, stored+" and another", int64(0), n)
		}
		row := note{Text: "Straße"}
		must(t, noteS.Create(ctx, &row))
		n, err := noteS.Filter(query.Q("id", row.ID, "text__iexact", "STRASSE")).Count(ctx)
		must(t, err)
		equal(t, "ß stays ß", int64(0), n)
	})

	t.Run("spaces and line ends", func(t *testing.T) {
		for _, text := range []string{" a", "a ", "a\n", "a\r\nb", "\ta", "", " "} {
			row := note{Text: text}
			must(t, noteS.Create(ctx, &row))
			must(t, noteS.Refresh(ctx, &row))
			equal(t, "text", text, row.Text)
			for lookup, want := range map[string]bool{"exact": true, "iexact": true, "startswith": true, "endswith": true, "contains": true, "not": false} {
				found, err := noteS.Filter(query.Q("id", row.ID, "text__"+lookup, text)).Exists(ctx)
				must(t, err)
				equal(t, lookup, want, found)
			}
			found, err := noteS.Filter(query.Q("id", row.ID, "text", text+" ")).Exists(ctx)
			must(t, err)
			equal(t, "with a space more", false, found)
		}
	})

	t.Run("documents", func(t *testing.T) {
		for text, want := range map[string]any{
			`null`: nil, `true`: true, `"text"`: "text", `[]`: []any{}, `{}`: map[string]any{}, `1.5`: 1.5, `"\u00e9\u4e16\ud83d\ude00"`: "é世😀",
			`{"a": {"b": [1, null, "<&>"]}, "": 0}`: map[string]any{"a": map[string]any{"b": []any{1.0, nil, "<&>"}}, "": 0.0}, `"null"`: "null", `0`: 0.0,
		} {
			row := note{Data: want, Raw: json.RawMessage(text), Maybe: &map[string]any{"x": want}}
			must(t, noteS.Create(ctx, &row))
			got, err := noteS.Get(ctx, query.Q("id", row.ID))
			must(t, err)
			var raw any
			must(t, json.Unmarshal(got.Raw, &raw))
			equal(t, text, []any{want, want, want}, []any{got.Data, raw, (*got.Maybe)["x"]})
			_, err = noteS.Filter(query.Q("id", row.ID)).Update(ctx, query.Set("data", "changed"), query.Set("raw", json.RawMessage(text)), query.Set("maybe", nil))
			must(t, err)
			must(t, noteS.Refresh(ctx, got))
			raw = nil
			must(t, json.Unmarshal(got.Raw, &raw))
			equal(t, text+", set", []any{"changed", want, (*map[string]any)(nil)}, []any{got.Data, raw, got.Maybe})
		}

		const big = `[123456789012345678901234567890, 9007199254740993]`
		row := note{Raw: json.RawMessage(big)}
		must(t, noteS.Create(ctx, &row))
		must(t, noteS.Refresh(ctx, &row))
		var numbers []json.Number
		must(t, json.Unmarshal(row.Raw, &numbers))
		equal(t, "large numbers", []json.Number{"123456789012345678901234567890", "9007199254740993"}, numbers)

		must(t, noteS.Create(ctx, &note{Maybe: to(map[string]any(nil))}))
		for _, tt := range []struct {
			what string
			p    query.Predicate
		}{{"a document null is not NULL", query.Q("maybe__isnull", false)}, {"nor is a nil map", query.Q("maybe__not", nil)}} {
			n, err := noteS.Filter(tt.p).OrderBy("-id").Limit(1).Count(ctx)
			must(t, err)
			equal(t, tt.what, int64(1), n)
		}

		for what, bad := range map[string]note{
			"NaN": {Data: math.NaN()}, "infinity within": {Data: []any{math.Inf(1)}}, "a NUL": {Data: "a\x00"}, "a NUL in a key": {Data: map[string]any{"\x00": 1}},
			"a NUL spelled out": {Raw: json.RawMessage(`"\u0000"`)}, "half a pair": {Raw: json.RawMessage(`"\ud800"`)}, "no JSON": {Raw: json.RawMessage(`{`)},
			"two documents": {Raw: json.RawMessage(`1 2`)}, "not UTF-8": {Raw: json.RawMessage("\"\xff\"")}, "a channel": {Data: make(chan int)},
		} {
			fails[*hare.ValidationError](t, "Create: "+what, noteS.Create(ctx, &bad))
			bad.ID = row.ID
			fails[*hare.ValidationError](t, "Save: "+what, noteS.Save(ctx, &bad))
			fails[*hare.ValidationError](t, "BulkCreate: "+what, noteS.BulkCreate(ctx, []note{row, bad}))
		}
	})

	t.Run("times", func(t *testing.T) {
		instant := time.Date(2024, 3, 31, 0, 59, 59, 999_999_000, time.UTC)
		row := note{At: instant}
		must(t, noteS.Create(ctx, &row))
		one := noteS.Filter(query.Q("id", row.ID))
		for _, zone := range []*time.Location{time.UTC, time.FixedZone("", -11*3600), time.FixedZone("odd", 5*3600+45*60+30), time.FixedZone("", 14*3600)} {
			there := instant.In(zone)
			for what, p := range map[string]query.Predicate{
				"exact": query.Q("at", there), "gte": query.Q("at__gte", there), "not gt": query.Not(query.Q("at__gt", there)), "in": query.Q("at__in", []time.Time{there}),
				"lt": query.Q("at__lt", there.Add(time.Microsecond)), "range": query.Q("at__range", []time.Time{there, there}),
				"cut to microseconds": query.Q("at", there.Add(999*time.Nanosecond)), "gt": query.Q("at__gt", there.Add(-time.Microsecond)),
			} {
				found, err := one.Filter(p).Exists(ctx)
				must(t, err)
				equal(t, what+" in "+zone.String(), true, found)
			}
			_, err := one.Update(ctx, query.Set("at", there))
			must(t, err)
			got, err := one.Get(ctx)
			must(t, err)
			equal(t, "set in "+zone.String(), instant, got.At)
		}
		for _, at := range []time.Time{
			time.Unix(0, 0), time.Date(1582, 10, 10, 0, 0, 0, 0, time.UTC), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1999, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
			time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1999, 12, 31, 23, 59, 59, 1_500, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), time.Now(),
		} {
			row.At = at
			must(t, noteS.Save(ctx, &row))
			got, err := noteS.Get(ctx, query.Q("id", row.ID, "at", at))
			must(t, err)
			equal(t, "time", at.UTC().Truncate(time.Microsecond), got.At)
		}
		fails[*hare.ValidationError](t, "text for a time", second(one.Filter(query.Q("at", "2024")).All(ctx)))
	})

	t.Run("floats", func(t *testing.T) {
		for _, f := range []float64{0, 1, -1.5, 1e300, 5e-324, math.MaxFloat64, 0.1, 1 << 53, 9007199254740991, math.Inf(1), math.Inf(-1), math.Pi} {
			row := note{Float: f}
			must(t, noteS.Create(ctx, &row))
			must(t, noteS.Refresh(ctx, &row))
			equal(t, "float", f, row.Float)
			for what, p := range map[string]query.Predicate{"exact": query.Q("float", f), "in": query.Q("float__in", []float64{f}), "gte": query.Q("float__gte", f)} {
				found, err := noteS.Filter(query.Q("id", row.ID), p).Exists(ctx)
				must(t, err)
				equal(t, what, true, found)
			}
		}
	})
}
