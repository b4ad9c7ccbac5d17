package integration

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/transactions"
)

// ending is one way in which a distributed transaction can end, and how that is seen.
type ending struct {
	name  string
	setUp func(s *stage)
	fn    func(s *stage, d *hare.Distributed) error // besides nothing at all; by default it writes everywhere
	opts  []transactions.Option

	outcome transactions.Outcome
	phase   string // how far it came
	left    bool   // something is left for recovery, or for an operator
	bare    bool   // the error is the function's own, or there is no xid yet
	tree    string // of spans
	tries   string // what failed in its second phase, if that is looked at
}

const opened = "open(open a open b open c) "

var endings = []ending{
	{name: "committed", outcome: transactions.Committed, phase: "deliver",
		tree: opened + "callback prepare(prepare a:prepared prepare b:prepared) decide(decide c) deliver(deliver a deliver b)"},
	{name: "a participant without writes", outcome: transactions.Committed, phase: "deliver",
		fn:   func(s *stage, d *hare.Distributed) error { return write(d, "x", s.aliases("c", "a")...) },
		tree: opened + "callback prepare(prepare a:prepared prepare b:nothing to commit) decide(decide c) deliver(deliver a)"},
	{name: "the program's own spans", outcome: transactions.Committed, phase: "deliver",
		fn: func(s *stage, d *hare.Distributed) error {
			_, span := otel.Tracer("program").Start(d.Context(), "work")
			defer span.End()
			return write(d, "x", s.alias("a"))
		},
		tree: opened + "callback(work) prepare(prepare a:prepared prepare b:nothing to commit) decide(decide c) deliver(deliver a)"},
	{name: "a database cannot be reached", outcome: transactions.RolledBack, phase: "open", bare: true,
		setUp: func(s *stage) { s.plan.Set(always(s.alias("b"), "", "acquire"), nil) },
		tree:  "open!(open a open b!)"},
	{name: "the function fails", outcome: transactions.RolledBack, phase: "callback", bare: true,
		fn:   func(*stage, *hare.Distributed) error { return errStop },
		tree: opened + "callback! rollback(rollback a rollback b rollback c)"},
	{name: "the caller gives up", outcome: transactions.RolledBack, phase: "callback",
		fn:   func(s *stage, _ *hare.Distributed) error { s.cancel(); return nil },
		tree: opened + "callback! rollback(rollback a rollback b rollback c)"},
	{name: "the caller gives up while it prepares", outcome: transactions.RolledBack, phase: "prepare",
		setUp: func(s *stage) {
			s.plan.Set(func(_ context.Context, e faults.Event) error {
				if strings.Contains(e.SQL, "PREPARE TRANSACTION") {
					s.cancel()
				}
				return nil
			}, nil)
		},
		tree: opened + "callback prepare!(prepare a:prepared prepare b:prepared) rollback(rollback a rollback b rollback c)"},
	{name: "an error is swallowed", outcome: transactions.RolledBack, phase: "prepare",
		fn: func(s *stage, d *hare.Distributed) error {
			_, _ = d.Client(s.alias("a")).Exec(d.Context(), "no SQL")
			return nil
		},
		tree: opened + "callback prepare! rollback(rollback a rollback b rollback c)"},
	{name: "a participant refuses", outcome: transactions.RolledBack, phase: "prepare",
		setUp: func(s *stage) { s.atCommit("b", "RAISE EXCEPTION 'no';") },
		tree:  opened + "callback prepare!(prepare a:prepared prepare b!:none) rollback(rollback a rollback b rollback c)"},
	{name: "the answer to a PREPARE is lost", outcome: transactions.RolledBack, phase: "prepare",
		setUp: func(s *stage) { s.plan.Set(nil, failOn(1, s.alias("a"), contains("PREPARE TRANSACTION"))) },
		tree:  opened + "callback prepare!(prepare a!:possibly prepared prepare b:prepared) rollback(rollback a rollback b rollback c)"},
	{name: "a participant cannot be told to roll back", outcome: transactions.RolledBack, phase: "prepare", left: true,
		setUp: func(s *stage) { s.plan.Set(nil, always(s.alias("a"), "PREPARE TRANSACTION", "dial")) },
		opts:  []transactions.Option{transactions.PhaseTimeouts(transactions.Phases{Rollback: 2e9})},
		tree:  opened + "callback prepare!(prepare a!:possibly prepared prepare b:prepared) rollback!(rollback a! rollback b rollback c)",
		tries: "a ROLLBACK PREPARED retryable=true"},
	{name: "the decision is refused", outcome: transactions.RolledBack, phase: "decide",
		setUp: func(s *stage) { s.atCommit("c", "RAISE EXCEPTION 'no';") },
		tree:  opened + "callback prepare(prepare a:prepared prepare b:prepared) decide!(decide c!) rollback(rollback a rollback b rollback c)"},
	{name: "the decision is lost", outcome: transactions.RolledBack, phase: "fence",
		setUp: func(s *stage) { s.plan.Set(failOn(1, s.alias("c"), contains("INSERT INTO public.")), nil) },
		tree:  opened + "callback prepare(prepare a:prepared prepare b:prepared) decide!(decide c!) fence(fence c) rollback(rollback a rollback b rollback c)"},
	{name: "the answer to the decision is lost", outcome: transactions.Committed, phase: "deliver",
		setUp: func(s *stage) { s.plan.Set(nil, failOn(1, s.alias("c"), contains("INSERT INTO public."))) },
		tree:  opened + "callback prepare(prepare a:prepared prepare b:prepared) decide!(decide c!) fence(fence c) deliver(deliver a deliver b)"},
	{name: "nobody knows", outcome: transactions.Ambiguous, phase: "fence", left: true,
		setUp: func(s *stage) { s.plan.Set(nil, always(s.alias("c"), "INSERT INTO public.", "dial")) },
		opts:  []transactions.Option{transactions.PhaseTimeouts(transactions.Phases{Decide: 2e9})},
		tree:  opened + "callback prepare(prepare a:prepared prepare b:prepared) decide!(decide c!) fence!(fence c!)",
		tries: "c fence retryable=true"},
	{name: "nobody knows of the coordinator's own", outcome: transactions.Ambiguous, phase: "decide", left: true,
		setUp: func(s *stage) {
			s.plan.Set(nil, failOn(1, s.alias("c"), func(sql string) bool { return sql == "COMMIT" }))
		},
		fn:   func(s *stage, d *hare.Distributed) error { return write(d, "x", s.alias("c")) },
		tree: opened + "callback prepare(prepare a:nothing to commit prepare b:nothing to commit) decide!(decide c!)"},
	{name: "a participant cannot be told to commit", outcome: transactions.PartiallyCommitted, phase: "deliver", left: true,
		setUp: func(s *stage) { s.plan.Set(always(s.alias("b"), "COMMIT PREPARED", "dial"), nil) },
		opts:  []transactions.Option{transactions.PhaseTimeouts(transactions.Phases{Deliver: 2e9})},
		tree:  opened + "callback prepare(prepare a:prepared prepare b:prepared) decide(decide c) deliver!(deliver a deliver b!)",
		tries: "b COMMIT PREPARED retryable=true"},
	{name: "somebody interferes", outcome: transactions.Mixed, phase: "deliver", left: true,
		setUp: func(s *stage) {
			s.plan.Set(func(_ context.Context, e faults.Event) error {
				if e.Alias == s.alias("b") && strings.HasPrefix(e.SQL, "COMMIT PREPARED") {
					s.exec("b", "ROLLBACK"+strings.TrimPrefix(e.SQL, "COMMIT"))
				}
				return nil
			}, nil)
		},
		tree:  opened + "callback prepare(prepare a:prepared prepare b:prepared) decide(decide c) deliver!(deliver a deliver b!)",
		tries: "b COMMIT PREPARED retryable=false"},
	{name: "a hook fails after the commit", outcome: transactions.Committed, phase: "deliver",
		fn: func(s *stage, d *hare.Distributed) error {
			return transactions.OnCommit(d.Context(), func(context.Context) error { return errStop }, transactions.Using(s.alias("c")))
		},
		tree: opened + "callback prepare(prepare a:nothing to commit prepare b:nothing to commit) decide(decide c) deliver"},
	{name: "a hook fails after the rollback", outcome: transactions.RolledBack, phase: "callback",
		fn: func(s *stage, d *hare.Distributed) error {
			return errors.Join(errStop, transactions.OnRollback(d.Context(), func(context.Context) error { return errStop }, transactions.Using(s.alias("c"))))
		},
		tree: opened + "callback! rollback(rollback a rollback b rollback c)"},
	{name: "the function fails with another transaction's error", outcome: transactions.RolledBack, phase: "callback",
		fn:   func(*stage, *hare.Distributed) error { return &transactions.CommitAmbiguousError{} },
		tree: opened + "callback! rollback(rollback a rollback b rollback c)"},
	{name: "it is run again", outcome: transactions.Committed, phase: "deliver",
		setUp: func(s *stage) {
			s.exec("b", "CREATE SEQUENCE attempts")
			s.atCommit("b", "IF nextval('attempts') = 1 THEN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END IF;")
		},
		opts: []transactions.Option{transactions.Retries(2)},
		tree: opened + "callback prepare!(prepare a:prepared prepare b!:none) rollback(rollback a rollback b rollback c) " +
			opened + "callback prepare(prepare a:prepared prepare b:prepared) decide(decide c) deliver(deliver a deliver b)"},
}

