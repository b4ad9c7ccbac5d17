package storm

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
)

// slack is what a busy machine may add to a bound.
const slack = 5 * time.Second

// settings are the schedule's seed and the length of the storm, from the environment.
func settings(t *testing.T) (seed uint64, length time.Duration) {
	t.Helper()
	seed, length = rand.Uint64N(1_000_000), time.Minute
	var err error
	if text := os.Getenv("HARE_STORM_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv("HARE_STORM_TIME"); text != "" {
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	return seed, length
}

// TestStorm: whatever is done to eight processes that compete for a lease, no two ever hold it, and none writes behind its fence
// when its term is over; and the lease is never without a holder for long. In the end a standby takes over, and has all that
// anybody was told.
func TestStorm(t *testing.T) {
	t.Parallel()
	seed, length := settings(t)
	t.Logf("HARE_STORM_SEED=%d HARE_STORM_TIME=%v", seed, length)
	a := newArena(t)
	conn := observer(t, a.direct())
	dir, err := os.MkdirTemp("", "hare-storm-") //nolint:usetesting // it stays when the test fails
	if err != nil {
		t.Fatal(err)
	}
	crew := muster(t, dir, a.direct(), seed)
	storm, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	n := &nemesis{crew: crew, arena: a, client: clientOf(t, proxyFor(t, a.direct()).URL())}
	if err := n.run(storm, plan(seed, length)); err != nil {
		t.Fatalf("%v; logs in %s", err, dir)
	}
	<-storm.Done()
	peace(t, conn)
	a.failOver(t, crew)
	conn = observer(t, a.direct())
	peace(t, conn)
	crew.stop()
	e := &crew.evidence
	if err := e.gather(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	c := check(e)
	c.judge(t, length)
	for _, text := range crew.faults {
		t.Error(text)
	}
	if t.Failed() {
		for _, e := range plan(seed, length) {
			t.Log(e)
		}
		t.Logf("the logs of the candidates are in %s", dir)
	} else if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// clientOf is the client of connections that end with the test.
func clientOf(t *testing.T, url string) *hare.Client {
	t.Helper()
	conns, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"main": url}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conns.Close)
	client, err := conns.Client("main")
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// prepare makes the tables.
func prepare(t *testing.T, conn *pgx.Conn, client *hare.Client) {
	t.Helper()
	leasesAlone(t, client)
	if _, err := conn.Exec(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
}

// leasesAlone makes the table of leases.
func leasesAlone(t *testing.T, client *hare.Client) {
	t.Helper()
	other := leases.New(client, "other", leases.Options{Logger: slog.New(slog.DiscardHandler)})
	if _, err := other.TryAcquire(t.Context()); err != nil { // the table of leases is there now
		t.Fatal(err)
	}
	if err := other.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// peace waits, when everything is whole again, until there is a holder whose fenced writes get through. What was done last
// may have left a transaction open that the others wait for, until its process gives up.
func peace(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	began, err := now(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a holder writes after the storm", func() bool {
		var n int
		err := conn.QueryRow(t.Context(), `SELECT count(*) FROM journal WHERE kind = $1 AND `+micros("inserted")+` > $2`, fenced, began).Scan(&n)
		return err == nil && n >= 5
	})
}

// judge tells what was found, and fails the test if it is not as promised.
func (c *checker) judge(t *testing.T, length time.Duration) {
	t.Helper()
	const most = 30
	for _, text := range c.found[:min(most, len(c.found))] {
		t.Error(text)
	}
	if n := len(c.found); n > most {
		t.Errorf("... and %d more violations", n-most)
	}
	c.summarize(t)
	written, forced := c.committed(fenced), c.forced()
	// What can be in the way of the next term: something that lasts, and the TTL.
	if gaps := c.gaps(); len(gaps) > 0 && gaps[0].last > 2*longest+ttl+slack {
		t.Errorf("nobody held the lease for %v before term %d", gaps[0].last, gaps[0].token)
	}
	if took := c.takeovers(); len(took) > 0 && took[len(took)-1] > ttl+poll*5/4+slack {
		t.Errorf("after the holder had been killed it took up to %v until there was another", took[len(took)-1])
	}
	if want := int(length / (5 * time.Second)); len(c.terms) < want || written < 5*want {
		t.Errorf("%d terms and %d fenced writes, want at least %d and %d: the storm let nobody work", len(c.terms), written, want, 5*want)
	}
	if forced >= 5 && c.overlaps == 0 {
		t.Errorf("%d terms were ended by hand, and yet no unfenced write met another holder: the storm shows nothing", forced)
	}
}

// forced is how many terms were ended by hand.
func (c *checker) forced() (n int) {
	for _, term := range c.terms {
		if term.forced {
			n++
		}
	}
	return n
}

// committed is how many writes of a kind there are.
func (c *checker) committed(kind string) (n int) {
	for _, w := range c.Journal {
		if w.Kind == kind {
			n++
		}
	}
	return n
}

// summarize logs the figures.
func (c *checker) summarize(t *testing.T) {
	t.Helper()
	done, outcomes := map[string]int{}, map[string]int{}
	for _, d := range c.Done {
		done[string(d.kind)]++
	}
	for _, w := range c.Writes {
		outcomes[w.Kind+" "+w.Outcome]++
	}
	t.Logf("%d terms, %d changes of the row, %d fenced writes, %d readings of a trusted term; violations: %d", len(c.terms), len(c.History), c.committed(fenced), len(c.Readings), len(c.found))
	t.Logf("%d terms were ended by ForceRelease", c.forced())
	t.Logf("the control: of %d unfenced writes %d committed beside another term", c.committed(unfenced), c.overlaps)
	t.Logf("done: %s; told of writes: %s", counts(done), counts(outcomes))
	if took := c.takeovers(); len(took) > 0 {
		t.Logf("from the death of a holder to the next term, undisturbed: %v", distribution(took))
	}
	if gaps := c.gaps(); len(gaps) > 0 {
		t.Logf("longest time without a holder: %v, before term %d", gaps[0].last, gaps[0].token)
	}
}

func counts(n map[string]int) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, strconv.Itoa(n[key])+" "+key)
	}
	return strings.Join(parts, ", ")
}
