package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/integration/servers"
)

// mirrored says which databases have a synchronous standby: each commit there waits for it.
func mirrored(name string) bool { return name != "b" }

// replies are what is made up.
var replies = map[string]proxy.Reply{"PgBouncer": proxy.PgBouncerCrashed, "PgDog": proxy.PgDogLost, "Odyssey": proxy.OdysseyLost}

// liars are their names, in order.
var liars = []string{"Odyssey", "PgBouncer", "PgDog"}

// actBeside gives what an event does to what stands beside a server, and what heals it.
func (n *nemesis) actBeside(ctx context.Context, e event) (hit, heal func() error) {
	c := n.cluster
	if e.kind == misleadPooler {
		return func() error { return c.lead(ctx, e.number, c.twin(e.number)) }, func() error { return c.lead(ctx, e.number, c.login(e.number)) }
	}
	standby := c.standbys[e.number]
	again := standby.Restart
	hit = func() error { return standby.Kill(ctx) }
	if e.kind == pauseStandby {
		again, hit = standby.Resume, func() error { return standby.Pause(ctx) }
	}
	return hit, func() error { return errors.Join(again(ctx), c.follow(ctx, e.number, true)) }
}

// failOver takes a standby away, and the server itself a while later; the standby comes back and takes over, with what it
// had. Whatever was acknowledged meanwhile would be lost.
func (n *nemesis) failOver(ctx context.Context, e event) error {
	c, working := n.cluster, context.WithoutCancel(ctx)
	standby := c.standbys[e.number]
	if err := standby.Kill(working); err != nil {
		return err
	}
	sleep(ctx, e.last)
	release := n.aim(ctx, e)
	err := c.servers[e.number].Kill(working)
	release()
	return errors.Join(err, standby.Restart(working), standby.Promote(working), c.takeOver(working, e.number))
}

// lead leads a pooler's clients to a database, also if the pooler has to be started again first.
func (c *cluster) lead(ctx context.Context, n int, to string) (err error) {
	for range 20 {
		if err = c.poolers[n].Lead(ctx, mainDatabase, to); err == nil {
			return nil
		}
		sleep(ctx, 200*time.Millisecond)
	}
	return err
}

// supervise starts a pooler again that has ended by itself, as a system's supervisor does, until ctx ends: PgBouncer 1.18 may
// crash when a client cancels a statement and goes away.
func (c *cluster) supervise(ctx context.Context) error {
	for ; ctx.Err() == nil; sleep(ctx, 200*time.Millisecond) {
		for n, p := range c.poolers {
			if p == nil || p.Running() {
				continue
			}
			fmt.Printf("the pooler of %s has ended by itself and is started again; its log ends with:\n%s\n", databases[n], p.Log())
			if err := p.Restart(context.WithoutCancel(ctx)); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow makes a standby follow its server, whose address as a container changes when it starts. One that is away need not
// be told now: it is when it comes back.
func (c *cluster) follow(ctx context.Context, n int, must bool) error {
	if c.standbys[n] == nil || c.way() != servers.Docker {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := c.standbys[n].Follow(ctx, c.servers[n]); must {
		return err
	}
	return nil
}

// takeOver puts a standby in the place of its server, and leads everybody to it.
func (c *cluster) takeOver(ctx context.Context, n int) error {
	old := c.servers[n]
	c.servers[n], c.standbys[n] = c.standbys[n], nil
	c.failedOver[databases[n]] = true
	errs := []error{old.Close()}
	if c.poolers[n] != nil {
		errs = append(errs, c.lead(ctx, n, c.login(n)))
	} else {
		for _, l := range c.links[n] {
			errs = append(errs, l.Lead(c.login(n)))
			l.Cut()
		}
	}
	return errors.Join(slices.Concat(errs)...)
}
