package surface

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/query"
)

// harmless are the wrong calls that mean something, and what; of a whole function, or with one sample.
var harmless = map[string]string{
	"transactions.Progress":                           "no progress is told",
	"hare.Connections.Client(1: closed)":              "open transactions go on, and ask for their clients; what begins anew is refused by them",
	"hare.QuerySet.BulkCreate(1: of a closed client)": "without objects nothing is sent",
	"hare.QuerySet.SQL(1: of a closed client)":        "nothing is sent",
	"hare.QuerySet.Using(1: of a zero client)":        "the queryset is bound to another client, which is right",
	"hare.QuerySet.Using(1: of a closed client)":      "the queryset is bound to another client, which is right",
	"hare.QuerySet.UsingAlias(1: of a zero client)":   "the queryset is bound to another connection, which is right",
	"hare.QuerySet.UsingAlias(1: of a closed client)": "the queryset is bound to another connection, which is right",
	"leases.Lease.Stop(1: of closed connections)":     "there is nothing to stop any more",
}

// No wrong call panics, hangs, sends anything or runs a callback, and each is refused by an error that says that the call is wrong:
// every exported function and method is called with nil, zero and closed arguments and receivers, each in every place of an
// otherwise right call, and all together. The calls are found: a new method is called without a change here.
//
// Fault D12.
func TestWrongCallsNeverPanic(t *testing.T) {
	w := newWorld(t)
	calls := 0
	for _, f := range callables() {
		for _, c := range w.calls(f) {
			calls++
			for _, fault := range w.faults(c) {
				t.Errorf("%s: %s", c, fault)
			}
		}
	}
	if calls < 800 {
		t.Errorf("%d calls: the surface is not found", calls)
	}
}

// callable is a function, or a method with its receiver as the first argument.
type callable struct {
	name string
	fn   reflect.Value
}

// callables lists the whole surface in order.
func callables() []callable {
	var all []callable
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		all = append(all, callable{name, reflect.ValueOf(functions[name])})
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		t := types[name]
		if t.Kind() == reflect.Interface {
			continue
		}
		for m := range t.NumMethod() {
			all = append(all, callable{name + "." + t.Method(m).Name, t.Method(m).Func})
		}
		pointer := reflect.PointerTo(t)
		for m := range pointer.NumMethod() {
			method := pointer.Method(m)
			if _, byValue := t.MethodByName(method.Name); !byValue { // through a nil pointer Go itself panics
				all = append(all, callable{name + "." + method.Name, method.Func})
			}
		}
	}
	return all
}

// call is one call to make.
type call struct {
	callable
	args    []reflect.Value
	what    []string // of the arguments that are wrong
	refused bool     // it must be
}

func (c call) String() string { return c.name + "(" + strings.Join(c.what, ", ") + ")" }

// calls lists the calls of a function: each wrong value in each place, then the first wrong value in all places.
func (w *world) calls(f callable) []call {
	t := f.fn.Type()
	n := t.NumIn()
	wrong := make([][]sample, n)
	for i := range n {
		wrong[i] = w.wrong(parameter(t, i))
	}
	var list []call
	for i := range n {
		for _, s := range wrong[i] {
			c := call{callable: f, refused: s.refused, what: []string{fmt.Sprintf("%d: %s", i+1, s.name)}}
			for k := range n {
				switch {
				case k == i:
					c.args = append(c.args, valueOf(parameter(t, k), s.value))
				case k < n-1 || !t.IsVariadic():
					c.args = append(c.args, w.right(t.In(k)))
				}
			}
			list = append(list, c)
		}
	}
	whole := call{callable: f, what: []string{"everything"}}
	for i := range n {
		whole.args = append(whole.args, valueOf(parameter(t, i), wrong[i][0].value))
		whole.refused = whole.refused || wrong[i][0].refused
	}
	return append(list, whole)
}

// parameter is the type of one argument in place i.
func parameter(t reflect.Type, i int) reflect.Type {
	if t.IsVariadic() && i == t.NumIn()-1 {
		return t.In(i).Elem()
	}
	return t.In(i)
}

func valueOf(t reflect.Type, value any) reflect.Value {
	if value == nil {
		return reflect.Zero(t)
	}
	return reflect.ValueOf(value)
}

