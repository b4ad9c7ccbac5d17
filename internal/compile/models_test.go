package compile

import (
	"database/sql/driver"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/query"

	"github.com/hare-go/hare/internal/schema"
)

// Money is a decimal type of a program.
type Money struct{ digits string }

func (m Money) Value() (driver.Value, error) { return m.digits, nil }

func (m *Money) Scan(value any) error {
	m.digits = fmt.Sprint(value)
	return nil
}

type Author struct {
	ID     int64
	Name   string
	Age    *int64
	Rank   int32
	Active bool
	BossID *int64
	Boss   *Author `hare:"fk=boss_id"`
}

type Book struct {
	ID         int64
	Title      string
	Subtitle   *string
	Pages      int32
	Price      Money  `hare:"decimal=10:2"`
	Discount   *Money `hare:"decimal=10:4"`
	Weight     float64
	Cover      []byte
	Code       [16]byte
	ReleasedAt *time.Time
	Reading    time.Duration
	Data       map[string]any `hare:"json"`
	AuthorID   int64
	Author     *Author   `hare:"fk=author_id"`
	UpdatedAt  time.Time `hare:"auto_now"`
}

type Shelf struct {
	ID     int64
	Labels []string `hare:"array"`
	Spares []string `hare:"array"`
	Codes  []int64  `hare:"array"`
}

type Pair struct {
	A    int64  `hare:"pk"`
	B    string `hare:"pk"`
	Note *string
}

type Child struct {
	ID    int64
	PairA *int64
	PairB *string
	Pair  *Pair `hare:"fk=pair_a:pair_b"`
}

