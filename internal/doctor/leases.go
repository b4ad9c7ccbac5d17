package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// lease is a lease that somebody holds.
type lease struct {
	Name, Holder string
	Token        int64
	Left         *float64 // seconds until it expires; nil: never
	Free         int      // how many leases are held by nobody
}

func askLeases(ctx context.Context, d *database) error {
	if d.has(leasesTable) == nil {
		return d.unknown[leasesTable]
	}
	return d.rows(ctx, &d.leases, `SELECT l.name, l.holder, l.token, CASE WHEN isfinite(l.expires_at) THEN extract(epoch FROM l.expires_at - now.clock)::float8 END AS "left", free.free
FROM (SELECT clock_timestamp() AS clock) now
CROSS JOIN LATERAL (SELECT count(*) AS free FROM `+leasesTable+` WHERE expires_at <= now.clock) free
LEFT JOIN `+leasesTable+` l ON l.expires_at > now.clock ORDER BY l.expires_at DESC, l.name`)
}

// A lease that is held for so much longer is one that nobody can take over in any useful time.
const (
	farAway   = time.Hour
	mostNames = 5 // listed
)

// held lists the leases that are held. One that expires in a far future is worth a warning: whoever waits for it, after its
// holder has died, waits for that long.
func held(d *database, _ *examination) (findings []Finding) {
	if d.has(leasesTable) == nil {
		return nil
	}
	var names []string
	free, more := 0, 0
	for _, l := range d.leases {
		free = l.Free
		switch {
		case l.Name == "": // the row that counts, of a table without a held lease
		case l.Left == nil || *l.Left > farAway.Seconds():
			f := found(Warning, "%s", l)
			f.Why = "when its holder dies nobody can take it over before that"
			f.Mend = "give the lease a shorter TTL (leases.Options). If its holder is gone, and only then, end its term; this tells what that means, and with --finish does it:"
			f.Command = []string{"leases", "--connection", d.alias, "--release", l.Name, "--token", strconv.FormatInt(l.Token, 10)}
			findings = append(findings, f)
		case len(names) == mostNames:
			more++
		default:
			names = append(names, l.String())
		}
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	value := "none is held"
	if len(names) > 0 {
		value = strings.Join(names, "; ")
	}
	if free > 0 {
		value += fmt.Sprintf("; %d released or expired", free)
	}
	if len(names) > 0 || len(findings) == 0 {
		findings = append(findings, found(OK, "%s", value))
	}
	return findings
}

// String names the lease, its holder and its token, and says for how long it is held.
func (l lease) String() string {
	left := "for ever"
	if l.Left != nil {
		left = "for another " + age(*l.Left)
	}
	return fmt.Sprintf("%q is held by %s (token %d) %s", l.Name, l.Holder, l.Token, left)
}
