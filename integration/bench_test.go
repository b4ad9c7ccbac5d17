package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/transactions"
)

// byHand is a distributed commit as one writes it with pgx.
type byHand struct {
	pools []*pgxpool.Pool
	calls int
}

// BenchmarkDistributed compares the distributed commit, one INSERT a database, with what one writes by hand without any
// recovery: statement by statement, and with the participants at the same time. Ratios within a run are what counts.
func BenchmarkDistributed(b *testing.B) {
	for _, participants := range []int{1, 2, 4} {
		databases := servers.Databases(b, participants+1)
		config := hare.Config{Connections: map[string]string{}}
		hand := &byHand{}
		var names []string
		for i, url := range databases {
			name := fmt.Sprintf("p%d", i)
			if i == 0 {
				name = "c"
			} else {
				names = append(names, name)
			}
			config.Connections[name] = url
			pool, err := pgxpool.New(b.Context(), url)
			if err != nil {
				b.Fatal(err)
			}
			defer pool.Close()
			hand.pools = append(hand.pools, pool)
		}
		conns, err := hare.Open(b.Context(), config)
		if err != nil {
			b.Fatal(err)
		}
		defer conns.Close()
		ctx := hare.WithConnections(b.Context(), conns)
		for name := range config.Connections {
			client, err := conns.Client(name)
			if err != nil {
				b.Fatal(err)
			}
			if err := hare.CreateTables(ctx, client, Note{}); err != nil {
				b.Fatal(err)
			}
		}
		for name, run := range map[string]func() error{
			"hare": func() error {
				return transactions.Distributed(ctx, "c", names, func(d *hare.Distributed) error {
					return write(d, "x", append([]string{"c"}, names...)...)
				})
			},
			"by hand, serial":   func() error { return hand.run(ctx, serially) },
			"by hand, parallel": func() error { return hand.run(ctx, atOnce) },
		} {
			b.Run(fmt.Sprintf("%d participants/%s", participants, strings.ReplaceAll(name, " ", "-")), func(b *testing.B) {
				for b.Loop() {
					if err := run(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func serially(n int, step func(i int) error) error {
	for i := range n {
		if err := step(i); err != nil {
			return err
		}
	}
	return nil
}

func atOnce(n int, step func(i int) error) error {
	errs := make([]error, n)
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { errs[i] = step(i) })
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// run commits one INSERT in each database: BEGIN, INSERT, PREPARE TRANSACTION in all but the first, COMMIT there,
// COMMIT PREPARED in the others.
func (h *byHand) run(ctx context.Context, phase func(n int, step func(i int) error) error) error {
	h.calls++
	gid := fmt.Sprintf("'bench_%d", h.calls)
	conns := make([]*pgxpool.Conn, len(h.pools))
	for i, pool := range h.pools {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		conns[i] = conn
	}
	for _, conn := range conns {
		if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
			return err
		}
		var id int64
		if err := conn.QueryRow(ctx, "INSERT INTO note (text) VALUES ($1) RETURNING id", "x").Scan(&id); err != nil {
			return err
		}
	}
	control := func(verb string) func(i int) error {
		return func(i int) error {
			_, err := conns[i+1].Exec(ctx, fmt.Sprintf("%s %s_%d'", verb, gid, i), pgx.QueryExecModeSimpleProtocol)
			return err
		}
	}
	if err := phase(len(conns)-1, control("PREPARE TRANSACTION")); err != nil {
		return err
	}
	if _, err := conns[0].Exec(ctx, "COMMIT"); err != nil {
		return err
	}
	return phase(len(conns)-1, control("COMMIT PREPARED"))
}
