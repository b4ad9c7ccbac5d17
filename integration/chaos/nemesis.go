package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/hare-go/hare/integration/proxy"
)

// nemesis carries out the schedule.
type nemesis struct {
	cluster *cluster
	crew    *crew
	start   time.Time // of the schedule

	mu   sync.Mutex
	done map[kind]int
}

// reign carries out the whole schedule, failovers included, and has healed everything when it returns.
func (n *nemesis) reign(ctx context.Context, length time.Duration, events []event) error {
	n.start = time.Now()
	ctx, cancel := context.WithDeadline(ctx, n.start.Add(length))
	defer cancel()
	var whole, last, others []event
	for _, e := range events {
		switch {
		case e.kind == failOver:
			last = append(last, e)
		case e.ends():
			whole = append(whole, e)
		default:
			others = append(others, e)
		}
	}
	errs := make([]error, 2)
	var wait sync.WaitGroup
	wait.Go(func() { errs[0] = n.run(ctx, others) })
	wait.Go(func() {
		before, cancel := context.WithDeadline(ctx, n.start.Add(length-min(failoverTime, length/3)))
		defer cancel()
		if errs[1] = n.run(before, whole); errs[1] == nil {
			errs[1] = n.run(ctx, last)
		}
	})
	wait.Wait()
	<-ctx.Done()
	return errors.Join(errs...)
}

// run does what the schedule says until ctx ends, and has healed everything when it returns. The events of one target
// are done one after the other, those of different targets side by side.
func (n *nemesis) run(ctx context.Context, events []event) error {
	byTarget := map[target][]event{}
	for _, e := range events {
		byTarget[e.target()] = append(byTarget[e.target()], e)
	}
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	for _, list := range byTarget {
		wait.Go(func() {
			for _, e := range list {
				sleep(ctx, time.Until(n.start.Add(e.at)))
				if ctx.Err() != nil {
					return
				}
				if err := n.do(ctx, e); err != nil {
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, fmt.Errorf("%s %s: %w", e.kind, e.whom, err))
					return
				}
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// do does one thing, waits as long as it lasts, and heals it. ctx ends the waiting alone.
func (n *nemesis) do(ctx context.Context, e event) error {
	n.mu.Lock()
	n.done[e.kind]++
	n.mu.Unlock()
	if e.kind == failOver {
		return n.failOver(ctx, e)
	}
	hit, heal := n.act(context.WithoutCancel(ctx), e)
	release := n.aim(ctx, e)
	err := hit()
	if e.kind == lateMessage {
		defer release()
	} else {
		release()
	}
	if err != nil {
		return err
	}
	sleep(ctx, e.last)
	return heal()
}

// aim waits until one of the target's links carries the event's word. What it returns lets the word pass, or its answer.
func (n *nemesis) aim(ctx context.Context, e event) (release func()) {
	if e.word == "" {
		return func() {}
	}
	fault := proxy.Fault{Statement: e.word, Do: proxy.Hold, Answer: e.when == afterAnswer}
	switch {
	case e.kind == madeUp:
		fault.Do, fault.Reply = proxy.MakeUp, replies[e.reply]
	case e.when == atWord:
		fault.Do = proxy.Delay // by nothing
	}
	struck := make(chan struct{}, len(databases)*len(n.crew.members))
	var disarm []func()
	for _, l := range n.linksOf(e) {
		armed, gone := l.Arm(fault), make(chan struct{})
		go func() {
			select {
			case <-armed.Struck():
				struck <- struct{}{}
			case <-gone:
			}
		}()
		disarm = append(disarm, func() { close(gone); l.Disarm(armed) })
	}
	select {
	case <-struck:
	case <-time.After(aimTime):
	case <-ctx.Done():
	}
	return func() {
		for _, f := range disarm {
			f()
		}
	}
}

// linksOf are the links that an event breaks, or on which it waits for its word.
func (n *nemesis) linksOf(e event) []*proxy.Proxy {
	if e.class() == ofLink && e.worker != everybody {
		return n.cluster.links[e.number][e.worker : e.worker+1]
	}
	var links []*proxy.Proxy
	for server, toServer := range n.cluster.links {
		switch {
		case e.class() == ofWorker:
			links = append(links, toServer[e.number])
		case (server == e.number) != e.elsewhere():
			links = append(links, toServer...)
		}
	}
	return links
}

// act gives what an event does, and what heals it.
func (n *nemesis) act(ctx context.Context, e event) (hit, heal func() error) {
	nothing := func() error { return nil }
	switch e.class() {
	case ofStandby, ofPooler:
		return n.actBeside(ctx, e)
	case ofWorker:
		m := n.crew.members[e.number]
		if e.kind == killWorker {
			return func() error { n.crew.kill(m); return nil }, func() error { return n.crew.start(m) }
		}
		return func() error { return m.signal(syscall.SIGSTOP) }, func() error { return m.signal(syscall.SIGCONT) }
	case ofServer:
		server := n.cluster.servers[e.number]
		restart := func() error { return errors.Join(server.Restart(ctx), n.cluster.follow(ctx, e.number, false)) }
		switch e.kind {
		case killServer:
			return func() error { return server.Kill(ctx) }, restart
		case pauseServer:
			return func() error { return server.Pause(ctx) }, func() error { return server.Resume(ctx) }
		case restartServer:
			return func() error { return server.Stop(ctx) }, restart
		}
		return func() error { return n.cluster.endSessions(ctx, e.number) }, nothing
	}
	if e.kind == lateMessage || e.kind == madeUp {
		return nothing, nothing
	}
	return func() error { return each(n.linksOf(e), breaks[e.kind]) }, func() error {
		if e.kind == loseAnswer {
			_ = each(n.linksOf(e), (*proxy.Proxy).Refuse) // it has no error
		}
		return each(n.linksOf(e), (*proxy.Proxy).Heal)
	}
}

// breaks is what breaks a link.
var breaks = map[kind]func(*proxy.Proxy){
	cutLink: (*proxy.Proxy).Refuse, loseLink: (*proxy.Proxy).Swallow, stallLink: (*proxy.Proxy).Stall,
	loseAnswer: (*proxy.Proxy).StallAnswers, stallAnswer: (*proxy.Proxy).StallAnswers,
}

// each does something to each link, which cannot fail.
func each(links []*proxy.Proxy, do func(*proxy.Proxy)) error {
	for _, l := range links {
		do(l)
	}
	return nil
}
