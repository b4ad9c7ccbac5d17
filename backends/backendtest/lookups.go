package backendtest

import (
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

// testLookups: what each lookup finds.
func testLookups(t *testing.T, db *database) {
	db.create(t, author{}, book{})
	ctx := db.ctx
	ada := author{Name: "Ada"}
	must(t, authors.Create(ctx, &ada))
	shelf := []book{
		{Title: "100% Go", Price: "10.00", AuthorID: ada.ID},
		{Title: "100 Go mistakes", Price: "20.50", AuthorID: ada.ID, Rating: to(4.5)},
		{Title: "a_b", Price: "5.00", AuthorID: ada.ID},
		{Title: "aXb", Price: "5.01", AuthorID: ada.ID, Rating: to(1.0)},
		{Title: `back\slash`, Price: "0.00", AuthorID: ada.ID},
		{Title: "Weiße Nächte", Price: "7.00", AuthorID: ada.ID},
		{Title: "star*[a-z]?", Price: "8.00", AuthorID: ada.ID},
	}
	must(t, books.BulkCreate(ctx, shelf))

	for _, tt := range []struct {
		name string
		p    query.Predicate
		want []int // indexes of the shelf
	}{
		{"exact", query.Q("title", "a_b"), []int{2}},
		{"exact, in full", query.Q("title__exact", "a_b"), []int{2}},
		{"exact keeps to case", query.Q("title", "A_B"), nil},
		{"not", query.Q("title__not", "a_b"), []int{0, 1, 3, 4, 5, 6}},
		{"in", query.Q("title__in", []string{"a_b", "aXb", "missing"}), []int{2, 3}},
		{"in nothing", query.Q("title__in", []string{}), nil},
		{"not in", query.Q("title__not_in", []string{"a_b", "aXb"}), []int{0, 1, 4, 5, 6}},
		{"not in nothing", query.Q("title__not_in", []string{}), []int{0, 1, 2, 3, 4, 5, 6}},
		{"gt", query.Q("price__gt", "8.00"), []int{0, 1}},
		{"gte", query.Q("price__gte", "8"), []int{0, 1, 6}},
		{"lt", query.Q("price__lt", "5.01"), []int{2, 4}},
		{"lte", query.Q("price__lte", "5.01"), []int{2, 3, 4}},
		{"range", query.Q("price__range", []string{"5.01", "8.00"}), []int{3, 5, 6}},
		{"range, open below", query.Q("price__range", []any{nil, "5.00"}), []int{2, 4}},
		{"range, open above", query.Q("price__range", []any{"10", nil}), []int{0, 1}},
		{"isnull", query.Q("rating__isnull", false), []int{1, 3}},
		{"contains a percent sign", query.Q("title__contains", "0%"), []int{0}},
		{"contains an underscore", query.Q("title__contains", "a_"), []int{2}},
		{"contains a backslash", query.Q("title__contains", `k\s`), []int{4}},
		{"contains glob characters", query.Q("title__contains", "*[a"), []int{6}},
		{"contains keeps to case", query.Q("title__contains", "GO"), nil},
		{"contains nothing", query.Q("title__contains", ""), []int{0, 1, 2, 3, 4, 5, 6}},
		{"icontains", query.Q("title__icontains", "GO"), []int{0, 1}},
		{"startswith", query.Q("title__startswith", "100"), []int{0, 1}},
		{"startswith a percent sign", query.Q("title__startswith", "%"), nil},
		{"istartswith", query.Q("title__istartswith", "AX"), []int{3}},
		{"endswith", query.Q("title__endswith", "Go"), []int{0}},
		{"endswith a question mark", query.Q("title__endswith", "?"), []int{6}},
		{"iendswith", query.Q("title__iendswith", "MISTAKES"), []int{1}},
		{"iexact", query.Q("title__iexact", "A_B"), []int{2}},
		{"iexact with a pattern's characters", query.Q("title__iexact", "100%"), nil},
		{"beyond ASCII", query.Q("title__contains", "iße N"), []int{5}},
		{"float", query.Q("rating", 4.5), []int{1}},
		{"several", query.Q("price__lt", 8, "title__startswith", "a"), []int{2, 3}},
		{"and", query.And(query.Q("price__lt", 8), query.Q("title__startswith", "a")), []int{2, 3}},
		{"or", query.Or(query.Q("title", "a_b"), query.Q("price__gt", 20)), []int{1, 2}},
		{"or of nothing", query.Or(), nil},
		{"not or", query.Not(query.Or(query.Q("price__lt", 10), query.Q("rating__gt", 4))), []int{0}},
		{"nested", query.Or(query.And(query.Q("price", 5), query.Q("title", "a_b")), query.Not(query.Q("price__lt", 20))), []int{1, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rows, err := books.Filter(tt.p).OrderBy("id").All(ctx)
			must(t, err)
			var want, got []string
			for _, i := range tt.want {
				want = append(want, shelf[i].Title)
			}
			for _, row := range rows {
				got = append(got, row.Title)
			}
			equal(t, "titles", want, got)
			n, err := books.Filter(tt.p).Count(ctx)
			must(t, err)
			equal(t, "Count", int64(len(want)), n)
			rest, err := books.Exclude(tt.p).Count(ctx)
			must(t, err)
			equal(t, "the rest", int64(len(shelf)-len(want)), rest)
		})
	}

	t.Run("a filter that says nothing", func(t *testing.T) {
		for what, qs := range map[string]hare.QuerySet[book]{
			"Filter": books.Filter(), "Exclude": books.Exclude(), "And": books.Filter(query.And()), "not And": books.Exclude(query.And()),
			"inside a group": books.Filter(query.And(query.And(), query.Not(query.And()))),
		} {
			n, err := qs.Count(ctx)
			must(t, err)
			equal(t, what, int64(len(shelf)), n)
		}
	})

	t.Run("a long list is one argument", func(t *testing.T) {
		list := make([]string, 70000)
		list[len(list)-1] = "a_b"
		n, err := books.Filter(query.Q("title__in", list)).Count(ctx)
		must(t, err)
		equal(t, "found", int64(1), n)
	})
}

// testNull: a filter keeps what is true, an exclude drops what is true; what is unknown is neither.
func testNull(t *testing.T, db *database) {
	db.create(t, num{}, author{})
	ctx := db.ctx
	rows := []num{{N: 1, M: to[int64](1)}, {N: 2, M: to[int64](5)}, {N: 3}, {N: 4, M: to[int64](4)}}
	must(t, nums.BulkCreate(ctx, rows))
	m := query.F("m")
	for _, tt := range []struct {
		name    string
		p       query.Predicate
		filter  []int64
		exclude []int64
	}{
		{"exact", query.Q("m", 5), []int64{2}, []int64{1, 3, 4}},
		{"exact nil", query.Q("m", nil), []int64{3}, []int64{1, 2, 4}},
		{"not", query.Q("m__not", 5), []int64{1, 3, 4}, []int64{2}},
		{"not nil", query.Q("m__not", nil), []int64{1, 2, 4}, []int64{3}},
		{"gt", query.Q("m__gt", 1), []int64{2, 4}, []int64{1, 3}},
		{"in", query.Q("m__in", []int64{1, 4}), []int64{1, 4}, []int64{2, 3}},
		{"in with nil", query.Q("m__in", []any{1, nil}), []int64{1, 3}, []int64{2, 4}},
		{"not in", query.Q("m__not_in", []int64{1, 4}), []int64{2, 3}, []int64{1, 4}},
		{"not in with nil", query.Q("m__not_in", []any{1, nil}), []int64{2, 4}, []int64{1, 3}},
		{"isnull", query.Q("m__isnull", true), []int64{3}, []int64{1, 2, 4}},
		{"another column", query.Q("n", m), []int64{1, 4}, []int64{2, 3}},
		{"not another column", query.Q("n__not", m), []int64{2, 3}, []int64{1, 4}},
		{"computed", query.Q("n__lt", m.Add(1)), []int64{1, 2, 4}, []int64{3}},
		{"negation", query.Not(query.Q("m", 5)), []int64{1, 3, 4}, []int64{2}},
		{"double negation", query.Not(query.Not(query.Q("m__gt", 1))), []int64{2, 4}, []int64{1, 3}},
		{"both together", query.Q("m", 5, "n", 1), nil, []int64{1, 2, 3, 4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kept, err := nums.Filter(tt.p).OrderBy("n").All(ctx)
			must(t, err)
			equal(t, "Filter", append([]int64{}, tt.filter...), values(kept))
			left, err := nums.Exclude(tt.p).OrderBy("n").All(ctx)
			must(t, err)
			equal(t, "Exclude", append([]int64{}, tt.exclude...), values(left))
		})
	}
	t.Run("two excludes", func(t *testing.T) {
		left, err := nums.Exclude(query.Q("m", 5)).Exclude(query.Q("n", 1)).OrderBy("n").All(ctx)
		must(t, err)
		equal(t, "rows", []int64{3, 4}, values(left))
	})
	t.Run("both sides NULL", func(t *testing.T) {
		// IS DISTINCT FROM: kept when exactly one side is NULL.
		n, err := nums.Filter(query.Q("m__not", query.F("m"))).Count(ctx)
		must(t, err)
		equal(t, "rows that differ from themselves", int64(0), n)
	})
}