// W32: every end of a distributed transaction is seen in its error, in the log, in the trace and in the metrics, and each names
// the transaction.
//
// W25. W32.
func TestEveryEndIsSeen(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	if err := f.distributed(func(*hare.Distributed) error { return nil }); err != nil { // first use
		t.Fatal(err)
	}
	for _, end := range endings {
		t.Run(end.name, func(t *testing.T) {
			defer f.clear()
			s := f.stage(t)
			if end.setUp != nil {
				end.setUp(s)
			}
			var log lines
			xid := ""
			err := s.distributed(s.ctx, func(d *hare.Distributed) error {
				xid = d.XID()
				if end.fn != nil {
					return end.fn(s, d)
				}
				return write(d, "x", s.aliases(everybody...)...)
			}, append(end.opts, transactions.Logger(slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))...)
			s.plan.Set(nil, nil)
			s.root.End()
			wantEnd(t, s, &end, err, xid)
			wantEvents(t, s, &end, err, xid, log.String())
			wantEndMetrics(t, s, &end)
			f.recover(transactions.Finish())
			f.wantNothingPrepared()
		})
	}
}

// wantEnd compares the error and the trace.
func wantEnd(t *testing.T, s *stage, end *ending, err error, xid string) {
	t.Helper()
	wantOutcome(t, err, end.outcome)
	if named := err != nil && xid != "" && strings.Contains(err.Error(), xid); err != nil && named == end.bare {
		t.Errorf("the error %q names %q: %v", err, xid, named)
	}
	if end.left && end.phase != "decide" && !strings.Contains(err.Error(), "run: hare distributed-recover --coordinator "+s.alias("c")) {
		t.Errorf("the error %q does not tell what to do", err)
	}
	calls := children(s.root.SpanContext())
	if len(calls) != 1 || calls[0].Name() != "hare.distributed" {
		t.Fatalf("%d spans: %v", len(calls), calls)
	}
	call := calls[0]
	if diff := cmp.Diff(end.tree, s.tree(call.SpanContext())); diff != "" {
		t.Errorf("the trace (-want +got):\n%s", diff)
	}
	want := map[string]string{"hare.coordinator": s.alias("c"), "hare.participants": `["` + s.alias("a") + `","` + s.alias("b") + `"]`,
		"hare.outcome": end.outcome.String(), "hare.phase": end.phase}
	if xid != "" {
		want["hare.xid"] = xid
	}
	for key, value := range want {
		if got, _ := attributeOf(call, key); got != value {
			t.Errorf("the span's %s is %q, want %q", key, got, value)
		}
	}
	if failed := call.Status().Code.String() == "Error"; failed != (end.outcome != transactions.Committed) {
		t.Errorf("the span's status is %v after an end %s", call.Status(), end.outcome)
	}
	if recorded := len(call.Events()) > 0; recorded != (err != nil || strings.Count(end.tree, "open(") > 1) {
		t.Errorf("the span has the events %v, and the error is %v", call.Events(), err)
	}
	wantPartsNamed(t, s, xid)
}

