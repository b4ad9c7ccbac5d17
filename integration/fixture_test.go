package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/hare-go/hare/backends/postgres"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/query"
	"github.com/hare-go/hare/transactions"
)

// TestMain runs the tests, or the program that a test wants to run as a process of its own: the test starts this very
// binary, with the program's name in the environment.
func TestMain(m *testing.M) {
	if run, ok := programs[os.Getenv(programVariable)]; ok {
		run()
		return
	}
	// The tests wait more than they work: for phases to end, for servers to start. -parallel overrides it.
	if err := flag.Set("test.parallel", fmt.Sprint(max(8, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	servers.Main(m)
}

const programVariable = "HARE_TEST_PROGRAM"

// programs are what tests run as processes of their own, by name.
var programs = map[string]func(){"call": callProgram, "lease": leaseProgram, "schema": schemaProgram, "leaves": leavingProgram}

// Note is the one table that each of the databases has.
type Note struct {
	ID   int64
	Text string `hare:"size=100"`
}

var Notes = hare.Objects[Note]()

// errStop is what a callback returns to have everything rolled back.
var errStop = errors.New("stop")

// aliases are the coordinator and the participants of every test here.
var (
	coordinator  = "c"
	participants = []string{"a", "b"}
	everybody    = []string{"c", "a", "b"}
)

// trio is three databases with one table each, on different servers where there are enough.
type trio struct {
	*testing.T
	ctx   context.Context
	conns *hare.Connections
	plan  *faults.Plan
	urls  map[string]string // the real ones

	pooled bool // they lead through poolers
}

// newTrio makes the databases. options are added to each URL, as in "&max_size=1".
func newTrio(t *testing.T, options string) *trio {
	t.Helper()
	return newDatabases(t, options, everybody)
}

// newDatabases makes as many databases as there are aliases, the coordinator's first.
func newDatabases(t *testing.T, options string, aliases []string) *trio {
	t.Helper()
	urls := servers.Databases(t, len(aliases))
	f := &trio{T: t, plan: &faults.Plan{}, urls: map[string]string{}, pooled: servers.Pooled()}
	for i, alias := range aliases {
		f.urls[alias] = urls[i] + options
	}
	f.conns = f.connect(f.urls)
	f.ctx = hare.WithConnections(t.Context(), f.conns)
	for _, alias := range aliases {
		if err := hare.CreateTables(f.ctx, f.client(alias), Note{}); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// connect opens connections of its own, through the plan.
func (f *trio) connect(urls map[string]string) *hare.Connections {
	f.Helper()
	conns, err := connectThrough(f.Context(), f.plan, urls)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(conns.Close)
	return conns
}

// connectThrough opens connections through a plan.
func connectThrough(ctx context.Context, plan *faults.Plan, urls map[string]string) (*hare.Connections, error) {
	scheme := plan.Scheme("postgres")
	config := hare.Config{Connections: map[string]string{}}
	if _, ok := urls[coordinator]; ok {
		config.Default = coordinator
	}
	for alias, url := range urls {
		config.Connections[alias] = plan.URL(scheme, url)
	}
	return hare.Open(ctx, config)
}

func (f *trio) client(alias string) *hare.Client {
	f.Helper()
	client, err := f.conns.Client(alias)
	if err != nil {
		f.Fatal(err)
	}
	return client
}

// write writes a note in each database.
func write(d *hare.Distributed, text string, aliases ...string) error {
	for _, alias := range aliases {
		if err := Notes.Using(d.Client(alias)).Create(d.Context(), &Note{Text: text}); err != nil {
			return err
		}
	}
	return nil
}

// writeAll is the callback of most tests: one note everywhere.
func writeAll(d *hare.Distributed) error { return write(d, "all", everybody...) }

// nothing is the callback of a first use: the servers are asked what they are, and the tables are made.
func nothing(*hare.Distributed) error { return nil }

// distributed runs a distributed transaction with short phases, so that tests of faults are quick.
func (f *trio) distributed(fn func(d *hare.Distributed) error, opts ...transactions.Option) error {
	return transactions.Distributed(f.ctx, coordinator, participants, fn, append([]transactions.Option{shortPhases}, opts...)...)
}

var shortPhases = transactions.PhaseTimeouts(transactions.Phases{Prepare: 10 * time.Second, Decide: 10 * time.Second, Deliver: 2 * time.Second, Rollback: 5 * time.Second})

// counts are the numbers of notes in c, a and b.
func (f *trio) counts() [3]int64 {
	f.Helper()
	var counts [3]int64
	for i, alias := range everybody {
		n, err := Notes.UsingAlias(alias).Count(f.ctx)
		if err != nil {
			f.Fatal(err)
		}
		counts[i] = n
	}
	return counts
}

func (f *trio) wantCounts(c, a, b int64) {
	f.Helper()
	if got, want := f.counts(), [3]int64{c, a, b}; got != want {
		f.Errorf("notes in c, a, b: %v, want %v", got, want)
	}
}

// prepared lists the GIDs that are prepared in a database.
func (f *trio) prepared(alias string) []string {
	f.Helper()
	rows, err := f.client(alias).Query(f.ctx, "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY gid")
	if err != nil {
		f.Fatal(err)
	}
	defer rows.Close()
	var gids []string
	for rows.Next() {
		var gid string
		if err := rows.Scan(&gid); err != nil {
			f.Fatal(err)
		}
		gids = append(gids, gid)
	}
	if err := rows.Err(); err != nil {
		f.Fatal(err)
	}
	return gids
}

func (f *trio) wantNothingPrepared() {
	f.Helper()
	for _, alias := range everybody {
		if gids := f.prepared(alias); len(gids) > 0 {
			f.Errorf("prepared in %s: %q, want nothing", alias, gids)
		}
	}
}

// wantUsable makes sure that the pools are whole: a plain write and a distributed one work on every alias.
func (f *trio) wantUsable() {
	f.Helper()
	f.plan.Set(nil, nil)
	before := f.counts()
	if err := f.distributed(writeAll); err != nil {
		f.Fatalf("a distributed transaction afterwards: %v", err)
	}
	after := f.counts()
	for i := range before {
		if after[i] != before[i]+1 {
			f.Errorf("notes in %s: %d, want %d", everybody[i], after[i], before[i]+1)
		}
	}
}

// exec runs SQL on an alias, outside any transaction.
func (f *trio) exec(alias, sql string, args ...any) int64 {
	f.Helper()
	n, err := f.client(alias).Exec(f.ctx, sql, args...)
	if err != nil {
		f.Fatal(err)
	}
	return n
}

// scalar is the one value that a SELECT gives on an alias.
func scalar[T any](f *trio, alias, sql string) (value T) {
	f.Helper()
	rows, err := f.client(alias).Query(f.ctx, sql)
	if err != nil {
		f.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&value); err != nil {
			f.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		f.Fatal(err)
	}
	return value
}

// others counts the sessions of a database that are not this connection's.
func (f *trio) others(alias string) int64 {
	f.Helper()
	return f.count(alias, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"+f.atWork())
}

// atWork leaves out of the sessions those that a pooler has open for whoever comes next.
func (f *trio) atWork() string {
	if f.pooled {
		return " AND state <> 'idle'"
	}
	return ""
}

func (f *trio) count(alias, sql string) int64 { return scalar[int64](f, alias, sql) }

func (f *trio) text(alias, sql string) string { return scalar[string](f, alias, sql) }

// decisions counts the rows of the decisions table.
func (f *trio) decisions(where string) int64 {
	f.Helper()
	return f.count("c", "SELECT count(*) FROM public.hare_distributed_decisions WHERE "+where)
}

// tidied waits until the decisions of earlier calls are resolved, which happens in the background, and nothing is sent any more.
func (f *trio) tidied() {
	f.Helper()
	f.eventually("decisions are resolved", func() bool { return f.decisions("resolved_at IS NULL") == 0 && f.plan.Held() == 0 })
}

// pass lets eight days pass for the decisions, which is longer than resolved ones are kept.
func (f *trio) pass() {
	f.Helper()
	f.exec("c", "UPDATE public.hare_distributed_decisions SET created_at = created_at - interval '8 days', resolved_at = resolved_at - interval '8 days'")
}

// recover runs recovery at age 0 and returns its report.
func (f *trio) recover(opts ...transactions.RecoverOption) transactions.Report {
	f.Helper()
	report, err := transactions.Recover(f.ctx, coordinator, append([]transactions.RecoverOption{transactions.OlderThan(0), unheard}, opts...)...)
	if err != nil {
		f.Fatal(err)
	}
	return report
}

// unheard keeps what recovery tells out of the test's output.
var unheard = transactions.RecoverLogger(slog.New(slog.DiscardHandler))

// as asserts that err is a T, and returns it.
func as[T error](t *testing.T, err error) T {
	t.Helper()
	var target T
	if !errors.As(err, &target) {
		t.Fatalf("got %T %v, want a %T", err, err, target)
	}
	return target
}

func wantOutcome(t *testing.T, err error, want transactions.Outcome) {
	t.Helper()
	if got := transactions.OutcomeOf(err); got != want {
		t.Errorf("OutcomeOf(%v) = %v, want %v", err, got, want)
	}
}

// noteWith is the note with a text.
func noteWith(text string) query.Predicate { return query.Q("text", text) }

// failOn makes a plan fail the calls on an alias whose SQL satisfies match, n times.
func failOn(n int, alias string, match func(sql string) bool) func(context.Context, faults.Event) error {
	left := make(chan struct{}, n)
	for range n {
		left <- struct{}{}
	}
	return func(_ context.Context, e faults.Event) error {
		if e.Alias != alias || !match(e.SQL) {
			return nil
		}
		select {
		case <-left:
			return faults.ErrInjected
		default:
			return nil
		}
	}
}

// always makes a plan fail every call on an alias that is an op, or whose SQL has a part.
func always(alias, part, op string) faults.Fault {
	return func(_ context.Context, e faults.Event) error {
		if e.Alias == alias && (part != "" && strings.Contains(e.SQL, part) || e.Op == op) {
			return faults.ErrInjected
		}
		return nil
	}
}

// aliasesOf lists the aliases of entries in order.
func aliasesOf(entries []transactions.Entry) []string {
	var list []string
	for _, e := range entries {
		list = append(list, e.Alias)
	}
	slices.Sort(list)
	return list
}
