package surface

import (
	"context"
	"math"
	"reflect"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/query"
	"github.com/hare-go/hare/transactions"
)

// sample is a value to call with.
type sample struct {
	name  string
	value any
	// refused: no call with it can mean anything, so that it must be refused. Others are only to do no harm.
	refused bool
}

// right is a value of the type that makes sense, or its zero value where the world has none.
func (w *world) right(t reflect.Type) reflect.Value {
	switch t {
	case reflect.TypeFor[context.Context]():
		return reflect.ValueOf(w.ctx)
	case reflect.TypeFor[*hare.Client]():
		return reflect.ValueOf(clientOf(w.conns))
	case reflect.TypeFor[*hare.Connections]():
		return reflect.ValueOf(w.conns)
	case reflect.TypeFor[*hare.Distributed]():
		return reflect.ValueOf(hare.NewDistributed(w.ctx, "xid", "c", []string{"a"}))
	case reflect.TypeFor[*leases.Lease]():
		return reflect.ValueOf(leaseOf(w.conns))
	case reflect.TypeFor[*hare.Rows]():
		return reflect.ValueOf(w.row())
	case reflect.TypeFor[hare.QuerySet[model]]():
		return reflect.ValueOf(models.Unfiltered())
	case reflect.TypeFor[*model]():
		return reflect.ValueOf(&model{ID: 1, Name: "one"})
	case reflect.TypeFor[query.Predicate]():
		return reflect.ValueOf(query.Q("id", 1))
	case reflect.TypeFor[query.Assignment]():
		return reflect.ValueOf(query.Set("name", "two"))
	case reflect.TypeFor[query.Expr]():
		return reflect.ValueOf(query.F("id"))
	case reflect.TypeFor[[]string]():
		return reflect.ValueOf([]string{"a"})
	case reflect.TypeFor[time.Duration]():
		return reflect.ValueOf(time.Hour)
	case reflect.TypeFor[transactions.IsolationLevel]():
		return reflect.ValueOf(transactions.Serializable)
	}
	switch t.Kind() {
	case reflect.Func:
		return reflect.MakeFunc(t, func([]reflect.Value) []reflect.Value {
			w.ran.Store(true)
			results := make([]reflect.Value, t.NumOut())
			for i := range results {
				results[i] = reflect.Zero(t.Out(i))
			}
			return results
		})
	case reflect.String:
		return reflect.ValueOf("c").Convert(t)
	case reflect.Int, reflect.Int64:
		return reflect.ValueOf(1).Convert(t)
	}
	return reflect.Zero(t)
}

// wrong lists values of the type that are passed by mistake.
func (w *world) wrong(t reflect.Type) []sample {
	switch t {
	case reflect.TypeFor[*hare.Client]():
		return []sample{{"nil", (*hare.Client)(nil), true}, {"zero", &hare.Client{}, true}, {"closed", clientOf(w.closed), true},
			{"of a nil Distributed", (*hare.Distributed)(nil).Client("c"), true}, {"of a zero Distributed", (&hare.Distributed{}).Coordinator(), true}}
	case reflect.TypeFor[*hare.Connections]():
		return []sample{{"nil", (*hare.Connections)(nil), true}, {"zero", &hare.Connections{}, true}, {"closed", w.closed, true}}
	case reflect.TypeFor[*hare.Distributed]():
		return []sample{{"nil", (*hare.Distributed)(nil), true}, {"zero", &hare.Distributed{}, true},
			{"of nothing", hare.NewDistributed(w.noContext, "", "", nil), true}, {"without a transaction", hare.NewDistributed(w.ctx, "xid", "c", []string{"a"}), true}}
	case reflect.TypeFor[*leases.Lease]():
		return []sample{{"nil", (*leases.Lease)(nil), true}, {"zero", &leases.Lease{}, true}, {"of closed connections", leaseOf(w.closed), true},
			{"of nothing", leases.New(nil, "", leases.Options{}), true}, {"of a zero client", leases.New(&hare.Client{}, "lease", leases.Options{}), true}}
	case reflect.TypeFor[*leases.Term](), reflect.TypeFor[*hare.Rows](), reflect.TypeFor[*model]():
		samples := []sample{{"nil", reflect.Zero(t).Interface(), true}}
		if t != reflect.TypeFor[*model]() {
			samples = append(samples, sample{"zero", reflect.New(t.Elem()).Interface(), true})
		}
		return samples
	case reflect.TypeFor[hare.QuerySet[model]]():
		return []sample{{"zero", hare.QuerySet[model]{}, true}, {"of a nil client", models.Using(nil), true}, {"of a zero client", models.Using(&hare.Client{}), true},
			{"of a closed client", models.Using(clientOf(w.closed)).Unfiltered(), true}}
	case reflect.TypeFor[query.Predicate]():
		return []sample{{"nil", nil, true}, {"nil condition", (*query.Condition)(nil), true}, {"nil group", (*query.Group)(nil), true},
			{"nil negation", (*query.Negation)(nil), true}, {"nil invalid", (*query.Invalid)(nil), true}, {"zero condition", &query.Condition{}, true},
			{"zero negation", &query.Negation{}, true}, {"zero invalid", &query.Invalid{}, true}, {"zero group", &query.Group{}, false},
			{"group of nil", &query.Group{Parts: []query.Predicate{nil}}, true}, {"negation of a nil group", query.Not((*query.Group)(nil)), true}}
	case reflect.TypeFor[query.Assignment]():
		return []sample{{"zero", query.Assignment{}, true}, {"of nothing", query.Set("name", query.Expr{}), true},
			{"of half an expression", query.Set("id", query.Expr{Op: query.OpAdd}), true}}
	case reflect.TypeFor[error]():
		return []sample{{"nil", nil, false}, {"nil of its type", (*hare.QueryError)(nil), false}, {"zero", &transactions.CommitAmbiguousError{}, false}}
	case reflect.TypeFor[any]():
		return []sample{{"nil", nil, false}, {"nil pointer", (*string)(nil), false}, {"nil model", (*model)(nil), false}, {"zero expression", query.Expr{}, false},
			{"zero order", query.Order{}, false}, {"function", func() {}, false}, {"channel", make(chan int), false}, {"nil map", map[string]any(nil), false}}
	}
	return w.wrongKind(t)
}

func (w *world) wrongKind(t reflect.Type) []sample {
	zero := sample{"zero", reflect.Zero(t).Interface(), false}
	switch t.Kind() {
	case reflect.Interface: // context.Context
		return []sample{{"nil", nil, true}}
	case reflect.Func: // callbacks and options
		return []sample{{"nil", reflect.Zero(t).Interface(), true}}
	case reflect.Pointer:
		if t.Elem().Kind() == reflect.Struct && t.Elem().PkgPath() == "log/slog" {
			return []sample{zero}
		}
		return []sample{zero, {"zero value", reflect.New(t.Elem()).Interface(), false}}
	case reflect.Int, reflect.Int64:
		return []sample{zero, {"negative", reflect.ValueOf(-1).Convert(t).Interface(), false},
			{"least", reflect.ValueOf(int64(math.MinInt64)).Convert(t).Interface(), false}, {"greatest", reflect.ValueOf(int64(math.MaxInt64)).Convert(t).Interface(), false}}
	case reflect.String:
		return []sample{zero, {"not UTF-8", reflect.ValueOf("\xff\x00").Convert(t).Interface(), false}}
	}
	return []sample{zero}
}