// wantPartsNamed makes sure that each part of the trace names its transaction, what it was prepared as, and its database.
func wantPartsNamed(t *testing.T, s *stage, xid string) {
	t.Helper()
	for _, span := range told().Ended() {
		alias, isPart := attributeOf(span, "hare.participant")
		if span.SpanContext().TraceID() != s.root.SpanContext().TraceID() || !isPart || xid == "" {
			continue
		}
		if strings.HasPrefix(span.Name(), "open") {
			continue // there is no xid yet
		}
		got, _ := attributeOf(span, "hare.xid")
		gid, prepares := attributeOf(span, "hare.gid")
		system, _ := attributeOf(span, "db.system.name")
		name, _ := attributeOf(span, "db.namespace")
		if !strings.HasPrefix(got, "hare_dtx_"+s.alias("c")+":") || prepares && gid != got+":"+alias || prepares == (alias == s.alias("c")) ||
			system != "postgresql" || name != s.text(strings.TrimSuffix(alias, s.suffix), "SELECT current_database()") {
			t.Errorf("%q has the attributes %v", span.Name(), span.Attributes())
		}
	}
}

// event is an event of the log.
type event struct {
	Level, Msg, XID, Coordinator, Outcome, Phase, Participant, GID, Error, Next string
	Participants                                                                []string
}

