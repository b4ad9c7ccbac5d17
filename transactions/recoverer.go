package transactions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/serverview"
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
// takes over after five times [ParticipantTimeout]. The lock spares the servers work and decides no safety, so that nobody stops
// recovery by taking it: a holder that is no recoverer, by its role and its name, is logged and passed by. A recoverer uses connections of its own, not
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
	stranger    string          // who holds the recoverers' lock in this pass and is none
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

// recovererKey is the key of the advisory lock, "hare_rec" in ASCII. Such locks are a database's own. No lock of a table takes
// its place: one that excludes itself keeps VACUUM from the table as long as a pass lasts.
const recovererKey = 7521418632404034915

// recovererName is the name of the session that holds it.
const recovererName = "hare_recoverer"

var recovererLock = fmt.Sprintf(`SELECT pg_catalog.pg_try_advisory_xact_lock(%d)`, recovererKey)

// recovererHolder asks who holds it, and whether that is a recoverer: anybody who may connect may take the lock, so that it is
// one only under its name and with a role that may write decisions.
var recovererHolder = serverview.Holders(recovererKey, `coalesce(pg_catalog.bool_or(a.application_name OPERATOR(pg_catalog.=) '`+recovererName+`' AND `+
	serverview.Entitled("a.usesysid", decisionsTable)+`), false)`)

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
	w.stranger = ""
	answer, err := conn.Control(inTime, beginWrite, tables.Path, nameWorker(recovererName), fmt.Sprintf("SET LOCAL idle_in_transaction_session_timeout = %d", idle), recovererLock)
	if err != nil {
		conn.Discard()
		return nil, hare.ErrorFrom(w.client.Alias(), recovererLock, err)
	}
	unlock = func() { w.unlock(ctx, conn) }
	if len(answer.Row) != 1 || answer.Row[0] != "t" {
		if w.stranger, err = strangerAt(inTime, conn); w.stranger != "" {
			return unlock, nil
		}
		// Broken off, the transaction would cost a pooler its connection to the server, with each pass of each instance.
		unlock()
		return nil, hare.ErrorFrom(w.client.Alias(), recovererHolder, err)
	}
	return unlock, nil
}

// strangerTime is how long somebody must hold the recoverers' lock to count as a stranger: a recoverer that is just ending its
// transaction may be seen with its lock still and its name no more.
const strangerTime = 50 * time.Millisecond

// strangerAt is who holds the recoverers' lock, now and a moment later, and is no recoverer, or empty.
func strangerAt(ctx context.Context, conn backend.Conn) (string, error) {
	first, err := strangerNow(ctx, conn)
	if err != nil || first == "" || sleep(ctx, 2*strangerTime) != nil {
		return "", err
	}
	if again, err := strangerNow(ctx, conn); err != nil || again != first {
		return "", err
	}
	return first, nil
}

func strangerNow(ctx context.Context, conn backend.Conn) (string, error) {
	answer, err := conn.Control(ctx, recovererHolder)
	if err != nil || len(answer.Row) != 2 || answer.Row[1] == "t" {
		return "", err
	}
	return strings.ToValidUTF8(serverview.Text(answer.Row[0]), "\uFFFD"), nil
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
	if w.stranger != "" {
		warn("distributed recovery: somebody who is no recoverer holds the recoverers' lock; recovery goes on without it", "lock "+w.stranger, slog.String("holder", w.stranger))
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
