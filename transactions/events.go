package transactions

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// phase reports one phase of the protocol when it ends: how long it took, of which transaction.
func (c *call) phase(ctx context.Context, name string) (done func()) {
	start := time.Now()
	return func() {
		c.set.logger.LogAttrs(ctx, slog.LevelDebug, "distributed transaction: phase", slog.String("xid", c.xid),
			slog.String("phase", name), slog.Duration("duration", time.Since(start)), slog.Any("participants", c.participantAliases()))
	}
}

// event reports how the transaction ended. An end that leaves something for recovery is a warning.
func (c *call) event(ctx context.Context, end string, err error) {
	level := slog.LevelDebug
	var pending *RollbackPendingError
	if outcome := OutcomeOf(err); errors.As(err, &pending) || outcome != Committed && outcome != RolledBack {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("xid", c.xid), slog.String("outcome", end), slog.Any("participants", c.participantAliases())}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	c.set.logger.LogAttrs(ctx, level, "distributed transaction: end", attrs...)
}
