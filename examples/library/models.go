package main

import "github.com/hare-go/hare/hare"

// The library's own database: the catalogue, the readers and what they have borrowed.
type (
	// Book is a title of the catalogue.
	Book struct {
		ID    int64
		Title string `hare:"size=200"`
	}

	// Reader holds a library card.
	Reader struct {
		ID   int64
		Card string `hare:"size=20,unique"`
	}

	// Loan is a book that a reader has taken home.
	Loan struct {
		ID       int64
		BookID   int64
		Book     *Book `hare:"fk=book_id"`
		ReaderID int64
		Reader   *Reader `hare:"fk=reader_id"`
	}
)

// Inventory says how many copies of a book are on the shelf. It is in the inventory database.
type Inventory struct {
	BookID    int64 `hare:"pk"`
	Available int   `hare:"check=available >= 0"`
}

// Deposit is what a reader has left at the desk for a loan. It is in the billing database.
type Deposit struct {
	ID       int64
	ReaderID int64
	Amount   int
}

// The querysets that everything starts from.
var (
	Books       = hare.Objects[Book]()
	Readers     = hare.Objects[Reader]()
	Loans       = hare.Objects[Loan]()
	Inventories = hare.Objects[Inventory]()
	Deposits    = hare.Objects[Deposit]()
)
