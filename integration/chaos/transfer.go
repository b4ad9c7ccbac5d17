package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
	"github.com/hare-go/hare/transactions"
)

// Account holds money. It cannot go below zero.
type Account struct {
	ID      int64
	Balance int64
}

// Entry is what a call did to an account. Nothing keeps it from being written twice, so that this would be seen.
type Entry struct {
	ID      int64
	Call    string
	XID     string `hare:"column=xid"`
	Account int64
	Amount  int64
	Refused bool // a deferred trigger refuses the row when the transaction ends
}

// TableName is the ledger.
func (Entry) TableName() string { return "ledger" }

// The querysets of the workers.
var (
	Accounts = hare.Objects[Account]()
	Entries  = hare.Objects[Entry]()
)

// The accounts of each database.
const (
	accountsEach = 24
	firstBalance = 200
)

// patience is the time of a call whose caller is in no hurry, and phases that of the steps of its end. They are shorter than
// many a fault, so that all of the ways are taken on which a call can end.
const patience = 3 * time.Second

var phases = transactions.Phases{Prepare: 1500 * time.Millisecond, Decide: 800 * time.Millisecond, Deliver: 700 * time.Millisecond, Rollback: 700 * time.Millisecond}

// ways are those to another role, of which b alone lets everybody go the last.
var ways = []string{"SET LOCAL ROLE tenant", "SET ROLE tenant", "SELECT become('tenant')", "SET LOCAL SESSION AUTHORIZATION tenant"}

// errFail is what a callback returns that is to fail.
var errFail = errors.New("the callback fails")

// newIntent makes up a call: who coordinates, who takes part, what moves, and what goes wrong.
func newIntent(random *rand.Rand) intent {
	order := random.Perm(len(databases))[:2+random.IntN(2)]
	i := intent{Coordinator: databases[order[0]], Fate: fateCommit, Timeout: patience,
		Serializable: random.IntN(8) == 0, Keep: random.IntN(8) == 0}
	for _, n := range order {
		i.Legs = append(i.Legs, leg{Database: databases[n], Account: 1 + random.Int64N(accountsEach)})
	}
	x, y := 1+random.Int64N(20), 1+random.Int64N(20)
	amounts := []int64{-x, x}
	if len(i.Legs) == 3 {
		if amounts = []int64{-x, -y, x + y}; random.IntN(4) == 0 {
			amounts = []int64{-x, x, 0}
		}
	}
	random.Shuffle(len(amounts), func(a, b int) { amounts[a], amounts[b] = amounts[b], amounts[a] })
	for n := range i.Legs {
		i.Legs[n].Amount = amounts[n]
	}
	switch n := random.IntN(100); {
	case n < 8:
		i.Fate = fateFail
	case n < 16:
		if refused := &i.Legs[random.IntN(len(i.Legs))]; refused.Amount != 0 {
			i.Fate, refused.Refused = fateRefuse, true
		}
	case n < 20:
		i.Fate = fateSwallow
	}
	if random.IntN(6) == 0 {
		l := &i.Legs[random.IntN(len(i.Legs))]
		l.Become, l.First = ways[random.IntN(len(ways))], random.IntN(2) == 0
	}
	if random.IntN(5) == 0 { // a caller in a hurry
		i.Timeout = logarithmic(random, time.Millisecond, 100*time.Millisecond)
	}
	// The coordinator need not be the first to be written to.
	random.Shuffle(len(i.Legs), func(a, b int) { i.Legs[a], i.Legs[b] = i.Legs[b], i.Legs[a] })
	return i
}

// options are what the call asks of hare.
func (i intent) options() []transactions.Option {
	list := []transactions.Option{transactions.PhaseTimeouts(phases), transactions.LockTimeout(time.Second)}
	if i.Serializable {
		list = append(list, transactions.Isolation(transactions.Serializable), transactions.Retries(2))
	}
	if i.Keep {
		list = append(list, transactions.KeepDecision())
	}
	return list
}

// transfer makes a call; note is given the lines of the journal about what happens inside it.
func (i intent) transfer(ctx context.Context, call string, note func(line)) error {
	ctx, cancel := context.WithTimeout(ctx, i.Timeout)
	defer cancel()
	var participants []string
	for _, l := range i.Legs {
		if l.Database != i.Coordinator {
			participants = append(participants, l.Database)
		}
	}
	return transactions.Distributed(ctx, i.Coordinator, participants, func(d *hare.Distributed) error {
		ctx := d.Context()
		note(line{Call: call, XID: d.XID()})
		hook := func(end hook) func(context.Context) error {
			return func(context.Context) error { note(line{Call: call, XID: d.XID(), Hook: end}); return nil }
		}
		if err := transactions.OnCommit(ctx, hook(hookCommit), transactions.Using(i.Coordinator)); err != nil {
			return err
		}
		if err := transactions.OnRollback(ctx, hook(hookRollback), transactions.Using(i.Coordinator)); err != nil {
			return err
		}
		for _, l := range i.Legs {
			if err := l.do(d, call); err != nil {
				return err
			}
		}
		switch i.Fate {
		case fateFail:
			return errFail
		case fateSwallow:
			_, _ = d.Coordinator().Exec(ctx, "SELECT 1 / 0") // that it fails is its purpose
		}
		return nil
	}, i.options()...)
}

// do does the call's part in one database, as one role or as two.
func (l leg) do(d *hare.Distributed, call string) error {
	become := func() error {
		_, err := d.Client(l.Database).Exec(d.Context(), l.Become)
		return err
	}
	if l.Become == "" {
		return l.write(d, call)
	}
	if l.First {
		if err := become(); err != nil {
			return err
		}
		return l.write(d, call)
	}
	if err := l.write(d, call); err != nil {
		return err
	}
	return become()
}

// write writes to the ledger, and to the account, or only reads.
func (l leg) write(d *hare.Distributed, call string) error {
	client := d.Client(l.Database)
	account := Accounts.Using(client).Filter(query.Q("id", l.Account))
	if l.Amount == 0 {
		_, err := account.First(d.Context())
		return err
	}
	n, err := account.Update(d.Context(), query.Set("balance", query.F("balance").Add(l.Amount)))
	if err == nil && n != 1 {
		err = fmt.Errorf("account %d of %s: %d rows were updated", l.Account, l.Database, n)
	}
	if err != nil {
		return err
	}
	return Entries.Using(client).Create(d.Context(), &Entry{Call: call, XID: d.XID(), Account: l.Account, Amount: l.Amount, Refused: l.Refused})
}

// resultOf is what a call's error tells.
func resultOf(err error, took time.Duration) *result {
	r := &result{Outcome: transactions.OutcomeOf(err).String(), Took: took}
	if err == nil {
		return r
	}
	r.Error = err.Error()
	var (
		partial   *transactions.PartiallyCommittedError
		ambiguous *transactions.CommitAmbiguousError
		rollback  *transactions.RollbackPendingError
		pending   []transactions.ParticipantState
	)
	switch {
	case errors.As(err, &partial):
		pending = partial.Pending
	case errors.As(err, &ambiguous):
		r.Pending = ambiguous.GIDs
	case errors.As(err, &rollback):
		pending = rollback.Pending
	}
	for _, p := range pending {
		r.Pending = append(r.Pending, p.GID)
	}
	return r
}
