// Package doctor asks databases for facts. It examines each configured database over the very path that the application
// uses, the client's pool, and judges what the server itself says: never what the configuration intends.
//
// What is asked stands in [questions], what is made of the answers in checks: each check is one function from answers to
// findings. Everything is read in transactions that the server keeps from writing, waits for locks only briefly, and a
// database that does not answer costs a bounded time and holds none of the others up.
package doctor

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hare-go/hare/hare"
)

// State is what a finding comes to.
type State string

// The states, from good to bad.
const (
	OK      State = "ok"
	Warning State = "warning" // it works, and something about it is unsafe, or will not work one day
	Failure State = "failure" // something that hare needs does not work, or something is stuck
)

// worse reports whether a state is worse than another one.
func (s State) worse(than State) bool {
	order := []State{OK, Warning, Failure}
	return slices.Index(order, s) > slices.Index(order, than)
}

// Finding is what one check has found.
type Finding struct {
	Alias string // the connection, empty where the check is about several
	Check string // the check's name, which stays the same
	State State
	Value string // what was found
	Why   string // why it matters
	// Mend is what to do, for people, empty where nothing is to be done. Where statements or a command of hare's do it,
	// they stand here, too, ready to be run.
	Mend string
	// SQL are statements for the database of Alias, in order, each outside a transaction.
	SQL []string
	// Command are the arguments of a hare command, without the configuration file.
	Command []string
}

// Report is what an examination has found.
type Report struct {
	// At is when it began.
	At time.Time
	// Findings are in the order of the aliases and, for each, of the checks; those between databases come last.
	Findings []Finding
	// Skipped are the aliases that have no server to ask: their databases cannot take part in distributed transactions.
	Skipped []string
}

// State is the worst state of all findings.
func (r Report) State() State {
	worst := OK
	for _, f := range r.Findings {
		if f.State.worse(worst) {
			worst = f.State
		}
	}
	return worst
}

// Count is the number of findings in a state.
func (r Report) Count(s State) (n int) {
	for _, f := range r.Findings {
		if f.State == s {
			n++
		}
	}
	return n
}

// Options say what to examine. The zero value examines everything.
type Options struct {
	// Aliases are the connections to examine. Default: all.
	Aliases []string
	// OlderThan is from what age on a prepared transaction or an unresolved decision is a failure: younger ones may belong
	// to calls at work. 0 means all of them.
	OlderThan time.Duration
	// Within bounds the examination of each database; they are examined side by side. Default: 10s.
	Within time.Duration
}

// DefaultOlderThan is the age from which on recovery takes something for a left-over (transactions.OlderThan).
const DefaultOlderThan = 300 * time.Second

const defaultWithin = 10 * time.Second

// examination is all that is known when it comes to judging.
type examination struct {
	options    Options
	databases  []*database
	configured []string // aliases of databases with a server, whether examined or not
}

// AliasError says that an alias of [Options] is not configured. Nothing was asked.
type AliasError struct{ Err error }

// Error names the alias, and the nearest one that is configured.
func (e *AliasError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *AliasError) Unwrap() error { return e.Err }

// Examine examines the configured databases, side by side, with connections of its own. The error is that of a configuration
// that cannot be used, or an [*AliasError]; whatever is wrong with a database is a finding.
func Examine(ctx context.Context, config hare.Config, options Options) (Report, error) {
	report := Report{At: time.Now()}
	if options.Within == 0 {
		options.Within = defaultWithin
	}
	connections, err := hare.Open(ctx, config)
	if err != nil {
		return report, err
	}
	defer connections.Close()
	for _, alias := range options.Aliases {
		if _, err := connections.Client(alias); err != nil {
			return report, &AliasError{err}
		}
	}
	all := &examination{options: options}
	for _, alias := range connections.Aliases() {
		client, err := connections.Client(alias)
		if err != nil {
			return report, err
		}
		wanted := len(options.Aliases) == 0 || slices.Contains(options.Aliases, alias)
		switch server := client.Features().SupportsTwoPhaseCommit; {
		case server && wanted:
			all.databases = append(all.databases, &database{alias: alias, url: config.Connections[alias], db: client.Database(), options: options})
			all.configured = append(all.configured, alias)
		case server:
			all.configured = append(all.configured, alias)
		case wanted:
			report.Skipped = append(report.Skipped, alias)
		}
	}
	var running sync.WaitGroup
	for _, d := range all.databases {
		running.Go(func() { d.examine(ctx) })
	}
	running.Wait()
	for _, d := range all.databases {
		if all.overdue(d) {
			running.Go(func() { d.askRecovery(hare.WithConnections(ctx, connections)) })
		}
	}
	running.Wait()
	report.Findings = all.judge()
	return report, nil
}
