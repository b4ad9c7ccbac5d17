// Library is a small program over three PostgreSQL databases. It lends books: the loan is in the library's database, the
// shelf in another, the deposits in a third, and a loan is in all three or in none.
//
//	library [-config hare.yml] setup              creates the tables and a little stock
//	library [-config hare.yml] lend TITLE CARD    lends a book to the holder of a card
//	library [-config hare.yml] show               prints the three tables
//	library [-config hare.yml] tend               finishes what crashes leave, until it is interrupted
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/hare-go/hare/backends/postgres"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
	"github.com/hare-go/hare/transactions"
)

func main() {
	config := flag.String("config", "hare.yml", "the configuration")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *config, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "library:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path string, args []string) error {
	config, err := hare.LoadConfig(path)
	if err != nil {
		return err
	}
	connections, err := hare.Open(ctx, config)
	if err != nil {
		return err
	}
	defer connections.Close()
	hare.SetDefault(connections)
	switch {
	case len(args) == 1 && args[0] == "setup":
		return setup(ctx, connections)
	case len(args) == 3 && args[0] == "lend":
		return lend(ctx, args[1], args[2])
	case len(args) == 1 && args[0] == "show":
		return show(ctx)
	case len(args) == 1 && args[0] == "tend":
		return transactions.RunRecoverer(ctx, "library") // a service starts it as a goroutine beside its work
	}
	return errors.New("usage: library [-config hare.yml] setup | lend TITLE CARD | show | tend")
}

// setup makes the tables of the three databases and puts two titles into stock, one of them lent out already.
func setup(ctx context.Context, connections *hare.Connections) error {
	for _, database := range []struct {
		alias  string
		models []any
	}{
		{"library", []any{Book{}, Reader{}, Loan{}}},
		{"inventory", []any{Inventory{}}},
		{"billing", []any{Deposit{}}},
	} {
		client, err := connections.Client(database.alias)
		if err != nil {
			return err
		}
		if err := hare.CreateTables(ctx, client, database.models...); err != nil {
			return err
		}
	}
	books := []Book{{Title: "Watership Down"}, {Title: "The Velveteen Rabbit"}}
	if err := Books.UsingAlias("library").BulkCreate(ctx, books); err != nil {
		return err
	}
	if err := Readers.UsingAlias("library").BulkCreate(ctx, []Reader{{Card: "R-1"}, {Card: "R-2"}}); err != nil {
		return err
	}
	return Inventories.UsingAlias("inventory").BulkCreate(ctx, []Inventory{
		{BookID: books[0].ID, Available: 3},
		{BookID: books[1].ID, Available: 0},
	})
}

func lend(ctx context.Context, title, card string) error {
	book, err := Books.UsingAlias("library").Get(ctx, query.Q("title", title))
	if err != nil {
		return err
	}
	reader, err := Readers.UsingAlias("library").Get(ctx, query.Q("card", card))
	if err != nil {
		return err
	}
	if err := Lend(ctx, book, reader); err != nil {
		return fmt.Errorf("the loan is %s: %w", transactions.OutcomeOf(err), err)
	}
	fmt.Printf("%q is lent to %s\n", title, card)
	return nil
}

// show prints the table of each database.
func show(ctx context.Context) error {
	loans, err := Loans.UsingAlias("library").OrderBy("id").All(ctx)
	if err != nil {
		return err
	}
	shelf, err := Inventories.UsingAlias("inventory").OrderBy("book_id").All(ctx)
	if err != nil {
		return err
	}
	deposits, err := Deposits.UsingAlias("billing").OrderBy("id").All(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%-30s %-30s %s\n", "library: loans", "inventory: on the shelf", "billing: deposits")
	for i := range max(len(loans), len(shelf), len(deposits)) {
		var loan, copies, deposit string
		if i < len(loans) {
			loan = fmt.Sprintf("book %d, reader %d", loans[i].BookID, loans[i].ReaderID)
		}
		if i < len(shelf) {
			copies = fmt.Sprintf("book %d: %d", shelf[i].BookID, shelf[i].Available)
		}
		if i < len(deposits) {
			deposit = fmt.Sprintf("reader %d: %d", deposits[i].ReaderID, deposits[i].Amount)
		}
		fmt.Printf("%-30s %-30s %s\n", loan, copies, deposit)
	}
	return nil
}
