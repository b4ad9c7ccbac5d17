package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"sync"
	"time"

	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/integration/servers"
)

// databases are the three, each on a server of its own, by the aliases under which workers know them.
var databases = []string{"a", "b", "c"}

// quirks are settings that each server has of its own, none of which may matter.
var quirks = map[string]map[string]string{
	"a": {"idle_in_transaction_session_timeout": "1s"},
	"b": {"max_prepared_transactions": "3"},
	// A default that must not reach what has to be durable, and as late a flush as can be.
	"c": {"synchronous_commit": "off", "wal_writer_delay": "10s"},
}

// mainDatabase is the name of the database on each server.
const mainDatabase = "chaos"

// cluster is the servers, and the network to them.
type cluster struct {
	servers    []*servers.Server // in the order of databases
	standbys   []*servers.Server // of the servers, where there are any
	poolers    []*servers.Pooler // before the servers, if there are to be any
	links      [][]*proxy.Proxy  // the network between a server and a worker, by both
	password   string            // of the workers' role
	failedOver map[string]bool   // databases whose standby has taken over
}

// roles are the workers' own, which is no superuser but on b, where it may then be anybody, and one that it can be for the
// length of a transaction.
const roles = `CREATE ROLE tenant; CREATE ROLE mover LOGIN %s PASSWORD '%s'; GRANT tenant TO mover`

// tables are what each database has besides hare's own.
const tables = `
SET ROLE mover;
CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0));
CREATE TABLE ledger (id bigserial PRIMARY KEY, call text NOT NULL, xid text NOT NULL, account bigint NOT NULL, amount bigint NOT NULL, refused boolean NOT NULL);
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = 'check_violation'; END $$;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.refused) EXECUTE FUNCTION refuse();
CREATE FUNCTION become(role text) RETURNS text LANGUAGE sql AS $$ SELECT set_config('role', role, true) $$;
GRANT SELECT, INSERT, UPDATE ON account, ledger TO tenant;
GRANT USAGE ON SEQUENCE ledger_id_seq TO tenant;
`

// startCluster starts the servers and makes the databases. The cluster must be closed even if it fails.
func startCluster(ctx context.Context, o options) (*cluster, error) {
	n := len(databases)
	c := &cluster{servers: make([]*servers.Server, n), standbys: make([]*servers.Server, n), poolers: make([]*servers.Pooler, n),
		links: make([][]*proxy.Proxy, n), password: rand.Text(), failedOver: map[string]bool{}}
	each := func(do func(n int) error) error {
		errs := make([]error, n)
		var wait sync.WaitGroup
		for n := range databases {
			wait.Go(func() { errs[n] = do(n) })
		}
		wait.Wait()
		return errors.Join(errs...)
	}
	if err := each(func(n int) error { return c.start(ctx, n, o) }); err != nil {
		return c, err
	}
	if err := c.makeTwins(ctx); err != nil {
		return c, err
	}
	return c, each(func(n int) error { return errors.Join(c.mirror(ctx, n, o), c.connect(ctx, n, o)) })
}

// start starts a server with its database.
func (c *cluster) start(ctx context.Context, n int, o options) (err error) {
	c.servers[n], err = servers.Start(ctx, servers.Options{Name: "chaos-" + databases[n], Settings: settings(n), Life: o.time + time.Hour})
	if err != nil {
		return err
	}
	attributes := "NOSUPERUSER"
	if databases[n] == "b" {
		attributes = "SUPERUSER"
	}
	money := fmt.Sprintf("INSERT INTO account SELECT n, %d FROM generate_series(1, %d) n", firstBalance, accountsEach)
	return c.exec(ctx, n, [][2]string{
		{"postgres", fmt.Sprintf(roles, attributes, c.password)},
		{"postgres", "CREATE DATABASE " + mainDatabase + " OWNER mover"},
		{"postgres", "CREATE DATABASE " + twinDatabase + " OWNER mover"},
		{mainDatabase, tables + money},
		{"postgres", "CHECKPOINT"},
	})
}

