package doctor

import (
	"fmt"
	"strings"
	"time"
)

// answered are the databases that have answered a question.
func (all *examination) answered(q question) (list []*database) {
	for _, d := range all.databases {
		if d.failed[reaching] == nil && d.failed[q] == nil {
			list = append(list, d)
		}
	}
	return list
}

// primaryOf is the alias that leads to the primary of a standby, if one of the databases that have answered is it.
func (all *examination) primaryOf(standby *database) string {
	if standby.failed[identityIs] == nil {
		for _, d := range all.answered(identityIs) {
			if d.failed[serverIs] == nil && !d.server.Standby && d.identity.same(standby.identity) {
				return d.alias
			}
		}
	}
	return ""
}

// sameDatabase finds aliases that lead to one database. A standby is told as such by a check of its own.
func sameDatabase(_ *database, all *examination) (findings []Finding) {
	var primaries []*database
	for _, d := range all.answered(identityIs) {
		if !d.server.Standby {
			primaries = append(primaries, d)
		}
	}
	seen := map[*database]bool{}
	for i, d := range primaries {
		aliases := []string{fmt.Sprintf("%q", d.alias)}
		for _, other := range primaries[i+1:] {
			if !seen[other] && d.identity.same(other.identity) {
				seen[other] = true
				aliases = append(aliases, fmt.Sprintf("%q", other.alias))
			}
		}
		if len(aliases) > 1 && !seen[d] {
			f := found(Warning, "%s are one: %s", strings.Join(aliases, " and "), d.identity)
			f.Mend = "use one alias of it, or lead the others to databases of their own; outside distributed transactions nothing is wrong with it"
			findings = append(findings, f)
		}
	}
	if len(findings) == 0 && len(primaries) > 1 {
		findings = append(findings, found(OK, "%d aliases are %d databases", len(primaries), len(primaries)))
	}
	return findings
}

// worthDifference is a difference of clocks that is told.
const worthDifference = time.Second

// reading of a clock: how far it is ahead of this machine's, and by how much that may be wrong.
type clockReading struct {
	alias        string
	ahead, doubt time.Duration
}

func clocks(_ *database, all *examination) []Finding {
	var readings []clockReading
	for _, d := range all.answered(clock) {
		readings = append(readings, clockReading{alias: d.alias, ahead: d.offset, doubt: d.roundtrip / 2})
	}
	if len(readings) < 2 {
		return nil
	}
	return []Finding{judgeClocks(readings)}
}

// judgeClocks compares the clock that is most ahead with the one that is most behind. Each may be wrong by half of its
// round trip: what is not certain is not told.
func judgeClocks(readings []clockReading) Finding {
	first, last := readings[0], readings[0]
	for _, r := range readings[1:] {
		if r.ahead > first.ahead {
			first = r
		}
		if r.ahead < last.ahead {
			last = r
		}
	}
	apart, doubt := first.ahead-last.ahead, first.doubt+last.doubt
	if apart-doubt < worthDifference {
		return found(OK, "%s apart at most, give or take %s", precise(apart), precise(doubt))
	}
	f := found(Warning, "%q is %s ahead of %q, give or take %s", first.alias, precise(apart), last.alias, precise(doubt))
	f.Mend = "let the machines of both servers follow one source of time (NTP): run timedatectl, or chronyc tracking, on each"
	return f
}