// wantEvents looks for the one event that tells the last attempt's end, and for those of the participants that failed.
func wantEvents(t *testing.T, s *stage, end *ending, err error, xid, log string) {
	t.Helper()
	var got event
	var failed []string
	for line := range strings.SplitSeq(strings.TrimSpace(log), "\n") {
		got = event{}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(got.Msg, "participant failed") {
			part := got.Phase + " " + strings.TrimSuffix(got.Participant, s.suffix) + "!"
			failed = append(failed, part)
			prepares := got.Participant != s.alias("c") && got.Phase != "open"
			if got.Error == "" || prepares && got.GID != got.XID+":"+got.Participant || (got.Level == "WARN") != (got.Phase == "deliver" || got.Phase == "rollback") {
				t.Errorf("what a participant failed with: %+v", got)
			}
		}
	}
	if diff := cmp.Diff(failedPart.FindAllString(end.tree, -1), failed); diff != "" {
		t.Errorf("the participants that failed (-want +got):\n%s", diff)
	}
	level := "DEBUG"
	if end.left {
		level = "WARN"
	}
	if got.Msg != "distributed transaction: end" || got.Level != level || got.XID != xid || got.Coordinator != s.alias("c") || got.Outcome != end.outcome.String() ||
		got.Phase != end.phase || len(got.Participants) != 2 || (got.Next != "") != (end.left && end.phase != "decide") {
		t.Errorf("the last event is %+v", got)
	}
	var hook *transactions.HookError
	if got.Error == "" && err != nil && !errors.As(err, &hook) {
		t.Errorf("the last event %+v does not tell the error %v", got, err)
	}
}

var failedPart = regexp.MustCompile(`[a-z]+ [abc]!`)

// wantEndMetrics compares the metrics.
func wantEndMetrics(t *testing.T, s *stage, end *ending) {
	t.Helper()
	want := map[string]float64{"outcome=" + end.outcome.String() + " phase=" + end.phase: 1}
	if diff := cmp.Diff(want, s.metric("hare.distributed.transactions", "hare.coordinator", "c")); diff != "" {
		t.Errorf("ends (-want +got):\n%s", diff)
	}
	phases := map[string]float64{}
	for _, span := range children(children(s.root.SpanContext())[0].SpanContext()) {
		name := "phase=" + strings.TrimPrefix(span.Name(), "hare.distributed.")
		if kind, failed := attributeOf(span, "error.type"); failed {
			name = "error.type=" + kind + " " + name
		}
		phases[name]++
	}
	if diff := cmp.Diff(phases, s.metric("hare.distributed.phase.duration", "hare.coordinator", "c")); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	var tries []string
	for _, alias := range everybody {
		for point := range s.metric("hare.distributed.delivery.failures", "hare.participant", alias) {
			words := tryWords.FindStringSubmatch(point)
			tries = append(tries, alias+" "+words[1]+" "+words[2])
		}
	}
	if tries = slices.Compact(tries); end.tries != "" && !slices.Equal(tries, []string{end.tries}) {
		t.Errorf("failed tries %q, want %q", tries, end.tries)
	}
	attempts := strings.Count(end.tree, "open(")
	if again := s.metric("hare.distributed.retries", "hare.coordinator", "c"); attempts > 1 && again["error.type=40001"] != 1 || attempts < 2 && len(again) > 0 {
		t.Errorf("retries: %v", again)
	}
}

var tryWords = regexp.MustCompile(`^db\.operation\.name=(.*) error\.type=\S+ (retryable=\S+)$`)

// A function that does not return is seen as well.
func TestPanicIsSeen(t *testing.T) {
	t.Parallel()
	s := newTrio(t, "").stage(t)
	func() {
		defer func() {
			if got := recover(); got != errStop {
				t.Errorf("recovered %v, want the panic", got)
			}
		}()
		_ = s.distributed(s.ctx, func(*hare.Distributed) error { panic(errStop) })
	}()
	s.root.End()
	calls := children(s.root.SpanContext())
	if len(calls) != 1 {
		t.Fatalf("%d spans", len(calls))
	}
	if got, want := s.tree(s.root.SpanContext()), "hare.distributed!("+opened+"callback! rollback(rollback a rollback b rollback c))"; got != want {
		t.Errorf("the trace is %s, want %s", got, want)
	}
	if got := s.metric("hare.distributed.transactions", "hare.coordinator", "c"); got["outcome=rolled back phase=callback"] != 1 || len(got) != 1 {
		t.Errorf("ends: %v", got)
	}
}