func table[T any](tb testing.TB) *schema.Table {
	tb.Helper()
	t, err := schema.Of(reflect.TypeFor[T]())
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// keyless is a model without a primary key.
func keyless(tb testing.TB) *schema.Table {
	t := *table[Author](tb)
	t.PK = nil
	return &t
}

func column(tb testing.TB, t *schema.Table, name string) *schema.Column {
	tb.Helper()
	c, ok := t.Column(name)
	if !ok {
		tb.Fatalf("%s has no column %q", t.Model, name)
	}
	return c
}

// arrays is a database with array parameters, functions and RETURNING, in the manner of PostgreSQL.
type arrays struct{}

var kindNames = map[backend.Kind]string{
	backend.KindBool: "bool", backend.KindInt16: "int2", backend.KindInt32: "int4", backend.KindInt64: "int8",
	backend.KindFloat: "float8", backend.KindText: "text", backend.KindBytes: "bytea", backend.KindTime: "timestamptz",
	backend.KindDuration: "int8", backend.KindUUID: "uuid", backend.KindDecimal: "numeric", backend.KindJSON: "jsonb",
}

func (arrays) TypeName(t backend.ColumnType) (string, error)           { return kindNames[t.Kind], nil }
func (arrays) GeneratedKey(backend.ColumnType) (clause string, _ bool) { return "int8", false }
func (arrays) SchemaLock() string                                      { return "" }
func (arrays) Begin(backend.TxOptions) []string                        { return []string{"BEGIN"} }

func (arrays) In(column string, t backend.ColumnType, placeholder string) string {
	return column + " = ANY(" + placeholder + ")"
}

func (arrays) Match(match backend.TextMatch, column, placeholder string) string {
	if match >= backend.MatchExactFold {
		return column + " ILIKE " + placeholder
	}
	return column + " LIKE " + placeholder
}

var literally = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

func (arrays) Pattern(match backend.TextMatch, text string) string {
	text = literally.Replace(text)
	switch match {
	case backend.MatchContains, backend.MatchContainsFold:
		return "%" + text + "%"
	case backend.MatchStartsWith, backend.MatchStartsWithFold:
		return text + "%"
	case backend.MatchEndsWith, backend.MatchEndsWithFold:
		return "%" + text
	}
	return text
}

func (arrays) Compute(op string, t backend.ColumnType, left, right string) string {
	return "(" + left + " " + op + " " + right + ")"
}

func (arrays) Argument(t backend.ColumnType, placeholder string) string {
	return placeholder + "::" + kindNames[t.Kind]
}

func (arrays) Rows(types []backend.ColumnType, placeholders []string) (string, bool) {
	casts := make([]string, len(types))
	for i, t := range types {
		if t.Kind == backend.KindArray {
			return "", false
		}
		casts[i] = placeholders[i] + "::" + kindNames[t.Kind] + "[]"
	}
	return "unnest(" + strings.Join(casts, ", ") + ")", true
}

func (arrays) Limit(limit, offset string) string {
	var parts []string
	if limit != "" {
		parts = append(parts, "LIMIT "+limit)
	}
	if offset != "" {
		parts = append(parts, "OFFSET "+offset)
	}
	return strings.Join(parts, " ")
}

// plainer is a database without arrays, in the manner of SQLite.
type plainer struct{ arrays }

func (plainer) In(column string, t backend.ColumnType, placeholder string) string {
	return column + " IN (SELECT value FROM json_each(" + placeholder + "))"
}

func (plainer) Match(match backend.TextMatch, column, placeholder string) string {
	if match >= backend.MatchExactFold {
		return column + " LIKE " + placeholder + ` ESCAPE '\'`
	}
	return column + " GLOB " + placeholder
}

func (p plainer) Pattern(match backend.TextMatch, text string) string {
	if match >= backend.MatchExactFold {
		return p.arrays.Pattern(match, text)
	}
	text = strings.NewReplacer("*", "[*]", "?", "[?]", "[", "[[]").Replace(text)
	switch match {
	case backend.MatchContains:
		return "*" + text + "*"
	case backend.MatchStartsWith:
		return text + "*"
	}
	return "*" + text
}

func (p plainer) Compute(op string, t backend.ColumnType, left, right string) string {
	if t.Kind == backend.KindDecimal {
		digits := "NULL"
		if t.Precision > 0 {
			digits = strconv.Itoa(t.Scale)
		}
		return "decimal('" + op + "', " + left + ", " + right + ", " + digits + ")"
	}
	return p.arrays.Compute(op, t, left, right)
}

func (plainer) Argument(_ backend.ColumnType, placeholder string) string { return placeholder }
func (plainer) Rows([]backend.ColumnType, []string) (string, bool)       { return "", false }

func (p plainer) Limit(limit, offset string) string {
	if limit == "" {
		limit = "-1"
	}
	return p.arrays.Limit(limit, offset)
}

var arraysFeatures = features.Features{
	Backend: "arrays", SupportsReturning: true, SupportsRowUpdates: true, SupportsRowDeletes: true, SupportsArrays: true,
	MaxBindParameters: 32767,
}

func arraysCompiler() *Compiler { return New(arrays{}, arraysFeatures, "main") }

func plainerCompiler() *Compiler {
	f := arraysFeatures
	f.Backend, f.SupportsArrays, f.MaxBindParameters = "plainer", false, 100
	return New(plainer{}, f, "side")
}

// where is a checked condition that the test knows to be right.
func where(tb testing.TB, t *schema.Table, parts ...query.Predicate) *Node {
	tb.Helper()
	n, err := Where(t, parts, false)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func order(tb testing.TB, t *schema.Table, terms ...any) []Term {
	tb.Helper()
	o, err := OrderBy(t, terms)
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

func set(tb testing.TB, t *schema.Table, assignments ...query.Assignment) []Assignment {
	tb.Helper()
	a, err := Assignments(t, assignments)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// show is an argument with its canonical type.
func show(arg any) string {
	switch arg := arg.(type) {
	case backend.List:
		parts := make([]string, len(arg.Values))
		for i, v := range arg.Values {
			parts[i] = show(v)
		}
		return "list of " + kindNames[arg.Elem.Kind] + " [" + strings.Join(parts, ", ") + "]"
	case backend.Array:
		return show(backend.List(arg))
	case time.Time:
		return "time " + arg.Format(time.RFC3339Nano)
	case backend.UUID:
		return fmt.Sprintf("uuid %x", arg[:])
	case string, backend.Decimal, []byte:
		return fmt.Sprintf("%T %q", arg, arg)
	default:
		return fmt.Sprintf("%T %v", arg, arg)
	}
}
