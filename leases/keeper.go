package leases

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/session"
)

// keeper renews all terms that this process holds on one database, and ends those that it can trust no longer.
type keeper struct {
	wire *wire

	mu      sync.Mutex
	terms   map[*Term]struct{}
	running bool
	closed  bool
	wake    chan struct{} // has an entry when there is something new to look at
}

var keepers = struct {
	sync.Mutex
	of map[backend.Database]*keeper
}{of: map[backend.Database]*keeper{}}

// keeperOf is the keeper of a client's database. It ends with the connections.
func keeperOf(client *hare.Client) *keeper {
	keepers.Lock()
	defer keepers.Unlock()
	db := client.Database()
	k := keepers.of[db]
	if k == nil {
		k = &keeper{wire: newWire(client.Alias(), db), terms: map[*Term]struct{}{}, wake: make(chan struct{}, 1)}
		keepers.of[db] = k
		session.BeforeClose(db, "leases", func() {
			keepers.Lock()
			delete(keepers.of, db)
			keepers.Unlock()
			k.close()
		})
	}
	return k
}

// close ends all terms: their rows expire by themselves.
func (k *keeper) close() {
	k.mu.Lock()
	k.closed = true
	terms := k.held()
	k.mu.Unlock()
	for _, t := range terms {
		t.lose("the connections were closed", nil)
	}
	k.wire.close()
}

// held lists the terms. k.mu is held.
func (k *keeper) held() []*Term {
	list := make([]*Term, 0, len(k.terms))
	for t := range k.terms {
		list = append(list, t)
	}
	return list
}

// keep takes a term in, and starts to tend when it is the first. It reports false once the connections are closed.
func (k *keeper) keep(t *Term) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.terms[t] = struct{}{}
	if !k.running {
		k.running = true
		go k.tend()
	}
	k.rouse()
	return true
}

// drop lets a term go.
func (k *keeper) drop(t *Term) {
	k.mu.Lock()
	delete(k.terms, t)
	k.mu.Unlock()
	k.rouse()
}

func (k *keeper) rouse() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// tend looks after the terms until there is none. Renewals run beside it, so that one that hangs keeps no trust window
// from ending in time.
func (k *keeper) tend() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		k.mu.Lock()
		terms := k.held()
		if len(terms) == 0 {
			k.running = false
			k.mu.Unlock()
			return
		}
		k.mu.Unlock()
		due, pause := look(terms)
		if len(due) > 0 {
			go k.renewAll(due)
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-k.wake:
		}
	}
}

// look ends the terms whose trust window is over, claims those that are due, and says when to look again. A computer that
// was suspended looks again a part of a margin after it goes on, whenever that is.
func look(terms []*Term) (due []*Term, pause time.Duration) {
	pause = time.Hour
	var soon []*Term
	for _, t := range terms {
		left, next := t.times()
		if left <= 0 {
			t.expire()
			continue
		}
		pause = min(pause, left, t.lease.opts.Margin/4)
		switch {
		case next <= 0:
			due = append(due, t)
		case next <= t.lease.opts.Interval/4:
			soon = append(soon, t)
		default:
			pause = min(pause, next)
		}
	}
	if len(due) > 0 {
		due = append(due, soon...) // one message for all
	} else {
		for _, t := range soon {
			_, next := t.times()
			pause = min(pause, next)
		}
	}
	due = slices.DeleteFunc(due, func(t *Term) bool { return !t.claim() })
	return due, max(pause, time.Millisecond)
}

// renewAll renews claimed terms in one message. When that fails, because of one row that is locked for example, each gets
// a message of its own, so that none has to suffer for another. Only where a term's own row is locked is that waited for.
func (k *keeper) renewAll(terms []*Term) {
	opts := terms[0].lease.opts
	g := opts.prompt()
	for _, t := range terms[1:] {
		g = g.atMost(t.lease.opts.prompt())
	}
	err := k.renew(g, terms)
	if err != nil && len(terms) > 1 {
		for _, t := range terms {
			go k.renewAll([]*Term{t})
		}
		return
	}
	if backend.SQLState(err) == "55P03" { // lock_not_available
		err = k.renew(opts.guards(), terms)
	}
	if err != nil {
		terms[0].retry(err)
	}
}

// renew sends one renewal and tells the terms what became of them. With an error it tells them nothing.
func (k *keeper) renew(g guards, terms []*Term) error {
	starts := make([]instant, len(terms))
	for i, t := range terms {
		starts[i] = t.lease.clock()
	}
	row, err := k.wire.send(context.Background(), g, renewSQL(terms, !g.prompt)...)
	if err != nil {
		return err
	}
	var alive []key
	if len(row) == 1 {
		err = json.Unmarshal([]byte(row[0]), &alive)
	}
	if err != nil {
		return err
	}
	renewed := make(map[key]bool, len(alive))
	for _, k := range alive {
		renewed[k] = true
	}
	for i, t := range terms {
		if renewed[key{Name: t.lease.name, Token: t.token}] {
			t.renewed(starts[i])
		} else {
			t.settle()
			t.lose("the row is not this term's any more, or has expired", nil)
		}
	}
	return nil
}

// key is what a renewal says of a term that is alive.
type key struct {
	Name  string
	Token int64
}

// atMost are the lower of both.
func (g guards) atMost(other guards) guards {
	return guards{
		lock:      min(g.lock, other.lock),
		statement: min(g.statement, other.statement),
		idle:      min(g.idle, other.idle),
		stall:     min(g.stall, other.stall),
		prompt:    g.prompt && other.prompt,
	}
}
