package storm

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/integration/servers"
)

// arena is where the storm rages: a server with a synchronous standby, without which nothing commits, and a database that
// the pooler may lead to by mistake.
type arena struct {
	primary, standby *servers.Server
}

// The databases of the arena.
const (
	theDatabase = "storm"
	theTwin     = "twin" // has the leases, as a copy would, and nothing else
)

// newArena starts the servers. They end with the test.
func newArena(t *testing.T) *arena {
	t.Helper()
	// What a candidate is told is committed must be on the standby, and what is killed is processes, not the machine.
	settings := map[string]string{"synchronous_commit": "on", "wal_keep_size": "512MB", "wal_retrieve_retry_interval": "100ms"}
	start := func(o servers.Options) *servers.Server {
		o.Fast, o.Settings = true, settings
		s, err := servers.Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	a := &arena{primary: start(servers.Options{Name: "storm"})}
	for _, name := range []string{theDatabase, theTwin} {
		if _, err := a.primary.CreateDatabase(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	prepare(t, observer(t, a.direct()), clientOf(t, a.direct()))
	leasesAlone(t, clientOf(t, a.primary.URL(theTwin)))
	a.standby = start(servers.Options{Name: "storm-standby", StandbyOf: a.primary})
	if err := errors.Join(a.standby.Follow(t.Context(), a.primary), a.primary.WaitFor(t.Context(), a.standby)); err != nil {
		t.Fatal(err)
	}
	return a
}

// direct is the database past all that may fail.
func (a *arena) direct() string { return a.primary.URL(theDatabase) }

// copyLease makes the twin's row what the database's own is, with a later end, so that a renewal there would succeed.
func (a *arena) copyLease(ctx context.Context, conn *pgx.Conn) error {
	name, token, _, err := theHolder(ctx, conn)
	if err != nil {
		return err
	}
	twin, err := pgx.Connect(ctx, a.primary.URL(theTwin))
	if err != nil {
		return err
	}
	defer twin.Close(ctx)
	_, err = twin.Exec(ctx, `SET synchronous_commit = local`)
	if err == nil {
		_, err = twin.Exec(ctx, `INSERT INTO public.hare_leases VALUES ($1, $2, $3, now(), now(), now() + interval '1 hour')
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, token = excluded.token, expires_at = excluded.expires_at`, theLease, name, token)
	}
	return err
}

// failOver takes the standby away for a while, and then the primary: the standby takes over with what it had. Nothing that a
// candidate was told before may be missing.
func (a *arena) failOver(t *testing.T, c *crew) {
	t.Helper()
	ctx := t.Context()
	if err := a.standby.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	sleep(ctx, 3*ttl/2) // the holder learns that it cannot renew, and others that they cannot acquire
	if err := errors.Join(a.primary.Kill(ctx), a.standby.Restart(ctx), a.standby.Promote(ctx)); err != nil {
		t.Fatal(err)
	}
	a.primary, a.standby = a.standby, a.primary
	links := []*proxy.Proxy{c.trunk}
	for _, s := range c.slots {
		if s.number%2 == 0 {
			links = append(links, s.link)
		}
	}
	for _, l := range links {
		if err := l.Lead(a.direct()); err != nil {
			t.Fatal(err)
		}
		l.Cut()
	}
}

// lie answers one message about the lease with what its server never said, or puts that in place of the answer.
func (e event) lie(ctx context.Context, link *proxy.Proxy) {
	armed := link.Arm(proxy.Fault{Statement: e.word, Do: proxy.MakeUp, Reply: replies[e.reply], Answer: e.done})
	defer link.Disarm(armed)
	select {
	case <-armed.Struck():
	case <-time.After(ttl / 2):
	case <-ctx.Done():
	}
}

// replies are what is made up.
var replies = []proxy.Reply{proxy.PgBouncerCrashed, proxy.PgDogLost, proxy.OdysseyLost}

// lockWords are the words of an acquisition, and of a renewal.
var lockWords = []string{"FOR UPDATE", "FOR NO KEY UPDATE"}
