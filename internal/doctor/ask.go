package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/tables"
)

// database is one database, and what it has answered.
type database struct {
	alias   string
	url     string
	db      backend.Database
	options Options

	conn      backend.Conn
	refused   error              // why the pool gives no connection; conn is then another one, or nil
	lenient   *hare.Connections  // what gave conn, where the pool refused for what the URL asks for
	path      *backend.Path      // what lies between; nil where that cannot be seen
	pathErr   error              // why it cannot, or, with a path, why the direct address cannot be reached
	roundtrip time.Duration      // the shortest seen
	offset    time.Duration      // of the server's clock from this machine's
	failed    map[question]error // questions without an answer
	settings  map[string]setting // by name
	server    server
	identity  identity
	prepared  []prepared
	tables    rights
	unknown   map[string]error // why it is not known whether a table is hare\'s, by its name
	relations tables.Found     // what is there under the names of hare's tables
	schemas   []schema         // of the session's search_path
	made      []coordinatorRow // the row of the coordinator's table, if there is one
	waiting   []decision
	delivered bool // recovery finds that every old decision has been followed everywhere
	standbys  []standby
	leases    []lease
}

// question is something to ask a server. A check that needs its answer names it.
type question string

const (
	reaching     question = "reaching"
	clock        question = "clock"
	serverIs     question = "server"
	identityIs   question = "identity"
	settingsAre  question = "settings"
	preparedAre  question = "prepared"
	tablesAre    question = "tables"
	schemasAre   question = "schemas"
	coordinates  question = "coordinator"
	decisionsAre question = "decisions"
	standbysAre  question = "standbys"
	leasesAre    question = "leases"
)

// questions are all of them, in the order in which they are asked.
var questions = []struct {
	question
	ask func(ctx context.Context, d *database) error
}{
	{clock, askClock},
	{settingsAre, askSettings},
	{serverIs, askServer},
	{identityIs, askIdentity},
	{preparedAre, askPrepared},
	{tablesAre, askTables},
	{schemasAre, askSchemas},
	{coordinates, askCoordinator},
	{decisionsAre, askDecisions},
	{standbysAre, askStandbys},
	{leasesAre, askLeases},
}

// errUnanswered is why a question was not asked any more.
var errUnanswered = errors.New("not asked: the connection was lost, or the time for this database was over")

// examine asks a database everything. A question that fails spoils no other one.
func (d *database) examine(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, d.options.Within)
	defer cancel()
	d.failed = map[question]error{}
	d.observe(ctx)
	if err := d.connect(ctx); err != nil {
		d.failed[reaching] = err
		return
	}
	defer func() {
		d.conn.Release()
		if d.lenient != nil {
			d.lenient.Close()
		}
	}()
	for _, q := range questions {
		if d.conn.Status() == backend.StatusClosed {
			d.failed[q.question] = errUnanswered
			continue
		}
		if err := q.ask(ctx, d); err != nil {
			d.failed[q.question] = err
		}
	}
}

// observe looks at what lies between the pool and the server.
func (d *database) observe(ctx context.Context) {
	observer, ok := d.db.(backend.Observer)
	if !ok {
		return
	}
	ctx, cancel := d.part(ctx)
	defer cancel()
	path, err := observer.Observe(ctx)
	d.pathErr = hare.ErrorFrom(d.alias, "", err)
	if path.Pooler != "" {
		d.path = &path
	}
}

// connect takes a connection of the pool. A pool that gives none, because the server does not keep to what the URL asks for
// or because a pooler in between has none to give, is a finding. The rest is then asked on a connection that goes the same
// way and does not ask for that, or on one beside the pool.
func (d *database) connect(ctx context.Context) error {
	conn, err := d.acquire(ctx, d.db)
	if err == nil {
		d.conn = conn
		return nil
	}
	d.refused = hare.ErrorFrom(d.alias, "", err)
	if lenient, err := d.leniently(ctx); err == nil {
		d.conn = lenient
		return nil
	}
	conn, err = d.db.Dial(ctx)
	if err != nil {
		return d.refused
	}
	d.conn = conn
	return nil
}

