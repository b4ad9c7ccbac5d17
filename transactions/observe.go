package transactions

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// # How a distributed transaction is seen
//
// The same events are told in three ways: as structured events to log/slog, as the spans of a trace, and as metrics. Each
// goes to what the application has set up for the whole program (slog.SetDefault, otel.SetTracerProvider,
// otel.SetMeterProvider). Where nothing is set up, an event costs the question whether anybody listens.

// phase is a step of a distributed transaction, as events, spans and metrics name it.
type phase string

const (
	phaseOpen     phase = "open"     // a connection to each database
	phaseCallback phase = "callback" // the caller's function
	phasePrepare  phase = "prepare"
	phaseDecide   phase = "decide"
	phaseFence    phase = "fence" // after decide, when its answer was lost
	phaseDeliver  phase = "deliver"
	phaseRollback phase = "rollback"
)

// watch is what is to be told of one call of Distributed, over all its attempts.
type watch struct {
	span    trace.Span
	attempt int
	xid     string // of the last attempt
	reached phase  // how far it came; undoing it does not count
	outcome Outcome
	err     error // without what hooks returned
}

// watch begins to observe a call. ended must be called at its end.
func (c *call) watch(ctx context.Context) (watched context.Context, ended func()) {
	c.seen = &watch{}
	ctx, c.seen.span = c.startCall(ctx)
	return ctx, func() {
		c.seen.endCall()
		if transactionsEnded.Enabled(ctx) {
			transactionsEnded.Add(ctx, 1, metric.WithAttributes(coordinatorKey.String(c.coordinator.alias),
				outcomeKey.String(c.seen.outcome.String()), phaseKey.String(string(c.seen.reached))))
		}
	}
}

// again notes that the call is run once more.
func (c *call) again(ctx context.Context) {
	w := c.seen
	if retries.Enabled(ctx) {
		retries.Add(ctx, 1, metric.WithAttributes(coordinatorKey.String(c.coordinator.alias), errorTypeKey.String(errorType(w.err))))
	}
	if w.span.IsRecording() {
		w.span.AddEvent("retry", trace.WithAttributes(attemptKey.Int(w.attempt), xidKey.String(w.xid), attribute.String("error", w.err.Error())))
	}
	c.log(ctx, slog.LevelDebug, "distributed transaction: retry", slog.String("xid", w.xid), slog.Int("attempt", w.attempt), slog.Any("error", w.err))
}

// phase begins a phase. The context that it returns carries the phase's span, the function ends it with what came of it.
func (c *call) phase(ctx context.Context, name phase) (context.Context, func(error)) {
	if name != phaseRollback {
		c.seen.reached = name
	}
	start := time.Now()
	inside, span := c.startPhase(ctx, name)
	return inside, func(err error) {
		took := time.Since(start)
		c.endSpan(span, err)
		if phaseDuration.Enabled(ctx) {
			attributes := []attribute.KeyValue{coordinatorKey.String(c.coordinator.alias), phaseKey.String(string(name))}
			if err != nil {
				attributes = append(attributes, errorTypeKey.String(errorType(err)))
			}
			phaseDuration.Record(inside, took.Seconds(), metric.WithAttributes(attributes...))
		}
		if c.set.logger.Enabled(ctx, slog.LevelDebug) {
			c.log(inside, slog.LevelDebug, "distributed transaction: phase", slog.String("xid", c.xid), slog.String("phase", string(name)),
				slog.Duration("duration", took), slog.Any("participants", c.participantAliases()), failure(err))
		}
	}
}

// part runs a phase's step in one database. A second phase that fails there is left to recovery.
func (c *call) part(ctx context.Context, b *branch, name phase, step func(ctx context.Context) error) error {
	ctx, span := c.startPart(ctx, b, name)
	err := step(ctx)
	if span != nil && name == phasePrepare {
		span.SetAttributes(voteKey.String(b.vote.String()))
	}
	c.endSpan(span, err)
	if err != nil {
		level := slog.LevelDebug
		if name == phaseDeliver || name == phaseRollback {
			level = slog.LevelWarn
		}
		c.log(ctx, level, "distributed transaction: participant failed", slog.String("xid", c.xid), slog.String("phase", string(name)),
			slog.String("participant", b.alias), slog.String("gid", b.gid), failure(err))
	}
	return err
}

// ended tells how an attempt ended, before any hook runs. An end that leaves something for recovery, or for an operator, is
// a warning.
func (c *call) ended(ctx context.Context, err error) {
	w := c.seen
	w.outcome, w.err = OutcomeOf(err), err
	level := slog.LevelDebug
	if w.outcome != Committed && w.outcome != RolledBack || isRollbackPending(err) {
		level = slog.LevelWarn
	}
	if !c.set.logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("xid", c.xid), slog.String("outcome", w.outcome.String()), slog.String("phase", string(w.reached)),
		slog.Int("attempt", w.attempt), slog.Duration("duration", time.Since(c.began)), slog.Any("participants", c.participantAliases()), failure(err)}
	if next := nextCommand(err); next != "" && level == slog.LevelWarn {
		attrs = append(attrs, slog.String("next", next))
	}
	c.log(ctx, level, "distributed transaction: end", attrs...)
}

// log tells an event of the call.
func (c *call) log(ctx context.Context, level slog.Level, message string, attrs ...slog.Attr) {
	c.set.logger.LogAttrs(ctx, level, message, append(attrs, slog.String("coordinator", c.coordinator.alias))...)
}

// failure is the attribute of an error. Handlers leave out the attribute that is none.
func failure(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.Any("error", err)
}

// failedTry tells of one try of a second phase, or of a fence, that failed. final says that no other one can help.
func (b *branch) failedTry(ctx context.Context, operation string, err error, final bool) {
	if deliveryFailures.Enabled(ctx) {
		deliveryFailures.Add(ctx, 1, metric.WithAttributes(participantKey.String(b.alias), operationKey.String(operation),
			retryableKey.Bool(!final), errorTypeKey.String(errorType(err))))
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent("try failed", trace.WithAttributes(operationKey.String(operation), errorTypeKey.String(errorType(err)), attribute.String("error", err.Error())))
	}
}
