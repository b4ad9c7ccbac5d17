package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	_ "github.com/hare-go/hare/backends/postgres"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/transactions"
)

// A worker is this program again. Its standard input says how it lives: the first line is its assignment, the line
// "rest" ends its calls, and the end of the input ends the worker, also when that is the death of its parent. It
// answers "resting" when its last call has returned.
const (
	workerArgument = "worker"
	restOrder      = "rest"
	restingAnswer  = "resting"
)

// assignment is what a worker has to know.
type assignment struct {
	Worker, Incarnation int
	Seed                uint64
	Dir                 string
	URLs                map[string]string // by database, through the worker's links
}

// callers is how many goroutines of a worker make calls.
const callers = 2

// worker is the process.
type worker struct {
	assignment
	journal *journal
}

func work(in io.Reader, out io.Writer) error {
	orders := bufio.NewScanner(in)
	orders.Scan()
	w := &worker{}
	if err := json.Unmarshal(orders.Bytes(), &w.assignment); err != nil {
		return fmt.Errorf("the assignment: %w", err)
	}
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})))
	var err error
	if w.journal, err = createJournal(journalName(w.Dir, w.Worker, w.Incarnation)); err != nil {
		return err
	}
	connections, err := hare.Open(context.Background(), hare.Config{Connections: w.URLs})
	if err != nil {
		return err
	}
	defer connections.Close()
	ctx := hare.WithConnections(context.Background(), connections)
	calling, rest := context.WithCancel(ctx)
	recovering, stop := context.WithCancel(ctx)
	var calls, recoveries sync.WaitGroup
	for n := range callers {
		random := rand.New(rand.NewPCG(w.Seed, uint64(w.Worker)<<32|uint64(w.Incarnation)<<8|uint64(n)))
		calls.Go(func() { w.call(calling, n, random) })
	}
	for _, coordinator := range databases {
		recoveries.Go(func() { w.recover(recovering, coordinator) })
		if w.Worker%2 == 0 {
			calls.Go(func() { w.sweep(calling, coordinator) })
		}
	}
	for orders.Scan() {
		if orders.Text() == restOrder {
			rest()
			calls.Wait()
			fmt.Fprintln(out, restingAnswer)
		}
	}
	rest()
	stop()
	calls.Wait()
	recoveries.Wait()
	return orders.Err()
}

// write writes to the journal, without which the worker is worth nothing.
func (w *worker) write(l line) {
	if err := w.journal.write(l); err != nil {
		fmt.Fprintln(os.Stderr, "worker: the journal:", err)
		os.Exit(1)
	}
}

// call makes one call after the other.
func (w *worker) call(ctx context.Context, caller int, random *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		i := newIntent(random)
		id := fmt.Sprintf("w%d.%d.%d-%d", w.Worker, w.Incarnation, caller, n)
		w.write(line{Call: id, Intent: &i})
		start := time.Now()
		err := i.transfer(ctx, id, w.write)
		w.write(line{Call: id, Result: resultOf(err, time.Since(start))})
		idle := time.Duration(random.Int64N(int64(8 * time.Millisecond)))
		if err != nil { // a server that refuses connections is not asked without end
			idle *= 8
		}
		sleep(ctx, idle)
	}
}

// recoveryPatience bounds recovery's work on one database.
const recoveryPatience = 3 * time.Second

// recover is the recoverer of an application.
func (w *worker) recover(ctx context.Context, coordinator string) {
	err := transactions.RunRecoverer(ctx, coordinator, transactions.Interval(time.Second), transactions.ParticipantTimeout(recoveryPatience),
		transactions.Progress(func(_, _ int, e transactions.Entry) { w.write(line{Recovered: recoveredOf(e, time.Time{})}) }))
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker: the recoverer:", err)
		os.Exit(1)
	}
}

// sweep finishes what it finds without regard for calls that are alive: nothing but the fence keeps it from doing harm.
func (w *worker) sweep(ctx context.Context, coordinator string) {
	for ; ctx.Err() == nil; sleep(ctx, 300*time.Millisecond) {
		began := time.Now()
		report, err := transactions.Recover(ctx, coordinator, transactions.Finish(), transactions.OlderThan(0),
			transactions.ParticipantTimeout(recoveryPatience), transactions.Retention(longerThanAnyPause))
		if err != nil {
			slog.Debug("recovery", "coordinator", coordinator, "error", err)
		}
		for _, e := range report.Entries {
			w.write(line{Recovered: recoveredOf(e, began)})
		}
	}
}

// recoveredOf is the line about an entry of a report.
func recoveredOf(e transactions.Entry, began time.Time) *recovered {
	r := &recovered{GID: e.GID, Action: string(e.Action), State: string(e.State), Began: began}
	if e.Err != nil {
		r.Error = e.Err.Error()
	}
	return r
}

// sleep waits for d, or less when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
