package integration

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/transactions"
)

// database makes a database on a server and returns its URL.
func database(t *testing.T, server *servers.Server, name string) string {
	t.Helper()
	databaseURL, err := server.CreateDatabase(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return servers.Through(t, server, databaseURL)
}

// serverFaults are what happens to a server, and what makes it answer again. One that is merely restarted answers when the
// call goes on.
var serverFaults = []struct {
	name         string
	strike, mend func(*servers.Server, context.Context) error
}{
	{"killed", (*servers.Server).Kill, (*servers.Server).Restart},
	{"stopped", (*servers.Server).Stop, (*servers.Server).Restart},
	{"paused", (*servers.Server).Pause, (*servers.Server).Resume},
	{"restarted", (*servers.Server).Restart, nil},
}

// moments are the steps of the protocol between which a server fails: before a call on an alias whose SQL has a part, or
// after it, so that its answer is lost.
var moments = []struct {
	name, alias, part string
	after             bool
	a, c              []transactions.Outcome // where it is the server of a participant, or of the coordinator
}{
	{"before a participant prepares", "a", "PREPARE TRANSACTION", false, isRolledBack, isNotDecided},
	{"when all are prepared", "c", decisionSQL, false, isCommitted, isNotDecided},
	{"when it is decided", "a", "COMMIT PREPARED", false, isCommitted, isCommitted},
	{"when a participant has committed", "a", "COMMIT PREPARED", true, isCommitted, isCommitted},
}

// The server of a participant, and that of the coordinator, is killed, shut down, paused or restarted between the steps
// of the protocol. The call tells the truth within its phases, recovery finishes it when the server answers again, and
// says so as long as it does not.
//
// Field case 15. Field case 25. Field case 28. Field case 35. Field case 46.
func TestServersFail(t *testing.T) {
	t.Parallel()
	for _, fault := range serverFaults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			server := ownServer(t, servers.Options{Name: "faults", Fast: true})
			shared := servers.Databases(t, 4)
			const one = "&max_size=1"
			for alias, urls := range map[string][]string{
				"a": {shared[0] + one, database(t, server, "a") + one, shared[1] + one},
				"c": {database(t, server, "c") + one, shared[2] + one, shared[3] + one},
			} {
				f := trioOf(t, urls...)
				if err := f.distributed(writeAll); err != nil { // first use
					t.Fatal(err)
				}
				f.failAtEachMoment(alias, func() error { return fault.strike(server, t.Context()) }, bound(t.Context(), server, fault.mend))
			}
		})
	}
}

// bound binds what mends a thing, if anything does.
func bound[T any](ctx context.Context, thing T, mend func(T, context.Context) error) func() error {
	if mend == nil {
		return nil
	}
	return func() error { return mend(thing, ctx) }
}

// failAtEachMoment runs a call for each moment of the protocol, at which what lies behind an alias is struck, and mended
// when the call has ended; without mend it answers again by itself.
func (f *trio) failAtEachMoment(alias string, strike, mend func() error) {
	f.Helper()
	for _, moment := range moments {
		text := alias + ", " + moment.name
		f.Run(text, func(t *testing.T) {
			f := f.in(t)
			want, phases := moment.a, transactions.Phases{} // long ones, but for those that wait for what has failed
			if alias == coordinator {
				want = moment.c
			}
			switch {
			case mend == nil:
			case alias == coordinator:
				phases.Decide = time.Second
			default:
				phases.Prepare, phases.Deliver, phases.Rollback = time.Second, time.Second, time.Second
			}
			struck := f.once(moment.alias, moment.part, moment.after, strike)
			err := transactions.Distributed(f.ctx, coordinator, participants, func(d *hare.Distributed) error {
				return write(d, text, everybody...)
			}, transactions.PhaseTimeouts(phases))
			f.plan.Set(nil, nil)
			f.wait("it fails", struck)
			told := transactions.OutcomeOf(err)
			if !slices.Contains(want, told) {
				t.Errorf("told %s, want one of %s: %v", told, want, err)
			}
			switch {
			case mend != nil:
				f.wantNotRecovered(alias)
				if err := mend(); err != nil {
					t.Fatal(err)
				}
				f.answers(alias)
			case told == transactions.PartiallyCommitted, told == transactions.Ambiguous:
				t.Errorf("told %s, though it answers again: %v", told, err)
			}
			looker := f.wantSettled(text, err)
			// An idle connection to what was there fails once.
			f.eventually("the pools are usable", func() bool { return f.distributed(writeAll) == nil })
			looker.wantWhole(text, f.conns)
		})
	}
}

