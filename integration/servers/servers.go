// Package servers starts the PostgreSQL servers that tests, the demo and the benchmarks run on, and is the one place
// that does.
//
// There are three ways to a server, see [Choose]: servers that are there already (their URLs in the environment),
// containers, and processes of locally installed binaries. Most tests want a fresh database and do not care which
// server it is on ([Database], [Databases]); a test that kills, pauses or restarts its server starts one of its own
// ([Start]).
//
// Every server listens on 127.0.0.1 only, has a random password, and is gone after [Server.Close]. What a crashed test
// process leaves behind goes, too: on Linux a local server dies with the process that started it, a container dies when
// its time is over, and the next start removes what remains of both.
//
// It works on Linux and macOS.
package servers

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// Superuser is the role that URLs log in with on servers started here.
const Superuser = "hare"

// startTimeout bounds the way from the start of a server to its first answer, a crash recovery included.
const startTimeout = 3 * time.Minute

// Options says what server to start. The zero value is a server with durable commits, chosen as [Choose] does.
type Options struct {
	// Name tells the server from others in names of containers and directories. Default: "test".
	Name string
	// Way is Docker or Local. Default: as [Choose] does without URLs, for a server named in a URL belongs to
	// somebody else and cannot be killed.
	Way Way
	// Settings are added to the server's configuration and win over the defaults, among them
	// max_prepared_transactions=64. An empty value takes a default away, so that ALTER SYSTEM can set it.
	Settings map[string]string
	// Fast trades durability for speed: fsync, synchronous_commit and full_page_writes are off. Data still survives
	// [Server.Kill], which kills processes and not the machine.
	Fast bool
	// Volatile is Fast with the data in memory, where the machine has memory to lend. A container that stops loses them, so
	// that it is for servers that are neither killed nor restarted.
	Volatile bool
	// StandbyOf makes the server a standby of another one: a copy of what that has now, in recovery. It stays behind until it
	// is promoted ([Server.Promote]), if it is not told to follow ([Server.Follow]). It runs the way of the other one.
	StandbyOf *Server
	// Life is after how long a container kills itself, should nobody have closed it. A restart begins it anew.
	// Default: 2 hours.
	Life time.Duration
}

// Server is one running PostgreSQL server. Its methods may be called from several goroutines, but stopping and starting
// at the same time has no defined result.
type Server struct {
	name     string
	way      Way
	port     int
	password string
	machine  machine
}

// machine is how a server runs: in a container or as a process.
type machine interface {
	// start starts the server on the data it has, making the data first if there is none, and does not wait until
	// it answers.
	start(ctx context.Context) error
	// stop ends all sessions, shuts the server down in order and waits for its end.
	stop(ctx context.Context) error
	// kill ends every process of the server at once and waits for their end.
	kill(ctx context.Context) error
	pause(ctx context.Context) error
	resume(ctx context.Context) error
	running() bool
	// address is where another server that runs the same way reaches this one.
	address() (host string, port int, err error)
	// log is the end of what the server has written to its log.
	log() string
	// remove ends the server, if it runs, and removes all that is left of it.
	remove() error
}

// spec is what a machine has to know of its server.
type spec struct {
	name     string
	port     int
	password string
	settings []string // name=value, sorted
	life     time.Duration
	volatile bool
	primary  *primary // nil: no standby
}

// primary is where a standby copies its data from.
type primary struct {
	host string
	port int
}

// Start starts a server and waits until it answers. The caller must close it.
func Start(ctx context.Context, opts Options) (*Server, error) {
	way, password := opts.Way, rand.Text()
	var copied *primary
	if opts.StandbyOf != nil {
		host, port, err := opts.StandbyOf.machine.address()
		if err != nil {
			return nil, err
		}
		way, password, copied = opts.StandbyOf.way, opts.StandbyOf.password, &primary{host: host, port: port}
	}
	if way == "" {
		var err error
		if way, err = chooseOwn(ctx); err != nil {
			return nil, err
		}
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &Server{name: cmp.Or(opts.Name, "test"), way: way, port: port, password: password}
	spec := spec{
		name:     s.name,
		port:     port,
		password: s.password,
		settings: settings(opts),
		life:     cmp.Or(opts.Life, 2*time.Hour),
		volatile: opts.Volatile,
		primary:  copied,
	}
	switch way {
	case Docker:
		s.machine, err = newContainer(ctx, spec)
	case Local:
		s.machine, err = newProcess(ctx, spec)
	default:
		err = fmt.Errorf("a server of one's own cannot be started the way %q", way)
	}
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.machine.remove())
	}
	return s, nil
}

