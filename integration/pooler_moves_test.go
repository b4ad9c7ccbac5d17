package integration

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/transactions"
)

// movable is a trio with a pooler before one of its databases, which leads to a database of the same name in another cluster when it
// is told to.
type movable struct {
	*trio
	alias, name string
	pooler      *servers.Pooler
	home, away  string // the database and the other one, past the pooler
}

// newMovable makes one. The other database has all the tables that the first has; those of the coordinator as a restored
// dump has them.
func newMovable(t *testing.T, alias string, other *servers.Server) *movable {
	t.Helper()
	f, poolers := behindPoolers(t, "&max_size=1&transaction_pooling=true", servers.PoolerOptions{}, alias)
	m := &movable{trio: f, alias: alias, pooler: poolers[alias], home: servers.Direct(f.urls[alias])}
	u, err := url.Parse(m.home)
	if err != nil {
		t.Fatal("the database's URL is none")
	}
	m.name = strings.TrimPrefix(u.Path, "/")
	if m.away, err = other.CreateDatabase(t.Context(), m.name); err != nil {
		t.Fatal(err)
	}
	elsewhere := &trio{T: t, plan: &faults.Plan{}, urls: map[string]string{"c": m.away, "a": servers.Direct(f.urls["a"]), "b": servers.Direct(f.urls["b"])}}
	elsewhere.conns = elsewhere.connect(elsewhere.urls)
	elsewhere.ctx = hare.WithConnections(t.Context(), elsewhere.conns)
	if err := hare.CreateTables(elsewhere.ctx, elsewhere.client("c"), Note{}); err != nil {
		t.Fatal(err)
	}
	for _, each := range []*trio{f, elsewhere} { // first uses
		if err := each.distributed(nothing); err != nil {
			t.Fatal(err)
		}
	}
	if alias == coordinator {
		row := f.text("c", "SELECT pg_catalog.row_to_json(k)::text FROM public.hare_distributed_coordinator k")
		elsewhere.exec("c", "DELETE FROM public.hare_distributed_coordinator")
		elsewhere.exec("c", "INSERT INTO public.hare_distributed_coordinator SELECT * FROM json_populate_record(NULL::public.hare_distributed_coordinator, $1::json)", row)
	}
	return m
}

// lead leads the clients to a database.
func (m *movable) lead(to string) {
	if err := m.pooler.Lead(context.WithoutCancel(m.Context()), m.name, to); err != nil {
		m.Error(err)
	}
}

// moveAt has the clients led away before the nth message to the alias from now on, and back before the one after it if it is
// only for one. It returns whether it came to that.
func (m *movable) moveAt(n int, forOne bool) (moved func() bool) {
	var at atomic.Int64
	m.plan.Set(func(_ context.Context, e faults.Event) error {
		if e.Alias != m.alias {
			return nil
		}
		switch now := int(at.Add(1)); {
		case now == n:
			m.lead(m.away)
		case now == n+1 && forOne:
			m.lead(m.home)
		}
		return nil
	}, nil)
	return func() bool {
		m.plan.Set(nil, nil)
		m.lead(m.home)
		return int(at.Load()) >= n
	}
}

// each runs a round for each message of one, until there are no more.
func (m *movable) each(t *testing.T, round func(f *trio, text string, n int, forOne bool) (more bool)) {
	for _, forOne := range []bool{false, true} {
		for n, more := 1, true; more; n++ {
			more = round(m.in(t), fmt.Sprintf("message %d, for one %t", n, forOne), n, forOne)
			if n > 100 {
				t.Fatal("the messages do not end")
			}
		}
	}
}

// wantUntouched makes sure that nothing has come to the other database.
func (m *movable) wantUntouched() {
	m.Helper()
	at := &trio{T: m.T, plan: &faults.Plan{}, urls: map[string]string{"c": m.away}}
	at.conns = at.connect(at.urls)
	defer at.conns.Close()
	at.ctx = hare.WithConnections(m.Context(), at.conns)
	if n := at.count("c", "SELECT (SELECT count(*) FROM note) + (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()) + (SELECT count(*) FROM public.hare_distributed_decisions)"); n != 0 {
		m.Errorf("%d things have come to the other database", n)
	}
}

// A pooler leads a database's clients to another cluster, on connections that stay open, between any two messages of a call:
// from one message on, or for one alone. What is answered there is not taken for the answer of the database that
// was meant: when the pooler leads back, recovery finishes, all databases have the writes or none has, and the call told the truth.
//
// Fault D6.
func TestPoolerMovesInACall(t *testing.T) {
	t.Parallel()
	other := ownServer(t, servers.Options{Volatile: true})
	for _, alias := range []string{"a", "c"} {
		t.Run(alias, func(t *testing.T) {
			t.Parallel()
			m := newMovable(t, alias, other)
			for name, refuse := range map[string]bool{"to commit": false, "to roll back": true} {
				if refuse {
					m.atCommit("b", "IF NEW.text NOT LIKE 'after %' THEN RAISE EXCEPTION 'no'; END IF;")
				}
				m.each(t, func(f *trio, text string, n int, forOne bool) bool {
					text = name + ", " + text
					if err := f.distributed(nothing); err != nil { // which makes sure that home is known
						t.Fatalf("%s: %v", text, err)
					}
					moved := m.moveAt(n, forOne)
					err := f.distributed(func(d *hare.Distributed) error { return write(d, text, everybody...) })
					more := moved()
					f.past().wantSettled(text, err)
					return more
				})
			}
			if alias != coordinator { // what was prepared there, and refused, its call could not reach any more
				m.lead(m.away)
				m.reconnect()
				m.recover(transactions.Finish())
			}
			m.wantUntouched()
		})
	}
}

// The same between any two messages of a recovery that finishes what a crash has left, before the decision and after it. Of a
// transaction that is decided it never says that nothing is left while something is; who takes part in one that is not
// decided it cannot know.
//
// Fault D6.
func TestPoolerMovesInARecovery(t *testing.T) {
	t.Parallel()
	other := ownServer(t, servers.Options{Volatile: true})
	for _, alias := range []string{"a", "c"} {
		t.Run(alias, func(t *testing.T) {
			t.Parallel()
			m := newMovable(t, alias, other)
			kept := int64(0)
			for _, crash := range []struct {
				name string
				at   func(faults.Event) bool
				kept int64
			}{{"undecided", isDecision, 0}, {"decided", isCommitPrepared, 1}} {
				m.each(t, func(f *trio, text string, n int, forOne bool) bool {
					f.crash(crash.at)
					moved := m.moveAt(n, forOne)
					report, err := transactions.Recover(f.ctx, coordinator, transactions.OlderThan(0), transactions.Finish(), unheard)
					more := moved()
					past := f.past()
					left := len(past.prepared("a")) + len(past.prepared("b"))
					if err == nil && report.Clean() && left > 0 && crash.kept > 0 {
						t.Errorf("%s, %s: %d are prepared, and recovery says that nothing is left: %+v", crash.name, text, left, report)
					}
					f.reconnect()
					if report := f.recover(transactions.Finish()); !report.Clean() {
						t.Errorf("%s, %s: recovery afterwards: %+v", crash.name, text, report)
					}
					m.conns, m.ctx = f.conns, f.ctx
					past = f.past()
					past.wantNothingPrepared()
					kept += crash.kept
					past.wantCounts(kept, kept, kept)
					return more
				})
			}
			m.wantUntouched()
		})
	}
}