// exec runs statements, each in a database, until one fails.
func (c *cluster) exec(ctx context.Context, n int, statements [][2]string) error {
	for _, s := range statements {
		if err := c.servers[n].Exec(ctx, s[0], s[1]); err != nil {
			return err
		}
	}
	return nil
}

// settings are those of a server and its standby.
func settings(n int) map[string]string {
	all := maps.Clone(quirks[databases[n]])
	// What is killed is processes and never the machine, whose memory keeps what was not flushed.
	all["fsync"] = "off"
	// A standby that was away finds what it has missed, and at once.
	all["wal_keep_size"], all["wal_retrieve_retry_interval"] = "1GB", "100ms"
	return all
}

// mirror gives a server its synchronous standby.
func (c *cluster) mirror(ctx context.Context, n int, o options) (err error) {
	if !mirrored(databases[n]) {
		return nil
	}
	c.standbys[n], err = servers.Start(ctx, servers.Options{Name: "chaos-" + databases[n] + "-standby", StandbyOf: c.servers[n],
		Settings: settings(n), Life: o.time + time.Hour})
	if err != nil {
		return err
	}
	if err := c.standbys[n].Follow(ctx, c.servers[n]); err != nil {
		return err
	}
	return c.servers[n].WaitFor(ctx, c.standbys[n])
}

// connect makes the way from the workers to a server.
func (c *cluster) connect(ctx context.Context, n int, o options) (err error) {
	behind := c.login(n)
	if o.pooler != "" {
		if c.poolers[n], err = servers.StartPooler(ctx, servers.PoolerOptions{URL: behind, Mode: o.pooler, PoolSize: 10}); err != nil {
			return err
		}
		behind = c.poolers[n].URL(behind)
	}
	for range o.workers {
		l, err := proxy.Start(behind)
		if err != nil {
			return err
		}
		c.links[n] = append(c.links[n], l)
	}
	return nil
}

// url is a database, directly, for the server's superuser.
func (c *cluster) url(n int) string { return c.servers[n].URL(mainDatabase) }

// login is the same for the workers' role.
func (c *cluster) login(n int) string { return c.as(c.url(n)) }

// as is a URL with the workers' role.
func (c *cluster) as(database string) string {
	u, err := url.Parse(database)
	if err != nil {
		return "" // no URL, which may hold a password
	}
	u.User = url.UserPassword("mover", c.password)
	return u.String()
}

// way is how the servers run.
func (c *cluster) way() servers.Way { return c.servers[0].Way() }

// workerURLs are the databases as a worker reaches them.
func (c *cluster) workerURLs(worker int) map[string]string {
	urls := map[string]string{}
	for n, name := range databases {
		urls[name] = c.links[n][worker].URL() + "&max_size=6&connect_timeout=2&pool_acquire_timeout=3"
	}
	return urls
}

// directURLs are the databases without the links, for the workers' role.
func (c *cluster) directURLs() map[string]string {
	urls := map[string]string{}
	for n, name := range databases {
		urls[name] = c.login(n)
	}
	return urls
}

// endSessions terminates about half of the sessions of a database.
func (c *cluster) endSessions(ctx context.Context, n int) error {
	const sql = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < 0.5`
	return c.servers[n].Exec(ctx, "chaos", sql)
}

// unfinished counts what is left to recovery in all databases.
func (c *cluster) unfinished(ctx context.Context) (n int, err error) {
	for i := range databases {
		here, err := unfinished(ctx, c.url(i), c.failedOver)
		if err != nil {
			return 0, err
		}
		n += here
	}
	return n, nil
}

// close ends the links and the servers.
func (c *cluster) close() error {
	for _, links := range c.links {
		for _, l := range links {
			l.Close()
		}
	}
	errs := make([]error, len(c.servers))
	var wait sync.WaitGroup
	for n, s := range c.servers {
		wait.Go(func() {
			if c.poolers[n] != nil {
				errs[n] = c.poolers[n].Close()
			}
			for _, server := range []*servers.Server{s, c.standbys[n]} {
				if server != nil {
					errs[n] = errors.Join(errs[n], server.Close())
				}
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}
