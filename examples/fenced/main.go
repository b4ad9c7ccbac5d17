// Fenced is a service that may run in any number of instances and writes one sequence: the issues of a catalogue, each of
// which is a row in its database and an order at a printer, which is another system. Whatever happens to the instance that
// writes, no issue of a term is written or printed after one of a later term.
//
//	fenced -url postgres://user:password@host/database -printer http://host:port
//	fenced -print 127.0.0.1:8080
//
// The second form is the printer.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/hare-go/hare/backends/postgres"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
)

func main() {
	url := flag.String("url", "", "the database, as in postgres://user:password@host/database")
	printer := flag.String("printer", "", "the printer, as in http://host:port")
	printAt := flag.String("print", "", "be the printer at this address, as in 127.0.0.1:8080")
	ttl := flag.Duration("ttl", leases.DefaultTTL, "how long nobody writes after the one that writes was killed")
	every := flag.Duration("every", time.Second, "the time between two issues")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *printAt != "" {
		server := &http.Server{Addr: *printAt, Handler: &Printer{Out: os.Stdout}, ReadHeaderTimeout: time.Minute}
		context.AfterFunc(ctx, func() { _ = server.Close() })
		if err = server.ListenAndServe(); ctx.Err() != nil {
			err = nil
		}
	} else {
		err = run(ctx, *url, *printer, *ttl, *every)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fenced:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url, printer string, ttl, every time.Duration) error {
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
	if err := hare.CreateTables(ctx, client, Issue{}); err != nil {
		return err
	}
	lease := leases.New(client, "catalogue", leases.Options{TTL: ttl})
	return lease.Run(ctx, func(ctx context.Context, term *leases.Term) error {
		for {
			if err := Publish(ctx, term, printer); err != nil && ctx.Err() == nil {
				slog.Warn("an issue failed", "error", err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(every):
			}
		}
	})
}
