// Fleet is a service of which any number of instances may run and one does the work: every second it gives back the copies
// of books that were reserved and not fetched in time. When that instance ends, is killed or is cut off, another goes on.
//
//	fleet -url postgres://user:password@host/database
//
// It is the quick start of docs/leases.md. Reservations come from elsewhere; with -reserve it makes a few.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/hare-go/hare/backends/postgres"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/query"
)

// Reservation is a copy that waits at the desk for its reader.
type Reservation struct {
	ID      int64
	BookID  int64
	Expires time.Time
}

// Reservations is the queryset of all reservations.
var Reservations = hare.Objects[Reservation]()

func main() {
	url := flag.String("url", "", "the database, as in postgres://user:password@host/database")
	ttl := flag.Duration("ttl", leases.DefaultTTL, "how long nobody works after the one at work was killed")
	reserve := flag.Int("reserve", 0, "make so many reservations that are not fetched, and end")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *url, *ttl, *reserve); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string, ttl time.Duration, reserve int) error {
	connections, err := hare.Open(ctx, hare.Config{Connections: map[string]string{"main": url}})
	if err != nil {
		return err
	}
	defer connections.Close()
	hare.SetDefault(connections)
	client, err := connections.Client("main")
	if err != nil {
		return err
	}
	if err := hare.CreateTables(ctx, client, Reservation{}); err != nil {
		return err
	}
	if reserve > 0 {
		return Reservations.BulkCreate(ctx, make([]Reservation, reserve))
	}
	return work(ctx, client, ttl)
}

// work waits for the lease and does the work while this instance holds it. It returns when ctx ends.
func work(ctx context.Context, client *hare.Client, ttl time.Duration) error {
	lease := leases.New(client, "reservations", leases.Options{TTL: ttl})
	return lease.Run(ctx, func(ctx context.Context, term *leases.Term) error {
		fmt.Printf("term %d: at work\n", term.Token())
		for {
			n, err := Reservations.Filter(query.Q("expires__lt", time.Now())).Delete(ctx)
			switch {
			case n > 0:
				fmt.Printf("term %d: %d given back\n", term.Token(), n)
			case err != nil && ctx.Err() == nil:
				slog.Warn("giving back reservations failed; the next round tries again", "error", err)
			}
			select {
			case <-ctx.Done():
				// The term was lost, and Run waits for the next one; or the program is to end, and Run releases the lease.
				fmt.Printf("term %d: over: %v\n", term.Token(), context.Cause(ctx))
				return nil
			case <-time.After(time.Second):
			}
		}
	})
}
