package storm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/leases"
)

// nemesis carries out the schedule.
type nemesis struct {
	crew   *crew
	arena  *arena
	client *hare.Client // past all that may fail
}

// deed is an event that was done, by the database's clock.
type deed struct {
	event
	Slot     int   // that was hit, if any
	From, To int64 // From is read before it is done, To when it is healed
	Token    int64 // of the term whose holder was hit
}

// run does what the schedule says until ctx ends, and has healed everything when it returns. The events of one target are
// done one after the other, those of different targets side by side.
func (n *nemesis) run(ctx context.Context, events []event) error {
	start := time.Now()
	byTarget := map[int][]event{}
	for _, e := range events {
		byTarget[e.whom] = append(byTarget[e.whom], e)
	}
	errs := make(chan error, len(byTarget))
	for _, list := range byTarget {
		go func() {
			errs <- n.follow(ctx, start, list)
		}()
	}
	var all error
	for range byTarget {
		all = errors.Join(all, <-errs)
	}
	return all
}

func (n *nemesis) follow(ctx context.Context, start time.Time, list []event) error {
	conn, err := pgx.Connect(ctx, n.arena.direct())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, `SET synchronous_commit = local`); err != nil { // what it does waits for no standby
		return err
	}
	for _, e := range list {
		sleep(ctx, time.Until(start.Add(e.at)))
		if ctx.Err() != nil {
			return nil
		}
		if err := n.do(ctx, conn, e); err != nil {
			return fmt.Errorf("%s: %w", e, err)
		}
	}
	return nil
}

// do does one thing, waits as long as it lasts, and heals it. ctx ends the waiting alone.
func (n *nemesis) do(ctx context.Context, conn *pgx.Conn, e event) (err error) {
	d := deed{event: e, Slot: e.whom}
	var s *slot
	switch {
	case e.whom >= 0:
		s = n.crew.slots[e.whom]
		s.Lock()
		defer s.Unlock()
	case e.whom == holder:
		if s, d.Token, err = n.aim(ctx, conn); err != nil || s == nil {
			return err
		}
		defer s.Unlock()
		d.Slot = s.number
	}
	lasting := context.WithoutCancel(ctx)
	if d.From, err = now(lasting, conn); err != nil {
		return err
	}
	hit, heal := n.act(lasting, conn, e, s)
	if err := hit(); err != nil {
		return err
	}
	sleep(ctx, e.last)
	if err := heal(); err != nil {
		return err
	}
	if d.To, err = now(lasting, conn); err != nil {
		return err
	}
	n.crew.mu.Lock()
	defer n.crew.mu.Unlock()
	n.crew.evidence.Done = append(n.crew.evidence.Done, d)
	return nil
}

// aim waits until somebody holds the lease to whose slot nothing is done at present, and locks the slot.
func (n *nemesis) aim(ctx context.Context, conn *pgx.Conn) (*slot, int64, error) {
	for ; ctx.Err() == nil; sleep(ctx, 20*time.Millisecond) {
		name, token, held, err := theHolder(context.WithoutCancel(ctx), conn)
		if err != nil {
			return nil, 0, err
		}
		var number, life int
		if !held {
			continue
		}
		if _, err := fmt.Sscanf(strings.Replace(name, ".", " ", 1), "%d %d", &number, &life); err != nil {
			return nil, 0, fmt.Errorf("the holder %q is no candidate: %w", name, err)
		}
		s := n.crew.slots[number]
		if !s.TryLock() {
			continue
		}
		if s.life == life {
			return s, token, nil
		}
		s.Unlock() // it is dead
	}
	return nil, 0, nil
}

// theHolder is what the lease's row says.
func theHolder(ctx context.Context, conn *pgx.Conn) (name string, token int64, held bool, err error) {
	err = conn.QueryRow(ctx, `SELECT holder, token, expires_at > clock_timestamp() FROM public.hare_leases WHERE name = $1`, theLease).Scan(&name, &token, &held)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return name, token, held, err
}

