package backendtest

import (
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

// employee refers to its own model, and to a key of two columns.
type employee struct {
	ID        int64
	Name      string
	Salary    int32
	ManagerID *int64
	Manager   *employee `hare:"fk=manager_id,on_delete=set_null,related=team"`
	DeskA     *int64
	DeskB     *string `hare:"size=20"`
	Desk      *pair   `hare:"fk=desk_a:desk_b"`
}

var employees = hare.Objects[employee]()

// testPaths: paths over foreign keys that may be NULL, to the model itself, and over keys of several columns.
func testPaths(t *testing.T, db *database) {
	db.create(t, employee{}, pair{})
	ctx := db.ctx
	must(t, pairs.BulkCreate(ctx, []pair{{1, "window", "sunny"}, {1, "door", "cold"}}))
	boss := employee{Name: "boss", Salary: 100, DeskA: to[int64](1), DeskB: to("window")}
	must(t, employees.Create(ctx, &boss))
	head := employee{Name: "head", Salary: 120, ManagerID: &boss.ID, DeskA: to[int64](1), DeskB: to("door")}
	must(t, employees.Create(ctx, &head))
	hand := employee{Name: "hand", Salary: 50, ManagerID: &head.ID}
	must(t, employees.Create(ctx, &hand))

	for _, tt := range []struct {
		name            string
		p               query.Predicate
		filter, exclude []string
	}{
		{"one step", query.Q("manager__name", "boss"), []string{"head"}, []string{"boss", "hand"}},
		{"two steps", query.Q("manager__manager__name", "boss"), []string{"hand"}, []string{"boss", "head"}},
		{"not, where there is none", query.Q("manager__name__not", "boss"), []string{"boss", "hand"}, []string{"head"}},
		{"isnull of the relation", query.Q("manager__isnull", true), []string{"boss"}, []string{"hand", "head"}},
		{"nil", query.Q("manager", nil), []string{"boss"}, []string{"hand", "head"}},
		{"a nil object", query.Q("manager", (*employee)(nil)), []string{"boss"}, []string{"hand", "head"}},
		{"an object", query.Q("manager", &head), []string{"hand"}, []string{"boss", "head"}},
		{"an object by value", query.Q("manager", boss), []string{"head"}, []string{"boss", "hand"}},
		{"objects", query.Q("manager__in", []*employee{&head, &boss}), []string{"hand", "head"}, []string{"boss"}},
		{"objects and nil", query.Q("manager__in", []*employee{&boss, nil}), []string{"boss", "head"}, []string{"hand"}},
		{"the key through the relation", query.Q("manager__id", head.ID), []string{"hand"}, []string{"boss", "head"}},
		{"pk through the relation", query.Q("manager__pk", head.ID), []string{"hand"}, []string{"boss", "head"}},
		{"a column that is NULL for want of a row", query.Q("manager__name__isnull", true), []string{"boss"}, []string{"hand", "head"}},
		{"NULL behind the relation", query.Q("manager__manager__isnull", true), []string{"boss", "head"}, []string{"hand"}},
		{"not in, where there is none", query.Q("manager__name__not_in", []string{"boss"}), []string{"boss", "hand"}, []string{"head"}},
		{"compared with it", query.Q("salary__gt", query.F("manager__salary")), []string{"head"}, []string{"boss", "hand"}},
		{"computed with it", query.Q("salary__lt", query.F("manager__salary").Sub(query.F("manager__manager__salary").Div(2))), []string{"hand"}, []string{"boss", "head"}},
		{"or over relations", query.Or(query.Q("manager__name", "head"), query.Q("name", "boss")), []string{"boss", "hand"}, []string{"head"}},
		{"negated", query.Not(query.Q("manager__salary__gt", 110)), []string{"boss", "head"}, []string{"hand"}},
		{"a key of two columns", query.Q("desk__note", "cold"), []string{"head"}, []string{"boss", "hand"}},
		{"over both", query.Q("manager__desk__note__startswith", "sun"), []string{"head"}, []string{"boss", "hand"}},
		{"half of the key", query.Q("desk_b", "door"), []string{"head"}, []string{"boss", "hand"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for qs, want := range map[*hare.QuerySet[employee]][]string{to(employees.Filter(tt.p)): tt.filter, to(employees.Exclude(tt.p)): tt.exclude} {
				rows, err := qs.OrderBy("name").All(ctx)
				must(t, err)
				var got []string
				for _, row := range rows {
					got = append(got, row.Name)
				}
				equal(t, "names", want, got)
				n, err := qs.Count(ctx)
				must(t, err)
				equal(t, "Count", int64(len(want)), n)
			}
		})
	}

	t.Run("orders", func(t *testing.T) {
		for _, tt := range []struct {
			name  string
			terms []any
			want  string
		}{
			{"over the relation", []any{query.Desc("manager__salary").NullsLast()}, "hand"},
			{"NULL first", []any{query.Asc("manager__name").NullsFirst(), "name"}, "boss"},
			{"by the relation's key", []any{query.Desc("manager").NullsLast()}, "hand"},
			{"by a key of two columns", []any{query.Asc("desk").NullsLast()}, "head"},
		} {
			got, err := employees.OrderBy(tt.terms...).First(ctx)
			must(t, err)
			equal(t, tt.name, tt.want, got.Name)
		}
	})

	t.Run("writes", func(t *testing.T) {
		n, err := employees.Filter(query.Q("manager__manager__name", "boss")).Update(ctx, query.Set("salary", query.F("salary").Add(1)), query.Set("manager", &boss))
		must(t, err)
		equal(t, "updated", int64(1), n)
		must(t, employees.Refresh(ctx, &hand))
		equal(t, "hand", []int64{51, boss.ID}, []int64{int64(hand.Salary), *hand.ManagerID})
		n, err = employees.OrderBy("-manager__name", "name").Filter(query.Q("manager__name", "boss")).Limit(1).Update(ctx, query.Set("salary", 7))
		must(t, err)
		equal(t, "a slice", int64(1), n)
		must(t, employees.Refresh(ctx, &hand))
		equal(t, "salary", int32(7), hand.Salary)
		for what, err := range map[string]error{
			"a relation of two columns":      second(employees.Filter(query.Q("desk", pair{1, "door", ""})).All(ctx)),
			"a relation of two columns, set": second(employees.Unfiltered().Update(ctx, query.Set("desk", pair{1, "door", ""}))),
		} {
			fails[*hare.QueryError](t, what, err)
		}
		fails[*hare.IntegrityError](t, "half of a key that is not there", second(employees.Filter(query.Q("name", "boss")).Update(ctx, query.Set("desk_b", "roof"))))
		n, err = employees.Filter(query.Q("manager__name", "boss")).Exclude(query.Q("name", "head")).Delete(ctx)
		must(t, err)
		equal(t, "deleted", int64(1), n)
		must(t, employees.DeleteObject(ctx, &boss))
		must(t, employees.Refresh(ctx, &head))
		equal(t, "set to NULL", (*int64)(nil), head.ManagerID)
	})
}
