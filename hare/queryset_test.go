package hare_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	_ "github.com/hare-go/hare/backends/sqlite"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

type Reader struct {
	ID   int64
	Name string `hare:"size=20,unique"`
	Debt *int64
}

var Readers = hare.Objects[Reader]()

// library is a database with three readers.
func library(t testing.TB) (context.Context, *hare.Client) {
	t.Helper()
	c := sqliteConnections(t, "library")
	ctx := hare.WithConnections(t.Context(), c)
	client, err := c.Client("library")
	if err != nil {
		t.Fatal(err)
	}
	if err := hare.CreateTables(ctx, client, Reader{}); err != nil {
		t.Fatal(err)
	}
	debt := int64(5)
	if err := Readers.BulkCreate(ctx, []Reader{{Name: "Ada"}, {Name: "Bob", Debt: &debt}, {Name: "Cy"}}); err != nil {
		t.Fatal(err)
	}
	return ctx, client
}

func TestQuerySetIsImmutable(t *testing.T) {
	ctx, _ := library(t)
	base := Readers.Filter(query.Q("id__gt", 0)).Filter(query.Q("id__lt", 100)).Filter(query.Q("name__not", ""))
	// All three grow from one array of conditions; none may write into another's.
	ada, bob, indebted := base.Filter(query.Q("name", "Ada")), base.Filter(query.Q("name", "Bob")), base.Exclude(query.Q("debt", nil))
	_ = base.OrderBy("-id").Limit(1).Offset(1).Unfiltered()
	for _, tt := range []struct {
		name string
		qs   hare.QuerySet[Reader]
		want []string
	}{
		{"base", base, []string{"Ada", "Bob", "Cy"}},
		{"ada", ada, []string{"Ada"}},
		{"bob", bob, []string{"Bob"}},
		{"indebted", indebted, []string{"Bob"}},
	} {
		rows, err := tt.qs.OrderBy("id").All(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, row := range rows {
			got = append(got, row.Name)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tt.name, diff)
		}
	}
	if _, err := base.Using(nil).Limit(-1).All(ctx); !isA[*hare.QueryError](err) {
		t.Errorf("got %v", err)
	}
	if _, err := base.All(ctx); err != nil {
		t.Errorf("the mistake of a queryset that grew from it reached the base: %v", err)
	}
}

func TestQuerySetConnection(t *testing.T) {
	c := sqliteConnections(t, "one", "two")
	ctx := hare.WithConnections(t.Context(), c)
	for _, alias := range c.Aliases() {
		client, err := c.Client(alias)
		if err != nil {
			t.Fatal(err)
		}
		if err := hare.CreateTables(ctx, client, Reader{}); err != nil {
			t.Fatal(err)
		}
		if err := Readers.Using(client).Create(ctx, &Reader{Name: alias}); err != nil {
			t.Fatal(err)
		}
	}
	two, err := c.Client("two")
	if err != nil {
		t.Fatal(err)
	}
	for name, qs := range map[string]hare.QuerySet[Reader]{"one": Readers.Using(two).UsingAlias("one"), "two": Readers.UsingAlias("one").Using(two)} {
		row, err := qs.Get(ctx)
		if err != nil || row.Name != name {
			t.Errorf("got %v, %v, want the row of %s", row, err, name)
		}
	}
	if _, err := Readers.All(ctx); !isA[*hare.ConfigurationError](err) {
		t.Errorf("without an alias and without a default: %v", err)
	}
	hare.SetDefault(nil)
	if _, err := Readers.All(t.Context()); !isA[*hare.ConfigurationError](err) {
		t.Errorf("without connections: %v", err)
	}
}

func TestSQL(t *testing.T) {
	_, client := library(t)
	text, args, err := Readers.Using(client).Filter(query.Q("name", "Ada", "debt__gt", 1)).OrderBy("-id").Limit(3).SQL()
	if err != nil {
		t.Fatal(err)
	}
	const want = `SELECT "id", "name", "debt" FROM "reader" WHERE ("name" = $1 AND "debt" > $2) ORDER BY "id" DESC LIMIT $3`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]any{"Ada", int64(1), int64(3)}, args); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, _, err := Readers.Using(client).Filter(query.Q("nam", "Ada")).SQL(); !isA[*hare.FieldError](err) {
		t.Errorf("got %v", err)
	}
}

func TestObjectsOfWhatIsNoModel(t *testing.T) {
	for name, err := range map[string]error{
		"a number":           second(hare.Objects[int]().Count(t.Context())),
		"a pointer":          second(hare.Objects[*Reader]().Count(t.Context())),
		"a bad tag":          second(hare.Objects[misdeclared]().Count(t.Context())),
		"a struct like that": second(hare.Objects[struct{ ID int64 }]().Count(t.Context())),
	} {
		if !isA[*hare.ConfigurationError](err) {
			t.Errorf("%s: %v, want a ConfigurationError", name, err)
		}
	}
	_, err := hare.Objects[misdeclared]().Count(t.Context())
	var wrong *hare.ConfigurationError
	if !errors.As(err, &wrong) || wrong.Model != "misdeclared" || wrong.Field != "Name" || wrong.Tag == "" {
		t.Errorf("the error does not say where: %#v", err)
	}
}

type misdeclared struct {
	ID   int64
	Name string `hare:"siz=3"`
}

func second[T any](_ T, err error) error { return err }

func TestIterateEndsInTheMiddle(t *testing.T) {
	ctx, client := library(t)
	seen := 0
	for row, err := range Readers.OrderBy("id").Iterate(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; row.Name == "Bob" {
			break
		}
	}
	if seen != 2 {
		t.Errorf("the loop saw %d rows", seen)
	}
	// The connection is free again: a write would wait for a reader that never ends.
	if _, err := client.Exec(ctx, "DELETE FROM reader"); err != nil {
		t.Error(err)
	}
}

func TestAllHoldsNoMoreThanItNeeds(t *testing.T) {
	ctx, _ := library(t)
	many := make([]Reader, 1000)
	for i := range many {
		many[i].Name = fmt.Sprint("reader ", i)
	}
	if err := Readers.BulkCreate(ctx, many); err != nil {
		t.Fatal(err)
	}
	for _, above := range []int{0, 990, 0, 2000} {
		rows, err := Readers.Filter(query.Q("id__gt", above)).OrderBy("id").All(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if want := max(0, 1003-above); len(rows) != want || rows == nil {
			t.Errorf("above %d: %d rows, want %d", above, len(rows), want)
		}
		for i, row := range rows {
			if row.ID != int64(above+i+1) {
				t.Fatalf("above %d: row %d is %d", above, i, row.ID)
			}
		}
		if cap(rows) > 64 && cap(rows) > 2*len(rows) {
			t.Errorf("above %d: %d rows hold the memory of %d", above, len(rows), cap(rows))
		}
	}
}

func TestNullIntoPlainField(t *testing.T) {
	ctx, client := library(t)
	if _, err := client.Exec(ctx, "CREATE TABLE loose (id integer PRIMARY KEY, name text)"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Exec(ctx, "INSERT INTO loose VALUES (1, 'one'), (2, NULL)"); err != nil {
		t.Fatal(err)
	}
	_, err := hare.Objects[Loose]().OrderBy("id").All(ctx)
	var misfit *hare.DecodeError
	if !errors.As(err, &misfit) {
		t.Fatalf("got %v, want a DecodeError", err)
	}
	if diff := cmp.Diff([]string{"Loose", "Name", "name"}, []string{misfit.Model, misfit.Field, misfit.Column}); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

type Loose struct {
	ID   int64
	Name string
}
