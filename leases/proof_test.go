package leases_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
)

// What went wrong with leases elsewhere must not happen here: "Lease field case 3." in the comment of a test stands for a
// report of it.

// long is a TTL that no test waits for.
var long = leases.Options{TTL: time.Minute, LockTimeout: 20 * time.Second, StatementTimeout: 21 * time.Second, StallTimeout: 22 * time.Second,
	Interval: 10 * time.Second, Logger: quiet}

// session is a connection outside hare.
func (p *place) session() *pgx.Conn {
	p.Helper()
	conn, err := pgx.Connect(p.Context(), p.url)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// do runs statements on a connection outside hare.
func (p *place) do(conn *pgx.Conn, statements ...string) {
	p.Helper()
	for _, sql := range statements {
		if _, err := conn.Exec(p.Context(), sql); err != nil {
			p.Fatalf("%s: %v", sql, err)
		}
	}
}

// get is the one value that a query gives on a connection outside hare.
func get[T any](p *place, conn *pgx.Conn, sql string, args ...any) (value T) {
	p.Helper()
	if err := conn.QueryRow(p.Context(), sql, args...).Scan(&value); err != nil {
		p.Fatalf("%s: %v", sql, err)
	}
	return value
}

// table makes the table of leases, as the first acquisition does.
func (p *place) table() {
	p.Helper()
	conns, client := p.connect(p.url)
	defer conns.Close()
	if err := p.acquire(p.lease(client, "makes the table", long)).Release(); err != nil {
		p.Fatal(err)
	}
	p.exec(client, "DELETE FROM public.hare_leases")
}

// plant gives a lease a term by hand, which nobody renews, and which trusts itself for longer than its row says.
func (p *place) plant(conn *pgx.Conn, l *leases.Lease, name string, rest time.Duration) *leases.Term {
	p.Helper()
	p.do(conn, fmt.Sprintf(`INSERT INTO public.hare_leases VALUES ('%s', '%s', 7, now(), now(), clock_timestamp() + interval '%d milliseconds')`,
		name, l.Holder(), rest.Milliseconds()))
	return leases.Pretend(l, 7)
}

// row is all that a row says.
func (p *place) row(conn *pgx.Conn, name string) string {
	p.Helper()
	return get[string](p, conn, "SELECT coalesce((SELECT l::text FROM public.hare_leases l WHERE name = $1), 'none')", name)
}

// expired says whether a lease is free by the database's clock.
func (p *place) expired(conn *pgx.Conn, name string) bool {
	p.Helper()
	return get[bool](p, conn, "SELECT expires_at <= clock_timestamp() FROM public.hare_leases WHERE name = $1", name)
}

// expire ends a lease in the database, as its expiry would: nobody knows of it.
func (p *place) expire(conn *pgx.Conn, name string) {
	p.Helper()
	p.do(conn, "UPDATE public.hare_leases SET expires_at = clock_timestamp() WHERE name = '"+name+"'")
}

// inTime runs a test of what happens before a lease expires, and if it was too late for that once more, with more time.
func inTime(t *testing.T, test func(rest time.Duration) bool) {
	t.Helper()
	rest := 2 * time.Second
	for ; rest < time.Minute; rest *= 2 {
		if test(rest) {
			return
		}
	}
	t.Fatalf("in %v it comes too late to be a test", rest/2)
}

// lapse waits until a lease is free.
func (p *place) lapse(conn *pgx.Conn, name string) {
	p.Helper()
	p.eventually("the lease lapses", func() bool { return p.expired(conn, name) })
}

// waits waits until n sessions of the database wait for a lock.
func (p *place) waits(conn *pgx.Conn, n int) {
	p.Helper()
	p.eventually(fmt.Sprint(n, " wait for a lock"), func() bool {
		return get[int](p, conn, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == n
	})
}

// background runs fn beside the test, and gives its error.
func background(fn func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	return done
}

// pending says that something has not come to its end.
func pending(t *testing.T, what string, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Errorf("%s did not wait: %v", what, err)
	default:
	}
}

// level is a client's transaction isolation, for subtests.
var levels = []string{"read committed", "repeatable read", "serializable"}

// scan is the one value of a query in the transaction of ctx.
func scan[T any](ctx context.Context, c *hare.Client, sql string, args ...any) (value T, err error) {
	rows, err := c.Query(ctx, sql, args...)
	if err != nil {
		return value, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&value); err != nil {
			return value, err
		}
	}
	return value, rows.Err()
}
