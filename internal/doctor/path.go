package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/plaintext"
)

// samples is how often the clock is asked; the quickest answer is the most exact one.
const samples = 3

// askClock measures the round trip and how far the server's clock is from this machine's.
func askClock(ctx context.Context, d *database) error {
	for i := range samples {
		sent := time.Now()
		answer, err := d.conn.Control(ctx, "SELECT extract(epoch FROM pg_catalog.clock_timestamp())")
		received := time.Now()
		if err != nil {
			return hare.ErrorFrom(d.alias, "", err)
		}
		seconds, err := strconv.ParseFloat(strings.Join(answer.Row, ""), 64)
		if err != nil {
			return err
		}
		if took := received.Sub(sent); i == 0 || took < d.roundtrip {
			d.roundtrip, d.offset = took, offset(sent, took, seconds)
		}
	}
	return nil
}

// offset is how far a server's clock is ahead, if it was asked at a time and the answer took a while. The server is taken
// to have answered in the middle of that; it is off by half of it at most.
func offset(sent time.Time, took time.Duration, epoch float64) time.Duration {
	server := time.UnixMicro(int64(epoch * 1e6))
	return server.Sub(sent.Add(took / 2)).Round(time.Microsecond)
}

func reachable(d *database, all *examination) []Finding {
	if err := d.failed[reaching]; err != nil {
		return []Finding{unreachable(err)}
	}
	if d.refused != nil && !refusalExplained(d, all) {
		f := unreachable(d.refused)
		f.Value += "; the answers below came over a connection of the doctor's own"
		return []Finding{f}
	}
	if err := d.failed[clock]; err != nil {
		return []Finding{unreachable(err)}
	}
	return []Finding{found(OK, "a round trip takes %s", precise(d.roundtrip))}
}

// refusalExplained reports whether another check tells why the pool refuses to work, which the server itself does not.
func refusalExplained(d *database, all *examination) bool {
	var setting *hare.ConfigurationError
	if !errors.As(d.refused, &setting) || setting.Option == "" {
		return false
	}
	return slices.ContainsFunc(slices.Concat(pooler(d, all), directAddress(d, all), guards(d, all)), func(f Finding) bool { return f.State == Failure })
}

// lookAtPools is how to see that a pooler is full, and what to do then.
const lookAtPools = "cl_waiting in SHOW POOLS of PgBouncer's console tells it. End what keeps them, or raise default_pool_size"

func unreachable(err error) Finding {
	f := found(Failure, "%s", says(err))
	var (
		wrong *hare.ConfigurationError
		full  *hare.PoolTimeoutError
	)
	switch {
	case errors.As(err, &wrong):
		f.Mend = "correct the connection's URL in the configuration, or what the server allows"
	case errors.As(err, &full):
		f.Mend = "raise max_size or the server's max_connections"
	default:
		f.Mend = "see that the server, and the pooler before it, run and answer at the address in the configuration"
		var refused *hare.DatabaseError
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			f.Value = "no answer in time: " + f.Value
			f.Mend += ". A pooler of which all server connections are lent keeps others waiting just so: " + lookAtPools
		case errors.As(err, &refused) && refused.SQLState == "08P01": // protocol_violation, PgBouncer's own answer whatever is wrong
			f.Mend = "it is most likely a pooler that says so. One that is full does (query_wait_timeout: all its server connections are lent; no more connections: max_client_conn is reached): " + lookAtPools
		}
	}
	return f
}

func pooler(d *database, _ *examination) []Finding {
	if d.path == nil {
		if d.pathErr == nil || d.failed[reaching] != nil {
			return nil // the backend does not look, or there is nothing to be seen
		}
		f := unreachable(d.pathErr)
		f.Value = "not known: " + f.Value
		return []Finding{f}
	}
	return []Finding{judgePath(*d.path)}
}

