package transactions_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"

	_ "github.com/hare-go/hare/backends/sqlite"
	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
	"github.com/hare-go/hare/transactions"
)

type Account struct {
	ID      int64
	Owner   string `hare:"unique"`
	Balance int64  `hare:"check=balance >= 0"`
}

type Entry struct {
	ID     int64
	Owner  string
	Amount int64
}

var (
	Accounts = hare.Objects[Account]()
	Entries  = hare.Objects[Entry]()
)

// bank is a memory database.
func bank() (ctx context.Context, done func()) {
	connections, err := hare.Open(context.Background(), hare.Config{
		Connections: map[string]string{"bank": "sqlite::memory:", "archive": "sqlite::memory:"},
		Default:     "bank",
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx = hare.WithConnections(context.Background(), connections)
	client, err := connections.Client("")
	if err != nil {
		log.Fatal(err)
	}
	if err := hare.CreateTables(ctx, client, Account{}, Entry{}); err != nil {
		log.Fatal(err)
	}
	return ctx, connections.Close
}

func counts(ctx context.Context) string {
	accounts, err := Accounts.Count(ctx)
	if err != nil {
		log.Fatal(err)
	}
	entries, err := Entries.Count(ctx)
	if err != nil {
		log.Fatal(err)
	}
	return fmt.Sprintf("%d accounts, %d entries", accounts, entries)
}

func ExampleAtomic() {
	ctx, done := bank()
	defer done()

	account, entry := Account{Owner: "R-1", Balance: 5}, Entry{Owner: "R-1", Amount: 5}
	err := transactions.Atomic(ctx, func(ctx context.Context) error {
		if err := Accounts.Create(ctx, &account); err != nil {
			return err // rolls back
		}
		return Entries.Create(ctx, &entry)
	})
	fmt.Println(err, "-", counts(ctx))

	err = transactions.Atomic(ctx, func(ctx context.Context) error {
		if err := Entries.Create(ctx, &Entry{Owner: "R-1", Amount: -6}); err != nil {
			return err
		}
		_, err := Accounts.Filter(query.Q("owner", "R-1")).Update(ctx, query.Set("balance", query.F("balance").Sub(6)))
		return err
	})
	var refused *hare.IntegrityError
	fmt.Println(errors.As(err, &refused), transactions.OutcomeOf(err), "-", counts(ctx))
	// Output:
	// <nil> - 1 accounts, 1 entries
	// true rolled back - 1 accounts, 1 entries
}

// What may fail stands in a nested Atomic: a savepoint, which is undone alone.
func ExampleAtomic_nested() {
	ctx, done := bank()
	defer done()

	err := transactions.Atomic(ctx, func(ctx context.Context) error {
		if err := Accounts.Create(ctx, &Account{Owner: "R-1"}); err != nil {
			return err
		}
		err := transactions.Atomic(ctx, func(ctx context.Context) error {
			return Accounts.Create(ctx, &Account{Owner: "R-1"})
		})
		var taken *hare.IntegrityError
		if errors.As(err, &taken) {
			return Entries.Create(ctx, &Entry{Owner: "R-1"})
		}
		return err
	})
	fmt.Println(err, "-", counts(ctx))
	// Output: <nil> - 1 accounts, 1 entries
}

func ExampleAtomic_options() {
	ctx, done := bank()
	defer done()

	err := transactions.Atomic(ctx, func(ctx context.Context) error {
		return Accounts.Create(ctx, &Account{Owner: "R-1"})
	}, transactions.ReadOnly(), transactions.Retries(3))
	var refused *hare.ReadOnlyError
	fmt.Println(errors.As(err, &refused), transactions.OutcomeOf(err))

	err = transactions.Atomic(ctx, func(context.Context) error { return nil }, transactions.Using("archvie"))
	fmt.Println(err)
	// Output:
	// true rolled back
	// connection "archvie": there is no such connection; did you mean "archive"?
}

func ExampleOnCommit() {
	ctx, done := bank()
	defer done()

	err := transactions.Atomic(ctx, func(ctx context.Context) error {
		err := transactions.OnCommit(ctx, func(ctx context.Context) error {
			fmt.Println("committed:", counts(ctx))
			return errors.New("no letter was sent")
		})
		if err != nil {
			return err
		}
		return Accounts.Create(ctx, &Account{Owner: "R-1"})
	})
	var failed *transactions.HookError
	fmt.Println(errors.As(err, &failed), transactions.OutcomeOf(err))
	fmt.Println(err)
	// Output:
	// committed: 1 accounts, 0 entries
	// true committed
	// the transaction is committed, but a hook failed: no letter was sent
}

func ExampleOnRollback() {
	ctx, done := bank()
	defer done()

	err := transactions.Atomic(ctx, func(ctx context.Context) error {
		err := transactions.OnRollback(ctx, func(ctx context.Context) error {
			fmt.Println("rolled back:", counts(ctx))
			return nil
		})
		if err != nil {
			return err
		}
		if err := Accounts.Create(ctx, &Account{Owner: "R-1"}); err != nil {
			return err
		}
		return errors.New("changed my mind")
	})
	fmt.Println(err)
	// Output:
	// rolled back: 0 accounts, 0 entries
	// changed my mind
}

// A database without two-phase commit is refused before the function runs. The program in examples/library shows a
// transaction over three PostgreSQL databases.
func ExampleDistributed_refused() {
	ctx, done := bank()
	defer done()

	err := transactions.Distributed(ctx, "bank", []string{"archive"}, func(d *hare.Distributed) error {
		ctx := d.Context()
		return Accounts.Using(d.Coordinator()).Create(ctx, &Account{Owner: "R-1"})
	})
	var unsupported *features.UnsupportedError
	fmt.Println(errors.As(err, &unsupported), transactions.OutcomeOf(err), "-", counts(ctx))
	// Output: true rolled back - 0 accounts, 0 entries
}

// Every instance of an application runs a recoverer, from its start to its end.
func ExampleRunRecoverer() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	go func() {
		if err := transactions.RunRecoverer(ctx, "library"); err != nil {
			slog.Error("no recovery", "error", err) // a wrong call: the alias, an option
		}
	}()
}
