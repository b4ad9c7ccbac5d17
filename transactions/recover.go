package transactions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
)

// # Why recovery is safe at any age
//
// Recovery finds a prepared transaction without a decision. Its call may have died, or be paused for an hour and commit
// its decision a moment later; no age can tell. So recovery never concludes: before any ROLLBACK PREPARED it commits an
// abort row under the key that the decision would have. The late decision then violates the key, and its call sees a
// clean abort.
//
// The order matters too: prepared transactions are listed first and decisions looked up afterwards, by key, whatever
// their age and whether resolved or not. Read the other way round, a decision that lands in between is missed, and
// committed work rolled back.

// Recover looks for distributed transactions of a coordinator that a crash has left unfinished, in every configured
// database that has two-phase commit, and finishes them when [Finish] is given: it commits what is decided, and rolls
// back what is not and never will be.
//
// It may run at any time, twice at once and beside live calls. It touches only transactions of this coordinator's
// database. What fails stands in the Report and stops nothing else; the error is for what prevents a Report: the
// coordinator is not configured ([*hare.ConfigurationError]), has no two-phase commit ([*features.UnsupportedError]), is
// a copy or a standby ([*hare.ConfigurationError]), or does not answer.
func Recover(ctx context.Context, coordinator string, opts ...RecoverOption) (Report, error) {
	r := &recovery{olderThan: 300 * time.Second, participantTime: 30 * time.Second, retention: 7 * 24 * time.Hour}
	for _, opt := range opts {
		opt(r)
	}
	return r.run(ctx, coordinator)
}

// recovery is one run.
type recovery struct {
	finish                                bool
	olderThan, participantTime, retention time.Duration

	alias     string
	id        string       // of the coordinator's database
	conn      backend.Conn // to it
	found     []*found     // the other databases
	decisions map[string]*decision
	report    Report
}

func (r *recovery) run(ctx context.Context, coordinator string) (Report, error) {
	connections, err := hare.FromContext(ctx)
	if err != nil {
		return Report{}, err
	}
	client, err := connections.Client(coordinator)
	if err != nil {
		return Report{}, err
	}
	if r.olderThan < 0 {
		return Report{}, &hare.QueryError{Reason: fmt.Sprintf("OlderThan(%s): an age is not negative", r.olderThan)}
	}
	if err := features.Require(client.Alias(), client.Features(), features.TwoPhaseCommit); err != nil {
		return Report{}, err
	}
	r.alias, r.report.Coordinator = client.Alias(), client.Alias()
	if err := r.meet(ctx, client); err != nil {
		return r.report, err
	}
	defer r.conn.Release()
	if r.id == "" { // it has never coordinated anything
		return r.report, nil
	}
	r.list(ctx, connections)
	defer r.close()
	if err := r.lookUp(ctx); err != nil {
		return r.report, err
	}
	r.settle(ctx)
	if err := r.resolve(ctx); err != nil {
		return r.report, err
	}
	return r.report, r.purge(ctx)
}

// meet connects to the coordinator and makes sure that it is the database that made the decisions.
func (r *recovery) meet(ctx context.Context, client *hare.Client) error {
	ctx, cancel := context.WithTimeout(ctx, r.participantTime)
	defer cancel()
	conn, err := client.Database().Dial(ctx)
	if err != nil {
		return hare.ErrorFrom(r.alias, "", err)
	}
	is, err := ask(ctx, r.alias, conn)
	if err == nil {
		err = is.fit(r.alias, false)
	}
	if err == nil {
		r.id, err = readCoordinatorID(ctx, r.alias, conn, is.identity)
	}
	if err != nil {
		conn.Release()
		return err
	}
	r.conn = conn
	return nil
}

// found is what one database holds.
type found struct {
	alias    string
	db       backend.Database
	is       identity
	conn     backend.Conn
	prepared []*Entry // of this coordinator's database
	err      error    // why it could not be looked at
}

