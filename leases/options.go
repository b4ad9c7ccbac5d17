package leases

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hare-go/hare/hare"
)

// Options are the options of a lease. All times follow from TTL where they are zero, and are whole milliseconds. They must
// fit together: Interval, StallTimeout and Margin are not longer than TTL in sum, so that one renewal can fail and another
// get through; LockTimeout is below StatementTimeout, and that below StallTimeout, so that the server gives up first.
// Options that do not fit are a [*hare.QueryError] of the first call.
type Options struct {
	// TTL is how long a term lasts after its last renewal, and so how long nobody holds the lease when its holder has
	// died. Default 20 s; at least 100 ms.
	TTL time.Duration
	// Margin is how long before the expiry the holder stops trusting its term: the time that its function has to
	// notice its ctx. Default TTL/10.
	Margin time.Duration
	// Interval is the time between two renewals, each a small write that waits for the disk. Default TTL/4.
	Interval time.Duration
	// Poll is how often a candidate looks whether the lease is free, give or take a quarter; one small read.
	// Default TTL/10.
	Poll time.Duration

	// LockTimeout is how long the server lets a renewal or acquisition wait for the row's lock. Default TTL/5.
	LockTimeout time.Duration
	// StatementTimeout is how long the server lets one of their statements take. Default TTL/4.
	StatementTimeout time.Duration
	// IdleTimeout is how long the server keeps their transaction when its client has vanished. Default TTL/10.
	IdleTimeout time.Duration
	// FenceIdleTimeout is how long the server keeps a fenced transaction whose client says nothing, where the session has no
	// such time-out of its own. Default TTL.
	FenceIdleTimeout time.Duration
	// StallTimeout is how long the client waits for the answer before it gives the connection up. Default TTL*3/10.
	StallTimeout time.Duration

	// Holder tells people who holds the lease. It need not be unique: a random part is added, so that a program that
	// starts again is never taken for its predecessor. Default: the host's name and the process's id.
	Holder string
	// OnStart, if set, is called once at the beginning of each term, and OnEnd once at its end, after OnStart has returned.
	// err is nil when the term was released, else a [*LeaseLostError]. A candidate that never holds gets neither.
	// OnStart is waited for by the acquisition, OnEnd by Release, Stop and Run; neither may call these.
	OnStart func(t *Term)
	OnEnd   func(t *Term, err error)
	// Logger receives what happens to the lease. Default slog.Default().
	Logger *slog.Logger
}

// DefaultTTL is the TTL where Options have none.
const DefaultTTL = 20 * time.Second

const (
	leastTTL, mostTTL = 100 * time.Millisecond, 24 * time.Hour
	maxName           = 200 // bytes
)

// filled are the options with their defaults.
func (o Options) filled() Options {
	orDefault(&o.TTL, DefaultTTL)
	orDefault(&o.Margin, o.TTL/10)
	orDefault(&o.Interval, o.TTL/4)
	orDefault(&o.Poll, o.TTL/10)
	orDefault(&o.LockTimeout, o.TTL/5)
	orDefault(&o.StatementTimeout, o.TTL/4)
	orDefault(&o.IdleTimeout, o.TTL/10)
	orDefault(&o.FenceIdleTimeout, o.TTL)
	orDefault(&o.StallTimeout, o.TTL*3/10)
	if o.Holder == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown host"
		}
		o.Holder = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

func orDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value.Truncate(time.Millisecond)
	}
}

// check refuses filled options that cannot work.
func (o Options) check() error {
	if o.TTL < leastTTL || o.TTL > mostTTL {
		return wrong("TTL is %v: want %v to %v", o.TTL, leastTTL, mostTTL)
	}
	for _, t := range []struct {
		name  string
		value time.Duration
	}{
		{"TTL", o.TTL}, {"Margin", o.Margin}, {"Interval", o.Interval}, {"Poll", o.Poll}, {"LockTimeout", o.LockTimeout},
		{"StatementTimeout", o.StatementTimeout}, {"IdleTimeout", o.IdleTimeout}, {"FenceIdleTimeout", o.FenceIdleTimeout}, {"StallTimeout", o.StallTimeout},
	} {
		if t.value < time.Millisecond || t.value > mostTTL || t.value%time.Millisecond != 0 {
			return wrong("%s is %v: want whole milliseconds up to %v", t.name, t.value, mostTTL)
		}
	}
	switch {
	case o.LockTimeout >= o.StatementTimeout:
		return wrong("LockTimeout (%v) must be below StatementTimeout (%v), so that a wait for a lock is reported as such", o.LockTimeout, o.StatementTimeout)
	case o.StatementTimeout >= o.StallTimeout:
		return wrong("StatementTimeout (%v) must be below StallTimeout (%v), so that the server gives up first", o.StatementTimeout, o.StallTimeout)
	case o.Interval+o.StallTimeout+o.Margin > o.TTL:
		return wrong("a TTL of %v is too short: Interval (%v), StallTimeout (%v) and Margin (%v) are longer together, so that a healthy holder could lose the lease. Raise TTL, or lower them",
			o.TTL, o.Interval, o.StallTimeout, o.Margin)
	case !printable(o.Holder):
		return wrong("Holder must be valid UTF-8 of up to %d bytes without control characters", maxName)
	}
	return nil
}

// checkName refuses a name that a row cannot have.
func checkName(name string) error {
	if name == "" || !printable(name) {
		return wrong("the name %q cannot be: want 1 to %d bytes of valid UTF-8 without control characters", name, maxName)
	}
	return nil
}

func printable(text string) bool {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	return len(text) <= maxName && utf8.ValidString(text) && !strings.ContainsFunc(text, control)
}

func wrong(format string, args ...any) error {
	return &hare.QueryError{Reason: "lease: " + fmt.Sprintf(format, args...)}
}

// unique makes a holder's name one that no other process has, nor this one a second time.
func unique(holder string) string { return holder + "/" + strings.ToLower(rand.Text()[:12]) }