// settings are the configuration of a server, sorted.
func settings(opts Options) []string {
	all := map[string]string{
		"max_prepared_transactions": "64",
		"max_connections":           "200",
		// Shared memory in files of the data directory cannot outlive a killed server.
		"dynamic_shared_memory_type": "mmap",
		// hare's sessions are always UTC; a server that is far from it shows when one is not.
		"timezone": "Asia/Kathmandu",
	}
	if opts.Fast || opts.Volatile {
		for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
			all[name] = "off"
		}
	}
	if opts.Volatile {
		all["max_wal_size"] = "256MB" // of memory
	}
	maps.Copy(all, opts.Settings)
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, name+"="+all[name])
	}
	return list
}

// freePort is a port of 127.0.0.1 that nothing listens on. It lies below the ports that systems give to outgoing
// connections, so that it is still free when a server that was killed starts again.
func freePort() (int, error) {
	for range 100 {
		port := 15000 + mathrand.IntN(17000)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		return port, listener.Close()
	}
	return 0, errors.New("no free port on 127.0.0.1")
}

// Way is how the server runs.
func (s *Server) Way() Way { return s.way }

// URL is the URL of a database on the server; it stays the same over restarts.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(Superuser, s.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// CreateDatabase creates an empty database and returns its URL.
func (s *Server) CreateDatabase(ctx context.Context, name string) (string, error) {
	if err := s.Exec(ctx, "postgres", "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", err
	}
	return s.URL(name), nil
}

// Exec runs SQL, which may be several statements, in a database through a connection of its own.
func (s *Server) Exec(ctx context.Context, database, sql string) error {
	return execSQL(ctx, s.URL(database), sql)
}

// Stop shuts the server down in order, ending all sessions (PostgreSQL's "fast" shutdown), and waits for its end.
func (s *Server) Stop(ctx context.Context) error { return s.machine.stop(ctx) }

// Kill ends every process of the server at once, as kill -9 does, and waits until they are gone. The data survives;
// [Server.Restart] recovers it.
func (s *Server) Kill(ctx context.Context) error { return s.machine.kill(ctx) }

// Pause freezes every process of the server: connections stay open and nothing answers.
func (s *Server) Pause(ctx context.Context) error { return s.machine.pause(ctx) }

// Resume lets a paused server go on.
func (s *Server) Resume(ctx context.Context) error { return s.machine.resume(ctx) }

// Restart stops the server, if it runs, starts it again on the same data and the same port, and waits until it answers.
func (s *Server) Restart(ctx context.Context) error {
	if s.machine.running() {
		if err := s.Stop(ctx); err != nil {
			return err
		}
	}
	return s.start(ctx)
}

// Close ends the server, whatever state it is in, and removes its data.
func (s *Server) Close() error { return s.machine.remove() }

// startTries is how often a start is tried again: a process of a server that was killed may have its memory for a moment
// still, and the server does not start beside it.
const startTries = 20

// again starts a machine once more that has ended at once.
func (s *Server) again(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(100 * time.Millisecond):
		return s.machine.start(ctx)
	}
}

// start starts the machine and waits until the server answers.
func (s *Server) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.machine.start(ctx); err != nil {
		return err
	}
	for tries := 0; ; {
		err := execSQL(ctx, s.URL("postgres"), "SELECT 1")
		if err == nil {
			return nil
		}
		if !s.machine.running() && tries < startTries && s.again(ctx) == nil {
			tries++
			continue
		}
		if !s.machine.running() || ctx.Err() != nil {
			return fmt.Errorf("the %s PostgreSQL server did not start: %w\n%s", s.way, err, s.machine.log())
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// execSQL runs SQL through a connection of its own.
func execSQL(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}