const listSQL = `SELECT gid, owner::text, extract(epoch FROM clock_timestamp() - prepared)::float8 FROM pg_prepared_xacts WHERE database = current_database() AND gid LIKE 'hare\_dtx\_%' ORDER BY prepared`

// list lists the prepared transactions of every other database, all at once, each within its own time.
func (r *recovery) list(ctx context.Context, connections *hare.Connections) {
	for _, alias := range connections.Aliases() {
		client, err := connections.Client(alias)
		if err == nil && alias != r.alias && client.Features().SupportsTwoPhaseCommit {
			r.found = append(r.found, &found{alias: alias, db: client.Database()})
		}
	}
	r.eachFound(ctx, func(ctx context.Context, f *found) { f.err = r.listOne(ctx, f) })
	r.found = slices.DeleteFunc(r.found, func(f *found) bool {
		if f.err != nil {
			r.report.Unreachable = append(r.report.Unreachable, Unreachable{Alias: f.alias, Err: f.err})
			f.release()
		}
		return f.err != nil
	})
	// Two aliases may lead to one database: what it holds is there once.
	seen := map[identity]bool{}
	for _, f := range r.found {
		key := identity{System: f.is.System, OID: f.is.OID}
		if seen[key] {
			f.prepared = nil
		}
		seen[key] = true
	}
}

// eachFound runs step on all databases at once, each within its own time.
func (r *recovery) eachFound(ctx context.Context, step func(ctx context.Context, f *found)) {
	together(r.found, func(f *found) error {
		inTime, cancel := context.WithTimeout(ctx, r.participantTime)
		defer cancel()
		step(inTime, f)
		return nil
	})
}

func (r *recovery) listOne(ctx context.Context, f *found) error {
	conn, err := f.db.Dial(ctx)
	if err != nil {
		return hare.ErrorFrom(f.alias, "", err)
	}
	f.conn = conn
	is, err := ask(ctx, f.alias, conn)
	if err != nil {
		return err
	}
	f.is = is.identity
	rows, err := queryValues(ctx, conn, backend.Call{SQL: listSQL})
	if err != nil {
		return hare.ErrorFrom(f.alias, listSQL, err)
	}
	for _, row := range rows {
		gid, _ := row[0].(string)
		owner, _ := row[1].(string)
		age, _ := row[2].(float64)
		if xid, _, ok := splitGID(r.id, gid); ok {
			f.prepared = append(f.prepared, &Entry{XID: xid, Alias: f.alias, GID: gid, Owner: owner, Age: seconds(age), State: StateNeeded})
		}
	}
	if is.standby && len(f.prepared) > 0 {
		return is.fit(f.alias, false)
	}
	return nil
}

func (r *recovery) close() {
	for _, f := range r.found {
		f.release()
	}
}

func (f *found) release() {
	if f.conn != nil {
		f.conn.Release()
	}
}

// settle finds out what each prepared transaction needs and, with Finish, does it.
func (r *recovery) settle(ctx context.Context) {
	r.fenceAll(ctx)
	r.eachFound(ctx, func(ctx context.Context, f *found) {
		for _, e := range f.prepared {
			if e.Action != "" && e.State == StateNeeded && r.finish {
				r.finishOne(ctx, f, e)
			}
		}
	})
	for _, f := range r.found {
		for _, e := range f.prepared {
			if e.Action != "" {
				r.report.Entries = append(r.report.Entries, *e)
			}
		}
	}
}

// fenceAll decides about each prepared transaction, one after the other on the coordinator's connection. An entry that
// keeps no action is too young.
func (r *recovery) fenceAll(ctx context.Context) {
	for _, f := range r.found {
		for _, e := range f.prepared {
			d := r.decisions[e.XID]
			switch {
			case d == nil && r.young(e.Age), d != nil && d.commit && !d.resolved && r.young(d.age):
				r.report.Young++
			case d == nil && r.finish:
				r.fence(ctx, e)
			case d == nil:
				e.Action, e.Reason = ActionRollback, "no decision: its call died before it decided, and recovery makes sure that it never will"
			default:
				e.follow(d, f)
			}
		}
	}
}