// faults makes the call and tells what is wrong with what came of it.
func (w *world) faults(c call) []string {
	if !c.refused { // it may be a right call: it is not to get far
		ended, cancel := context.WithCancel(w.ctx)
		cancel()
		for i, arg := range c.args {
			if arg.Type() == reflect.TypeOf(w.ctx) && arg.Interface() == w.ctx {
				c.args[i] = reflect.ValueOf(ended)
			}
		}
	}
	before := asked.Load()
	w.ran.Store(false)
	type outcome struct {
		results  []reflect.Value
		refusals []error
		panicked string
	}
	came := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if p := recover(); p != nil {
				o.panicked = fmt.Sprintf("it panics: %v\n%s", p, debug.Stack())
			}
			came <- o
		}()
		o.results = c.fn.Call(c.args)
		o.refusals = w.refusals(o.results)
		hare.SetDefault(nil)
	}()
	select {
	case o := <-came:
		if o.panicked != "" {
			return []string{o.panicked}
		}
		if !c.refused || harmless[c.name] != "" || harmless[c.String()] != "" {
			return nil
		}
		return w.judge(o.refusals, asked.Load()-before)
	case <-time.After(20 * time.Second):
		return []string{"it hangs"}
	}
}

// judge tells what is wrong with how a call was refused.
func (w *world) judge(refusals []error, sent int64) (faults []string) {
	for _, err := range refusals {
		switch {
		case err == nil:
			faults = append(faults, "it is not refused")
		case !wrongCall(err):
			faults = append(faults, fmt.Sprintf("it is refused by a %T: %v", err, err))
		}
	}
	if sent > 0 {
		faults = append(faults, "a connection was asked for")
	}
	if w.ran.Load() {
		faults = append(faults, "a callback ran")
	}
	return faults
}

// wrongCall says whether an error is of the family that says so.
func wrongCall(err error) bool {
	var (
		asked         *hare.QueryError
		named         *hare.FieldError
		configuration *hare.ConfigurationError
		value         *hare.ValidationError
		unsupported   *features.UnsupportedError
	)
	return errors.As(err, &asked) || errors.As(err, &named) || errors.As(err, &configuration) || errors.As(err, &value) || errors.As(err, &unsupported)
}

// refusals are the errors of results: what is an error, and what a result says that can be asked. Others tell nothing.
func (w *world) refusals(results []reflect.Value) (errs []error) {
	for _, result := range results {
		if result.Type() == reflect.TypeFor[error]() {
			err, _ := result.Interface().(error)
			return []error{err} // what comes with an error is nothing
		}
	}
	for _, result := range results {
		switch r := result.Interface().(type) {
		case hare.QuerySet[model]:
			errs = append(errs, refusedSet(w.ctx, r))
		case *hare.Client:
			_, err := r.Exec(w.ctx, "SELECT 1")
			errs = append(errs, err)
		case *leases.Lease:
			_, err := r.TryAcquire(w.ctx)
			errs = append(errs, err)
		case query.Predicate:
			errs = append(errs, refusedPredicate(w.ctx, r))
		case <-chan struct{}:
			errs = append(errs, closedChannel(r))
		case iter.Seq2[*model, error]:
			errs = append(errs, lastOf(r))
		case iter.Seq2[[]any, error]:
			errs = append(errs, lastOf(r))
		}
		if result.Type() == reflect.TypeFor[context.Context]() {
			ctx, _ := result.Interface().(context.Context)
			errs = append(errs, w.refusedContext(ctx))
		}
	}
	return errs
}

func lastOf[V any](rows iter.Seq2[V, error]) (err error) {
	for _, err = range rows {
	}
	return err
}

func closedChannel(ch <-chan struct{}) error {
	select {
	case <-ch:
		return &hare.QueryError{Reason: "it is closed"}
	default:
		return nil
	}
}

// refusedContext reports what a ctx is refused by: its own end, or whoever uses it.
func (w *world) refusedContext(ctx context.Context) error {
	if ctx == nil {
		return &hare.QueryError{Reason: "every call refuses a nil ctx, as this test shows"}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, err := models.UsingAlias("c").All(ctx)
	return err
}
