package backendtest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
	"github.com/hare-go/hare/transactions"
)

// testParallel: many goroutines at one database lose nothing.
func testParallel(t *testing.T, db *database) {
	db.create(t, num{}, author{})
	ctx := db.ctx
	row := num{N: 100}
	must(t, nums.Create(ctx, &row))
	const workers, rounds = 8, 15
	each := func(t *testing.T, work func(worker, round int) error) {
		t.Helper()
		failed := make(chan error, workers*rounds)
		var all sync.WaitGroup
		for worker := range workers {
			all.Go(func() {
				for round := range rounds {
					if err := work(worker, round); err != nil {
						failed <- err
					}
				}
			})
		}
		all.Wait()
		close(failed)
		for err := range failed {
			t.Fatal(err)
		}
	}

	t.Run("counting", func(t *testing.T) {
		each(t, func(int, int) error {
			n, err := nums.Filter(query.Q("id", row.ID)).Update(ctx, query.Set("n", query.F("n").Add(1)))
			if err == nil && n != 1 {
				err = fmt.Errorf("%d rows were updated", n)
			}
			return err
		})
		must(t, nums.Refresh(ctx, &row))
		equal(t, "n", int64(100+workers*rounds), row.N)
	})

	t.Run("taking the last one", func(t *testing.T) {
		taken := make([]int64, workers)
		each(t, func(worker, _ int) error {
			n, err := nums.Filter(query.Q("id", row.ID, "n__gt", 200)).Update(ctx, query.Set("n", query.F("n").Sub(1)))
			taken[worker] += n
			return err
		})
		var sum int64
		for _, n := range taken {
			sum += n
		}
		must(t, nums.Refresh(ctx, &row))
		equal(t, "taken and left", []int64{20, 200}, []int64{sum, row.N})
	})

	t.Run("creating and reading", func(t *testing.T) {
		each(t, func(worker, round int) error {
			object := author{Name: fmt.Sprint(worker, "-", round)}
			if err := authors.Create(ctx, &object); err != nil {
				return err
			}
			rows := []author{{Name: fmt.Sprint("a", object.ID)}, {Name: fmt.Sprint("b", object.ID)}}
			if err := authors.BulkCreate(ctx, rows, hare.BatchSize(1)); err != nil {
				return err
			}
			got, err := authors.Filter(query.Q("id__in", []int64{object.ID, rows[0].ID, rows[1].ID})).Count(ctx)
			if err == nil && got != 3 {
				err = fmt.Errorf("%d of 3 rows are there", got)
			}
			return err
		})
		n, err := authors.Count(ctx)
		must(t, err)
		equal(t, "rows", int64(3*workers*rounds), n)
	})

	t.Run("transactions", func(t *testing.T) {
		each(t, func(worker, round int) error {
			return transactions.Atomic(ctx, func(ctx context.Context) error {
				if _, err := nums.Filter(query.Q("id", row.ID)).Update(ctx, query.Set("n", query.F("n").Add(1))); err != nil {
					return err
				}
				_, err := nums.Get(ctx, query.Q("id", row.ID))
				return err
			})
		})
		must(t, nums.Refresh(ctx, &row))
		equal(t, "n", int64(200+workers*rounds), row.N)
	})
}
