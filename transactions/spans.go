package transactions

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/hare-go/hare/hare/backend"
)

// scope is the name under which OpenTelemetry knows what comes from here.
const scope = "github.com/hare-go/hare/transactions"

// tracer follows the provider that the application sets, also when it sets it later.
var tracer = otel.Tracer(scope)

// The attributes of spans and metrics. Those of databases in general are OpenTelemetry's own (Semantic Conventions,
// Database). The xid and the GID are never on a metric.
const (
	xidKey          = attribute.Key("hare.xid")
	gidKey          = attribute.Key("hare.gid")
	coordinatorKey  = attribute.Key("hare.coordinator")
	participantsKey = attribute.Key("hare.participants")
	participantKey  = attribute.Key("hare.participant")
	phaseKey        = attribute.Key("hare.phase")
	outcomeKey      = attribute.Key("hare.outcome")
	attemptKey      = attribute.Key("hare.attempt")
	voteKey         = attribute.Key("hare.vote")
	retryableKey    = attribute.Key("hare.retryable")
	databaseKey     = attribute.Key("hare.database")
	actionKey       = attribute.Key("hare.action")
	stateKey        = attribute.Key("hare.state")
	resultKey       = attribute.Key("hare.result")
	systemKey       = attribute.Key("db.system.name")
	namespaceKey    = attribute.Key("db.namespace")
	operationKey    = attribute.Key("db.operation.name")
	errorTypeKey    = attribute.Key("error.type")
)

// startCall begins the span of a whole call.
func (c *call) startCall(ctx context.Context) (context.Context, trace.Span) {
	ctx, span := tracer.Start(ctx, "hare.distributed")
	if span.IsRecording() {
		span.SetAttributes(coordinatorKey.String(c.coordinator.alias), participantsKey.StringSlice(c.participantAliases()))
	}
	return ctx, span
}

// endCall ends it, with how the last attempt ended.
func (w *watch) endCall() {
	if w.span.IsRecording() {
		w.span.SetAttributes(outcomeKey.String(w.outcome.String()), phaseKey.String(string(w.reached)), attemptKey.Int(w.attempt))
		if w.xid != "" {
			w.span.SetAttributes(xidKey.String(w.xid))
		}
		if w.outcome != Committed {
			w.span.RecordError(w.err)
			fail(w.span, w.err)
		}
	}
	w.span.End()
}

// startPhase begins the span of a phase, if somebody records that of the call. Else there is none.
func (c *call) startPhase(ctx context.Context, name phase) (context.Context, trace.Span) {
	if !c.seen.span.IsRecording() {
		return ctx, nil
	}
	return tracer.Start(ctx, "hare.distributed."+string(name), trace.WithAttributes(attemptKey.Int(c.seen.attempt)))
}

// startPart begins the span of a phase in one database.
func (c *call) startPart(ctx context.Context, b *branch, name phase) (context.Context, trace.Span) {
	if !c.seen.span.IsRecording() {
		return ctx, nil
	}
	ctx, span := tracer.Start(ctx, string(name)+" "+b.alias, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(systemKey.String("postgresql"), participantKey.String(b.alias)))
	if b.server != nil {
		span.SetAttributes(namespaceKey.String(b.server.Name))
	}
	if b.gid != "" {
		span.SetAttributes(gidKey.String(b.gid))
	}
	return ctx, span
}

// endSpan ends the span of a phase, or of a part of it.
func (c *call) endSpan(span trace.Span, err error) {
	if span == nil {
		return
	}
	if c.xid != "" {
		span.SetAttributes(xidKey.String(c.xid))
	}
	if err != nil {
		fail(span, err)
	}
	span.End()
}

// fail marks a span as that of something that failed.
func fail(span trace.Span, err error) {
	span.SetStatus(codes.Error, err.Error())
	span.SetAttributes(errorTypeKey.String(errorType(err)))
}

// errorType tells one kind of failure from another, in few words: the SQLSTATE where a server gave one, else the Go type.
func errorType(err error) string {
	switch state := backend.SQLState(err); {
	case state != "":
		return state
	case errors.Is(err, context.Canceled):
		return "context.Canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "context.DeadlineExceeded"
	}
	return fmt.Sprintf("%T", err)
}
