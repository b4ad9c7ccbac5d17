package postgres_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/servers"
)

// payload has the columns of the benchmarks in the design: what most rows of most programs look like.
type payload struct {
	ID       int64
	Title    string
	Author   string
	Stocked  bool
	At       time.Time
	Price    float64
	Subtitle *string
	Cover    []byte
}

const (
	payloadTable = `CREATE TABLE payload (id bigint PRIMARY KEY, title text, author text, stocked boolean, at timestamptz, price float8, subtitle text, cover bytea)`
	payloadRows  = `INSERT INTO payload SELECT i, 'The title of ' || i, 'Author ' || i, i % 2 = 0, now(), i / 7.0,
		CASE WHEN i % 2 = 0 THEN 'Subtitle ' || i END, decode(repeat('ab', 32), 'hex') FROM generate_series(1, 10000) AS i`
	payloadColumns = `SELECT id, title, author, stocked, at, price, subtitle, cover FROM payload`
	byKey          = payloadColumns + ` WHERE id = $1`
	upTo           = payloadColumns + ` WHERE id <= $1 ORDER BY id`
)

var payloadDests = dests(reflect.TypeFor[payload]())

// readers read rows through hare's backend, and as pgx is used by hand.
func readers(tb testing.TB) (hare, pgx func(sql string, n int64) []payload) {
	tb.Helper()
	address := servers.Database(tb)
	db := open(tb, address)
	conn := acquire(tb, db)
	run(tb, conn, payloadTable)
	run(tb, conn, payloadRows)
	run(tb, conn, "ANALYZE payload")
	conn.Release()

	pool, err := pgxpool.New(context.Background(), address)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	ctx := tb.Context()
	hare = func(sql string, n int64) []payload {
		conn, err := db.Acquire(ctx)
		if err != nil {
			tb.Fatal(err)
		}
		defer conn.Release()
		rows, err := conn.Query(ctx, backend.Call{SQL: sql, Args: []any{n}})
		if err != nil {
			tb.Fatal(err)
		}
		var all []payload
		for rows.Next() {
			all = append(all, payload{})
			if err := rows.Scan(unsafe.Pointer(&all[len(all)-1]), payloadDests); err != nil {
				tb.Fatal(err)
			}
		}
		if err := rows.Close(); err != nil {
			tb.Fatal(err)
		}
		return all
	}
	pgx = func(sql string, n int64) []payload {
		rows, err := pool.Query(ctx, sql, n)
		if err != nil {
			tb.Fatal(err)
		}
		defer rows.Close()
		var all []payload
		for rows.Next() {
			var p payload
			if err := rows.Scan(&p.ID, &p.Title, &p.Author, &p.Stocked, &p.At, &p.Price, &p.Subtitle, &p.Cover); err != nil {
				tb.Fatal(err)
			}
			all = append(all, p)
		}
		if err := rows.Err(); err != nil {
			tb.Fatal(err)
		}
		return all
	}
	return hare, pgx
}

// TestAllocations: reading allocates no more than pgx used by hand for one row, and a fraction of it for many. The slices
// that both grow are part of both.
func TestAllocations(t *testing.T) {
	hare, pgx := readers(t)
	for _, c := range []struct {
		what  string
		sql   string
		n     int64
		share float64 // of what pgx allocates
	}{
		{"get", byKey, 2, 1},
		{"list of 100", upTo, 100, 0.5},
		{"list of 10 000", upTo, 10_000, 0.5},
	} {
		same(t, c.what, len(pgx(c.sql, c.n)), len(hare(c.sql, c.n)))
		ours := testing.AllocsPerRun(20, func() { hare(c.sql, c.n) })
		theirs := testing.AllocsPerRun(20, func() { pgx(c.sql, c.n) })
		t.Logf("%s: %.0f allocations, pgx by hand %.0f", c.what, ours, theirs)
		if ours > theirs*c.share {
			t.Errorf("%s: %.0f allocations are more than %.2f of the %.0f of pgx used by hand", c.what, ours, c.share, theirs)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	hare, pgx := readers(b)
	for _, c := range []struct {
		what, sql string
		n         int64
	}{{"get", byKey, 2}, {"list100", upTo, 100}, {"list10k", upTo, 10_000}} {
		for name, read := range map[string]func(string, int64) []payload{"hare": hare, "pgx": pgx} {
			b.Run(fmt.Sprintf("%s/%s", c.what, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					read(c.sql, c.n)
				}
			})
		}
	}
}