// answers waits until a database can be reached: a pooler that could not reach its server tries again only after a while.
func (f *trio) answers(alias string) {
	f.Helper()
	f.eventually("it answers again", func() bool {
		conn, err := f.client(alias).Database().Dial(f.ctx)
		if err != nil {
			return false
		}
		defer conn.Release()
		_, err = conn.Control(f.ctx, "SELECT 1")
		return err == nil
	})
}

// once runs act once: before the first call on an alias whose SQL has a part, or after it, when the call's answer is lost.
func (f *trio) once(alias, part string, after bool, act func() error) (done <-chan struct{}) {
	acted := make(chan struct{})
	var once sync.Once
	fault := func(_ context.Context, e faults.Event) (lost error) {
		if e.Alias == alias && strings.Contains(e.SQL, part) {
			once.Do(func() {
				defer close(acted)
				if err := act(); err != nil {
					f.Error(err)
				}
				if after {
					lost = faults.ErrInjected
				}
			})
		}
		return lost
	}
	if after {
		f.plan.Set(nil, fault)
	} else {
		f.plan.Set(fault, nil)
	}
	return acted
}

// wantNotRecovered runs recovery while the server of an alias does not answer.
func (f *trio) wantNotRecovered(alias string) {
	f.Helper()
	for limit := time.Second; ; limit *= 4 {
		report, err := transactions.Recover(f.ctx, coordinator, transactions.OlderThan(0), transactions.Finish(), transactions.ParticipantTimeout(limit))
		silent := slices.ContainsFunc(report.Unreachable, func(u transactions.Unreachable) bool { return u.Alias == alias && u.Err != nil })
		switch {
		case alias == coordinator && err == nil, err == nil && (report.Clean() || !silent), limit > 30*time.Second:
			f.Errorf("recovery without %s: %+v, %v", alias, report, err)
		case alias != coordinator && err != nil:
			continue // on a busy machine the coordinator does not answer in a second either
		}
		return
	}
}

// The decision is not lost when its server is killed right after the call has returned, although commits of its role
// wait for no flush, and nothing else flushes the log.
//
// Field case 28. W8.
func TestDecisionSurvivesAKill(t *testing.T) {
	t.Parallel()
	server := ownServer(t, servers.Options{Name: "durable", Settings: map[string]string{"wal_writer_delay": "10s"}})
	shared := servers.Databases(t, 2)
	f := trioOf(t, database(t, server, "c"), shared[0], shared[1])
	f.exec("c", "ALTER ROLE "+servers.Superuser+" SET synchronous_commit = off")
	f.reconnect()
	if got := f.text("c", "SELECT current_setting('synchronous_commit')"); got != "off" {
		t.Fatalf("synchronous_commit is %s", got)
	}
	for kill := range int64(3) {
		if err := f.distributed(writeAll); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(server.Kill(t.Context()), server.Restart(t.Context())); err != nil {
			t.Fatal(err)
		}
		f.reconnect()
		if report := f.recover(transactions.Finish()); !report.Clean() {
			t.Errorf("recovery: %+v", report)
		}
		f.wantCounts(kill+1, kill+1, kill+1)
		f.wantNothingPrepared()
	}
}
