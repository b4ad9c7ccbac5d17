// Books is a program over one SQLite file: it makes a table, writes a book in a transaction and reads it back. README.md
// quotes it.
package main

import (
	"context"
	"fmt"
	"log"

	_ "github.com/hare-go/hare/backends/sqlite"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
	"github.com/hare-go/hare/transactions"
)

// Book is a row of the table book.
type Book struct {
	ID    int64
	Title string `hare:"size=200,index"`
	Price string `hare:"decimal=10:2"`
}

// Books is the queryset of all books.
var Books = hare.Objects[Book]()

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	connections, err := hare.Open(ctx, hare.Config{Connections: map[string]string{"default": "sqlite:books.db"}})
	if err != nil {
		return err
	}
	defer connections.Close()
	hare.SetDefault(connections)

	client, err := connections.Client("")
	if err != nil {
		return err
	}
	if err := hare.CreateTables(ctx, client, Book{}); err != nil {
		return err
	}
	err = transactions.Atomic(ctx, func(ctx context.Context) error {
		return Books.Create(ctx, &Book{Title: "Watership Down", Price: "9.50"})
	})
	if err != nil {
		return err
	}
	cheap, err := Books.Filter(query.Q("price__lt", "10.00", "title__icontains", "ship")).OrderBy("-price").All(ctx)
	if err != nil {
		return err
	}
	for _, book := range cheap {
		fmt.Println(book.Title, book.Price)
	}
	return nil
}
