package backendtest

import (
	"sync"
	"testing"

	"github.com/hare-go/hare/hare"
)

// testTables: CreateTables.
func testTables(t *testing.T, db *database) {
	t.Run("several workers at once", func(t *testing.T) {
		const workers = 8
		failed := make([]error, workers)
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() {
				failed[i] = hare.CreateTables(db.ctx, db.client, book{}, &author{}, (*pair)(nil), ticket{}, link{})
			})
		}
		all.Wait()
		for _, err := range failed {
			must(t, err)
		}
		must(t, authors.Create(db.ctx, &author{Name: "Ursula"}))
	})

	t.Run("existing tables are left alone", func(t *testing.T) {
		db.create(t, author{}, book{})
		n, err := authors.Count(db.ctx)
		must(t, err)
		equal(t, "rows", int64(1), n)
	})

	t.Run("all or nothing", func(t *testing.T) {
		_, err := db.client.Exec(db.ctx, "CREATE VIEW broken AS SELECT 1 AS x")
		must(t, err)
		fails[*hare.DatabaseError](t, "an index on a view", hare.CreateTables(db.ctx, db.client, orphan{}, broken{}))
		_, err = hare.Objects[orphan]().Count(db.ctx)
		fails[*hare.DatabaseError](t, "a table of a failed CreateTables", err)
	})

	t.Run("not a model", func(t *testing.T) {
		fails[*hare.QueryError](t, "a number", hare.CreateTables(db.ctx, db.client, 5))
		fails[*hare.QueryError](t, "nil", hare.CreateTables(db.ctx, db.client, nil))
		fails[*hare.QueryError](t, "no client", hare.CreateTables(db.ctx, nil, author{}))
		fails[*hare.ConfigurationError](t, "a bad declaration", hare.CreateTables(db.ctx, db.client, misdeclared{}))
	})
}

type orphan struct{ ID int64 }

// broken cannot be created where a view has its name, because of its index.
type broken struct {
	ID int64
	X  int64 `hare:"index"`
}

type misdeclared struct {
	ID   int64
	Name string `hare:"siz=5"`
}
