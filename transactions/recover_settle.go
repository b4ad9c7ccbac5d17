package transactions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
)

// settle finds out what each prepared transaction needs and, with finish, does it.
func (r *recovery) settle(ctx context.Context, finish bool) {
	r.fenceAll(ctx, finish)
	if finish {
		r.finishAll(ctx)
	}
	for _, f := range r.found {
		for _, e := range f.prepared {
			if e.Action != "" {
				r.report.Entries = append(r.report.Entries, *e)
			}
		}
	}
}

// fenceAll decides about each prepared transaction, one after the other on the coordinator's connection. An entry that
// keeps no action is too young.
func (r *recovery) fenceAll(ctx context.Context, finish bool) {
	for _, f := range r.found {
		for _, e := range f.prepared {
			d := r.decisions[e.XID]
			switch {
			case r.leaves(e):
				r.report.Young++
				r.soon = r.soon || !e.Live
			case d == nil && finish:
				r.fence(ctx, e)
			case d == nil && e.Live:
				e.Action, e.Reason = ActionRollback, "no decision yet, though its call is still connected to the coordinator: finishing makes that call fail"
			case d == nil:
				e.Action, e.Reason = ActionRollback, "no decision: its call died before it decided, and recovery makes sure that it never will"
			default:
				e.follow(d, f)
			}
		}
	}
}

// leaves reports whether a prepared transaction is left to its call.
func (r *recovery) leaves(e *Entry) bool {
	d := r.decisions[e.XID]
	if d == nil {
		return r.young(e.Age, e.Live)
	}
	return d.commit && !d.resolved && r.young(d.age, false)
}

// young reports whether something is to be left to its call. At an age limit of 0 nothing is, not even what seems to come
// from the future because a clock was set back; for the recoverer, which nobody tells a limit of 0 then, such a one is not young
// unless its call is seen to live.
func (r *recovery) young(age time.Duration, live bool) bool {
	limit := r.grace
	switch {
	case live:
		limit = r.olderThan
	case age < 0 && r.background:
		return false
	}
	return limit > 0 && age < limit
}

// abortWritten is why a transaction is rolled back once the fence is there.
const abortWritten = "no decision, and there never will be: its abort is written"

// fence makes sure of the end of a transaction that had no decision when it was looked up.
func (r *recovery) fence(ctx context.Context, e *Entry) {
	ctx, cancel := context.WithTimeout(ctx, r.participantTime)
	defer cancel()
	alias, _ := splitXID(r.id, e.XID)
	wait := fenceWait(ctx)
	if r.hanging {
		wait = time.Millisecond
	}
	committed, err := fence(ctx, r.conn, e.XID, alias, r.id, wait)
	r.hanging = r.hanging || backend.SQLState(err) == "55P03"
	switch {
	case err != nil:
		e.Action, e.State = ActionNone, StateFailed
		e.Err = hare.ErrorFrom(r.alias, "INSERT INTO "+decisionsTable, err)
		e.Reason = "no decision, and its abort could not be written"
	case committed:
		e.Action, e.Reason = ActionCommit, "the decision to commit came while recovery was looking"
	default:
		e.Action, e.Reason = ActionRollback, abortWritten
		r.decisions[e.XID] = &decision{xid: e.XID, resolved: true}
	}
}

// follow gives the entry what its decision asks for, if the decision is about this very database.
func (e *Entry) follow(d *decision, f *found) {
	if !d.commit {
		e.Action, e.Reason = ActionRollback, abortWritten
		return
	}
	e.Action, e.Reason = ActionCommit, "the decision to commit is durable"
	if p, ok := d.participant(e.GID); ok && !p.same(f.is.identity) {
		e.Action, e.State = ActionNone, StateFailed
		e.Err = fmt.Errorf("%w: it was prepared in %s, and this is %s", errOtherServer, p.identity, f.is.identity)
		e.Reason = "this is not the database that prepared it: it is a copy, or the alias leads elsewhere"
	}
}

// finishAll does what the entries need, in all databases at once. An alias that stops answering costs its own time limit
// once: what it still holds is left to other aliases of its database, or to the next run.
func (r *recovery) finishAll(ctx context.Context) {
	var mu sync.Mutex
	done, total := 0, 0
	for _, f := range r.found {
		for _, e := range f.prepared {
			if e.needed() {
				total++
			}
		}
	}
	step := func(f *found, e *Entry) {
		r.finishOne(ctx, f, e)
		mu.Lock()
		defer mu.Unlock()
		done++
		if r.progress != nil {
			r.progress(done, total, *e)
		}
	}
	together(r.databases(), func(aliases []*found) error {
		for _, f := range aliases {
			for _, e := range f.prepared {
				if e.needed() {
					step(f, e)
				}
			}
		}
		return nil
	})
}

// needed reports whether there is something to do for the entry.
func (e *Entry) needed() bool { return e.Action != "" && e.State == StateNeeded }

// finishOne does what an entry needs, over whichever alias of its database can.
func (r *recovery) finishOne(ctx context.Context, f *found, e *Entry) {
	ctx, done := f.startFinish(ctx, e)
	defer done()
	over, err := r.overAny(ctx, f, func(ctx context.Context, f *found) error {
		p := prepared{GID: e.GID, identity: f.is.identity}
		if d := r.decisions[e.XID]; d != nil && e.Action == ActionCommit {
			if decided, ok := d.participant(e.GID); ok {
				p = decided
			}
		}
		p.Timeline = "" // it was seen prepared here, so that this server has not lost it
		return persistBusy(ctx, func() error {
			if e.Action == ActionRollback {
				return rollBackPrepared(ctx, f.conn, p, "")
			}
			return commitDecided(ctx, f.conn, p, f.is.weak)
		})
	})
	e.Alias = over.alias
	switch {
	case err == nil:
		e.State = StateDone
	case errors.Is(err, errGone):
		e.State, e.Reason = StateGone, "it was finished meanwhile"
	case errors.Is(err, errRolledBack):
		e.State, e.Err = StateMixed, err
	case backend.SQLState(err) == "42501":
		e.State, e.Err = StateFailed, hare.ErrorFrom(over.alias, "", err)
		e.Reason += fmt.Sprintf("; only its owner %q or a superuser may finish it: run recovery with a connection of that role", e.Owner)
	default:
		e.State, e.Err = StateFailed, hare.ErrorFrom(over.alias, "", err)
	}
}

// persistBusy repeats act while somebody else is finishing the same transaction.
func persistBusy(ctx context.Context, act func() error) error {
	for pause := firstTryPause; ; pause = min(2*pause, lastTryPause) {
		err := act()
		if backend.SQLState(err) != "55000" && !errors.Is(err, errAtWork) || sleep(ctx, pause) != nil {
			return err
		}
	}
}
