package backendtest

import (
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/query"
)

// cents is an exact decimal with Scan and Value methods.
type cents struct{ n int64 }

func (c cents) Value() (driver.Value, error) { return fmt.Sprintf("%d.%02d", c.n/100, c.n%100), nil }

func (c *cents) Scan(value any) error {
	text, ok := value.(string)
	if !ok {
		return errors.New("cents are read from a text")
	}
	var whole, part int64
	if _, err := fmt.Sscanf(text, "%d.%d", &whole, &part); err != nil {
		return errors.New("no cents")
	}
	c.n = whole*100 + part
	return nil
}

// handle is a UUID type with Scan and Value methods.
type handle [16]byte

func (h handle) Value() (driver.Value, error) {
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:]), nil
}

func (h *handle) Scan(value any) error {
	text, ok := value.(string)
	if !ok {
		return errors.New("a handle is read from a text")
	}
	bytes, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	copy(h[:], bytes)
	return err
}

// tone is stored as its text.
type tone struct{ r, g, b uint8 }

func (c tone) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "#%02x%02x%02x", c.r, c.g, c.b), nil
}

func (c *tone) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "#%02x%02x%02x", &c.r, &c.g, &c.b)
	return err
}

// custom has fields whose types say themselves what they store.
type custom struct {
	ID       handle
	Price    cents  `hare:"decimal=8:2"`
	Discount *cents `hare:"decimal=8:2"`
	Other    *handle
	Tone     tone
	Shade    *tone
	Nick     sql.NullString
	Count    sql.NullInt64
	Seen     sql.NullTime
	Flag     sql.NullBool
	Ratio    sql.Null[float64]
}

// task has enumerations that are limited to their choices.
type task struct {
	ID       int64
	State    level  `hare:"choices=open|done,size=10"`
	Urgency  status `hare:"choices=1|2|3"`
	Fallback *level `hare:"choices=open|done,default=open"`
}

// order has names that mean something in SQL.
type order struct {
	Select int64  `hare:"pk"`
	From   string `hare:"unique=group"`
	Table  string `hare:"unique=group,index"`
	Where  *bool  `hare:"column=null"`
	Exact  int    `hare:"column=in"`
	Desc   int    `hare:"column=exact"`
}

// slug has a text for its key.
type slug struct {
	Name  string `hare:"pk,size=30"`
	Hits  uint32
	Total uint64
	Tiny  int8
	Byte  uint8
	Code  string `hare:"type=varchar(4)"`
}

// keyless has no key.
type keyless struct {
	Name string
	N    int
}

// loose and strict are two views of one table.
type loose struct {
	ID   int64
	Text *string
	N    *int64
	When *time.Time
}

func (loose) TableName() string { return "view_of_one_table" }

type strict struct {
	ID   int64
	Text string
	N    int8
	When time.Time
}

func (strict) TableName() string { return "view_of_one_table" }

// lengthy has names whose indexes need shorter ones.
type lengthy struct {
	ID                                         int64
	AVeryLongNameThatNearlyFillsAnIdentifierA  int64 `hare:"index,unique=averylongnameofaconstraintoverseveralcolumns"`
	AVeryLongNameThatNearlyFillsAnIdentifierB  int64 `hare:"index,unique=averylongnameofaconstraintoverseveralcolumns"`
	AVeryLongNameThatNearlyFillsAnIdentifierCC int64 `hare:"index,check=id >= 0"`
}

var (
	customs  = hare.Objects[custom]()
	tasks    = hare.Objects[task]()
	orders   = hare.Objects[order]()
	slugs    = hare.Objects[slug]()
	keylessS = hare.Objects[keyless]()
	looses   = hare.Objects[loose]()
	stricts  = hare.Objects[strict]()
)

