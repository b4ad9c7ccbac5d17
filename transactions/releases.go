package transactions

import (
	"context"
	"log/slog"

	"github.com/hare-go/hare/internal/releases"
)

// warnOutdated tells about a server that works, and may not survive a crash.
func (c *call) warnOutdated(ctx context.Context, alias string, s server) {
	if wanted := releases.Outdated(s.version); wanted != "" {
		c.set.logger.LogAttrs(ctx, slog.LevelWarn, "distributed transaction: this release of PostgreSQL may not start after a crash while something is prepared: update it",
			slog.String("alias", alias), slog.Int("server_version_num", s.version), slog.String("at_least", wanted))
	}
}
