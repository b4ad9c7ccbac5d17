package query_test

import (
	"context"
	"fmt"
	"log"

	_ "github.com/hare-go/hare/backends/sqlite"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

type Author struct {
	ID   int64
	Name string
}

type Book struct {
	ID        int64
	Title     string
	Subtitle  *string
	Price     string `hare:"decimal=10:2"`
	Available int64
	AuthorID  int64
	Author    *Author `hare:"fk=author_id"`
}

var (
	Authors = hare.Objects[Author]()
	Books   = hare.Objects[Book]()
)

// library is a memory database with three books, one of them without a subtitle.
func library() (ctx context.Context, done func()) {
	connections, err := hare.Open(context.Background(), hare.Config{
		Connections: map[string]string{"default": "sqlite::memory:"},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx = hare.WithConnections(context.Background(), connections)
	client, err := connections.Client("")
	if err != nil {
		log.Fatal(err)
	}
	if err := hare.CreateTables(ctx, client, Author{}, Book{}); err != nil {
		log.Fatal(err)
	}
	authors := []Author{{Name: "Richard Adams"}, {Name: "Mary Shelley"}}
	if err := Authors.BulkCreate(ctx, authors); err != nil {
		log.Fatal(err)
	}
	prometheus, biography := "The Modern Prometheus", "100% Adams"
	books := []Book{
		{Title: "Watership Down", Price: "9.50", Available: 2, AuthorID: authors[0].ID},
		{Title: "Frankenstein", Subtitle: &prometheus, Price: "7.00", Available: 1, AuthorID: authors[1].ID},
		{Title: "The Day Gone By", Subtitle: &biography, Price: "12.00", AuthorID: authors[0].ID},
	}
	if err := Books.BulkCreate(ctx, books); err != nil {
		log.Fatal(err)
	}
	return ctx, connections.Close
}

// titles prints what a queryset finds, in its order.
func titles(ctx context.Context, books hare.QuerySet[Book]) {
	found, err := books.All(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for i, book := range found {
		if i > 0 {
			fmt.Print(", ")
		}
		fmt.Print(book.Title)
	}
	fmt.Println()
}

func Example() {
	ctx, done := library()
	defer done()

	cheap := Books.Filter(query.Q("price__lt", "10.00")).Exclude(query.Q("title__icontains", "draft"))
	books, err := cheap.OrderBy("-price", "title").Limit(20).All(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, book := range books {
		fmt.Println(book.Title, book.Price)
	}
	// Output:
	// Watership Down 9.50
	// Frankenstein 7.00
}

func ExampleQ() {
	ctx, done := library()
	defer done()

	books := Books.OrderBy("title")
	titles(ctx, books.Filter(query.Q("author__name__startswith", "R")))
	titles(ctx, books.Filter(query.Q("available__gt", 0, "price__lte", "9.50")))
	titles(ctx, books.Filter(query.Q("price__range", []any{"9.50", nil})))
	titles(ctx, books.Filter(query.Q("title__in", []string{"Frankenstein", "Dracula"})))
	titles(ctx, books.Filter(query.Q("subtitle__contains", "0%")))
	titles(ctx, books.Filter(query.Q("title__istartswith", "the")))
	// Output:
	// The Day Gone By, Watership Down
	// Frankenstein, Watership Down
	// The Day Gone By, Watership Down
	// Frankenstein
	// The Day Gone By
	// The Day Gone By
}

// A row without a value differs from every value.
func ExampleQ_null() {
	ctx, done := library()
	defer done()

	books := Books.OrderBy("title")
	titles(ctx, books.Filter(query.Q("subtitle", nil)))
	titles(ctx, books.Filter(query.Q("subtitle__isnull", false)))
	titles(ctx, books.Filter(query.Q("subtitle__not", "The Modern Prometheus")))
	titles(ctx, books.Filter(query.Q("subtitle__in", []any{nil, "100% Adams"})))
	// Output:
	// Watership Down
	// Frankenstein, The Day Gone By
	// The Day Gone By, Watership Down
	// The Day Gone By, Watership Down
}

// A mistake is returned by the terminal method, before anything is sent.
func ExampleQ_mistakes() {
	ctx, done := library()
	defer done()

	for _, predicate := range []query.Predicate{
		query.Q("titel", "Frankenstein"),
		query.Q("price", 9.5),
		query.Q("title"),
	} {
		_, err := Books.Filter(predicate).All(ctx)
		fmt.Println(err)
	}
	// Output:
	// Book has no field "titel"; did you mean "title"?
	// Book.Price (column "price"): a float is not exact: give a decimal type, a string or an integer
	// query.Q takes pairs of path and value, and got 1 arguments
}

func ExampleNot() {
	ctx, done := library()
	defer done()

	books := Books.OrderBy("title")
	titles(ctx, books.Filter(query.Not(query.Q("subtitle__contains", "Adams"))))
	titles(ctx, books.Exclude(query.Q("subtitle__contains", "Adams")))
	// Output:
	// Frankenstein, Watership Down
	// Frankenstein, Watership Down
}

func ExampleOr() {
	ctx, done := library()
	defer done()

	wanted := query.Or(
		query.Q("author__name", "Mary Shelley"),
		query.And(query.Q("available", 0), query.Q("price__gt", "10.00")),
	)
	titles(ctx, Books.Filter(wanted).OrderBy("title"))
	// Output: Frankenstein, The Day Gone By
}

func ExampleF() {
	ctx, done := library()
	defer done()

	taken, err := Books.Filter(query.Q("title", "Watership Down", "available__gt", 0)).
		Update(ctx, query.Set("available", query.F("available").Sub(1)))
	if err != nil {
		log.Fatal(err)
	}
	book, err := Books.Get(ctx, query.Q("title", "Watership Down"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(taken, book.Available)
	titles(ctx, Books.Filter(query.Q("id__gt", query.F("available"))).OrderBy("title"))
	// Output:
	// 1 1
	// Frankenstein, The Day Gone By
}

func ExampleAsc() {
	ctx, done := library()
	defer done()

	titles(ctx, Books.OrderBy(query.Asc("subtitle").NullsLast()))
	titles(ctx, Books.OrderBy(query.Desc("subtitle").NullsFirst()))
	titles(ctx, Books.OrderBy("author__name", "-title"))
	// Output:
	// The Day Gone By, Frankenstein, Watership Down
	// Watership Down, Frankenstein, The Day Gone By
	// Frankenstein, Watership Down, The Day Gone By
}
