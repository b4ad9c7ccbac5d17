package integration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/transactions"
)

// recoverer runs a recoverer until stop, which waits for its end.
func (f *trio) recoverer(opts ...transactions.RecoverOption) (stop func()) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	done := make(chan error, 1)
	go func() { done <- transactions.RunRecoverer(ctx, coordinator, opts...) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				f.Errorf("the recoverer ended with %v", err)
			}
		})
	}
	f.Cleanup(stop)
	return stop
}

// eventually waits until a condition holds.
func (f *trio) eventually(what string, holds func() bool) {
	f.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.Fatalf("not within 30 s: %s", what)
		}
	}
}

func (f *trio) nothingPrepared() bool { return len(f.prepared("a"))+len(f.prepared("b")) == 0 }

func isCommitPrepared(e faults.Event) bool { return strings.HasPrefix(e.SQL, "COMMIT PREPARED") }

// A crash is finished within seconds, without an operator and without any option.
//
// W14.
func TestRecovererFinishesACrash(t *testing.T) {
	t.Parallel()
	for name, crash := range map[string]struct {
		at   func(faults.Event) bool
		kept int64
	}{"undecided": {isDecision, 0}, "decided": {isCommitPrepared, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			f.crash(crash.at)
			f.recoverer()
			f.eventually("all is finished", func() bool { return f.nothingPrepared() && f.decisions("resolved_at IS NULL") == 0 })
			f.wantCounts(crash.kept, crash.kept, crash.kept)
		})
	}
}

