package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// nemesis carries out the schedule.
type nemesis struct {
	cluster *cluster
	crew    *crew

	mu   sync.Mutex
	done map[kind]int
}

// run does what the schedule says until ctx ends, and has healed everything when it returns. The events of one target
// are done one after the other, those of different targets side by side.
func (n *nemesis) run(ctx context.Context, events []event) error {
	start := time.Now()
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
				sleep(ctx, time.Until(start.Add(e.at)))
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
	hit, heal := n.act(context.WithoutCancel(ctx), e)
	acted := n.aim(ctx, e)
	err := hit()
	acted()
	if err != nil {
		return err
	}
	sleep(ctx, e.last)
	return heal()
}

// aim waits for the event's word. What it returns lets the word pass.
func (n *nemesis) aim(ctx context.Context, e event) (acted func()) {
	if e.word == "" {
		return func() {}
	}
	w := newWatch(e.word, e.hold)
	links := n.linksOf(e)
	for _, l := range links {
		l.add(w)
	}
	select {
	case <-w.caught:
	case <-time.After(aimTime):
	case <-ctx.Done():
	}
	return func() {
		for _, l := range links {
			l.remove(w)
		}
		close(w.acted)
	}
}

// linksOf are the links of an event's target.
func (n *nemesis) linksOf(e event) []*link {
	if e.class() != ofWorker {
		links := n.cluster.links[e.number]
		if e.worker != everybody {
			return links[e.worker : e.worker+1]
		}
		return links
	}
	var links []*link
	for _, toServer := range n.cluster.links {
		links = append(links, toServer[e.number])
	}
	return links
}

// act gives what an event does, and what heals it.
func (n *nemesis) act(ctx context.Context, e event) (hit, heal func() error) {
	nothing := func() error { return nil }
	switch e.class() {
	case ofWorker:
		m := n.crew.members[e.number]
		if e.kind == killWorker {
			return func() error { n.crew.kill(m); return nil }, func() error { return n.crew.start(m) }
		}
		return func() error { return m.signal(syscall.SIGSTOP) }, func() error { return m.signal(syscall.SIGCONT) }
	case ofServer:
		server := n.cluster.servers[e.number]
		restart := func() error { return server.Restart(ctx) }
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
	links := n.linksOf(e)
	state, lost := linkStates[e.kind], e.kind == loseLink || e.kind == loseAnswer
	return func() error { setAll(links, state); return nil }, func() error {
		if lost {
			setAll(links, linkCut)
		}
		setAll(links, linkWhole)
		return nil
	}
}

var linkStates = map[kind]linkState{cutLink: linkCut, stallLink: linkMute, loseLink: linkMute, stallAnswer: linkDeaf, loseAnswer: linkDeaf}

func setAll(links []*link, state linkState) {
	for _, l := range links {
		l.set(state)
	}
}