// young reports whether something is to be left to its call. At an age limit of 0 nothing is, not even what seems to come
// from the future because a clock was set back.
func (r *recovery) young(age time.Duration) bool { return r.olderThan > 0 && age < r.olderThan }

// fence makes sure of the end of a transaction that had no decision when it was looked up.
func (r *recovery) fence(ctx context.Context, e *Entry) {
	ctx, cancel := context.WithTimeout(ctx, r.participantTime)
	defer cancel()
	alias, _ := splitXID(r.id, e.XID)
	committed, err := fence(ctx, r.conn, e.XID, alias)
	switch {
	case err != nil:
		e.Action, e.State = ActionNone, StateFailed
		e.Err = hare.ErrorFrom(r.alias, "INSERT INTO "+decisionsTable, err)
		e.Reason = "no decision, and its abort could not be written"
	case committed:
		e.Action, e.Reason = ActionCommit, "the decision to commit came while recovery was looking"
	default:
		e.Action, e.Reason = ActionRollback, "no decision, and there never will be: its abort is written"
		r.decisions[e.XID] = &decision{xid: e.XID, resolved: true}
	}
}

// follow gives the entry what its decision asks for, if the decision is about this very database.
func (e *Entry) follow(d *decision, f *found) {
	if !d.commit {
		e.Action, e.Reason = ActionRollback, "its abort is written"
		return
	}
	e.Action, e.Reason = ActionCommit, "the decision to commit is durable"
	if p, ok := d.participant(e.GID); ok && !p.same(f.is) {
		e.Action, e.State = ActionNone, StateFailed
		e.Err = fmt.Errorf("%w: it was prepared in %s, and this is %s", errOtherServer, p.identity, f.is)
		e.Reason = "this is not the database that prepared it: it is a copy, or the alias leads elsewhere"
	}
}

// finishOne does what an entry needs.
func (r *recovery) finishOne(ctx context.Context, f *found, e *Entry) {
	err := persistBusy(ctx, func() error {
		if e.Action == ActionRollback {
			return finishPrepared(ctx, f.conn, "ROLLBACK", e.GID)
		}
		p, ok := prepared{}, false
		if d := r.decisions[e.XID]; d != nil {
			p, ok = d.participant(e.GID)
		}
		if !ok {
			p = prepared{GID: e.GID}
		}
		return commitDecided(ctx, f.conn, p)
	})
	switch {
	case err == nil:
		e.State = StateDone
	case errors.Is(err, errGone):
		e.State, e.Reason = StateGone, "it was finished meanwhile"
	case errors.Is(err, errRolledBack):
		e.State, e.Err = StateMixed, err
	case backend.SQLState(err) == "42501":
		e.State, e.Err = StateFailed, hare.ErrorFrom(f.alias, "", err)
		e.Reason += fmt.Sprintf("; only its owner %q or a superuser may finish it: run recovery with a connection of that role", e.Owner)
	default:
		e.State, e.Err = StateFailed, hare.ErrorFrom(f.alias, "", err)
	}
}

// persistBusy repeats act while somebody else is finishing the same transaction.
func persistBusy(ctx context.Context, act func() error) error {
	for pause := firstTryPause; ; pause = min(2*pause, lastTryPause) {
		err := act()
		if backend.SQLState(err) != "55000" && !errors.Is(err, errAtWork) || sleep(ctx, pause) != nil {
			return err
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// queryValues reads all rows of a query on one connection.
func queryValues(ctx context.Context, conn backend.Conn, call backend.Call) ([][]any, error) {
	rows, err := conn.Query(ctx, call)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all [][]any
	for rows.Next() {
		row, err := rows.Values()
		if err != nil {
			return nil, err
		}
		all = append(all, slices.Clone(row))
	}
	return all, rows.Close()
}

// describeAliases lists the aliases of branches, for messages.
func (r *recovery) describeAliases() string {
	aliases := make([]string, len(r.found))
	for i, f := range r.found {
		aliases[i] = f.alias
	}
	return strings.Join(aliases, ", ")
}