// A call that has prepared and is slow to decide is left alone, also when it has nothing to write on its coordinator or has
// renamed its session there, and so are those after it, however often the recoverer looks.
func TestRecovererLeavesLiveCallsAlone(t *testing.T) {
	t.Parallel()
	for name, writes := range map[string][]string{"writes everywhere": everybody, "writes on participants only": participants, "renamed": everybody} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			f.crash(isDecision) // the recoverer has something else to do, which shows that it works
			f.recoverer(transactions.Interval(20 * time.Millisecond))
			f.plan.Set(func(_ context.Context, e faults.Event) error {
				if isDecision(e) && strings.Contains(e.SQL, "'commit'") {
					f.eventually("the crashed call is rolled back", func() bool { return len(f.prepared("a")) == 1 })
					time.Sleep(3 * time.Second) // longer than the recoverer's grace
				}
				return nil
			}, nil)
			err := f.distributed(func(d *hare.Distributed) error {
				if name == "renamed" {
					if _, err := d.Client(coordinator).Exec(d.Context(), "SET LOCAL application_name = 'mine'"); err != nil {
						return err
					}
				}
				return write(d, "slow", writes...)
			})
			if err != nil {
				t.Error(err)
			}
			f.plan.Set(nil, nil)
			for range 20 {
				if err := f.distributed(writeAll); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// passes counts how often recoverers have begun one.
func (f *trio) passes() (n int) {
	for _, e := range f.plan.Events() {
		if strings.Contains(e.SQL, "pg_try_advisory_xact_lock") {
			n++
		}
	}
	return n
}

// A call at work is no reason to look again at once: on a busy system there is always one.
func TestRecovererKeepsItsInterval(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.plan.Set(func(_ context.Context, e faults.Event) error {
		if isDecision(e) && strings.Contains(e.SQL, "'commit'") {
			f.recoverer(transactions.Interval(time.Hour))
			f.eventually("a pass", func() bool { return f.passes() > 0 })
			time.Sleep(2500 * time.Millisecond) // longer than the grace, after which it would look again
		}
		return nil
	}, nil)
	if err := f.distributed(writeAll); err != nil {
		t.Error(err)
	}
	if n := f.passes(); n != 1 {
		t.Errorf("%d passes, want one", n)
	}
}

// A call whose process hangs is rolled back when it is older than OlderThan, though it is still connected.
func TestRecovererEndsWhatIsOlder(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.recoverer(transactions.Interval(20*time.Millisecond), transactions.OlderThan(50*time.Millisecond))
	f.plan.Set(func(_ context.Context, e faults.Event) error {
		if isDecision(e) && strings.Contains(e.SQL, "'commit'") {
			f.eventually("it is rolled back", f.nothingPrepared)
		}
		return nil
	}, nil)
	err := f.distributed(writeAll)
	wantOutcome(t, err, transactions.RolledBack)
	as[*hare.TransactionError](t, err)
	f.wantCounts(0, 0, 0)
}

// Of several recoverers one works at a time.
//
// W20.
func TestOneRecovererWorksAtATime(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	if err := f.distributed(writeAll); err != nil { // makes the tables
		t.Fatal(err)
	}
	var mu sync.Mutex
	working, most, passes := 0, 0, 0
	note := func(e faults.Event, change int) {
		if e.Alias != coordinator || e.Op != "query" || !strings.Contains(e.SQL, "participants::text") {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if working += change; working > most {
			most = working
		}
		if change > 0 {
			passes++
		}
	}
	f.plan.Set(func(_ context.Context, e faults.Event) error { note(e, 1); time.Sleep(time.Millisecond); return nil },
		func(_ context.Context, e faults.Event) error { note(e, -1); return nil })
	for range 4 {
		f.recoverer(transactions.Interval(10 * time.Millisecond))
	}
	for _, n := range []int{10, 20} {
		f.eventually(fmt.Sprint(n, " passes"), func() bool {
			mu.Lock()
			defer mu.Unlock()
			return passes >= n
		})
	}
	mu.Lock()
	defer mu.Unlock()
	if most != 1 {
		t.Errorf("%d recoverers were at work at the same time", most)
	}
}

// The recoverer has connections of its own: pools whose only connection is in use do not stop it.
func TestRecovererBesideStarvingPools(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=1&pool_acquire_timeout=60")
	f.crash(isCommitPrepared)
	watch := newTrioOn(f)
	var holders sync.WaitGroup
	release := make(chan struct{})
	for _, alias := range everybody {
		held := make(chan struct{})
		holders.Go(func() {
			_ = transactions.Atomic(f.ctx, func(ctx context.Context) error {
				if _, err := f.client(alias).Exec(ctx, "SELECT 1"); err != nil {
					t.Error(err)
				}
				close(held)
				<-release
				return errStop
			}, transactions.Using(alias))
		})
		<-held
	}
	f.recoverer()
	watch.eventually("all is finished", watch.nothingPrepared)
	close(release)
	holders.Wait()
	f.wantCounts(1, 1, 1)
}

// newTrioOn is another set of connections to the databases of f.
func newTrioOn(f *trio) *trio {
	f.Helper()
	other := &trio{T: f.T, plan: &faults.Plan{}, urls: f.urls, pooled: f.pooled}
	other.conns = other.connect(f.urls)
	other.ctx = hare.WithConnections(f.Context(), other.conns)
	return other
}

// A recoverer ends soon after its ctx, at whatever step the network has begun to swallow everything.
func TestRecovererStops(t *testing.T) {
	t.Parallel()
	for alias, step := range map[string]string{"b": "pg_prepared_xacts", "c": "participants::text"} {
		t.Run(alias, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "")
			f.crash(isCommitPrepared)
			calls := f.failFrom(alias, step, (*proxy.Proxy).Swallow)
			stop := f.recoverer()
			f.eventually("the network is silent", func() bool { return calls() > 0 })
			start := time.Now()
			stop()
			if took := time.Since(start); took > 30*time.Second { // what the documentation promises
				t.Errorf("it took %s to stop", took)
			}
		})
	}
}

// A failure is logged when it comes, not again with every pass.
func TestRecovererLogsFailuresOnce(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.crash(isCommitPrepared)
	f.exec("b", fmt.Sprintf("ROLLBACK PREPARED '%s'", f.prepared("b")[0]))
	var log lines
	f.recoverer(transactions.Interval(10*time.Millisecond), transactions.OlderThan(0), transactions.RecoverLogger(slog.New(slog.NewTextHandler(&log, nil))))
	before := f.passes()
	f.eventually("ten passes", func() bool { return f.passes() > before+10 })
	if n := log.count("state=mixed"); n != 1 {
		t.Errorf("the mixed outcome is logged %d times:\n%s", n, &log)
	}
	if n := log.count("finished"); n == 0 {
		t.Errorf("what was finished is not logged:\n%s", &log)
	}
}

// lines is a log that a test reads while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) count(word string) int { return strings.Count(l.String(), word) }

func TestWrongRecoveries(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	conns, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"click": "clickhouse://127.0.0.1:1/x"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conns.Close)
	xid := "hare_dtx_c:" + strings.Repeat("a", 16) + ":" + strings.Repeat("b", 32)
	for name, test := range map[string]struct {
		ctx         context.Context
		coordinator string
		opts        []transactions.RecoverOption
		want        error
	}{
		"no such alias":       {f.ctx, "nobody", nil, &hare.ConfigurationError{}},
		"no two-phase commit": {hare.WithConnections(t.Context(), conns), "click", nil, &features.UnsupportedError{}},
		"a negative age":      {f.ctx, "c", []transactions.RecoverOption{transactions.OlderThan(-1)}, &hare.QueryError{}},
		"no interval":         {f.ctx, "c", []transactions.RecoverOption{transactions.Interval(0)}, &hare.QueryError{}},
		"no retention":        {f.ctx, "c", []transactions.RecoverOption{transactions.Retention(0)}, &hare.QueryError{}}, // a late decision would find no abort row
		"endless time":        {f.ctx, "c", []transactions.RecoverOption{transactions.ParticipantTimeout(transactions.MaxTimeout)}, &hare.QueryError{}},
		"no time":             {f.ctx, "c", []transactions.RecoverOption{transactions.ParticipantTimeout(0)}, &hare.QueryError{}},
		"one transaction":     {f.ctx, "c", []transactions.RecoverOption{transactions.OnlyXID(xid)}, &hare.QueryError{}},
		"one to forget":       {f.ctx, "c", []transactions.RecoverOption{transactions.Forget(xid)}, &hare.QueryError{}},
		"not an xid":          {f.ctx, "c", []transactions.RecoverOption{transactions.OnlyXID("hare_dtx_c")}, &hare.QueryError{}},
	} {
		before := len(f.plan.Events())
		err := transactions.RunRecoverer(test.ctx, test.coordinator, test.opts...)
		if fmt.Sprintf("%T", err) != fmt.Sprintf("%T", test.want) {
			t.Errorf("%s: got %T %v, want a %T", name, err, err, test.want)
		}
		if n := len(f.plan.Events()); n != before {
			t.Errorf("%s: something was sent", name)
		}
	}
}

// A pass that fails is tried again: here the coordinator does not answer at first.
func TestRecovererTriesAgain(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	f.crash(isCommitPrepared)
	var mu sync.Mutex
	refused := 0
	f.plan.Set(func(_ context.Context, e faults.Event) error {
		mu.Lock()
		defer mu.Unlock()
		if e.Op == "dial" && e.Alias == coordinator && refused < 5 {
			refused++
			return errors.New("no route")
		}
		return nil
	}, nil)
	f.recoverer(transactions.Interval(10 * time.Millisecond))
	f.eventually("all is finished", f.nothingPrepared)
	f.wantCounts(1, 1, 1)
}
