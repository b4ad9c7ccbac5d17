package transactions

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/session"
)

// call is one distributed transaction under way.
type call struct {
	set         *settings
	seen        *watch
	began       time.Time
	connections *hare.Connections
	xid         string
	coordinator *branch
	branches    []*branch // the coordinator first, then the participants as they were given
}

// branch is the transaction's part in one database.
type branch struct {
	alias  string
	client *hare.Client
	db     backend.Database
	server *server
	tx     *session.Session
	gid    string
	worker string // the name of the server process that works on it
	vote   vote
	xact   prepared // what it prepared, once vote is votePrepared
	weak   bool     // its session does not wait until its synchronous standby has what it commits
}

// require refuses a database without two-phase commit.
func (b *branch) require() error {
	err := features.Require(b.alias, b.client.Features(), features.TwoPhaseCommit)
	var unsupported *features.UnsupportedError
	if errors.As(err, &unsupported) {
		unsupported.Detail = "every database of a distributed transaction, its coordinator included, must be a PostgreSQL"
	}
	return err
}

// vote is what a branch has come to in the first phase.
type vote uint8

const (
	voteNone     vote = iota // still open, or rolled back
	voteNothing              // nothing ran in it: it has no part in the second phase
	voteRead                 // it only read, and commits when the others do
	votePrepared             // it waits for the second phase
	votePossibly             // the answer to PREPARE was lost: it may wait, or may yet come to wait
)

// String is the vote as a span shows it.
func (v vote) String() string {
	return [...]string{voteNone: "none", voteNothing: "nothing to commit", voteRead: "only read", votePrepared: "prepared", votePossibly: "possibly prepared"}[v]
}

// attempt is a fresh copy of the call, for one run.
func (c *call) attempt(ctx context.Context) *call {
	if c.seen.attempt++; c.seen.attempt > 1 {
		c.again(ctx)
	}
	c.seen.xid = ""
	fresh := &call{set: c.set, seen: c.seen, began: time.Now(), connections: c.connections,
		branches: make([]*branch, 0, len(c.branches))}
	for _, b := range c.branches {
		fresh.branches = append(fresh.branches, &branch{alias: b.alias, client: b.client, db: b.db})
	}
	fresh.coordinator = fresh.branches[0]
	return fresh
}

func (c *call) participants() []*branch { return c.branches[1:] }

func (c *call) participantAliases() []string {
	aliases := make([]string, 0, len(c.branches)-1)
	for _, b := range c.participants() {
		aliases = append(aliases, b.alias)
	}
	return aliases
}

// having lists the participants with a vote.
func (c *call) having(votes ...vote) []*branch {
	var list []*branch
	for _, b := range c.participants() {
		if slices.Contains(votes, b.vote) {
			list = append(list, b)
		}
	}
	return list
}

// meetTime bounds asking the servers what they are, on their first use: one that never answers stops no caller for ever.
const meetTime = 30 * time.Second

// open takes a connection for each database, all calls in the same order, so that calls whose databases have swapped
// roles cannot wait for each other on small pools. Everything that follows uses these connections.
func (c *call) open(ctx context.Context) (err error) {
	ctx, done := c.phase(ctx, phaseOpen)
	defer func() { done(err) }()
	sorted := slices.SortedFunc(slices.Values(c.branches), func(a, b *branch) int { return strings.Compare(a.alias, b.alias) })
	unique := randomHex(uniqueHex)
	options := c.set.session()
	// While a branch is at work its server process can be found by this name, on any connection of the same role:
	// that tells a PREPARE that is still under way from one that will never come.
	options.AfterBegin = []string{nameWorker(applicationName(unique))}
	for _, b := range sorted {
		b.worker = applicationName(unique)
		err := c.part(ctx, b, phaseOpen, func(ctx context.Context) (err error) {
			b.tx, err = session.Open(ctx, b.alias, b.db, options)
			return hare.ErrorFrom(b.alias, "", err)
		})
		if err != nil {
			return err
		}
	}
	inTime, cancel := context.WithTimeout(ctx, meetTime)
	defer cancel()
	if err := c.meet(inTime); err != nil {
		return err
	}
	c.xid = xidOf(c.coordinator.alias, c.coordinator.server.coordinator, unique)
	c.seen.xid = c.xid
	for _, b := range c.participants() {
		b.gid = gidOf(c.xid, b.alias)
	}
	return nil
}

// applicationName is the name that the server processes of a distributed transaction have while they work on it.
func applicationName(unique string) string { return "hare_dtx:" + unique }

func nameWorker(name string) string { return "SET LOCAL application_name = " + backend.Literal(name) }

// rename gives the server process its name again if fn has changed it (SET, RESET ALL). It must have it before a PREPARE is
// sent: one that is still on the network when the call ends is kept from landing by ending whoever has the name.
func (b *branch) rename(ctx context.Context) error {
	conn := b.tx.Conn()
	if conn.Setting("application_name") == b.worker {
		return nil
	}
	_, err := conn.Control(ctx, nameWorker(b.worker))
	return hare.ErrorFrom(b.alias, nameWorker(b.worker), err)
}

// release gives every connection back; a transaction that is still open on one is rolled back by closing it.
func (c *call) release() {
	for _, b := range c.branches {
		if b.tx != nil {
			b.tx.Release()
		}
	}
}

// each runs step on all branches at once and returns their errors in order.
func (c *call) each(step func(b *branch) error) []error { return together(c.branches, step) }

// together runs step on all of list at once and returns the errors in order.
func together[T any](list []T, step func(T) error) []error {
	errs := make([]error, len(list))
	if len(list) == 1 {
		errs[0] = step(list[0])
		return errs
	}
	var wait sync.WaitGroup
	for i, one := range list {
		wait.Go(func() { errs[i] = step(one) })
	}
	wait.Wait()
	return errs
}

// firstError is the first of errs that is one.
func firstError(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
