package storm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

// theLease is what the candidates compete for.
const theLease = "storm"

// ttl is short, so that many terms fit into a minute, and other times follow from it. poll is their Options.Poll.
const (
	ttl  = 2 * time.Second
	poll = ttl / 10
)

// assignment is what a candidate has to know.
type assignment struct {
	Slot, Life int
	Seed       uint64
	URL        string
}

// name is how the lease's row calls the candidate, before a random part.
func (a assignment) name() string { return fmt.Sprintf("%d.%d", a.Slot, a.Life) }

// word is what a candidate says: one of these things.
type word struct {
	Reading *reading `json:",omitempty"`
	Write   *write   `json:",omitempty"`
	Returns string   `json:",omitempty"` // Run has returned although it was not stopped
}

// reading is an instant of the database's clock at which a candidate trusted its term.
//
// The clock is read first, and Term.Err afterwards: what is still trusted then was trusted at the reading, too, however
// long the process stood still in between. The other way round a process that is stopped between the two would claim an
// instant at which it had no say.
type reading struct {
	Token  int64
	Holder string
	At     int64 // microseconds, as all times of the evidence
}

// write is a transaction of a candidate, and what it was told of its end.
type write struct {
	ID, Kind, Outcome string
}

// candidate is the process.
type candidate struct {
	assignment
	client *hare.Client
	random *rand.Rand
	writes atomic.Int64

	mu    sync.Mutex
	words *json.Encoder
}

// candidateProgram competes for the lease until its orders end.
func candidateProgram(orders *json.Decoder, words *json.Encoder) error {
	c := &candidate{words: words}
	if err := orders.Decode(&c.assignment); err != nil {
		return err
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})))
	c.random = c.source(0)
	conns, err := hare.Open(context.Background(), hare.Config{Connections: map[string]string{"main": c.URL}})
	if err != nil {
		return err
	}
	defer conns.Close()
	if c.client, err = conns.Client("main"); err != nil {
		return err
	}
	ctx := hare.WithConnections(context.Background(), conns)
	lease := leases.New(c.client, theLease, leases.Options{TTL: ttl, Poll: poll, Holder: c.name(),
		// With these a renewal that waits for a locked row mostly still waits when the row expires. Not all have one rhythm.
		Interval:    c.between(ttl/10, ttl/7).Truncate(time.Millisecond),
		LockTimeout: c.between(ttl/5, ttl*23/100).Truncate(time.Millisecond),
		// A busy machine takes long to log a new connection in.
		StatementTimeout: ttl / 2, StallTimeout: ttl * 7 / 10,
	})
	stopping, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			err := lease.Run(ctx, c.lead) // it returns when lead does by itself
			select {
			case <-stopping:
				return
			default:
			}
			if err != nil {
				c.say(word{Returns: err.Error()})
				sleep(ctx, poll)
			}
		}
	}()
	_ = orders.Decode(&struct{}{}) // the end of the orders
	close(stopping)
	bounded, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err = lease.Stop(bounded)
	<-ended
	return err
}

// source is a source of random numbers for one goroutine.
func (c *candidate) source(goroutine uint64) *rand.Rand {
	return rand.New(rand.NewPCG(c.Seed, uint64(c.Slot)<<32|uint64(c.Life)<<8|goroutine))
}

func (c *candidate) say(w word) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.words.Encode(w); err != nil {
		os.Exit(3) // nobody listens any more
	}
}

// lead is the work of a term: it writes and writes, and returns in the end, if nothing else ends it before. Beside it go slow
// writes, one of which is under way at almost any time, behind the fence and as the control, and the readings.
func (c *candidate) lead(ctx context.Context, term *leases.Term) error {
	ctx, cancel := context.WithTimeout(ctx, c.between(time.Second, 15*time.Second))
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	for i, kind := range []string{fenced, unfenced} {
		beside.Go(func() {
			for random := c.source(uint64(2*term.Token()) + uint64(i)); ctx.Err() == nil; {
				c.write(ctx, term, kind, true, random)
			}
		})
	}
	beside.Go(func() {
		for ; ctx.Err() == nil; sleep(ctx, ttl/80) {
			c.read(ctx, term)
		}
	})
	for ; ctx.Err() == nil; sleep(ctx, c.between(20*time.Millisecond, 50*time.Millisecond)) {
		c.write(ctx, term, fenced, false, c.random)
	}
	return nil
}

// read says at what time the term is trusted.
func (c *candidate) read(ctx context.Context, term *leases.Term) {
	at := int64(0)
	err := transactions.Atomic(ctx, func(ctx context.Context) error { return c.scan(ctx, &at, `SELECT `+micros("clock_timestamp()")) }, transactions.ReadOnly())
	if err == nil && term.Err() == nil {
		c.say(word{Reading: &reading{Token: term.Token(), Holder: term.Holder(), At: at}})
	}
}

// write writes to the journal. Those that are slow, and half of the others, are stubborn, as those of a program that does not
// watch its ctx are. Some pause where it does most harm.
func (c *candidate) write(ctx context.Context, term *leases.Term, kind string, slow bool, random *rand.Rand) {
	w := write{ID: fmt.Sprintf("%s.%d", c.name(), c.writes.Add(1)), Kind: kind}
	level := transactions.ReadCommitted
	if random.IntN(2) == 0 {
		level = transactions.RepeatableRead
	}
	if slow || random.IntN(2) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
	}
	err := transactions.Atomic(ctx, func(ctx context.Context) error {
		if slow || random.IntN(2) == 0 { // a snapshot that is older than the fence
			if err := c.scan(ctx, new(int64), `SELECT 1`); err != nil {
				return err
			}
			hesitate(ctx, random)
		}
		if slow {
			sleep(ctx, logarithmic(random, ttl/40, ttl/2))
		}
		if kind == fenced {
			if err := term.Fence(ctx); err != nil {
				return err
			}
		}
		hesitate(ctx, random)
		_, err := c.client.Exec(ctx, `INSERT INTO journal (id, kind, token, holder, isolation) VALUES ($1, $2, $3, $4, $5)`,
			w.ID, kind, term.Token(), term.Holder(), string(level))
		hesitate(ctx, random)
		return err
	}, transactions.Isolation(level), transactions.StatementTimeout(5*time.Second), transactions.LockTimeout(time.Second))
	w.Outcome = transactions.OutcomeOf(err).String()
	c.say(word{Write: &w})
	if err != nil {
		slog.Debug("write", "id", w.ID, "error", err)
		sleep(ctx, ttl/40) // a server that refuses connections is not asked without end
	}
}

// hesitate waits inside a transaction: mostly not at all, sometimes for long.
func hesitate(ctx context.Context, random *rand.Rand) {
	switch n := random.IntN(60); {
	case n == 0:
		sleep(ctx, logarithmic(random, ttl/20, ttl/2))
	case n < 12:
		sleep(ctx, logarithmic(random, time.Millisecond, ttl/100))
	}
}

func (c *candidate) scan(ctx context.Context, value *int64, sql string) error {
	rows, err := c.client.Query(ctx, sql)
	if err != nil {
		return err
	}
	for rows.Next() {
		err = errors.Join(err, rows.Scan(value))
	}
	return errors.Join(err, rows.Close())
}

func (c *candidate) between(from, to time.Duration) time.Duration {
	return from + time.Duration(c.random.Int64N(int64(to-from)))
}

// sleep waits for d, or less when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
