package leases_test

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"runtime"
	"strconv"
	"testing"
	"time"

	_ "github.com/hare-go/hare/backends/postgres"
	_ "github.com/hare-go/hare/backends/sqlite"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/leases"
)

// TestMain lets more tests run at once than there are processors: they wait more than they work. -parallel overrides it.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", strconv.Itoa(max(8, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	servers.Main(m)
}

// place is a database with leases in it.
type place struct {
	*testing.T
	url string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	return &place{T: t, url: servers.Database(t)}
}

// client is one of connections of its own, as another process would have it.
func (p *place) client() *hare.Client {
	p.Helper()
	_, client := p.connect(p.url)
	return client
}

// connect opens connections of a URL.
func (p *place) connect(url string) (*hare.Connections, *hare.Client) {
	p.Helper()
	conns, err := hare.Open(p.Context(), hare.Config{Connections: map[string]string{"main": url}})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(conns.Close)
	client, err := conns.Client("main")
	if err != nil {
		p.Fatal(err)
	}
	return conns, client
}

// within gives a ctx in which Atomic finds the client's connections.
func within(t *testing.T, conns *hare.Connections) context.Context {
	return hare.WithConnections(t.Context(), conns)
}

// quiet keeps what leases tell out of the test's output.
var quiet = slog.New(slog.DiscardHandler)

// quick are options for tests that wait for an expiry.
func quick() leases.Options {
	opts := long
	opts.Interval, opts.Margin, opts.Poll = 300*time.Millisecond, time.Second, 200*time.Millisecond
	return opts
}

// fleeting are options for a test that waits for the end of the TTL, with as much patience as that allows.
func fleeting(ttl time.Duration) leases.Options {
	const second = time.Second
	return leases.Options{TTL: ttl, Interval: 400 * time.Millisecond, Margin: 300 * time.Millisecond, StallTimeout: ttl - second, StatementTimeout: ttl - 3*second/2,
		LockTimeout: ttl - 2*second, IdleTimeout: ttl, Poll: 200 * time.Millisecond, Logger: quiet}
}

// stop stops a lease at the end of the test.
func (p *place) lease(c *hare.Client, name string, opts leases.Options) *leases.Lease {
	p.Helper()
	l := leases.New(c, name, opts)
	p.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = l.Stop(ctx)
	})
	return l
}

func (p *place) acquire(l *leases.Lease) *leases.Term {
	p.Helper()
	term, err := l.Acquire(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	return term
}

// try is TryAcquire, and once more for as long as a busy machine is too slow for an answer.
func (p *place) try(l *leases.Lease) (term *leases.Term, err error) {
	p.Helper()
	p.eventually("an answer to an acquisition", func() bool {
		term, err = l.TryAcquire(p.Context())
		var late *hare.TimeoutError
		var blocked *leases.BlockedError
		var lost *leases.LeaseLostError
		return errors.As(err, &blocked) || !errors.As(err, &late) && !errors.As(err, &lost)
	})
	return term, err
}

// held is how an acquisition is refused because somebody else holds the lease.
func (p *place) held(l *leases.Lease) *leases.HeldError {
	p.Helper()
	return as[*leases.HeldError](p.T, second(p.try(l)))
}

// exec runs SQL on a connection of the pool.
func (p *place) exec(c *hare.Client, sql string, args ...any) {
	p.Helper()
	if _, err := c.Exec(p.Context(), sql, args...); err != nil {
		p.Fatal(err)
	}
}

// one is the only lease that there is.
func (p *place) one(c *hare.Client) leases.Info {
	p.Helper()
	list, err := leases.List(p.Context(), c)
	if err != nil {
		p.Fatal(err)
	}
	if len(list) != 1 {
		p.Fatalf("%d leases, want one", len(list))
	}
	return list[0]
}

// eventually waits for a condition.
func (p *place) eventually(what string, condition func() bool) {
	p.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if condition() {
			return
		}
	}
	p.Fatalf("never: %s", what)
}

// as asserts that err is a T, and returns it.
func as[T error](t *testing.T, err error) T {
	t.Helper()
	var target T
	if !errors.As(err, &target) {
		t.Fatalf("got %T %v, want a %T", err, err, target)
	}
	return target
}
