package transactions

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/session"
)

// Option changes how a transaction runs. Options are checked before anything is sent; a wrong one is a
// [*hare.QueryError].
type Option func(*settings)

// settings are the options of one call, with their defaults filled in.
type settings struct {
	alias            string
	readOnly         bool
	isolation        IsolationLevel
	statementTimeout time.Duration
	lockTimeout      time.Duration
	wait             time.Duration
	retries          int
	phases           Phases
	keepDecision     bool
	logger           *slog.Logger
	invalid          error
}

// IsolationLevel is a transaction isolation level of the SQL standard. A database without the level asked for runs the
// transaction at the next stronger one that it has: SQLite is always serializable (PostgreSQL documentation, chapter
// Transaction Isolation).
type IsolationLevel string

// The isolation levels.
const (
	ReadUncommitted IsolationLevel = "read uncommitted"
	ReadCommitted   IsolationLevel = "read committed"
	RepeatableRead  IsolationLevel = "repeatable read"
	Serializable    IsolationLevel = "serializable"
)

// The bounds of the options.
const (
	MaxRetries         = 100
	MinTimeout         = time.Millisecond
	MaxTimeout         = math.MaxInt32 * time.Millisecond // PostgreSQL keeps its time-outs in 31 bits of milliseconds
	slowPhase          = 30 * time.Second                 // Prepare and Decide, whose failure costs the transaction
	quickPhase         = 10 * time.Second                 // Deliver and Rollback, which recovery can take over
	defaultLockTimeout = 10 * time.Second
)

// Phases bound the steps of ending a transaction, each from its own start. They replace the caller's ctx, whose
// cancellation must not cut a COMMIT in half. A zero field keeps its default.
type Phases struct {
	// Prepare: all PREPARE TRANSACTION together. Default 30 seconds; when it ends the transaction is rolled back.
	Prepare time.Duration
	// Decide: the COMMIT that decides, then as long again to find out what became of it when its answer is lost;
	// also the COMMIT of Atomic. Default 30 seconds; when it ends the outcome is ambiguous.
	Decide time.Duration
	// Deliver: all COMMIT PREPARED together, retries included. Default 10 seconds; when it ends recovery goes on.
	Deliver time.Duration
	// Rollback: ROLLBACK, and all ROLLBACK PREPARED together. Default 10 seconds; when it ends recovery goes on.
	Rollback time.Duration
}

// Using names the connection that [Atomic], [OnCommit] and [OnRollback] work on; without it they take the default one.
func Using(alias string) Option { return func(s *settings) { s.alias = alias } }

// ReadOnly makes the server refuse writes in the transaction.
func ReadOnly() Option { return func(s *settings) { s.readOnly = true } }

// Isolation sets the isolation level. Default: the database's own, READ COMMITTED on PostgreSQL.
func Isolation(level IsolationLevel) Option {
	return func(s *settings) {
		s.isolation = level
		levels := []IsolationLevel{ReadUncommitted, ReadCommitted, RepeatableRead, Serializable}
		if !slices.Contains(levels, level) {
			s.refuse("isolation level %q: the levels are %q", level, levels)
		}
	}
}

// StatementTimeout bounds each statement of the transaction: one millisecond to about 24 days, whole milliseconds.
// Without a [LockTimeout] of its own it bounds waiting for locks as well. It does not bound the work that triggers do
// inside COMMIT or PREPARE TRANSACTION.
func StatementTimeout(d time.Duration) Option {
	return func(s *settings) { s.statementTimeout = s.timeout("StatementTimeout", d) }
}

// LockTimeout bounds each wait for a lock: one millisecond to about 24 days, whole milliseconds. [Distributed] has a
// default of ten seconds, because a deadlock over two databases is seen by none of them; [Atomic] has none.
func LockTimeout(d time.Duration) Option {
	return func(s *settings) { s.lockTimeout = s.timeout("LockTimeout", d) }
}

// Wait bounds how long a statement waits for another goroutine's statement or nested block in the same transaction, and
// how long COMMIT waits for them before it rolls back instead. Default: 30 seconds.
func Wait(d time.Duration) Option {
	return func(s *settings) { s.wait = s.timeout("Wait", d) }
}

// Retries runs the whole function again, in a new transaction, up to n more times (0 to 100, default 0) when the
// database asks for it: a serialization failure or a deadlock (SQLSTATE 40001, 40P01), a busy SQLite database; for
// [Distributed] also a lock time-out (55P03), which is how a deadlock over two databases ends. It
// waits between the attempts, 10 ms doubling up to one second, with jitter. A commit whose outcome is unknown is never
// retried, nor an error of a hook. Nested blocks never retry by themselves: the error goes to the outermost one.
func Retries(n int) Option {
	return func(s *settings) {
		s.retries = n
		if n < 0 || n > MaxRetries {
			s.refuse("Retries(%d): the number is from 0 to %d", n, MaxRetries)
		}
	}
}

// PhaseTimeouts bounds the steps of ending the transaction.
func PhaseTimeouts(p Phases) Option {
	return func(s *settings) {
		for _, phase := range []struct {
			name  string
			given time.Duration
			into  *time.Duration
		}{
			{"Prepare", p.Prepare, &s.phases.Prepare}, {"Decide", p.Decide, &s.phases.Decide},
			{"Deliver", p.Deliver, &s.phases.Deliver}, {"Rollback", p.Rollback, &s.phases.Rollback},
		} {
			if phase.given != 0 {
				*phase.into = s.timeout("PhaseTimeouts: "+phase.name, phase.given)
			}
		}
	}
}

// KeepDecision keeps the row of a decision for audit: it gets a resolved_at instead of being deleted when every
// participant has confirmed. Recovery removes it after its retention time. Only [Distributed] takes it.
func KeepDecision() Option { return func(s *settings) { s.keepDecision = true } }

// Logger receives the events of a distributed transaction: its phases, its retries, its end, and what failed. All are of
// level Debug but those of an end that leaves something, which are warnings. Default: slog.Default().
func Logger(l *slog.Logger) Option { return func(s *settings) { s.logger = l } }

func (s *settings) refuse(format string, args ...any) {
	if s.invalid == nil {
		s.invalid = &hare.QueryError{Reason: fmt.Sprintf(format, args...)}
	}
}

func (s *settings) timeout(name string, d time.Duration) time.Duration {
	if d < MinTimeout || d > MaxTimeout {
		s.refuse("%s(%s): a time-out is from %s to %s", name, d, MinTimeout, MaxTimeout)
	}
	return d
}

// read applies the options over the defaults.
func read(opts []Option) (*settings, error) {
	s := &settings{phases: Phases{Prepare: slowPhase, Decide: slowPhase, Deliver: quickPhase, Rollback: quickPhase}}
	for i, opt := range opts {
		if opt == nil {
			return nil, nilOption(i)
		}
		opt(s)
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	return s, s.invalid
}

// nilOption refuses an option that is nil, by its place.
func nilOption(i int) error { return &hare.QueryError{Reason: fmt.Sprintf("option %d is nil", i+1)} }

// session are the settings as the session takes them.
func (s *settings) session() session.Options {
	return session.Options{
		TxOptions: backend.TxOptions{
			Isolation:          string(s.isolation),
			ReadOnly:           s.readOnly,
			StatementTimeoutMS: s.statementTimeout.Milliseconds(),
			LockTimeoutMS:      s.lockTimeout.Milliseconds(),
		},
		Wait: s.wait,
	}
}