func (d *database) acquire(ctx context.Context, db backend.Database) (backend.Conn, error) {
	ctx, cancel := d.part(ctx)
	defer cancel()
	return db.Acquire(ctx)
}

// leniently opens the same URL without the options that the server does not keep to.
func (d *database) leniently(ctx context.Context) (backend.Conn, error) {
	var wrong *hare.ConfigurationError
	if !errors.As(d.refused, &wrong) || wrong.Option == "" || d.path == nil {
		return nil, d.refused
	}
	without := []string{wrong.Option}
	for _, g := range d.path.Guards {
		if !g.InForce() {
			without = append(without, g.Name)
		}
	}
	connections, err := hare.Open(ctx, hare.Config{Connections: map[string]string{d.alias: withoutOptions(d.url, without)}})
	if err != nil {
		return nil, err
	}
	client, err := connections.Client(d.alias)
	if err == nil {
		var conn backend.Conn
		if conn, err = d.acquire(ctx, client.Database()); err == nil {
			d.lenient = connections
			return conn, nil
		}
	}
	connections.Close()
	return nil, err
}

// withoutOptions takes options out of a URL. It is not parsed, since a list of hosts is in no URL that net/url knows.
func withoutOptions(address string, names []string) string {
	base, query, _ := strings.Cut(address, "?")
	options := slices.DeleteFunc(strings.Split(query, "&"), func(option string) bool {
		name, _, _ := strings.Cut(option, "=")
		if decoded, err := url.QueryUnescape(name); err == nil {
			name = decoded
		}
		return slices.Contains(names, name)
	})
	return base + "?" + strings.Join(options, "&")
}

// part bounds one step by half of what is left, so that a step that waits in vain leaves time for another way.
func (d *database) part(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, _ := ctx.Deadline()
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}

// reading opens the transactions in which is asked, and lockWait keeps them from waiting for somebody's ALTER TABLE.
const (
	reading  = `BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY`
	lockWait = `SET LOCAL lock_timeout = '2s'`
)

// rows asks for rows and decodes them into a slice of structs. It is one message, which a pooler takes to one server.
func (d *database) rows(ctx context.Context, into any, sql string, args ...any) error {
	sql = fmt.Sprintf(sql, args...)
	answer, err := d.message(ctx, asJSON(sql))
	if err != nil {
		return hare.ErrorFrom(d.alias, sql, err)
	}
	return decode(answer, into)
}

// message sends a statement in a transaction of its own, in which names are found in pg_catalog alone.
func (d *database) message(ctx context.Context, sql string) (backend.Answer, error) {
	answer, err := d.conn.Control(ctx, reading, tables.Path, lockWait, sql, "COMMIT")
	if err != nil && d.conn.Status() != backend.StatusClosed {
		_, _ = d.conn.Control(ctx, "ROLLBACK")
	}
	return answer, err
}

// asJSON also stands outside such a transaction, where any schema may come before pg_catalog.
func asJSON(sql string) string {
	return "SELECT coalesce(pg_catalog.json_agg(q), '[]')::pg_catalog.text FROM (" + sql + "\n) q"
}

func decode(answer backend.Answer, into any) error {
	if len(answer.Row) != 1 {
		return fmt.Errorf("the server answered with %d columns", len(answer.Row))
	}
	return json.Unmarshal([]byte(answer.Row[0]), into)
}

// one is rows for the one row that there must be.
func one[T any](ctx context.Context, d *database, into *T, sql string) error {
	var rows []T
	if err := d.rows(ctx, &rows, "%s", sql); err != nil {
		return err
	}
	if len(rows) != 1 {
		return fmt.Errorf("the server answered with %d rows", len(rows))
	}
	*into = rows[0]
	return nil
}
