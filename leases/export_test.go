package leases

import (
	"strings"
	"time"
)

// SetClocks gives a lease other clocks: now says how much further the monotonic and the wall clock are than the real ones.
func SetClocks(l *Lease, now func() (monotonic, wall time.Duration)) {
	l.clock = func() instant {
		i := readClocks()
		monotonic, wall := now()
		i.monotonic += monotonic
		i.wall = i.wall.Add(wall)
		return i
	}
}

// Pretend makes a term that a lease was never given: nobody renews it, and it trusts itself for the whole of the TTL.
func Pretend(l *Lease, token int64) *Term {
	t := newTerm(l, token, l.clock())
	close(t.began)
	return t
}

// Renew renews terms in one message, as the keeper does.
func Renew(terms ...*Term) error {
	for _, t := range terms {
		t.claim()
	}
	return terms[0].lease.keeper.renew(terms[0].lease.opts.guards(), terms)
}

// Holder is what the rows say of the holder.
func (l *Lease) Holder() string { return l.holder }

// CreateTable makes the table.
var CreateTable = strings.Join(createTable, ";")

// AcquireSQL are the statements of an acquisition.
func AcquireSQL(l *Lease, seen int64) []string { return acquireSQL(l.name, l.holder, seen, l.opts.TTL) }

// FenceSQL is the statement of a fence, with the placeholders $1 to $3, $4 for its time-out, and $5 and $6 for the database.
const FenceSQL = fenceSQL

// AllSQL are all statements that the package can send, for leases of these names.
func AllSQL(terms ...*Term) []string {
	l := terms[0].lease
	var all []string
	all = append(all, createTable...)
	all = append(all, acquireSQL(l.name, l.holder, 1, l.opts.TTL)...)
	all = append(all, renewSQL(terms, true)...)
	all = append(all, renewSQL(terms, false)...)
	all = append(all, forceSQL(l.name, 1)...)
	all = append(all, l.opts.guards().begin("name")...)
	return append(all, homeSQL, home{"1", "2"}.proveSQL(), endSQL("name"), lookSQL(l.name), releaseSQL(l.name, l.holder, 1), fenceSQL, blockersSQL)
}