// judgePath compares what was seen with what the URL says.
func judgePath(p backend.Path) Finding {
	said := "the URL says nothing of it"
	if p.Told != nil {
		said = fmt.Sprintf("the URL says transaction_pooling=%t", *p.Told)
	}
	f := found(OK, "%s (%s); %s", poolings[p.Pooler], p.Evidence, said)
	shared := p.Pooler == backend.PoolingTransaction || p.Pooler == backend.PoolingUnknown
	switch {
	case p.Told != nil && !*p.Told && p.Pooler == backend.PoolingTransaction:
		f.State = Failure
		f.Mend = "take transaction_pooling=false out of the URL, or lead the URL past the pooler: hare refuses to work"
	case p.Told != nil && *p.Told && !shared:
		f.State = Warning
		f.Why = "statements are sent anew each time, and statements that need a session are refused, without need"
		f.Mend = "take transaction_pooling=true out of the URL"
	case p.Told != nil && !*p.Told && p.Pooler == backend.PoolingUnknown:
		f.State = Warning
		f.Mend = "as the URL says it is taken for one in session mode, and nothing shows that it is: give its pool five connections at least, or run hare doctor when it has them free"
	case p.Pooler == backend.PoolingUnknown:
		f.State = Warning
		f.Mend = "it is taken for one in transaction mode. If it is one, say so: transaction_pooling=true in the URL; if not, say transaction_pooling=false, or give its pool five connections at least, so that it can be seen"
	case shared && p.Direct == "":
		f.State = Warning
		f.Why = "recovery and leases wait for a place in the pooler like everything else: when it is full they cannot work"
		f.Mend = "give the server's own address in the URL: transaction_pooling=true&direct_host=HOST&direct_port=PORT"
	}
	return f
}

var poolings = map[backend.Pooling]string{
	backend.PoolingNone:        "no pooler",
	backend.PoolingSession:     "a pooler in session mode",
	backend.PoolingTransaction: "a pooler in transaction mode",
	backend.PoolingUnknown:     "a pooler in a mode that could not be seen",
}

func directAddress(d *database, _ *examination) []Finding {
	if d.path == nil || d.path.Direct == "" {
		return nil
	}
	if d.pathErr != nil {
		f := found(Failure, "cannot be used: %s", says(d.pathErr))
		f.Mend = "see that the server answers there, and correct direct_host and direct_port in the URL"
		return []Finding{f}
	}
	if d.path.DirectElsewhere {
		f := found(Failure, "%s leads to another database than the pooler does", d.path.Direct)
		f.Mend = "correct direct_host and direct_port in the URL: recovery and leases would work in the wrong database, and hare refuses to work"
		return []Finding{f}
	}
	return []Finding{found(OK, "%s leads to the same database", d.path.Direct)}
}

// guards compares what the URL asks for with what the server has.
func guards(d *database, _ *examination) (findings []Finding) {
	if d.path == nil || len(d.path.Guards) == 0 {
		return nil
	}
	var held []string
	for _, g := range d.path.Guards {
		if g.InForce() {
			held = append(held, g.Name+" = "+spell(g.Name, g.Found))
			continue
		}
		f := found(Failure, "%s: the URL asks for %s, the server has %s", g.Name, spell(g.Name, g.Asked), spell(g.Name, g.Found))
		f.Mend = "make it a default of the role, and let the pooler open new connections (RECONNECT in PgBouncer's console); or take it out of the URL, and set it in each transaction (transactions.StatementTimeout, SET LOCAL):"
		if !isTimeout(g.Name) {
			f.Why = "names without a schema would be looked for elsewhere than the URL says; hare refuses to work"
			if g.Name == "synchronous_commit" {
				f.Why = "a commit would wait for something else than the URL says; hare refuses to work"
			}
			f.Mend = "make it a default of the role, and let the pooler open new connections (RECONNECT in PgBouncer's console); or take it out of the URL, and set it in each transaction (SET LOCAL):"
		}
		f.SQL = d.roleDefault(g.Name, assignment(g))
		if f.SQL == nil {
			f.Mend = strings.TrimSuffix(f.Mend, ":") + ". A default of the role is set on the primary, and reaches the standby from there"
		}
		findings = append(findings, f)
	}
	if len(held) > 0 {
		findings = append(findings, found(OK, "in force: %s", strings.Join(held, ", ")))
	}
	return findings
}

// guard is a guard of the URL by its name, or nil.
func (d *database) guard(name string) *backend.Guard {
	if d.path == nil {
		return nil
	}
	if i := slices.IndexFunc(d.path.Guards, func(g backend.Guard) bool { return g.Name == name }); i >= 0 {
		return &d.path.Guards[i]
	}
	return nil
}

// assignment is the value of a guard as ALTER ROLE takes it: a list of schemas as the URL has it, a number of milliseconds
// as text.
func assignment(g backend.Guard) string {
	if isTimeout(g.Name) {
		return plaintext.Literal(g.Asked + "ms")
	}
	return g.Asked
}

// roleDefault makes a setting a default of the role in this database, which wins over the defaults of the role, the
// database and the server. The role may do it itself. A standby cannot; it gets what its primary has.
func (d *database) roleDefault(name, value string) []string {
	if d.server.Role == "" || d.server.Standby {
		return nil
	}
	return []string{fmt.Sprintf("ALTER ROLE %s IN DATABASE %s SET %s = %s", plaintext.Name(d.server.Role), plaintext.Name(d.server.Database), name, value)}
}
