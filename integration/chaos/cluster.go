package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// cluster is the servers, and the network to them.
type cluster struct {
	servers []*servers.Server // in the order of databases
	poolers []*servers.Pooler // before the servers, if there are to be any
	urls    []string          // of the databases, directly
	links   [][]*proxy.Proxy  // the network between a server and a worker, by both
}

// tables are what each database has besides hare's own.
const tables = `
CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0));
CREATE TABLE ledger (id bigserial PRIMARY KEY, call text NOT NULL, xid text NOT NULL, account bigint NOT NULL, amount bigint NOT NULL, refused boolean NOT NULL);
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = 'check_violation'; END $$;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.refused) EXECUTE FUNCTION refuse();
`

// startCluster starts the servers and makes the databases. The cluster must be closed even if it fails.
func startCluster(ctx context.Context, o options) (*cluster, error) {
	c := &cluster{servers: make([]*servers.Server, len(databases)), poolers: make([]*servers.Pooler, len(databases)), urls: make([]string, len(databases)), links: make([][]*proxy.Proxy, len(databases))}
	errs := make([]error, len(databases))
	var wait sync.WaitGroup
	for n := range databases {
		wait.Go(func() { errs[n] = c.start(ctx, n, o) })
	}
	wait.Wait()
	return c, errors.Join(errs...)
}

func (c *cluster) start(ctx context.Context, n int, o options) (err error) {
	settings := maps.Clone(quirks[databases[n]])
	// What is killed is processes and never the machine, whose memory keeps what was not flushed.
	settings["fsync"] = "off"
	c.servers[n], err = servers.Start(ctx, servers.Options{Name: "chaos-" + databases[n], Settings: settings, Life: o.time + time.Hour})
	if err != nil {
		return err
	}
	if c.urls[n], err = c.servers[n].CreateDatabase(ctx, "chaos"); err != nil {
		return err
	}
	money := fmt.Sprintf("INSERT INTO account SELECT n, %d FROM generate_series(1, %d) n", firstBalance, accountsEach)
	if err := c.servers[n].Exec(ctx, "chaos", tables+money); err != nil {
		return err
	}
	if err := c.servers[n].Exec(ctx, "postgres", "CHECKPOINT"); err != nil {
		return err
	}
	behind := c.urls[n]
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

// directURLs are the databases without the links.
func (c *cluster) directURLs() map[string]string {
	urls := map[string]string{}
	for n, name := range databases {
		urls[name] = c.urls[n]
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
	for _, url := range c.urls {
		here, err := unfinished(ctx, url)
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
			if s != nil {
				errs[n] = errors.Join(errs[n], s.Close())
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}
