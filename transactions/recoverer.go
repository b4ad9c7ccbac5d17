package transactions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/tables"
)

// The times of the recoverer that need no option.
const (
	// recovererGrace leaves alone what is younger than any call needs for its last steps. A crash is finished this long
	// after it, and a pass that found something that young is followed by another one as soon.
	recovererGrace = 2 * time.Second
	// purgeEvery is how often old rows are looked for.
	purgeEvery = 10 * time.Minute
	// passTimes is how many participant times one pass may take; the next one goes on where it stopped.
	passTimes = 5
)

// RunRecoverer finishes what crashes leave of a coordinator's distributed transactions, pass after pass, until ctx ends;
// then it returns nil. It is meant for a goroutine of the application, in every instance of it:
//
//	go transactions.RunRecoverer(ctx, "library")
//
// Any number may run: one at a time works, by an advisory lock in the coordinator's database that belongs to a
// transaction and not to a session (PostgreSQL documentation, Advisory Locks). Should that one be stopped or cut off, another
// takes over after five times [ParticipantTimeout]. It uses connections of its own, not
// those of the pools, and one database that does not answer costs only its own time limit ([ParticipantTimeout]).
//
// What is decided is committed within seconds of a crash. What is not decided is rolled back as soon: a call that is still
// at work keeps its transaction on the coordinator open, where the recoverer sees it, and is left alone until it is older
// than [OlderThan]. Neither decides safety, see [Recover]. [Finish], [OnlyXID] and [Forget] are not for it.
//
// A pass begins every [Interval]. Failures are logged once, as long as they stay the same, and tried again. The error is
// for a wrong call: an option, a coordinator that is not configured or has no two-phase commit, connections that are closed
// before ctx ends.
func RunRecoverer(ctx context.Context, coordinator string, opts ...RecoverOption) error {
	set, err := readRecover(append(slices.Clip(opts), Finish()))
	if err != nil {
		return err
	}
	if set.only != "" || set.forget != "" {
		return &hare.QueryError{Reason: "OnlyXID and Forget are for Recover: RunRecoverer looks after all transactions"}
	}
	connections, client, err := coordinatorOf(ctx, coordinator)
	if err != nil {
		return err
	}
	w := &recoverer{set: set, connections: connections, client: client}
	for ctx.Err() == nil {
		pause := set.interval*3/4 + rand.N(set.interval/2)
		soon, err := w.pass(ctx)
		if errors.Is(err, backend.ErrClosed) && ctx.Err() == nil {
			return err // no pass can succeed any more
		}
		if soon {
			pause = min(pause, recovererGrace/2)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
	return nil
}

// recoverer is one that runs.
type recoverer struct {
	set         *recoverSettings
	connections *hare.Connections
	client      *hare.Client
	purged      time.Time
	told        map[string]bool // the failures of the last pass
}

// pass is one recovery, if nobody else is at one. soon says that something was found that is still too young, and that no
// call at work will finish: on a busy system there is always one of those.
func (w *recoverer) pass(whole context.Context) (soon bool, err error) {
	ctx, cancel := context.WithTimeout(whole, passTimes*w.set.participantTime)
	defer cancel()
	unlock, err := w.lock(ctx)
	switch {
	case err != nil:
		if whole.Err() == nil {
			countPass(ctx, w.client.Alias(), resultFailed)
		}
		w.tell(whole, Report{}, err)
		return false, err
	case unlock == nil:
		countPass(ctx, w.client.Alias(), resultBusy)
		return false, nil
	}
	defer unlock()
	r := &recovery{recoverSettings: w.set, grace: min(recovererGrace, w.set.olderThan), background: true, keepOld: time.Since(w.purged) < purgeEvery}
	report, err := r.run(ctx, w.connections, w.client)
	if err == nil && !r.keepOld {
		w.purged = time.Now()
	}
	w.tell(whole, report, err)
	return r.soon, err
}

// recovererLock is the key of the advisory lock, "hare_rec" in ASCII. Such locks are a database's own.
const recovererLock = `SELECT pg_try_advisory_xact_lock(7521418632404034915)`

// lock makes this recoverer the one that works. The transaction that holds the lock is open as long as the pass; should the
// process or its network die, the server ends it when a pass would have been over. unlock is nil where another one works.
func (w *recoverer) lock(ctx context.Context) (unlock func(), err error) {
	inTime, cancel := context.WithTimeout(ctx, w.set.participantTime)
	defer cancel()
	conn, err := w.client.Database().Dial(inTime)
	if err != nil {
		return nil, hare.ErrorFrom(w.client.Alias(), "", err)
	}
	idle := (passTimes * w.set.participantTime).Milliseconds()
	answer, err := conn.Control(inTime, beginWrite, tables.Path, fmt.Sprintf("SET LOCAL idle_in_transaction_session_timeout = %d", idle), recovererLock)
	if err != nil {
		conn.Discard()
		return nil, hare.ErrorFrom(w.client.Alias(), recovererLock, err)
	}
	unlock = func() { w.unlock(ctx, conn) }
	if len(answer.Row) != 1 || answer.Row[0] != "t" {
		// Broken off, the transaction would cost a pooler its connection to the server, with each pass of each instance.
		unlock()
		return nil, nil
	}
	return unlock, nil
}

func (w *recoverer) unlock(ctx context.Context, conn backend.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tryTime)
	defer cancel()
	if _, err := conn.Control(ctx, "ROLLBACK"); err != nil {
		conn.Discard()
	}
	conn.Release()
}

// tell logs what a pass has done, and what has failed unless the pass before it failed in the same way.
func (w *recoverer) tell(ctx context.Context, report Report, err error) {
	log := w.set.logger.With(slog.String("coordinator", w.client.Alias()))
	failures := map[string]bool{}
	warn := func(message, key string, attrs ...slog.Attr) {
		failures[key] = true
		if !w.told[key] && ctx.Err() == nil { // what fails because it is stopped is no news
			log.LogAttrs(ctx, slog.LevelWarn, message, attrs...)
		}
	}
	for _, e := range report.Entries {
		if level, message, attrs := e.event(); level < slog.LevelWarn {
			log.LogAttrs(ctx, level, message, attrs...)
		} else {
			warn(message, e.GID+" "+string(e.State), attrs...)
		}
	}
	for _, u := range report.Unreachable {
		warn("distributed recovery: a database cannot be looked at", "unreachable "+u.Alias, slog.String("participant", u.Alias), slog.Any("error", u.Err))
	}
	if err != nil {
		warn("distributed recovery: the pass failed", "pass", slog.Any("error", err))
	}
	w.told = failures
}
