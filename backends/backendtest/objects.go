package backendtest

import (
	"errors"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

// testObjects: single rows, from Create to DeleteObject.
func testObjects(t *testing.T, db *database) {
	db.create(t, author{}, ticket{}, link{})
	ctx := db.ctx

	t.Run("create", func(t *testing.T) {
		ada := author{Name: "Ada", Rank: 2}
		must(t, authors.Create(ctx, &ada))
		if ada.ID == 0 {
			t.Error("the generated key is not filled in")
		}
		own := author{ID: 1000, Name: "own key"}
		must(t, authors.Create(ctx, &own))
		got, err := authors.Get(ctx, query.Q("id", 1000))
		must(t, err)
		equal(t, "zero values are written as they are", &own, got)
	})

	t.Run("create fails", func(t *testing.T) {
		must(t, authors.Create(ctx, &author{Name: "taken"}))
		twin := author{Name: "taken", Rank: 1}
		got := failure[*hare.IntegrityError](t, "a second one", authors.Create(ctx, &twin))
		equal(t, "the object is unchanged", author{Name: "taken", Rank: 1}, twin)
		if got.SQL == "" || got.Alias != db.client.Alias() {
			t.Errorf("the error does not say what was refused where: %+v", got.DatabaseError)
		}
		if fails[*hare.DatabaseError](t, "as its family", got); !got.NotDone {
			t.Error("a refused INSERT counts as one that may have been done")
		}
		fails[*hare.QueryError](t, "no object", authors.Create(ctx, nil))
	})

	t.Run("filled in", func(t *testing.T) {
		start := time.Now().Truncate(time.Microsecond)
		row := ticket{Subject: "help"}
		must(t, tickets.Create(ctx, &row))
		if row.ID == [16]byte{} {
			t.Error("the key is not made up")
		}
		equal(t, "defaults", []any{to[int64](3), to("web")}, []any{row.Priority, row.Channel})
		if row.CreatedAt.Before(start) || !row.CreatedAt.Equal(row.UpdatedAt) {
			t.Errorf("created at %v, updated at %v, and the test began at %v", row.CreatedAt, row.UpdatedAt, start)
		}
		got, err := tickets.Get(ctx, query.Q("id", row.ID))
		must(t, err)
		equal(t, "as stored", &row, got)

		long := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
		given := ticket{ID: [16]byte{15: 1}, Priority: to[int64](0), Channel: to(""), CreatedAt: long}
		must(t, tickets.Create(ctx, &given))
		equal(t, "what is given stays", []any{[16]byte{15: 1}, to[int64](0), to(""), long},
			[]any{given.ID, given.Priority, given.Channel, given.CreatedAt})
	})

	t.Run("save", func(t *testing.T) {
		row := ticket{Subject: "first"}
		must(t, tickets.Save(ctx, &row)) // no key: a new row
		created, id := row.CreatedAt, row.ID
		row.Subject, row.Priority = "second", nil
		must(t, tickets.Save(ctx, &row))
		got, err := tickets.Get(ctx, query.Q("id", id))
		must(t, err)
		equal(t, "an update writes NULL too", &row, got)
		if !got.CreatedAt.Equal(created) || got.UpdatedAt.Before(created) {
			t.Errorf("created at %v, then %v; updated at %v", created, got.CreatedAt, got.UpdatedAt)
		}

		bare := ticket{ID: id, Subject: "third"}
		must(t, tickets.Save(ctx, &bare))
		must(t, tickets.Refresh(ctx, &bare))
		if !bare.CreatedAt.Equal(created) {
			t.Errorf("a save without the time of creation has changed it from %v to %v", created, bare.CreatedAt)
		}

		partial := ticket{ID: id, Subject: "fourth", Channel: to("phone")}
		must(t, tickets.Save(ctx, &partial, hare.UpdateFields("channel")))
		must(t, tickets.Refresh(ctx, &partial))
		equal(t, "only the fields that are named", []any{"third", to("phone")}, []any{partial.Subject, partial.Channel})

		fresh := ticket{ID: [16]byte{1, 2}, Subject: "own key"}
		must(t, tickets.Save(ctx, &fresh)) // a key without a row: inserted
		must(t, tickets.Refresh(ctx, &fresh))
		if fresh.CreatedAt.IsZero() {
			t.Error("the row that Save inserted has no time of creation")
		}
		fails[*hare.IntegrityError](t, "ForceInsert", tickets.Save(ctx, &fresh, hare.ForceInsert()))

		must(t, tickets.DeleteObject(ctx, &fresh))
		before := fresh
		isMissing(t, "ForceUpdate", tickets.Save(ctx, &fresh, hare.ForceUpdate()))
		isMissing(t, "UpdateFields", tickets.Save(ctx, &fresh, hare.UpdateFields("subject")))
		equal(t, "a failed Save leaves the object unchanged", before, fresh)
		must(t, tickets.Save(ctx, &fresh, hare.UpdateFields())) // nothing to do

		fails[*hare.QueryError](t, "the key", tickets.Save(ctx, &fresh, hare.UpdateFields("id")))
		fails[*hare.QueryError](t, "both", tickets.Save(ctx, &fresh, hare.ForceInsert(), hare.ForceUpdate()))
		fails[*hare.QueryError](t, "no key", tickets.Save(ctx, &ticket{}, hare.ForceUpdate()))
		wrong := failure[*hare.FieldError](t, "a wrong name", tickets.Save(ctx, &fresh, hare.UpdateFields("subjekt")))
		equal(t, "names", []string{"ticket", "subjekt", "subject"}, []string{wrong.Model, wrong.Field, wrong.Nearest})
	})

	t.Run("nothing but a key", func(t *testing.T) {
		row := link{1, 2}
		must(t, links.Save(ctx, &row))
		must(t, links.Save(ctx, &row))
		n, err := links.Count(ctx)
		must(t, err)
		equal(t, "rows", int64(1), n)
	})

	t.Run("refresh and delete", func(t *testing.T) {
		row := author{Name: "Grace", Age: to[int64](30)}
		must(t, authors.Create(ctx, &row))
		stale := row
		_, err := authors.Filter(query.Q("id", row.ID)).Update(ctx, query.Set("age", nil), query.Set("rank", 9))
		must(t, err)
		must(t, authors.Refresh(ctx, &stale))
		equal(t, "refreshed", author{ID: row.ID, Name: "Grace", Rank: 9}, stale)
		equal(t, "the copy keeps what its pointer showed", int64(30), *row.Age)

		must(t, authors.DeleteObject(ctx, &row))
		isMissing(t, "Refresh", authors.Refresh(ctx, &stale))
		isMissing(t, "DeleteObject", authors.DeleteObject(ctx, &row))
		fails[*hare.QueryError](t, "Refresh without a key", authors.Refresh(ctx, &author{}))
		fails[*hare.QueryError](t, "DeleteObject without a key", authors.DeleteObject(ctx, &author{}))
	})
}

// isMissing makes sure that err is ErrDoesNotExist.
func isMissing(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, hare.ErrDoesNotExist) {
		t.Errorf("%s: got %v, want ErrDoesNotExist", what, err)
	}
}
