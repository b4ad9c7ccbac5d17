package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/query"
	"github.com/hare-go/hare/transactions"
)

// wired are connections over proxies: the coordinator "c" and participants "p0", "p1", ...
func wired(t *testing.T, participants int) (ctx context.Context, wires []*proxy.Proxy, names []string, plan *faults.Plan) {
	t.Helper()
	plan = &faults.Plan{}
	scheme := plan.Scheme("postgres")
	config := hare.Config{Connections: map[string]string{}, Default: "c"}
	for i, database := range servers.Databases(t, participants+1) {
		name := "c"
		if i > 0 {
			name = fmt.Sprintf("p%d", i-1)
			names = append(names, name)
		}
		w := newProxy(t, database)
		wires = append(wires, w)
		config.Connections[name] = plan.URL(scheme, w.URL()+"&max_size=1")
	}
	conns, err := hare.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conns.Close)
	ctx = hare.WithConnections(t.Context(), conns)
	for name := range config.Connections {
		client, err := conns.Client(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := hare.CreateTables(ctx, client, Note{}); err != nil {
			t.Fatal(err)
		}
	}
	return ctx, wires, names, plan
}

// After the callback there are three waves: prepare, decide, deliver, whatever the number of participants.
//
// W27.
func TestThreeWaves(t *testing.T) {
	for _, participants := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(participants), func(t *testing.T) {
			ctx, wires, names, plan := wired(t, participants)
			transaction := func(after func()) error {
				return transactions.Distributed(ctx, "c", names, func(d *hare.Distributed) error {
					if err := write(d, "x", append([]string{"c"}, names...)...); err != nil {
						return err
					}
					after()
					return nil
				}, transactions.KeepDecision())
			}
			for range 2 { // the first call asks the servers what they are, and prepares statements
				if err := transaction(func() {}); err != nil {
					t.Fatal(err)
				}
			}
			conns, err := hare.FromContext(ctx)
			if err != nil {
				t.Fatal(err)
			}
			(&trio{T: t, ctx: ctx, conns: conns, plan: plan}).tidied()
			trips := make([]int, len(wires))
			err = transaction(func() {
				plan.Reset()
				for i, w := range wires {
					trips[i] = -w.RoundTrips()
				}
			})
			// Resolving comes later, off the caller's path: what is counted here is what the caller waited for.
			for i, w := range wires {
				trips[i] += w.RoundTrips()
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, n := range trips {
				want := 2 // PREPARE TRANSACTION; COMMIT PREPARED
				if i == 0 {
					want = 1 // the decision and COMMIT together
				}
				if n != want {
					t.Errorf("connection %d: %d round trips after the callback, want %d", i, n, want)
				}
			}
			if waves := wavesOf(plan.Events()); waves != 3 {
				t.Errorf("%d waves, want 3: %+v", waves, plan.Events())
			}
		})
	}
}

// wavesOf counts the runs of calls of one kind.
func wavesOf(events []faults.Event) int {
	waves, last := 0, ""
	for _, e := range events {
		kind := ""
		for _, word := range []string{"PREPARE TRANSACTION", "INSERT INTO public.hare_distributed_decisions", "COMMIT PREPARED"} {
			if strings.Contains(e.SQL, word) {
				kind = word
			}
		}
		if kind == "" || e.Op != "control" {
			continue
		}
		if kind != last {
			waves++
		}
		last = kind
	}
	return waves
}

// All participants prepare, and are told, at the same time: each waits here until all are there.
//
// Field case 34. W27.
func TestParticipantsWorkAtOnce(t *testing.T) {
	ctx, _, names, plan := wired(t, 4)
	if err := transactions.Distributed(ctx, "c", names, func(d *hare.Distributed) error { return write(d, "x", names...) }); err != nil {
		t.Fatal(err)
	}
	var meet [2]sync.WaitGroup
	meet[0].Add(4)
	meet[1].Add(4)
	plan.Set(func(_ context.Context, e faults.Event) error {
		for i, word := range []string{"PREPARE TRANSACTION", "COMMIT PREPARED"} {
			if strings.Contains(e.SQL, word) {
				meet[i].Done()
				met := make(chan struct{})
				go func() { meet[i].Wait(); close(met) }()
				select {
				case <-met:
				case <-time.After(10 * time.Second):
					return fmt.Errorf("%s: the others did not come", word)
				}
			}
		}
		return nil
	}, nil)
	if err := transactions.Distributed(ctx, "c", names, func(d *hare.Distributed) error { return write(d, "x", names...) }); err != nil {
		t.Fatal(err)
	}
}

// BEGIN travels with the first statement: two updates in a transaction are three round trips, and an empty one none.
func TestRoundTripsOfATransaction(t *testing.T) {
	ctx, wires, _, _ := wired(t, 0)
	if err := Notes.Create(ctx, &Note{Text: "x"}); err != nil {
		t.Fatal(err)
	}
	update := func(ctx context.Context) error {
		_, err := Notes.Filter(query.Q("id", 1)).Update(ctx, query.Set("text", "y"))
		return err
	}
	two := func(ctx context.Context) error {
		if err := update(ctx); err != nil {
			return err
		}
		return update(ctx)
	}
	nested := func(ctx context.Context) error { return transactions.Atomic(ctx, two) }
	for _, test := range []struct {
		name string
		fn   func(context.Context) error
		opts []transactions.Option
		want int
	}{
		{"nothing", func(context.Context) error { return nil }, nil, 0},
		{"two updates", two, nil, 3},
		{"two updates with time-outs", two, []transactions.Option{transactions.StatementTimeout(time.Minute), transactions.Isolation(transactions.Serializable)}, 3},
		{"two updates in a savepoint", nested, nil, 4}, // RELEASE beside COMMIT
		{"an empty savepoint", func(ctx context.Context) error {
			return transactions.Atomic(ctx, func(context.Context) error { return nil })
		}, nil, 0},
	} {
		trips := 0
		for range 2 {
			trips = -wires[0].RoundTrips()
			if err := transactions.Atomic(ctx, test.fn, test.opts...); err != nil {
				t.Fatal(test.name, err)
			}
		}
		if trips += wires[0].RoundTrips(); trips != test.want {
			t.Errorf("%s: %d round trips, want %d", test.name, trips, test.want)
		}
	}
}
