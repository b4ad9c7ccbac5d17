package surface

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	_ "github.com/hare-go/hare/backends/postgres"
	_ "github.com/hare-go/hare/backends/sqlite"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/query"
)

// model is a model whose calls are right, but for what a test makes wrong of them.
type model struct {
	ID   int64
	Name string
}

// world is what right arguments are made of: databases that count what is asked of them, and answer nothing.
type world struct {
	ctx       context.Context
	conns     *hare.Connections
	closed    *hare.Connections
	noContext context.Context   // nil
	lite      *hare.Connections // whose database answers
	ran       atomic.Bool       // a callback has been called
}

// asked counts the connections that were asked for.
var asked atomic.Int64

func init() { backend.Register(countingDriver{}, "counting") }

// countingDriver is PostgreSQL whose databases count instead of connecting.
type countingDriver struct{ backend.Driver }

func (countingDriver) Open(cfg backend.Config) (backend.Database, error) {
	d, _ := backend.Lookup("postgres")
	cfg.URL = "postgres" + cfg.URL[len("counting"):]
	db, err := d.Open(cfg)
	return &countingDatabase{Database: db}, err
}

type countingDatabase struct {
	backend.Database
	closed atomic.Bool
}

var errNoServer = errors.New("there is no server")

func (d *countingDatabase) Acquire(context.Context) (backend.Conn, error) { return nil, d.count() }
func (d *countingDatabase) Dial(context.Context) (backend.Conn, error)    { return nil, d.count() }

func (d *countingDatabase) count() error {
	if d.closed.Load() {
		return &backend.Error{Class: backend.ClassConnection, Message: "closed", NotDone: true, Err: backend.ErrClosed}
	}
	asked.Add(1)
	return &backend.Error{Class: backend.ClassConnection, Message: errNoServer.Error(), NotDone: true, Err: errNoServer}
}

func (d *countingDatabase) Close() {
	d.closed.Store(true)
	d.Database.Close()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{conns: open(t), closed: open(t)}
	w.closed.Close()
	lite, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"c": "sqlite::memory:"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lite.Close)
	w.lite = lite
	w.ctx = hare.WithConnections(t.Context(), w.conns)
	return w
}

func open(t *testing.T) *hare.Connections {
	t.Helper()
	conns, err := hare.Open(t.Context(), hare.Config{Default: "c", Connections: map[string]string{
		"a": "counting://u@127.0.0.1:1/a", "c": "counting://u@127.0.0.1:1/c",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conns.Close)
	return conns
}

// clientOf is the client of the coordinator's alias.
func clientOf(conns *hare.Connections) *hare.Client {
	client, err := conns.Client("c")
	if err != nil {
		panic(err)
	}
	return client
}

// row is rows that stand at the first one.
func (w *world) row() *hare.Rows {
	rows, err := clientOf(w.lite).Query(w.ctx, "SELECT 1")
	if err != nil {
		panic(err)
	}
	rows.Next()
	return rows
}

// rows and leases of the world.
var models = hare.Objects[model]()

func leaseOf(conns *hare.Connections) *leases.Lease {
	return leases.New(clientOf(conns), "lease", leases.Options{})
}

// refusedSet reports what a queryset's terminal method says.
func refusedSet(ctx context.Context, set hare.QuerySet[model]) error {
	_, err := set.All(ctx)
	return err
}

// refusedPredicate reports what a queryset says that is filtered by the predicate.
func refusedPredicate(ctx context.Context, p query.Predicate) error {
	return refusedSet(ctx, models.Filter(p))
}
