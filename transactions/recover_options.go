package transactions

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/hare-go/hare/hare"
)

// MinRetention is the least [Retention].
const MinRetention = time.Minute

// RecoverOption changes how [Recover] and [RunRecoverer] work. A wrong one is a [*hare.QueryError].
type RecoverOption func(*recoverSettings)

// recoverSettings are the options of one recovery, with their defaults filled in.
type recoverSettings struct {
	finish                                bool
	olderThan, participantTime, retention time.Duration
	interval                              time.Duration // of RunRecoverer
	only, forget                          string        // xids
	progress                              func(done, total int, e Entry)
	logger                                *slog.Logger
	invalid                               error
}

func readRecover(opts []RecoverOption) (*recoverSettings, error) {
	s := &recoverSettings{olderThan: 300 * time.Second, participantTime: 30 * time.Second, retention: 7 * 24 * time.Hour, interval: 10 * time.Second}
	for i, opt := range opts {
		if opt == nil {
			return nil, nilOption(i)
		}
		opt(s)
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	if s.forget != "" && s.only != "" && s.forget != s.only {
		s.refuse("OnlyXID(%q) and Forget(%q) name two transactions", s.only, s.forget)
	}
	return s, s.invalid
}

func (s *recoverSettings) refuse(format string, args ...any) {
	if s.invalid == nil {
		s.invalid = &hare.QueryError{Reason: fmt.Sprintf(format, args...)}
	}
}

// time refuses a duration that is out of bounds.
func (s *recoverSettings) time(name string, d, least, most time.Duration) time.Duration {
	if d < least || d > most {
		s.refuse("%s(%s): it is from %s to %s", name, d, least, most)
	}
	return d
}

// Finish makes Recover finish what it finds. Without it Recover only reports, and writes nothing anywhere.
func Finish() RecoverOption { return func(s *recoverSettings) { s.finish = true } }

// OlderThan leaves transactions alone that are younger than d, by the clock of the server that holds them, because their
// call is probably alive. Default: 300 seconds. It is a courtesy and never decides safety; 0 is safe.
func OlderThan(d time.Duration) RecoverOption {
	return func(s *recoverSettings) { s.olderThan = s.time("OlderThan", d, 0, math.MaxInt64) }
}

// ParticipantTimeout bounds the work on each database, so that one that does not answer costs only itself, and each step on
// the coordinator. Default: 30 seconds.
func ParticipantTimeout(d time.Duration) RecoverOption {
	return func(s *recoverSettings) {
		s.participantTime = s.time("ParticipantTimeout", d, MinTimeout, MaxTimeout/passTimes)
	}
}

// Retention is how long resolved decisions and abort rows are kept: longer than any process may stay paused and still
// come back to its COMMIT. A process that stays paused for longer than that, between its last PREPARE and its decision,
// finds the abort row gone that would have stopped it, and can commit what recovery has rolled back. Default: 7 days; a minute
// at least. Only Finish removes any.
func Retention(d time.Duration) RecoverOption {
	return func(s *recoverSettings) { s.retention = s.time("Retention", d, MinRetention, math.MaxInt64) }
}

// OnlyXID looks at one transaction and leaves everything else as it is.
func OnlyXID(xid string) RecoverOption {
	return func(s *recoverSettings) {
		s.only = xid
		s.checkXID("OnlyXID", xid)
	}
}

// Forget gives up a transaction that recovery cannot finish: a mixed one, or one whose participant no configured
// connection leads to any more. With Finish its decision is marked as resolved and is not reported again: the databases
// stay as they are, with its writes in some and without them in others. Without Finish the report only tells. A
// transaction that can still be finished is refused with a [*hare.QueryError].
func Forget(xid string) RecoverOption {
	return func(s *recoverSettings) {
		s.forget = xid
		s.checkXID("Forget", xid)
	}
}

func (s *recoverSettings) checkXID(option, xid string) {
	if _, err := ParseXID(xid); err != nil {
		s.refuse("%s: %v", option, err)
	}
}

// Progress has fn called after each prepared transaction that was acted on. It must be quick, and may be called from
// several goroutines, one at a time.
func Progress(fn func(done, total int, e Entry)) RecoverOption {
	return func(s *recoverSettings) { s.progress = fn }
}

// Interval is the time between two passes of [RunRecoverer], give or take a quarter. Default: 10 seconds. A pass costs one
// connection to each database, opened and closed again.
func Interval(d time.Duration) RecoverOption {
	return func(s *recoverSettings) { s.interval = s.time("Interval", d, 10*time.Millisecond, MaxTimeout) }
}

// RecoverLogger receives the events of a recovery. Default: slog.Default().
func RecoverLogger(l *slog.Logger) RecoverOption { return func(s *recoverSettings) { s.logger = l } }
