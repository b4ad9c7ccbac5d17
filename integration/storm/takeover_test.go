package storm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/integration/servers"
)

// TestTakeoverAfterAKill measures how long it takes from a kill -9 of the holder until another process holds the lease: the
// rest of the TTL, and the time until somebody looks.
//
// Lease field case 20.
func TestTakeoverAfterAKill(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"directly", "through a pooler"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			direct := servers.Direct(servers.Database(t))
			conn := observer(t, direct)
			prepare(t, conn, clientOf(t, direct))
			url := with(t, proxyFor(t, direct).URL(), small)
			if way != "directly" {
				url = with(t, proxyFor(t, servers.PoolerFor(t, servers.PoolerOptions{URL: direct}).URL(direct)).URL(), small)
			}
			c := &crew{dir: t.TempDir()}
			for n := range 3 {
				c.slots = append(c.slots, &slot{number: n, url: url})
			}
			c.begin(t)
			var took []time.Duration
			for range 6 {
				took = append(took, c.succession(t, conn))
			}
			t.Logf("from the death of the holder to the next term, with a TTL of %v and a look each %v: %s", ttl, poll, distribution(took))
			if took[len(took)-1] > ttl+poll*5/4+slack {
				t.Errorf("it took up to %v", took[len(took)-1])
			}
			c.stop()
			for _, text := range c.faults {
				t.Error(text)
			}
			e := &c.evidence
			if err := e.gather(t.Context(), conn); err != nil {
				t.Fatal(err)
			}
			for _, text := range check(e).found {
				t.Error(text)
			}
		})
	}
}

// succession kills the holder at some time between two renewals, and says how long it took until there was another.
func (c *crew) succession(t *testing.T, conn *pgx.Conn) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n := &nemesis{crew: c}
	s, _, err := n.aim(ctx, conn)
	if err != nil || s == nil {
		t.Fatalf("nobody holds the lease: %v", err)
	}
	s.Unlock()
	sleep(ctx, rand.N(ttl/4))
	s, token, err := n.aim(ctx, conn)
	if err != nil || s == nil {
		t.Fatalf("nobody holds the lease: %v", err)
	}
	defer s.Unlock()
	began, err := now(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	s.kill()
	var acquired int64
	eventually(t, "somebody takes the lease", func() bool {
		err := conn.QueryRow(t.Context(), `SELECT `+micros("acquired_at")+` FROM public.hare_leases WHERE name = $1 AND token > $2`, theLease, token).Scan(&acquired)
		return err == nil
	})
	if err := c.start(s); err != nil {
		t.Fatal(err)
	}
	return between(began, acquired)
}

// distribution is some times, for people. It sorts them.
func distribution(times []time.Duration) string {
	slices.Sort(times)
	var sum time.Duration
	for _, d := range times {
		sum += d
	}
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("%d trials, least %v, median %v, mean %v, most %v", len(times), ms(times[0]), ms(times[len(times)/2]), ms(sum/time.Duration(len(times))), ms(times[len(times)-1]))
}
