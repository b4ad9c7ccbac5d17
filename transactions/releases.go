package transactions

import (
	"context"
	"fmt"
	"log/slog"
)

// firstSound are the minor releases of PostgreSQL before which a server that crashes during a checkpoint may not start
// again while something is prepared in it (release notes of 15.4: "Avoid double replay of prepared transactions during
// crash recovery"). Later major versions have been without the fault from their first release on.
var firstSound = map[int]int{14: 9, 15: 4}

// outdated is the release that a server should be brought to, or empty. version is its server_version_num.
func outdated(version int) string {
	major, minor := version/10000, version%10000
	if first, ok := firstSound[major]; ok && minor < first {
		return fmt.Sprintf("%d.%d", major, first)
	}
	return ""
}

// warnOutdated tells about a server that works, and may not survive a crash.
func (c *call) warnOutdated(ctx context.Context, alias string, s server) {
	if wanted := outdated(s.version); wanted != "" {
		c.set.logger.LogAttrs(ctx, slog.LevelWarn, "distributed transaction: this release of PostgreSQL may not start after a crash while something is prepared: update it",
			slog.String("alias", alias), slog.Int("server_version_num", s.version), slog.String("at_least", wanted))
	}
}
