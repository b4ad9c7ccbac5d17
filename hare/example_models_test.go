package hare_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

// Each tag is described in docs/models.md.
func Example_models() {
	ctx, done := shelf()
	defer done()

	type Author struct {
		ID   int64
		Name string
	}

	type Document struct {
		Pages int
		Words []string
	}

	type Edition struct {
		ID        int64     // the key, by convention; or a field tagged pk
		Title     string    `hare:"size=200,index"`
		ISBN      string    `hare:"size=13,unique"`
		Price     string    `hare:"decimal=10:2"` // exact; or any decimal type with Scan and Value
		Subtitle  *string   // a pointer can be NULL
		State     *string   `hare:"size=10,choices=new|used,default=new"`
		Copies    int       `hare:"check=copies >= 0"`
		Data      Document  `hare:"json"`
		CreatedAt time.Time `hare:"auto_now_add"`
		UpdatedAt time.Time `hare:"auto_now"`
		AuthorID  int64
		Author    *Author `hare:"fk=author_id,on_delete=restrict"`
	}

	conns, err := hare.FromContext(ctx)
	if err != nil {
		log.Fatal(err)
	}
	client, err := conns.Client("")
	if err != nil {
		log.Fatal(err)
	}
	if err := hare.CreateTables(ctx, client, Author{}, Edition{}); err != nil {
		log.Fatal(err)
	}
	author := Author{Name: "Richard Adams"}
	if err := hare.Objects[Author]().Create(ctx, &author); err != nil {
		log.Fatal(err)
	}
	editions := hare.Objects[Edition]()
	edition := Edition{Title: "Watership Down", ISBN: "9780141354965", Price: "9.50", Data: Document{Pages: 480}, AuthorID: author.ID}
	if err := editions.Create(ctx, &edition); err != nil {
		log.Fatal(err)
	}
	fmt.Println(edition.ID, *edition.State, edition.CreatedAt.IsZero())

	found, err := editions.Get(ctx, query.Q("author__name", "Richard Adams"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found.Title, found.Price, found.Data.Pages, found.Author)

	edition.Price = "9.505"
	fmt.Println(editions.Save(ctx, &edition))
	// Output:
	// 1 new false
	// Watership Down 9.50 480 <nil>
	// Edition.Price (column "price"): the column has 2 decimal places, and the number has more: round it first
}

func ExampleLoadConfig() {
	dir, err := os.MkdirTemp("", "hare")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "hare.yml")
	text := `
# hare.yml
connections:
  library: postgres://hare:${LIBRARY_PASSWORD}@db1/library?max_size=20&sslmode=verify-full
  inventory:
    url: postgres://hare:${INVENTORY_PASSWORD}@db2/inventory
default: library
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"LIBRARY_PASSWORD", "INVENTORY_PASSWORD"} {
		if err := os.Setenv(name, "carrots"); err != nil {
			log.Fatal(err)
		}
		defer func() { _ = os.Unsetenv(name) }()
	}

	config, err := hare.LoadConfig(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(config.Default)
	fmt.Println(config) // without the passwords
	// Output:
	// library
	// hare.Config{inventory: postgres://hare:xxxxx@db2/inventory, library: postgres://hare:xxxxx@db1/library?max_size=20&sslmode=verify-full; default: library}
}