// act gives what an event does, and what heals it.
func (n *nemesis) act(ctx context.Context, conn *pgx.Conn, e event, s *slot) (hit, heal func() error) {
	nothing := func() error { return nil }
	switch e.kind {
	case kill:
		return func() error { s.kill(); return nil }, func() error { return n.crew.start(s) }
	case stop:
		return func() error { return s.process.signal(syscall.SIGSTOP) }, func() error { return s.process.signal(syscall.SIGCONT) }
	case starve, lateStarve:
		return func() error { return n.starve(ctx, conn, s, e.kind == lateStarve) }, func() error {
			_, err := conn.Exec(ctx, `COMMIT`)
			return err
		}
	case lockRow:
		return func() error {
				_, err := conn.Exec(ctx, `BEGIN; SELECT FROM public.hare_leases WHERE name = '`+theLease+`' FOR UPDATE`)
				return err
			}, func() error {
				_, err := conn.Exec(ctx, `COMMIT`)
				return err
			}
	case force:
		return func() error {
			_, token, held, err := theHolder(ctx, conn)
			if err != nil || !held {
				return err
			}
			_, err = leases.ForceRelease(ctx, n.client, theLease, token)
			var blocked *leases.BlockedError
			var late *hare.QueryError
			var waits *hare.TimeoutError
			if errors.As(err, &blocked) || errors.As(err, &late) || errors.As(err, &waits) { // a fenced transaction is open, it has another term by now, or the standby is away
				return nil
			}
			return err
		}, nothing
	}
	if e.whom == standby || e.whom == pooler {
		return n.actBeside(ctx, conn, e)
	}
	link := n.crew.trunk
	if s != nil {
		link = s.link
	}
	if e.kind == lie {
		return func() error { e.lie(ctx, link); return nil }, nothing
	}
	return func() error { breaks[e.kind](link); return nil }, func() error {
		if e.kind == loseAnswers {
			link.Refuse()
		}
		link.Heal()
		return nil
	}
}

// actBeside gives what an event does to what stands beside the server, and what heals it.
func (n *nemesis) actBeside(ctx context.Context, conn *pgx.Conn, e event) (hit, heal func() error) {
	a, p := n.arena, n.crew.pooler
	switch e.kind {
	case killStandby:
		return func() error { return a.standby.Kill(ctx) }, func() error { return a.standby.Restart(ctx) }
	case pauseStandby:
		return func() error { return a.standby.Pause(ctx) }, func() error { return a.standby.Resume(ctx) }
	}
	return func() error {
		if err := a.copyLease(ctx, conn); err != nil {
			return err
		}
		return p.Lead(ctx, theDatabase, a.primary.URL(theTwin))
	}, func() error { return p.Lead(ctx, theDatabase, n.crew.trunk.URL()) }
}

// starve locks the lease's row and waits until it has expired. Who looks at the clock before the row is locked renews it
// afterwards. Before that it may keep the answer to a slot's renewal back, for almost as long as it would be waited for: who
// counts the trust from the answer trusts for too long then.
func (n *nemesis) starve(ctx context.Context, conn *pgx.Conn, s *slot, late bool) error {
	if late {
		answer := s.link.Arm(proxy.Fault{Statement: "FOR NO KEY UPDATE", Answer: true, Do: proxy.Delay, Delay: ttl / 4})
		select {
		case <-answer.Struck():
		case <-time.After(ttl / 2):
		}
		s.link.Disarm(answer)
	}
	if _, err := conn.Exec(ctx, `BEGIN`); err != nil {
		return err
	}
	var left float64
	err := conn.QueryRow(ctx, `SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 FROM public.hare_leases WHERE name = $1 FOR NO KEY UPDATE`, theLease).Scan(&left)
	sleep(ctx, time.Duration(left*float64(time.Second)))
	return err
}

// breaks is what breaks a link.
var breaks = map[kind]func(*proxy.Proxy){
	cut: (*proxy.Proxy).Refuse, swallow: (*proxy.Proxy).Swallow, stall: (*proxy.Proxy).Stall,
	stallAnswers: (*proxy.Proxy).StallAnswers, loseAnswers: (*proxy.Proxy).StallAnswers,
}