// testDeclarations: what a model may declare works in every way of writing and reading.
func testDeclarations(t *testing.T, db *database) {
	db.create(t, custom{}, task{}, order{}, slug{}, keyless{}, loose{}, lengthy{})
	db.create(t, lengthy{}, order{}) // also once more
	ctx := db.ctx

	t.Run("types with methods", func(t *testing.T) {
		seen := time.Date(2024, 5, 6, 7, 8, 9, 123000, time.UTC)
		full := custom{
			Price: cents{1999}, Discount: &cents{5}, Other: &handle{1, 2}, Tone: tone{255, 0, 16}, Shade: &tone{1, 2, 3},
			Nick: sql.NullString{String: "", Valid: true}, Count: sql.NullInt64{Valid: true}, Seen: sql.NullTime{Time: seen, Valid: true},
			Flag: sql.NullBool{Valid: true}, Ratio: sql.Null[float64]{V: 0, Valid: true},
		}
		bulk := []custom{full, {Price: cents{1}}}
		must(t, customs.BulkCreate(ctx, bulk))
		single, empty := full, custom{}
		must(t, customs.Create(ctx, &single))
		must(t, customs.Create(ctx, &empty))
		for _, want := range []custom{bulk[0], bulk[1], single, empty} {
			if want.ID == (handle{}) {
				t.Fatal("the key was not made up")
			}
			same := cmp.AllowUnexported(cents{}, tone{})
			got, err := customs.Get(ctx, query.Q("id", want.ID))
			must(t, err)
			equal(t, "row", &want, got, same)
			got.Price = cents{777}
			must(t, customs.Save(ctx, got))
			must(t, customs.Refresh(ctx, got))
			equal(t, "saved", cents{777}, got.Price, same)
		}
		for column, value := range map[string]any{
			"price": cents{777}, "discount": &cents{5}, "other": handle{1, 2}, "tone": tone{255, 0, 16}, "shade": &tone{1, 2, 3},
			"nick": sql.NullString{Valid: true}, "count": sql.NullInt64{Valid: true}, "seen": seen, "flag": false, "ratio": 0.0,
		} {
			of := customs.Filter(query.Q("id", single.ID))
			_, err := of.Update(ctx, query.Set(column, value))
			must(t, err)
			for _, p := range []query.Predicate{query.Q(column, value), query.Q(column+"__in", []any{value}), query.Q(column+"__isnull", false)} {
				found, err := of.Filter(p).Exists(ctx)
				must(t, err)
				equal(t, column, true, found)
			}
		}
		n, err := customs.Filter(query.Q("nick", sql.NullString{}, "count", nil, "seen", sql.NullTime{}, "discount", (*cents)(nil))).Count(ctx)
		must(t, err)
		equal(t, "rows with NULL", int64(2), n)
		n, err = customs.Filter(query.Q("price__gt", cents{99})).Count(ctx)
		must(t, err)
		equal(t, "compared as numbers", int64(4), n)
	})

	t.Run("choices", func(t *testing.T) {
		row := task{State: "open", Urgency: 1}
		must(t, tasks.Create(ctx, &row))
		equal(t, "default", to(level("open")), row.Fallback)
		bad := map[string]task{"state": {State: "private", Urgency: 1}, "urgency": {State: "open"}, "fallback": {State: "open", Urgency: 2, Fallback: to(level("private"))}}
		values := map[string]any{"state": "private", "urgency": 9, "fallback": level("private")}
		for column, object := range bad {
			saved := object
			saved.ID = row.ID
			for way, err := range map[string]error{
				"Create": tasks.Create(ctx, &object), "Save": tasks.Save(ctx, &saved), "BulkCreate": tasks.BulkCreate(ctx, []task{row, object}),
				"Update": second(tasks.Unfiltered().Update(ctx, query.Set(column, values[column]))),
				"Filter": second(tasks.Filter(query.Q(column, values[column])).All(ctx)),
				"in":     second(tasks.Filter(query.Q(column+"__in", []any{values[column]})).All(ctx)),
			} {
				got := failure[*hare.ValidationError](t, column+": "+way, err)
				equal(t, "column", column, got.Column)
				if strings.Contains(err.Error(), "private") {
					t.Errorf("%s: the message has the value: %v", way, err)
				}
			}
		}
		_, err := db.client.Exec(ctx, "UPDATE task SET state = 'gone'")
		fails[*hare.IntegrityError](t, "past hare", err)
	})

	t.Run("words of SQL as names", func(t *testing.T) {
		row := order{Select: 1, From: "a", Table: "b", Where: to(true), Exact: 5, Desc: 6}
		must(t, orders.Create(ctx, &row))
		must(t, orders.BulkCreate(ctx, []order{{Select: 2, From: "a", Table: "c"}}, hare.OnConflict("from", "table"), hare.DoUpdate("in")))
		got, err := orders.Filter(query.Q("from", "a", "table__in", []string{"b"}, "null", true, "in__exact", 5, "exact__in", []int{6})).OrderBy("-exact", "from").Get(ctx)
		must(t, err)
		equal(t, "row", &row, got)
		n, err := orders.Filter(query.Q("select", 1)).Update(ctx, query.Set("exact", query.F("in").Add(query.F("exact"))))
		must(t, err)
		equal(t, "updated", int64(1), n)
		must(t, orders.Refresh(ctx, &row))
		equal(t, "sum", 11, row.Desc)
		fails[*hare.IntegrityError](t, "two columns together", orders.Create(ctx, &order{Select: 3, From: "a", Table: "c"}))
	})

	t.Run("a text as key", func(t *testing.T) {
		row := slug{Name: "a"}
		must(t, slugs.Save(ctx, &row))
		row.Hits = 1<<32 - 1
		must(t, slugs.Save(ctx, &row))
		must(t, slugs.Save(ctx, &slug{})) // an empty text is a key as any other
		got, err := slugs.OrderBy("pk").All(ctx)
		must(t, err)
		equal(t, "rows", []slug{{}, {Name: "a", Hits: 1<<32 - 1}}, got)
		must(t, slugs.DeleteObject(ctx, &slug{}))
		isMissing(t, "again", slugs.DeleteObject(ctx, &slug{}))
	})

	t.Run("what the field cannot hold is not stored", func(t *testing.T) {
		row := slug{Name: "narrow", Hits: 0, Total: 0, Tiny: 100, Byte: 200}
		must(t, slugs.Create(ctx, &row))
		one := slugs.Filter(query.Q("name", "narrow"))
		for column, e := range map[string]query.Expr{
			"hits": query.F("hits").Sub(1), "total": query.F("total").Sub(1), "tiny": query.F("tiny").Add(100), "byte": query.F("byte").Add(100),
		} {
			_, err := one.Update(ctx, query.Set(column, e))
			fails[*hare.IntegrityError](t, column, err)
		}
		_, err := one.Update(ctx, query.Set("hits", query.F("hits").Add(1<<32)))
		fails[*hare.IntegrityError](t, "hits above", err)
		for column, value := range map[string]any{"hits": -1, "total": -1, "tiny": 128, "byte": 256} {
			fails[*hare.ValidationError](t, column, second(one.Update(ctx, query.Set(column, value))))
			fails[*hare.ValidationError](t, column, second(one.Filter(query.Q(column, value)).All(ctx)))
		}
		long := row
		long.Code = "äöüß€"
		for way, err := range map[string]error{
			"Save": slugs.Save(ctx, &long), "Update": second(one.Update(ctx, query.Set("code", "12345"))), "Filter": second(one.Filter(query.Q("code", "12345")).All(ctx)),
		} {
			got := failure[*hare.ValidationError](t, way, err)
			equal(t, way, "code", got.Column)
		}
		_, err = one.Update(ctx, query.Set("code", query.F("name")))
		fails[*hare.DatabaseError](t, "a long text from another column", err)
		_, err = one.Update(ctx, query.Set("code", "äöüß"))
		must(t, err)
		row.Code = "äöüß"
		got, err := one.Get(ctx)
		must(t, err)
		equal(t, "the row", &row, got)
	})

	t.Run("no key", func(t *testing.T) {
		must(t, keylessS.Create(ctx, &keyless{"a", 1}))
		must(t, keylessS.BulkCreate(ctx, []keyless{{"b", 2}, {"b", 2}}))
		n, err := keylessS.Filter(query.Q("name", "b")).Update(ctx, query.Set("n", query.F("n").Add(1)))
		must(t, err)
		equal(t, "updated", int64(2), n)
		got, err := keylessS.OrderBy("n").First(ctx)
		must(t, err)
		equal(t, "first", &keyless{"a", 1}, got)
		for what, err := range map[string]error{
			"First": second(keylessS.First(ctx)), "Last": second(keylessS.Last(ctx)), "Refresh": keylessS.Refresh(ctx, got),
			"DeleteObject": keylessS.DeleteObject(ctx, got), "Update of a slice": second(keylessS.Limit(1).Update(ctx, query.Set("n", 1))),
			"Delete of a slice": second(keylessS.OrderBy("n").Limit(1).Delete(ctx)), "ForceUpdate": keylessS.Save(ctx, got, hare.ForceUpdate()),
		} {
			fails[*hare.QueryError](t, what, err)
		}
		_, err = keylessS.Filter(query.Q("pk", 1)).All(ctx)
		fails[*hare.FieldError](t, "pk", err)
		n, err = keylessS.Filter(query.Q("name", "b")).Delete(ctx)
		must(t, err)
		equal(t, "deleted", int64(2), n)
	})

	t.Run("a value that does not go into its field", func(t *testing.T) {
		when := to(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC))
		for column, row := range map[string]loose{
			"text": {N: to[int64](1), When: when}, "n": {Text: to(""), When: when}, "when": {Text: to(""), N: to[int64](1)},
		} {
			must(t, looses.Create(ctx, &row))
			of := stricts.Filter(query.Q("id", row.ID))
			iterated := func() (failed error) {
				for _, err := range of.Iterate(ctx) {
					failed = err
				}
				return failed
			}
			for way, err := range map[string]error{
				"All": second(of.All(ctx)), "Get": second(of.Get(ctx)), "First": second(of.First(ctx)), "Iterate": iterated(),
				"Refresh": stricts.Refresh(ctx, &strict{ID: row.ID}),
			} {
				got := failure[*hare.DecodeError](t, column+": "+way, err)
				equal(t, way, []string{"strict", column}, []string{got.Model, got.Column})
				if got.Field == "" {
					t.Errorf("%s: no field in %v", way, err)
				}
			}
		}
		wide := loose{Text: to("x"), N: to[int64](128), When: when}
		must(t, looses.Create(ctx, &wide))
		got := failure[*hare.DecodeError](t, "too wide", second(stricts.Filter(query.Q("id", wide.ID)).All(ctx)))
		equal(t, "too wide", "n", got.Column)
		_, err := looses.Unfiltered().Delete(ctx) // the connection is in order
		must(t, err)
	})
}
