package hare_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	_ "github.com/hare-go/hare/backends/sqlite"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

type Book struct {
	ID        int64
	Title     string `hare:"size=200,unique"`
	Available int64
	Shelf     *string
}

var Books = hare.Objects[Book]()

// shelf opens a small library in a file of its own.
func shelf() (ctx context.Context, done func()) {
	dir, err := os.MkdirTemp("", "hare")
	if err != nil {
		log.Fatal(err)
	}
	conns, err := hare.Open(context.Background(), hare.Config{
		Connections: map[string]string{"library": "sqlite:" + filepath.Join(dir, "library.db")},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx = hare.WithConnections(context.Background(), conns)
	client, err := conns.Client("library")
	if err != nil {
		log.Fatal(err)
	}
	if err := hare.CreateTables(ctx, client, Book{}); err != nil {
		log.Fatal(err)
	}
	return ctx, func() {
		conns.Close()
		_ = os.RemoveAll(dir)
	}
}

func Example() {
	ctx, done := shelf()
	defer done()

	books := []Book{{Title: "Solaris", Available: 2}, {Title: "Dune"}, {Title: "Kindred", Available: 1}}
	if err := Books.BulkCreate(ctx, books); err != nil {
		log.Fatal(err)
	}
	taken, err := Books.Filter(query.Q("title", "Solaris", "available__gt", 0)).
		Update(ctx, query.Set("available", query.F("available").Sub(1)))
	if err != nil {
		log.Fatal(err)
	}
	onShelf, err := Books.Filter(query.Q("available__gt", 0)).OrderBy("title").All(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("taken:", taken)
	for _, book := range onShelf {
		fmt.Println(book.Title, book.Available)
	}
	// Output:
	// taken: 1
	// Kindred 1
	// Solaris 1
}

func ExampleQuerySet_Get() {
	ctx, done := shelf()
	defer done()

	_, err := Books.Get(ctx, query.Q("title", "Solaris"))
	fmt.Println(errors.Is(err, hare.ErrDoesNotExist), err)

	_, err = Books.Get(ctx, query.Q("titel", "Solaris"))
	var wrong *hare.FieldError
	fmt.Println(errors.As(err, &wrong), err)
	// Output:
	// true Book: no row matches
	// true Book has no field "titel"; did you mean "title"?
}

func ExampleQuerySet_Save() {
	ctx, done := shelf()
	defer done()

	book := Book{Title: "Dune", Available: 3}
	if err := Books.Save(ctx, &book); err != nil { // no key yet: a new row
		log.Fatal(err)
	}
	book.Available--
	if err := Books.Save(ctx, &book, hare.UpdateFields("available")); err != nil {
		log.Fatal(err)
	}
	if err := Books.Refresh(ctx, &book); err != nil {
		log.Fatal(err)
	}
	fmt.Println(book.ID, book.Title, book.Available)
	// Output: 1 Dune 2
}

func ExampleQuerySet_BulkCreate() {
	ctx, done := shelf()
	defer done()

	stock := []Book{{Title: "Solaris", Available: 2}, {Title: "Dune", Available: 1}}
	if err := Books.BulkCreate(ctx, stock); err != nil {
		log.Fatal(err)
	}
	delivery := []Book{{Title: "Dune", Available: 5}, {Title: "Kindred", Available: 4}}
	if err := Books.BulkCreate(ctx, delivery, hare.OnConflict("title"), hare.DoUpdate("available")); err != nil {
		log.Fatal(err)
	}
	for book, err := range Books.OrderBy("title").Iterate(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(book.Title, book.Available)
	}
	// Output:
	// Dune 5
	// Kindred 4
	// Solaris 2
}

func ExampleClient_Query() {
	ctx, done := shelf()
	defer done()

	if err := Books.Create(ctx, &Book{Title: "Solaris", Available: 2}); err != nil {
		log.Fatal(err)
	}
	conns, err := hare.FromContext(ctx)
	if err != nil {
		log.Fatal(err)
	}
	client, err := conns.Client("library")
	if err != nil {
		log.Fatal(err)
	}
	rows, err := client.Query(ctx, "SELECT upper(title), shelf FROM book WHERE available >= $1", 1)
	if err != nil {
		log.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var title string
		var shelf *string
		if err := rows.Scan(&title, &shelf); err != nil {
			log.Fatal(err)
		}
		fmt.Println(title, shelf == nil)
	}
	if err := rows.Err(); err != nil {
		log.Fatal(err)
	}
	// Output: SOLARIS true
}
