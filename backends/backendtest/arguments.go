package backendtest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/query"
)

// testArguments: a statement of one's own takes what a model takes, and gives what a model reads.
func testArguments(t *testing.T, db *database) {
	db.create(t, everything{})
	ctx := db.ctx
	row := everything{Amount: "0"}
	must(t, everythings.Create(ctx, &row))
	one := everythings.Filter(query.Q("id", row.ID))
	at := time.Date(2024, 7, 1, 14, 30, 0, 123456789, time.FixedZone("", 2*3600))

	for column, tt := range map[string]struct {
		given any
		want  func(e *everything) (got, want any)
	}{
		"small":  {status(-3), func(e *everything) (any, any) { return e.Small, int16(-3) }},
		"medium": {uint8(200), func(e *everything) (any, any) { return e.Medium, int32(200) }},
		"large":  {to(int64(1) << 40), func(e *everything) (any, any) { return e.Large, int64(1) << 40 }},
		"float":  {float32(0.5), func(e *everything) (any, any) { return e.Float, 0.5 }},
		"flag":   {true, func(e *everything) (any, any) { return e.Flag, true }},
		"text":   {level("$1 ? 'x'"), func(e *everything) (any, any) { return e.Text, "$1 ? 'x'" }},
		"blob":   {[]byte{0, 1}, func(e *everything) (any, any) { return e.Blob, []byte{0, 1} }},
		"at":     {at, func(e *everything) (any, any) { return e.At, at.UTC().Truncate(time.Microsecond) }},
		"took":   {90 * time.Second, func(e *everything) (any, any) { return e.Took, 90 * time.Second }},
		"key":    {[16]byte{7, 15: 9}, func(e *everything) (any, any) { return e.Key, [16]byte{7, 15: 9} }},
		"amount": {"123.4500000000", func(e *everything) (any, any) { return e.Amount, "123.4500000000" }},
		"raw": {json.RawMessage(`{"a":1}`), func(e *everything) (any, any) {
			var v any
			_ = json.Unmarshal(e.Raw, &v)
			return v, map[string]any{"a": 1.0}
		}},
		"maybe_text": {to("x"), func(e *everything) (any, any) { return e.MaybeText, to("x") }},
		"maybe_int":  {(*int64)(nil), func(e *everything) (any, any) { return e.MaybeInt, (*int64)(nil) }},
	} {
		n, err := db.client.Exec(ctx, "UPDATE everything SET "+column+" = $2 WHERE id = $1 AND $1 = id", row.ID, tt.given)
		if err != nil {
			t.Errorf("%s: %v", column, err)
			continue
		}
		equal(t, column+": rows", int64(1), n)
		got, err := one.Get(ctx)
		must(t, err)
		is, want := tt.want(got)
		equal(t, column, want, is)
		rows, err := db.client.Query(ctx, "SELECT "+column+" FROM everything WHERE id = $1", row.ID)
		must(t, err)
		count := 0
		for _, err := range rows.All() {
			must(t, err)
			count++
		}
		equal(t, column+": read", 1, count)
	}

	rows, err := db.client.Query(ctx, "SELECT at, amount, key, flag, took, float FROM everything WHERE id = $1", row.ID)
	must(t, err)
	for values, err := range rows.All() {
		must(t, err)
		equal(t, "time", any(at.UTC().Truncate(time.Microsecond)), values[0])
		equal(t, "decimal", any("123.4500000000"), values[1])
		equal(t, "flag", any(true), values[3])
		equal(t, "duration", any(int64(90_000_000)), values[4])
		equal(t, "float", any(0.5), values[5])
	}
	rows, err = db.client.Query(ctx, "SELECT at, amount, key, flag, maybe_int FROM everything WHERE id = $1", row.ID)
	must(t, err)
	defer rows.Close()
	var (
		when   time.Time
		amount string
		key    [16]byte
		flag   bool
		none   *int64
	)
	if !rows.Next() {
		t.Fatal("no row: ", rows.Err())
	}
	must(t, rows.Scan(&when, &amount, &key, &flag, &none))
	equal(t, "scanned", []any{at.UTC().Truncate(time.Microsecond), "123.4500000000", [16]byte{7, 15: 9}, true, (*int64)(nil)}, []any{when, amount, key, flag, none})
	must(t, rows.Close())

	for what, err := range map[string]error{
		"too few":       second(db.client.Exec(ctx, "UPDATE everything SET small = $1 WHERE id = $2", 1)),
		"too many":      second(db.client.Exec(ctx, "UPDATE everything SET small = $1", 1, 2)),
		"beyond int64":  second(db.client.Exec(ctx, "UPDATE everything SET quad = $1", uint64(1<<63))),
		"a NUL byte":    second(db.client.Exec(ctx, "UPDATE everything SET text = $1", "a\x00b")),
		"not UTF-8":     second(db.client.Exec(ctx, "UPDATE everything SET text = $1", "\xff")),
		"a struct":      second(db.client.Exec(ctx, "UPDATE everything SET text = $1", struct{ X int }{1})),
		"no such table": second(db.client.Query(ctx, "SELECT * FROM no_such_table")),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	got, err := one.Get(ctx)
	must(t, err)
	equal(t, "nothing was changed", []any{int16(-3), uint64(0), "$1 ? 'x'"}, []any{got.Small, got.Quad, got.Text})

	t.Run("text with question marks and dollars", func(t *testing.T) {
		Require(t, db.client, features.RowUpdates)
		n, err := db.client.Exec(ctx, `UPDATE everything SET text = 'it''s $1 ? "$2"' || $1 /* $3 ? */ WHERE id = $2 -- $4 ?`, "!", row.ID)
		must(t, err)
		equal(t, "rows", int64(1), n)
		got, err := one.Get(ctx)
		must(t, err)
		equal(t, "text", `it's $1 ? "$2"!`, got.Text)
	})
}
