package transactions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
)

// # Several aliases of one database
//
// A database may be configured more than once: with another role, another host name, past its pooler, and as a standby.
// None of them speaks for the others. What is prepared shows on the primary alone, so that a standby says nothing about its
// primary, and what one role may not finish another one may. So what the primary's aliases have seen is put together, each
// prepared transaction once, and finished over the alias that prepared it, or else over any other that can.

// place is a database, whatever alias leads to it.
type place struct{ system, oid string }

func (f *found) place() place { return place{f.is.System, f.is.OID} }

// sortOut puts the aliases of each database together.
func (r *recovery) sortOut() {
	same := map[place][]*found{}
	for _, f := range r.found {
		if !f.is.standby {
			same[f.place()] = append(same[f.place()], f)
		}
	}
	for _, aliases := range same {
		share(aliases)
	}
}

// share gives each prepared transaction of a database to one of its aliases: to the one that prepared it, if that is among
// them, else to the first that has seen it.
func share(aliases []*found) {
	seen := map[string]*Entry{}
	var all []*Entry
	for _, f := range aliases {
		f.same = aliases
		for _, e := range f.prepared {
			if first := seen[e.GID]; first == nil {
				seen[e.GID] = e
				all = append(all, e)
			} else if len(first.Tables) == 0 {
				first.Tables = e.Tables
			}
		}
		f.prepared = nil
	}
	for _, e := range all {
		f := aliases[max(0, slices.IndexFunc(aliases, func(f *found) bool { return f.alias == e.Alias }))]
		if named := slices.IndexFunc(aliases, func(f *found) bool { return gidOf(e.XID, f.alias) == e.GID }); named >= 0 {
			f = aliases[named]
		}
		e.Alias = f.alias
		f.prepared = append(f.prepared, e)
	}
}

// judgeStandbys notes which standbys stand beside their primary. One that stands alone leaves its primary unseen, which may
// hold something, unless it has no slots: a standby has at least as many as its primary (PostgreSQL documentation, Hot
// Standby).
func (r *recovery) judgeStandbys() {
	primaries := map[place]string{{r.is.System, r.is.OID}: r.alias}
	for _, f := range r.found {
		if !f.is.standby {
			primaries[f.place()] = cmp.Or(primaries[f.place()], f.alias)
		}
	}
	for _, f := range r.found {
		if !f.is.standby {
			continue
		}
		f.state.Primary = primaries[f.place()]
		if f.state.Primary == "" && f.is.slots > 0 {
			r.report.Unreachable = append(r.report.Unreachable, Unreachable{Alias: f.alias, Err: &hare.ConfigurationError{Alias: f.alias, Reason: fmt.Sprintf(
				"%s is a standby, which does not show what is prepared on its primary, and no connection leads to the primary: configure one", f.is.identity)}})
		}
	}
}

// databases are the primaries, each with all of its aliases.
func (r *recovery) databases() (list [][]*found) {
	for _, f := range r.found {
		if len(f.same) > 0 && f.same[0] == f {
			list = append(list, f.same)
		}
	}
	return list
}

// overAny runs act over the alias of f and, where that connection is lost, or leads elsewhere by now, or its role may not do it,
// over the others of the same database, each within its own time. It returns the alias that the answer came over. The answers of different aliases
// are not equal: a refusal says more than a lost connection.
func (r *recovery) overAny(ctx context.Context, f *found, act func(ctx context.Context, f *found) error) (over *found, err error) {
	order := []*found{f}
	for _, other := range f.same {
		if other != f {
			order = append(order, other)
		}
	}
	for _, next := range order {
		if next.lost != nil {
			err = cmp.Or(err, next.lost)
			continue
		}
		this := r.over(ctx, next, act)
		refused := backend.SQLState(this) == "42501"
		if this == nil || !refused && next.lost == nil && !errors.Is(this, errOtherServer) {
			return next, this
		}
		if over == nil || refused && backend.SQLState(err) != "42501" {
			over, err = next, this
		}
	}
	return cmp.Or(over, f), err
}

var errConnectionLost = errors.New("its connection was lost")

// over is overAny for one alias.
func (r *recovery) over(ctx context.Context, f *found, act func(ctx context.Context, f *found) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.participantTime)
	defer cancel()
	err := act(ctx, f)
	if f.conn.Status() == backend.StatusClosed {
		f.lost = cmp.Or(err, errConnectionLost)
	}
	return err
}
