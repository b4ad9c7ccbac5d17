package transactions

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/hare-go/hare/hare/backend"
)

// observed tells everything that a call over three databases tells when it commits, without any work in between.
func observed(ctx context.Context, template *call) {
	ctx, done := template.watch(ctx)
	defer done()
	c := template.attempt(ctx)
	for _, name := range []phase{phaseOpen, phaseCallback, phasePrepare, phaseDecide, phaseDeliver} {
		inside, done := c.phase(ctx, name)
		if name != phaseCallback {
			for _, b := range c.branches {
				_ = c.part(inside, b, name, func(context.Context) error { return nil })
			}
		}
		done(nil)
	}
	c.ended(ctx, nil)
}

func threeDatabases() *call {
	c := &call{set: &settings{logger: slog.New(slog.DiscardHandler)}}
	for _, alias := range []string{"c", "a", "b"} {
		c.branches = append(c.branches, &branch{alias: alias})
	}
	c.coordinator = c.branches[0]
	return c
}

// BenchmarkUnobserved is what it costs a call over three databases to be observable where nothing is set up.
func BenchmarkUnobserved(b *testing.B) {
	c := threeDatabases()
	for b.Loop() {
		observed(b.Context(), c)
	}
}

func TestUnobservedCostsLittle(t *testing.T) {
	c := threeDatabases()
	// The copy of the call, a watch, a span that records nothing, and a function that ends each phase.
	if got := testing.AllocsPerRun(100, func() { observed(t.Context(), c) }); got > 20 {
		t.Errorf("a call that nobody observes makes %v allocations for it, want 20 at most", got)
	}
}

func TestErrorType(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{&AbortError{Err: &backend.Error{SQLState: "40001"}}, "40001"},
		{&AbortError{Err: context.Canceled}, "context.Canceled"},
		{errors.Join(context.DeadlineExceeded), "context.DeadlineExceeded"},
		{&CommitAmbiguousError{}, "*transactions.CommitAmbiguousError"},
	} {
		if got := errorType(test.err); got != test.want {
			t.Errorf("errorType(%#v) = %q, want %q", test.err, got, test.want)
		}
	}
}

// What a pass has found is told for a while: a process that does not look any more must not go on telling it.
func TestGaugesForgetOldPasses(t *testing.T) {
	for _, test := range []struct {
		interval, after time.Duration
		told            bool
	}{
		{10 * time.Second, 4 * time.Minute, true},
		{10 * time.Second, 6 * time.Minute, false},
		{time.Hour, 2 * time.Hour, true},
		{time.Hour, 4 * time.Hour, false},
	} {
		s := &passes{last: map[string]*lastPass{}}
		s.note(&recovery{recoverSettings: &recoverSettings{interval: test.interval}, alias: "c"})
		told := false
		if err := s.fresh(time.Now().Add(test.after), func(coordinator string, _ *lastPass) { told = coordinator == "c" }); err != nil {
			t.Fatal(err)
		}
		if told != test.told {
			t.Errorf("%s after a pass, which there is every %s, it is told: %v", test.after, test.interval, told)
		}
	}
}
