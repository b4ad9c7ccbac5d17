package query_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/query"
)

func TestQ(t *testing.T) {
	one := &query.Condition{Path: "a", Value: 1}
	for _, tt := range []struct {
		name  string
		pairs []any
		want  query.Predicate
	}{
		{"one pair", []any{"a", 1}, one},
		{"a nil value", []any{"a", nil}, &query.Condition{Path: "a"}},
		{"a string as value", []any{"a", "b"}, &query.Condition{Path: "a", Value: "b"}},
		{"two pairs", []any{"a", 1, "b__gt", 2.5}, &query.Group{Connector: query.AllOf, Parts: []query.Predicate{
			one, &query.Condition{Path: "b__gt", Value: 2.5},
		}}},
		{"the same path twice", []any{"a", 1, "a", 1}, &query.Group{Parts: []query.Predicate{one, one}}},
		{"an expression", []any{"a", query.F("b")}, &query.Condition{Path: "a", Value: query.F("b")}},
		{"nothing", nil, &query.Group{Parts: []query.Predicate{}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, query.Q(tt.pairs...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestQReportsMistakes: Q cannot fail, so that it gives a predicate that the queryset refuses.
func TestQReportsMistakes(t *testing.T) {
	for name, pairs := range map[string][]any{
		"a path alone":               {"a"},
		"three arguments":            {"a", 1, "b"},
		"a path that is no string":   {1, "a"},
		"a second that is no string": {"a", 1, 2, 3},
		"a path that is nil":         {nil, nil},
	} {
		invalid, ok := query.Q(pairs...).(*query.Invalid)
		if !ok || invalid.Reason == "" {
			t.Errorf("%s: %#v", name, query.Q(pairs...))
		}
	}
}

func TestGroups(t *testing.T) {
	a, b := query.Q("a", 1), query.Q("b", 2)
	for _, tt := range []struct {
		name      string
		got, want query.Predicate
	}{
		{"and", query.And(a, b), &query.Group{Connector: query.AllOf, Parts: []query.Predicate{a, b}}},
		{"or", query.Or(a, b), &query.Group{Connector: query.AnyOf, Parts: []query.Predicate{a, b}}},
		{"empty and", query.And(), &query.Group{Connector: query.AllOf}},
		{"empty or", query.Or(), &query.Group{Connector: query.AnyOf}},
		{"not", query.Not(a), &query.Negation{Part: a}},
		{"not not", query.Not(query.Not(a)), &query.Negation{Part: &query.Negation{Part: a}}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestExpressions(t *testing.T) {
	f, one := query.F("a"), query.Value(1)
	binary := func(op query.Op, left, right query.Expr) query.Expr {
		return query.Expr{Op: op, Left: &left, Right: &right}
	}
	for _, tt := range []struct {
		name      string
		got, want query.Expr
	}{
		{"column", f, query.Expr{Op: query.OpColumn, Path: "a"}},
		{"value", one, query.Expr{Op: query.OpValue, Value: 1}},
		{"add", f.Add(1), binary(query.OpAdd, f, one)},
		{"sub", f.Sub(1), binary(query.OpSub, f, one)},
		{"mul", f.Mul(1), binary(query.OpMul, f, one)},
		{"div", f.Div(1), binary(query.OpDiv, f, one)},
		{"mod", f.Mod(1), binary(query.OpMod, f, one)},
		{"an expression on the right", f.Sub(query.F("b")), binary(query.OpSub, f, query.F("b"))},
		{"a value on the left", one.Sub(f), binary(query.OpSub, one, f)},
		{"from left to right", f.Sub(1).Mul(query.F("b")), binary(query.OpMul, binary(query.OpSub, f, one), query.F("b"))},
		{"nil is a value", f.Add(nil), binary(query.OpAdd, f, query.Value(nil))},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestExpressionsNeverChange: an expression may be kept and built upon any number of times.
func TestExpressionsNeverChange(t *testing.T) {
	base := query.F("a").Add(1)
	before := query.F("a").Add(1)
	first, second := base.Mul(2), base.Mul(3)
	if diff := cmp.Diff(before, base); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(query.F("a").Add(1).Mul(2), first); diff != "" {
		t.Errorf("the first (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(query.F("a").Add(1).Mul(3), second); diff != "" {
		t.Errorf("the second (-want +got):\n%s", diff)
	}
}

func TestSet(t *testing.T) {
	for _, value := range []any{0, "", nil, false, query.F("a")} {
		want := query.Assignment{Column: "a", Value: value}
		if diff := cmp.Diff(want, query.Set("a", value)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestOrder(t *testing.T) {
	for _, tt := range []struct {
		name               string
		got, want, reverse query.Order
	}{
		{"ascending", query.Asc("a"), query.Order{Path: "a"}, query.Order{Path: "a", Descending: true}},
		{"descending", query.Desc("a"), query.Order{Path: "a", Descending: true}, query.Order{Path: "a"}},
		{"nulls first", query.Asc("a").NullsFirst(), query.Order{Path: "a", Nulls: query.NullsAtStart},
			query.Order{Path: "a", Descending: true, Nulls: query.NullsAtEnd}},
		{"nulls last", query.Desc("a").NullsLast(), query.Order{Path: "a", Descending: true, Nulls: query.NullsAtEnd},
			query.Order{Path: "a", Nulls: query.NullsAtStart}},
		{"the last word counts", query.Asc("a").NullsLast().NullsFirst(), query.Order{Path: "a", Nulls: query.NullsAtStart},
			query.Order{Path: "a", Descending: true, Nulls: query.NullsAtEnd}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.reverse, tt.got.Reverse()); diff != "" {
				t.Errorf("reversed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.got, tt.got.Reverse().Reverse()); diff != "" {
				t.Errorf("reversed twice (-want +got):\n%s", diff)
			}
		})
	}
	kept := query.Asc("a")
	_ = kept.NullsFirst()
	_ = kept.Reverse()
	if diff := cmp.Diff(query.Asc("a"), kept); diff != "" {
		t.Errorf("an order changed (-want +got):\n%s", diff)
	}
}
