package leases_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

// exampleTB lets an example have a database as a test has it.
type exampleTB struct {
	testing.TB // nil: what an example does not use

	ends []func()
}

func (tb *exampleTB) Helper()                  {}
func (tb *exampleTB) Context() context.Context { return context.Background() }
func (tb *exampleTB) Cleanup(end func())       { tb.ends = append(tb.ends, end) }
func (tb *exampleTB) Fatal(args ...any)        { log.Fatal(args...) }

func (tb *exampleTB) Errorf(format string, args ...any) { log.Fatalf(format, args...) }

// fleet is a database and the connections of two programs of a fleet.
func fleet() (ctx context.Context, client, other *hare.Client, done func()) {
	tb := &exampleTB{}
	url := servers.Database(tb)
	var clients [2]*hare.Client
	for i := range clients {
		connections, err := hare.Open(context.Background(), hare.Config{Connections: map[string]string{"main": url}})
		if err != nil {
			log.Fatal(err)
		}
		tb.Cleanup(connections.Close)
		if clients[i], err = connections.Client("main"); err != nil {
			log.Fatal(err)
		}
		if i == 0 {
			ctx = hare.WithConnections(context.Background(), connections)
		}
	}
	return ctx, clients[0], clients[1], func() {
		for i := range tb.ends {
			tb.ends[len(tb.ends)-1-i]()
		}
	}
}

// Run waits for the lease and runs a function while it holds it.
func ExampleLease_Run() {
	ctx, client, _, done := fleet()
	defer done()

	lease := leases.New(client, "nightly-report", leases.Options{Logger: slog.New(slog.DiscardHandler)})
	err := lease.Run(ctx, func(ctx context.Context, term *leases.Term) error {
		fmt.Println("at work in term", term.Token())
		return nil
	})
	fmt.Println(err)
	// Output:
	// at work in term 1
	// <nil>
}

// A job that each instance is told to do at the same time is done by the first; the others have nothing to do.
func ExampleLease_TryAcquire() {
	ctx, client, other, done := fleet()
	defer done()

	job := func(client *hare.Client, work func(ctx context.Context) error) error {
		lease := leases.New(client, "nightly-report", leases.Options{Logger: slog.New(slog.DiscardHandler)})
		term, err := lease.TryAcquire(ctx)
		if held := (*leases.HeldError)(nil); errors.As(err, &held) {
			fmt.Println("somebody else does it, in term", held.Token)
			return nil
		}
		if err != nil {
			return err
		}
		defer func() { _ = term.Release() }() // an error is logged, and the lease expires by itself
		ctx, cancel := term.Context(ctx)
		defer cancel()
		return work(ctx)
	}
	err := job(client, func(context.Context) error {
		fmt.Println("at work")
		return job(other, func(context.Context) error { return errors.New("both are at work") })
	})
	fmt.Println(err)
	// Output:
	// at work
	// somebody else does it, in term 1
	// <nil>
}

// A term is ended by force, and what it writes behind a fence is refused from then on.
func ExampleTerm_Fence() {
	ctx, client, other, done := fleet()
	defer done()

	if _, err := client.Exec(ctx, "CREATE TABLE report (term bigint)"); err != nil {
		log.Fatal(err)
	}
	lease := leases.New(client, "nightly-report", leases.Options{Logger: slog.New(slog.DiscardHandler)})
	term, err := lease.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	write := func() error {
		return transactions.Atomic(ctx, func(ctx context.Context) error {
			if err := term.Fence(ctx); err != nil {
				return err
			}
			_, err := client.Exec(ctx, "INSERT INTO report VALUES ($1)", term.Token())
			return err
		})
	}
	fmt.Println(write())
	if _, err := leases.ForceRelease(ctx, other, "nightly-report", term.Token()); err != nil {
		log.Fatal(err)
	}
	lost := (*leases.LeaseLostError)(nil)
	fmt.Println(errors.As(write(), &lost))
	// Output:
	// <nil>
	// true
}

// OnStart and OnEnd come in pairs, and only where a term was held.
func ExampleOptions() {
	ctx, client, _, done := fleet()
	defer done()

	var holding atomic.Bool // a gauge, for example
	lease := leases.New(client, "nightly-report", leases.Options{
		TTL:     time.Minute,
		Holder:  "reports in Frankfurt",
		OnStart: func(t *leases.Term) { holding.Store(true); fmt.Println("term", t.Token(), "begins") },
		OnEnd:   func(t *leases.Term, err error) { holding.Store(false); fmt.Println("term", t.Token(), "is over:", err) },
		Logger:  slog.New(slog.DiscardHandler),
	})
	term, err := lease.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(holding.Load())
	fmt.Println(term.Release(), holding.Load())
	// Output:
	// term 1 begins
	// true
	// term 1 is over: <nil>
	// <nil> false
}

// List tells what an operator wants to know; "hare leases" prints it.
func ExampleList() {
	ctx, client, _, done := fleet()
	defer done()

	lease := leases.New(client, "nightly-report", leases.Options{Holder: "a", Logger: slog.New(slog.DiscardHandler)})
	if _, err := lease.Acquire(ctx); err != nil {
		log.Fatal(err)
	}
	show := func() {
		list, err := leases.List(ctx, client)
		if err != nil {
			log.Fatal(err)
		}
		for _, lease := range list {
			fmt.Println(lease.Name, lease.Token, lease.Held(), lease.Remaining > 19*time.Second)
		}
	}
	show()
	if err := lease.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	show()
	// Output:
	// nightly-report 1 true true
	// nightly-report 1 false false
}
