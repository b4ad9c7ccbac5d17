package compile

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/features"
)

func TestUpsert(t *testing.T) {
	f := arraysFeatures
	f.SupportsUniqueConstraints = true
	c := New(arrays{}, f, "main")
	author := table[Author](t)
	set := func(names ...string) (s ColumnSet) {
		for _, name := range names {
			s = s.With(column(t, author, name))
		}
		return s
	}
	for _, tt := range []struct {
		name      string
		columns   ColumnSet
		returning ColumnSet
		on        Conflict
		want      string
	}{
		{"any constraint", set("name"), ColumnSet{}, Conflict{},
			`INSERT INTO "author" ("name") VALUES ($1) ON CONFLICT DO NOTHING`},
		{"one constraint", set("name"), ColumnSet{}, Conflict{Target: set("name", "age")},
			`INSERT INTO "author" ("name") VALUES ($1) ON CONFLICT ("name", "age") DO NOTHING`},
		{"update", set("name", "rank", "age"), set("id"), Conflict{Target: set("name"), Update: set("rank", "age")},
			`INSERT INTO "author" ("name","age","rank") VALUES ($1,$2,$3) ON CONFLICT ("name") DO UPDATE SET "age" = excluded."age", "rank" = excluded."rank" RETURNING "id"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 { // rendered, then from the cache
				got, err := c.Upsert(author, tt.columns, tt.returning, tt.on)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, got.SQL); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			}
		})
	}
	if got := c.Renders(); got != 3 {
		t.Errorf("%d statements were rendered, want 3", got)
	}

	s, rows, err := c.UpsertRows(author, set("name"), ColumnSet{}, Conflict{})
	if err != nil || !rows {
		t.Fatalf("%v, in one statement: %v, %v", s, rows, err)
	}
	plain, _, err := c.InsertRows(author, set("name"), ColumnSet{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plain.SQL+" ON CONFLICT DO NOTHING", s.SQL); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	var misuse *UsageError
	if _, err := c.Upsert(author, set("name"), ColumnSet{}, Conflict{Update: set("rank")}); !errors.As(err, &misuse) {
		t.Errorf("an update without a target: %v", err)
	}
	var missing *features.UnsupportedError
	if _, err := arraysCompiler().Upsert(author, set("name"), ColumnSet{}, Conflict{}); !errors.As(err, &missing) {
		t.Errorf("without unique constraints: %v", err)
	}
}
