package main

import (
	"context"
	"errors"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
	"github.com/hare-go/hare/transactions"
)

// ErrNotOnShelf says that every copy of the book is out.
var ErrNotOnShelf = errors.New("the book is not on the shelf")

// Lend writes a loan into three databases: the loan, one copy less on the shelf, and a deposit. All three or none.
func Lend(ctx context.Context, book *Book, reader *Reader) error {
	return transactions.Distributed(ctx, "library", []string{"inventory", "billing"}, func(d *hare.Distributed) error {
		ctx := d.Context() // not the ctx outside: what is written with that one stays when this fails
		if err := Loans.Using(d.Coordinator()).Create(ctx, &Loan{BookID: book.ID, ReaderID: reader.ID}); err != nil {
			return err
		}
		taken, err := Inventories.Using(d.Client("inventory")).Filter(query.Q("book_id", book.ID, "available__gt", 0)).
			Update(ctx, query.Set("available", query.F("available").Sub(1)))
		if err != nil {
			return err
		}
		if taken == 0 {
			return ErrNotOnShelf
		}
		return Deposits.Using(d.Client("billing")).Create(ctx, &Deposit{ReaderID: reader.ID, Amount: 5})
	})
}
