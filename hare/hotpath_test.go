package hare_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	_ "github.com/hare-go/hare/backends/postgres"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/query"
)

func TestMain(m *testing.M) { servers.Main(m) }

// Payload is what the allocation targets are stated for (docs/benchmarks.md).
type Payload struct {
	ID      int64
	Name    string
	City    string
	Active  bool
	Seen    time.Time
	Score   float64
	Comment *string
	Data    []byte
}

var Payloads = hare.Objects[Payload]()

// postgres is a database with a hundred payloads, on PostgreSQL.
func postgres(t testing.TB) (ctx context.Context, client *hare.Client, url string) {
	t.Helper()
	url = servers.Database(t)
	c, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"main": url}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx = hare.WithConnections(t.Context(), c)
	if client, err = c.Client(""); err != nil {
		t.Fatal(err)
	}
	if err := hare.CreateTables(ctx, client, Payload{}); err != nil {
		t.Fatal(err)
	}
	rows := make([]Payload, 100)
	for i := range rows {
		comment := fmt.Sprint("comment ", i)
		rows[i] = Payload{Name: fmt.Sprint("name ", i), City: "city", Active: true, Seen: time.Now(), Score: 1.5, Comment: &comment, Data: []byte("data")}
	}
	if err := Payloads.BulkCreate(ctx, rows); err != nil {
		t.Fatal(err)
	}
	return ctx, client, url
}

// TestAllocations: a get by key stays within four allocations of pgx as one writes it by hand, and a list of a hundred
// within two thirds of it; writes and counts stay within five.
func TestAllocations(t *testing.T) {
	_, client, url := postgres(t)
	ctx := context.Background() // a context that can end costs both sides the same four allocations to watch it
	Payloads := Payloads.Using(client)
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	const columns = "SELECT id, name, city, active, seen, score, comment, data FROM payload "
	scan := func(row pgx.Row, p *Payload) error {
		return row.Scan(&p.ID, &p.Name, &p.City, &p.Active, &p.Seen, &p.Score, &p.Comment, &p.Data)
	}
	for _, tt := range []struct {
		name  string
		limit func(byHand float64) float64
		hare  func() error
		pgx   func() error
	}{
		{"get", func(byHand float64) float64 { return min(byHand+4, 19) }, func() error {
			_, err := Payloads.Get(ctx, query.Q("id", 7))
			return err
		}, func() error {
			p := new(Payload)
			return scan(pool.QueryRow(ctx, columns+"WHERE id = $1", 7), p)
		}},
		{"list 100", func(byHand float64) float64 { return byHand * 2 / 3 }, func() error {
			rows, err := Payloads.OrderBy("id").Limit(100).All(ctx)
			if err == nil && len(rows) != 100 {
				err = fmt.Errorf("%d rows", len(rows))
			}
			return err
		}, func() error {
			rows, err := pool.Query(ctx, columns+"ORDER BY id LIMIT $1", 100)
			if err != nil {
				return err
			}
			defer rows.Close()
			var list []Payload
			for rows.Next() {
				var p Payload
				if err := scan(rows, &p); err != nil {
					return err
				}
				list = append(list, p)
			}
			if len(list) != 100 {
				return fmt.Errorf("%d rows", len(list))
			}
			return rows.Err()
		}},
		{"create", func(byHand float64) float64 { return byHand + 5 }, func() error {
			return Payloads.Create(ctx, &Payload{Name: "n", City: "c", Seen: time.Now(), Data: []byte("d")})
		}, func() error {
			p := &Payload{Name: "n", City: "c", Seen: time.Now(), Data: []byte("d")}
			return pool.QueryRow(ctx, "INSERT INTO payload (name, city, active, seen, score, comment, data) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id",
				p.Name, p.City, p.Active, p.Seen, p.Score, p.Comment, p.Data).Scan(&p.ID)
		}},
		{"update", func(byHand float64) float64 { return byHand + 5 }, func() error {
			_, err := Payloads.Filter(query.Q("id", 7)).Update(ctx, query.Set("score", 2.5))
			return err
		}, func() error {
			_, err := pool.Exec(ctx, "UPDATE payload SET score = $1 WHERE id = $2", 2.5, 7)
			return err
		}},
		{"delete", func(byHand float64) float64 { return byHand + 5 }, func() error {
			_, err := Payloads.Filter(query.Q("id", -1)).Delete(ctx)
			return err
		}, func() error {
			_, err := pool.Exec(ctx, "DELETE FROM payload WHERE id = $1", -1)
			return err
		}},
		{"count", func(byHand float64) float64 { return byHand + 5 }, func() error {
			_, err := Payloads.Count(ctx)
			return err
		}, func() error {
			var n int64
			return pool.QueryRow(ctx, "SELECT count(*) FROM payload").Scan(&n)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			count := func(run func() error) float64 {
				return testing.AllocsPerRun(200, func() {
					if err := run(); err != nil {
						t.Fatal(err)
					}
				})
			}
			byHand, byHare := count(tt.pgx), count(tt.hare)
			t.Logf("hare %v, pgx %v", byHare, byHand)
			if most := tt.limit(byHand); byHare > most {
				t.Errorf("hare allocates %v times, pgx by hand %v: at most %v are allowed", byHare, byHand, most)
			}
		})
	}
}

// TestRepeatedQueryRendersNothing: only the values of a query change, never its text.
func TestRepeatedQueryRendersNothing(t *testing.T) {
	ctx, client, _ := postgres(t)
	run := func(i int64) {
		t.Helper()
		name := fmt.Sprint("new ", i)
		object := Payload{Name: name}
		for _, err := range []error{
			Payloads.Create(ctx, &object),
			second(Payloads.Filter(query.Q("id__in", make([]int64, i+1))).All(ctx)),
			second(Payloads.Filter(query.Q("name__contains", name)).OrderBy("-id").Limit(int(i) + 1).Offset(int(i)).All(ctx)),
			second(Payloads.Exclude(query.Or(query.Q("score__gt", i), query.Q("comment", nil))).Count(ctx)),
			second(Payloads.Filter(query.Q("id", i)).Update(ctx, query.Set("score", query.F("score").Add(i)), query.Set("city", name))),
			Payloads.Save(ctx, &object),
			Payloads.Refresh(ctx, &object),
			Payloads.DeleteObject(ctx, &object),
			Payloads.BulkCreate(ctx, make([]Payload, i+2)),
			second(Payloads.Filter(query.Q("id", -i)).Exists(ctx)),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	run(1)
	before := hare.Renders(client)
	for i := range int64(20) {
		run(i + 2)
	}
	if after := hare.Renders(client); after != before {
		t.Errorf("%d statements were rendered again", after-before)
	}
	if before == 0 {
		t.Error("nothing was counted")
	}
}
