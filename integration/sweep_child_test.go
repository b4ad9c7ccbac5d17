package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

// order tells the program "call" what to do next: one JSON value for each round, on its standard input.
type order struct {
	GoOn bool // nothing but to go on with the call at which it waits

	URLs         map[string]string // with the first order
	Databases    []string          // the coordinator first
	Text         string
	Call         int64 // the call at which it waits
	After        bool  // it has run by then
	Lost         bool  // it, or its answer, is lost then
	Gone         bool  // so is every later one
	Background   bool  // what hare does after the end of a call counts as well
	TillSIGTERM  bool  // it waits for this signal, by which its context is cancelled
	PhaseTimeout time.Duration
}

// word is what the program says, one JSON value on its standard output.
type word struct {
	Waits    string // at which call
	End      *end
	Canceled bool // the error is about the cancelled context
}

// callProgram is a program that makes distributed transactions as it is told, until it gets no more orders or SIGTERM.
func callProgram() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	p := &program{ctx: ctx, plan: &faults.Plan{}, out: json.NewEncoder(os.Stdout), goOn: make(chan struct{})}
	orders := make(chan order)
	go func() {
		defer close(orders)
		for in := json.NewDecoder(os.Stdin); ; {
			var o order
			if in.Decode(&o) != nil {
				return
			}
			if o.GoOn {
				p.goOn <- struct{}{}
				continue
			}
			orders <- o
		}
	}()
	for ctx.Err() == nil {
		select {
		case o, more := <-orders:
			if !more {
				p.conns.Close()
				return
			}
			p.round(o)
		case <-ctx.Done():
		}
	}
	p.conns.Close()
}

type program struct {
	ctx   context.Context
	plan  *faults.Plan
	conns *hare.Connections
	out   *json.Encoder
	goOn  chan struct{}
}

func (p *program) say(w word) {
	if err := p.out.Encode(w); err != nil {
		os.Exit(3) // nobody listens any more
	}
}

func (p *program) round(o order) {
	if p.conns == nil {
		var err error
		if p.conns, err = connectThrough(p.ctx, p.plan, o.URLs); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	counts := marked
	if o.Background {
		counts = everything
	}
	k := strike{after: o.After, gone: o.Gone, act: func(e faults.Event) error {
		p.say(word{Waits: describe(e)})
		if o.TillSIGTERM {
			<-p.ctx.Done()
		} else {
			<-p.goOn
		}
		if o.Lost {
			return faults.ErrInjected
		}
		return nil
	}}
	k.arm(p.plan, o.Call, counts)
	ctx := context.WithValue(hare.WithConnections(p.ctx, p.conns), mark{}, true)
	err := transactions.Distributed(ctx, o.Databases[0], o.Databases[1:], func(d *hare.Distributed) error { return write(d, o.Text, o.Databases...) },
		silent, phases(o.PhaseTimeout))
	p.say(word{End: endOf(err), Canceled: errors.Is(err, context.Canceled)})
}

// child is a process of the program, on the test's side.
type child struct {
	*sweep
	*process
}

// start starts the program.
func (s *sweep) start() *child {
	s.Helper()
	return &child{sweep: s, process: launch(s.T, "call")}
}

// startUsed starts the program and lets it make its first call.
func (s *sweep) startUsed() *child {
	s.Helper()
	c := s.start()
	c.order(order{Text: s.next(), Call: never})
	if w, _ := c.heard(); w.End == nil || w.End.Outcome != transactions.Committed {
		c.fail("the first call of the program: %+v", w)
	}
	return c
}

// order gives the program an order.
func (c *child) order(o order) {
	c.Helper()
	o.URLs, o.Databases = c.subjectURLs(), c.databases
	if err := json.NewEncoder(c.orders).Encode(o); err != nil {
		c.fail("the program takes no orders: %v", err)
	}
}

// goOn lets it go on with the call at which it waits.
func (c *child) goOn() { c.order(order{GoOn: true}) }

// heard is what the program says next; more is false when it has ended.
func (c *child) heard() (w word, more bool) {
	c.Helper()
	timer := time.AfterFunc(2*time.Minute, func() { _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	if err := c.words.Decode(&w); err != nil {
		return word{}, false
	}
	return w, true
}
