package backendtest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

// shelf has arrays of many types.
type shelf struct {
	ID      int64
	Prices  []string        `hare:"array,decimal=10:2"`
	Times   []time.Time     `hare:"array"`
	Keys    [][16]byte      `hare:"array"`
	Levels  []level         `hare:"array"`
	Gaps    []*int32        `hare:"array"`
	Blobs   [][]byte        `hare:"array"`
	Flags   []bool          `hare:"array"`
	Small   []int16         `hare:"array"`
	Maybe   *[]string       `hare:"array"`
	Handles []handle        `hare:"array"`
	Singles []float32       `hare:"array"`
	Short   []string        `hare:"array,size=3"`
	Tones   *[]tone         `hare:"array"`
	Took    []time.Duration `hare:"array"`
}

var shelves = hare.Objects[shelf]()

// testLists: array columns, in every way of writing and reading.
func testLists(t *testing.T, db *database) {
	db.create(t, shelf{})
	ctx := db.ctx
	at := time.Date(2024, 1, 2, 3, 4, 5, 6000, time.UTC)
	full := shelf{
		Prices: []string{"1.50", "-0.01"}, Times: []time.Time{at, at.Add(time.Hour)}, Keys: [][16]byte{{1}, {}}, Levels: []level{"a,b", "{}", `"`, `\`, "NULL", ""},
		Gaps: []*int32{to[int32](1), nil, to[int32](-3)}, Blobs: [][]byte{{0, 255}, {}}, Flags: []bool{true, false}, Small: []int16{-32768, 32767},
		Maybe: &[]string{"x"}, Handles: []handle{{9}}, Singles: []float32{0.1}, Short: []string{"äöü"}, Tones: &[]tone{{1, 2, 3}}, Took: []time.Duration{time.Second},
	}
	same, exportTone := cmpopts.EquateEmpty(), cmp.AllowUnexported(tone{})
	rows := []shelf{full, {}, {Maybe: &[]string{}}}
	must(t, shelves.BulkCreate(ctx, rows))
	single := full
	must(t, shelves.Create(ctx, &single))
	got, err := shelves.OrderBy("id").All(ctx)
	must(t, err)
	equal(t, "rows", append(append([]shelf{}, rows...), single), got, same, exportTone)
	if got[1].Prices == nil || got[1].Maybe != nil || got[2].Maybe == nil || *got[2].Maybe == nil {
		t.Errorf("an empty array and NULL are not told apart: %#v, %#v", got[1].Maybe, got[2].Maybe)
	}

	for column, value := range map[string]any{
		"prices": full.Prices, "times": full.Times, "keys": full.Keys, "levels": full.Levels, "gaps": full.Gaps, "blobs": full.Blobs,
		"flags": full.Flags, "small": full.Small, "maybe": full.Maybe, "handles": full.Handles, "singles": full.Singles, "short": full.Short, "took": full.Took,
	} {
		n, err := shelves.Filter(query.Q(column, value)).Count(ctx)
		must(t, err)
		equal(t, column, int64(2), n)
		n, err = shelves.Filter(query.Q(column+"__not", value)).Count(ctx)
		must(t, err)
		equal(t, column+" not", int64(2), n)
		_, err = shelves.Filter(query.Q("id", got[1].ID)).Update(ctx, query.Set(column, value))
		must(t, err)
	}
	_, err = shelves.Filter(query.Q("id", got[1].ID)).Update(ctx, query.Set("tones", full.Tones))
	must(t, err)
	want := full
	want.ID = got[1].ID
	must(t, shelves.Refresh(ctx, &got[1]))
	equal(t, "set one by one", want, got[1], same, exportTone)
	_, err = shelves.Filter(query.Q("id", want.ID)).Update(ctx, query.Set("maybe", nil), query.Set("short", []string{}))
	must(t, err)
	n, err := shelves.Filter(query.Q("id", want.ID, "maybe", nil, "short", []string{})).Count(ctx)
	must(t, err)
	equal(t, "NULL and empty", int64(1), n)

	for what, err := range map[string]error{
		"too long":        shelves.Create(ctx, &shelf{Short: []string{"abcd"}}),
		"no decimal":      shelves.Create(ctx, &shelf{Prices: []string{"x"}}),
		"NUL":             shelves.Create(ctx, &shelf{Levels: []level{"a\x00"}}),
		"NULL element":    second(shelves.Filter(query.Q("small", []any{1, nil})).All(ctx)),
		"too wide":        second(shelves.Unfiltered().Update(ctx, query.Set("small", []int{40000}))),
		"one value":       second(shelves.Filter(query.Q("small", 1)).All(ctx)),
		"membership":      second(shelves.Filter(query.Q("small__in", [][]int16{{1}})).All(ctx)),
		"order":           second(shelves.Filter(query.Q("small__gt", []int16{1})).All(ctx)),
		"another's array": second(shelves.Unfiltered().Update(ctx, query.Set("small", query.F("flags")))),
	} {
		fails[*hare.ValidationError](t, what, err)
	}
}
