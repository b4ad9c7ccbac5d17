package integration

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

// telemetry sets OpenTelemetry up for the whole program, hare included. Its end sends what is not sent yet.
func telemetry(spans sdktrace.SpanProcessor, metrics sdkmetric.Reader) (end func(context.Context) error) {
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(metrics))
	otel.SetTracerProvider(tracers)
	otel.SetMeterProvider(meters)
	return func(ctx context.Context) error {
		return errors.Join(tracers.Shutdown(ctx), meters.Shutdown(ctx))
	}
}

// told is what OpenTelemetry is told by this process: the traces that a test has asked for, and every metric. It is set up
// when the first test asks, long after hare has made its instruments.
var told = sync.OnceValue(func() *observations {
	o := &observations{SpanRecorder: tracetest.NewSpanRecorder(), metrics: sdkmetric.NewManualReader()}
	telemetry(o, o.metrics)
	return o
})

type observations struct {
	*tracetest.SpanRecorder
	traces  sync.Map // those to keep
	metrics *sdkmetric.ManualReader
}

func (*observations) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (o *observations) OnEnd(span sdktrace.ReadOnlySpan) {
	if _, kept := o.traces.Load(span.SpanContext().TraceID()); kept {
		o.SpanRecorder.OnEnd(span)
	}
}

// stage is a trio seen under aliases of its own, by which its metrics are told from those of other tests, and in a trace of
// its own.
type stage struct {
	*trio
	suffix string
	plan   *faults.Plan
	ctx    context.Context
	cancel context.CancelFunc
	root   trace.Span
}

func (f *trio) stage(t *testing.T) *stage {
	t.Helper()
	seen := told() // before the first span
	on := &trio{T: t, plan: &faults.Plan{}, urls: map[string]string{}}
	s := &stage{trio: f, suffix: "_" + strings.ToLower(rand.Text()[:8]), plan: on.plan}
	for alias, url := range f.urls {
		on.urls[s.alias(alias)] = url
	}
	s.ctx, s.cancel = context.WithCancel(hare.WithConnections(t.Context(), on.connect(on.urls)))
	t.Cleanup(s.cancel)
	s.ctx, s.root = otel.Tracer("test").Start(s.ctx, "test")
	seen.traces.Store(s.root.SpanContext().TraceID(), true)
	return s
}

func (s *stage) alias(alias string) string { return alias + s.suffix }

func (s *stage) aliases(aliases ...string) (own []string) {
	for _, alias := range aliases {
		own = append(own, s.alias(alias))
	}
	return own
}

func (s *stage) distributed(ctx context.Context, fn func(d *hare.Distributed) error, opts ...transactions.Option) error {
	return transactions.Distributed(ctx, s.alias(coordinator), s.aliases(participants...), fn, opts...)
}

// children are the spans right below another one, in the order of their beginning, those of databases by name.
func children(parent trace.SpanContext) (spans []sdktrace.ReadOnlySpan) {
	for _, span := range told().Ended() {
		if span.Parent().SpanID() == parent.SpanID() && span.Parent().TraceID() == parent.TraceID() {
			spans = append(spans, span)
		}
	}
	slices.SortFunc(spans, func(x, y sdktrace.ReadOnlySpan) int {
		if x.SpanKind() == trace.SpanKindClient && y.SpanKind() == trace.SpanKindClient {
			return strings.Compare(x.Name(), y.Name())
		}
		return x.StartTime().Compare(y.StartTime())
	})
	return spans
}

// tree is what lies below a span, in one line: "prepare!(prepare a:prepared prepare b!:none)", where ! is a failure.
func (s *stage) tree(parent trace.SpanContext) string {
	var parts []string
	for _, span := range children(parent) {
		part := strings.TrimPrefix(strings.ReplaceAll(span.Name(), s.suffix, ""), "hare.distributed.")
		if span.Status().Code.String() == "Error" {
			part += "!"
		}
		if vote, ok := attributeOf(span, "hare.vote"); ok {
			part += ":" + vote
		}
		if below := s.tree(span.SpanContext()); below != "" {
			part += "(" + below + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

// attributeOf is an attribute of a span as text. The attributes are the span's own, which other tests read at the same time:
// attribute.NewSet would sort them where they are.
func attributeOf(span sdktrace.ReadOnlySpan, key string) (value string, ok bool) {
	for _, found := range span.Attributes() {
		if found.Key == attribute.Key(key) {
			return found.Value.String(), true
		}
	}
	return "", false
}

// metric is what a metric says about an alias of the stage: the values of its points by their other attributes, "outcome=committed
// phase=deliver". Of a histogram it is the number of values.
func (s *stage) metric(name, key, alias string) map[string]float64 {
	s.Helper()
	var all metricdata.ResourceMetrics
	if err := told().metrics.Collect(context.Background(), &all); err != nil {
		s.Fatal(err)
	}
	points := map[string]float64{}
	note := func(set attribute.Set, value float64) {
		var rest []string
		of := false
		for _, a := range set.ToSlice() {
			if text := a.Value.String(); string(a.Key) == key {
				of = text == s.alias(alias)
			} else {
				rest = append(rest, strings.TrimPrefix(string(a.Key), "hare.")+"="+strings.ReplaceAll(text, s.suffix, ""))
			}
		}
		if of {
			points[strings.Join(rest, " ")] = value
		}
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name == name {
				each(m.Data, note)
			}
		}
	}
	return points
}

// each gives the points of a metric.
func each(data metricdata.Aggregation, note func(attribute.Set, float64)) {
	switch d := data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			note(p.Attributes, float64(p.Value))
		}
	case metricdata.Gauge[int64]:
		for _, p := range d.DataPoints {
			note(p.Attributes, float64(p.Value))
		}
	case metricdata.Gauge[float64]:
		for _, p := range d.DataPoints {
			note(p.Attributes, p.Value)
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			note(p.Attributes, float64(p.Count))
		}
	default:
		panic(fmt.Sprintf("a metric of type %T", data))
	}
}
