package storm

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hare-go/hare/integration/servers"
)

// TestTakeoverAfterAKill measures how long it takes from a kill -9 of the holder until another process holds the lease: the
// rest of the TTL, and the time until somebody looks.
func TestTakeoverAfterAKill(t *testing.T) {
	t.Parallel()
	const trials = 5
	direct := servers.Direct(servers.Database(t))
	pooler := servers.PoolerFor(t, servers.PoolerOptions{URL: direct})
	for way, url := range map[string]string{"directly": direct + "?", "through a pooler": pooler.URL(direct) + "?" + unnamed} {
		t.Run(way, func(t *testing.T) {
			direct := servers.Direct(servers.Database(t))
			conn := observer(t, direct)
			prepare(t, conn, clientOf(t, direct))
			_ = url
			_ = trials
		})
	}
}

// distribution is some times, for people.
func distribution(times []time.Duration) string {
	slices.Sort(times)
	var sum time.Duration
	for _, d := range times {
		sum += d
	}
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("%d trials, least %v, median %v, mean %v, most %v", len(times), ms(times[0]), ms(times[len(times)/2]), ms(sum/time.Duration(len(times))), ms(times[len(times)-1]))
}
