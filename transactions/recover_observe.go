package transactions

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/hare-go/hare/internal/plaintext"
)

// # How recovery is seen
//
// A pass that finds nothing to do is counted, and no more: there is one every few seconds. One that finds prepared
// transactions has a span, with one below it for each that it finishes; the xid leads from there to the trace of the call.
// The gauges tell what the last pass has found.

// The results of a pass, as its metric tells them.
const (
	resultClean  = "clean"  // nothing is left
	resultLeft   = "left"   // something could not be finished, or not be looked at, or was only reported
	resultFailed = "failed" // the pass was stopped by a failure
	resultBusy   = "busy"   // RunRecoverer: another one was at work
)

func countPass(ctx context.Context, coordinator, result string) {
	if recoveryPasses.Enabled(ctx) {
		recoveryPasses.Add(ctx, 1, metric.WithAttributes(coordinatorKey.String(coordinator), resultKey.String(result)))
	}
}

// observe tells of a run that has ended with err.
func (r *recovery) observe(ctx context.Context, err error) {
	for _, e := range r.report.Entries {
		if e.State != StateNeeded && recoveryActions.Enabled(ctx) {
			recoveryActions.Add(ctx, 1, metric.WithAttributes(coordinatorKey.String(r.alias), actionKey.String(string(e.Action)), stateKey.String(string(e.State))))
		}
	}
	switch {
	case r.only != "" || r.forget != "": // it looked at one transaction alone
	case err != nil && errors.Is(ctx.Err(), context.Canceled): // it was stopped
	case err != nil:
		countPass(ctx, r.alias, resultFailed)
	case r.report.Clean():
		countPass(ctx, r.alias, resultClean)
		recent.note(r)
	default:
		countPass(ctx, r.alias, resultLeft)
		recent.note(r)
	}
}

// note keeps what a pass has found for the gauges.
func (s *passes) note(r *recovery) {
	p := &lastPass{success: time.Now(), report: r.report, left: map[State]int{}}
	p.until = p.success.Add(max(gaugeLife, 3*r.interval))
	for _, d := range r.decisions {
		// On a busy system there is always a call that is just delivering: it is nobody's concern.
		if d.commit && !d.resolved && !(d.complete && r.finish) && !r.young(d.age, false) {
			p.unresolved++
		}
	}
	for _, e := range r.report.Entries {
		p.left[e.State]++
	}
	s.Lock()
	defer s.Unlock()
	s.last[r.alias] = p
}

// startPass begins the span of a run that has found something to do.
func (r *recovery) startPass(ctx context.Context) (inside context.Context, done func()) {
	found := 0
	for _, f := range r.found {
		for _, e := range f.prepared {
			if !r.leaves(e) {
				found++
			}
		}
	}
	if found == 0 {
		return ctx, func() {}
	}
	ctx, span := tracer.Start(ctx, "hare.recovery", trace.WithAttributes(coordinatorKey.String(r.alias),
		attribute.Bool("hare.finish", r.finish), attribute.Int("hare.found", found)))
	return ctx, func() {
		for _, e := range r.report.Entries {
			if e.Err != nil {
				fail(span, e.Err)
			}
		}
		span.End()
	}
}

// startFinish begins the span of finishing one transaction.
func (f *found) startFinish(ctx context.Context, e *Entry) (inside context.Context, done func()) {
	ctx, span := tracer.Start(ctx, "hare.recovery.finish", trace.WithSpanKind(trace.SpanKindClient))
	return ctx, func() {
		if span.IsRecording() {
			span.SetAttributes(systemKey.String("postgresql"), namespaceKey.String(f.is.Name), participantKey.String(e.Alias), xidKey.String(e.XID),
				gidKey.String(e.GID), actionKey.String(string(e.Action)), stateKey.String(string(e.State)), attribute.String("hare.reason", e.Reason))
			if e.Err != nil {
				span.RecordError(e.Err)
				fail(span, e.Err)
			}
		}
		span.End()
	}
}

// event is how an entry is told in the log.
func (e *Entry) event() (level slog.Level, message string, attrs []slog.Attr) {
	attrs = []slog.Attr{slog.String("xid", e.XID), slog.String("participant", plaintext.Line(e.Alias)), slog.String("gid", plaintext.Line(e.GID)), slog.String("action", string(e.Action)),
		slog.String("state", string(e.State)), slog.String("reason", plaintext.Line(e.Reason)), slog.Duration("age", e.Age), failure(e.Err)}
	switch e.State {
	case StateDone:
		return slog.LevelInfo, "distributed recovery: finished", attrs
	case StateForgotten:
		return slog.LevelInfo, "distributed recovery: forgotten", attrs
	case StateGone:
		return slog.LevelDebug, "distributed recovery: finished meanwhile", attrs
	}
	return slog.LevelWarn, "distributed recovery: not finished", attrs
}
