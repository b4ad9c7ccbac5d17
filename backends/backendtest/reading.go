package backendtest

import (
	"errors"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

// testReading: the terminal methods that read, slices and orders.
func testReading(t *testing.T, db *database) {
	db.create(t, num{})
	ctx := db.ctx
	none, err := nums.All(ctx)
	must(t, err)
	if none == nil || len(none) != 0 {
		t.Errorf("All of an empty table gives %#v, want an empty slice", none)
	}
	must(t, nums.BulkCreate(ctx, numbers()))

	t.Run("slices", func(t *testing.T) {
		for _, tt := range []struct {
			name  string
			qs    hare.QuerySet[num]
			count int64
			first int64
		}{
			{"all", nums, 30, 10},
			{"limit", nums.Limit(10), 10, 10},
			{"limit 0", nums.Limit(0), 0, 0},
			{"offset", nums.Offset(3), 27, 19},
			{"offset beyond the end", nums.Offset(100), 0, 0},
			{"both", nums.Offset(28).Limit(10), 2, 94},
			{"the last limit counts", nums.Limit(2).Limit(5), 5, 10},
		} {
			n, err := tt.qs.Count(ctx)
			must(t, err)
			equal(t, tt.name+": Count", tt.count, n)
			exists, err := tt.qs.Exists(ctx)
			must(t, err)
			equal(t, tt.name+": Exists", tt.count > 0, exists)
			sorted := tt.qs
			if tt.name == "all" {
				sorted = sorted.OrderBy("n")
			}
			rows, err := sorted.All(ctx)
			must(t, err)
			equal(t, tt.name+": All", int(tt.count), len(rows))
		}
		rows, err := nums.OrderBy("n").Offset(28).Limit(10).All(ctx)
		must(t, err)
		equal(t, "rows", []int64{94, 97}, values(rows))
	})

	t.Run("get", func(t *testing.T) {
		got, err := nums.Get(ctx, query.Q("n", 13))
		must(t, err)
		equal(t, "n", int64(13), got.N)
		_, err = nums.Get(ctx, query.Q("n", 11))
		isMissing(t, "no row", err)
		if _, err := nums.Get(ctx); !errors.Is(err, hare.ErrMultipleObjects) {
			t.Errorf("many rows: %v, want ErrMultipleObjects", err)
		}
		got, err = nums.Filter(query.Q("n__gt", 90)).Get(ctx, query.Q("n__lt", 93))
		must(t, err)
		equal(t, "filter and predicate", int64(91), got.N)
	})

	t.Run("first and last", func(t *testing.T) {
		for _, tt := range []struct {
			name        string
			qs          hare.QuerySet[num]
			first, last int64
		}{
			{"by key", nums, 10, 97},
			{"ordered", nums.OrderBy("-n"), 97, 10},
			{"two columns", nums.Filter(query.Q("m__in", []int64{1, 2})).OrderBy("-m", "n"), 16, 13},
			{"NULL last", nums.OrderBy(query.Asc("m").NullsLast(), "n"), 13, 91},
			{"NULL first", nums.OrderBy(query.Asc("m").NullsFirst(), "n"), 10, 97},
			{"filtered", nums.Filter(query.Q("n__range", []int64{20, 40})), 22, 40},
		} {
			first, err := tt.qs.First(ctx)
			must(t, err)
			last, err := tt.qs.Last(ctx)
			must(t, err)
			equal(t, tt.name, []int64{tt.first, tt.last}, []int64{first.N, last.N})
		}
		_, err := nums.Filter(query.Q("n", 0)).First(ctx)
		isMissing(t, "First of nothing", err)
		_, err = nums.Filter(query.Q("n", 0)).Last(ctx)
		isMissing(t, "Last of nothing", err)
		_, err = nums.Limit(3).Last(ctx)
		fails[*hare.QueryError](t, "Last of a slice", err)
	})

	t.Run("iterate", func(t *testing.T) {
		var got []int64
		for row, err := range nums.OrderBy("n").Iterate(ctx) {
			must(t, err)
			got = append(got, row.N)
		}
		all, err := nums.OrderBy("n").All(ctx)
		must(t, err)
		equal(t, "rows", values(all), got)
		for range 50 { // leaving the loop gives the connection back
			for _, err := range nums.Iterate(ctx) {
				must(t, err)
				break
			}
		}
		func() {
			defer func() { _ = recover() }()
			for _, err := range nums.Iterate(ctx) {
				panic(err)
			}
		}()
		n, err := nums.Count(ctx)
		must(t, err)
		equal(t, "rows that are still there", int64(30), n)
	})

	t.Run("the shape is rendered once, the values are bound", func(t *testing.T) {
		for n := int64(10); n < 100; n += 3 {
			got, err := nums.Get(ctx, query.Q("n", n))
			must(t, err)
			equal(t, "n", n, got.N)
		}
	})
}

func values(rows []num) []int64 {
	list := make([]int64, len(rows))
	for i, row := range rows {
		list[i] = row.N
	}
	return list
}
