package transactions

import (
	"context"
	"log/slog"
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
// back what is not and never will be. [RunRecoverer] does the same in the background.
//
// It may run at any time, twice at once and beside live calls. It touches only transactions of this coordinator's
// database. What fails stands in the Report and stops nothing else; the error is for what prevents a Report: a wrong
// option ([*hare.QueryError]), the coordinator is not configured ([*hare.ConfigurationError]), has no two-phase commit
// ([*features.UnsupportedError]), is a copy or a standby ([*hare.ConfigurationError]), or does not answer.
func Recover(ctx context.Context, coordinator string, opts ...RecoverOption) (Report, error) {
	set, err := readRecover(opts)
	if err != nil {
		return Report{}, err
	}
	connections, client, err := coordinatorOf(ctx, coordinator)
	if err != nil {
		return Report{}, err
	}
	r := &recovery{recoverSettings: set, grace: set.olderThan}
	report, err := r.run(ctx, connections, client)
	for _, e := range report.Entries {
		if e.State != StateNeeded {
			level, message, attrs := e.event()
			set.logger.LogAttrs(ctx, level, message, append(attrs, slog.String("coordinator", report.Coordinator))...)
		}
	}
	return report, err
}

// coordinatorOf finds the connection of a coordinator and refuses one that cannot be any.
func coordinatorOf(ctx context.Context, alias string) (*hare.Connections, *hare.Client, error) {
	connections, err := hare.FromContext(ctx)
	if err != nil {
		return nil, nil, err
	}
	client, err := connections.Client(alias)
	if err != nil {
		return nil, nil, err
	}
	return connections, client, features.Require(client.Alias(), client.Features(), features.TwoPhaseCommit)
}

// recovery is one run.
type recovery struct {
	*recoverSettings
	grace      time.Duration // how long what no living call owns is left alone
	background bool          // the run is a pass of RunRecoverer
	keepOld    bool          // old rows are not looked for
	hanging    bool          // a decision hangs in its COMMIT: the fence has waited for one long enough, and waits for no other
	soon       bool          // something is young that no living call is known to own

	alias     string
	id        string       // of the coordinator's database
	is        server       // what that is
	conn      backend.Conn // to it
	found     []*found     // the other databases
	decisions map[string]*decision
	report    Report
}

func (r *recovery) run(ctx context.Context, connections *hare.Connections, client *hare.Client) (report Report, err error) {
	r.alias, r.report.Coordinator = client.Alias(), client.Alias()
	defer func() { r.observe(ctx, err) }()
	if err := r.meet(ctx, client); err != nil {
		return r.report, err
	}
	defer r.conn.Release()
	r.report.ID = r.id
	if r.id == "" { // it has never coordinated anything
		return r.report, r.missingXID()
	}
	r.list(ctx, connections)
	defer r.close()
	if err := r.findLive(ctx); err != nil {
		return r.report, err
	}
	if err := r.lookUp(ctx); err != nil {
		return r.report, err
	}
	if r.forget != "" {
		return r.report, r.giveUp(ctx)
	}
	ctx, done := r.startPass(ctx)
	defer done()
	r.settle(ctx, r.finish)
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
		r.id, err = readCoordinatorID(ctx, r.alias, client.Database(), conn, is.identity)
	}
	if err == nil {
		err = r.describeCoordinator(ctx, conn, is)
	}
	if err != nil {
		conn.Release()
		return err
	}
	r.conn, r.is = conn, is
	return nil
}

// describeCoordinator notes what is prepared on the coordinator's own server.
func (r *recovery) describeCoordinator(ctx context.Context, conn backend.Conn, is server) error {
	f := &found{alias: r.alias, conn: conn, is: is}
	err := r.listPrepared(ctx, f)
	r.report.Databases = append(r.report.Databases, f.state)
	return err
}
