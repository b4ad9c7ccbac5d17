package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/transactions"
)

// Each database has a twin, on another server: as a dump of it restored there, with hare's tables and the coordinator's id,
// but without the accounts. No callback can do anything in it, so that nothing is ever to be found there; a statement of
// hare's own that is led there finds all that it needs.

// twinDatabase is the name of the twins.
const twinDatabase = "twin"

// twin is the twin of a database, for the workers' role.
func (c *cluster) twin(n int) string { return c.as(c.servers[twinServer(n)].URL(twinDatabase)) }

// twinServer is where it is.
func twinServer(n int) int { return (n + 1) % len(databases) }

// makeTwins has hare make its tables everywhere, and gives each twin the coordinator's row.
func (c *cluster) makeTwins(ctx context.Context) error {
	urls, twins := c.directURLs(), map[string]string{}
	for n, name := range databases {
		twins[name] = c.twin(n)
	}
	for _, all := range []map[string]string{urls, twins} {
		if err := firstCalls(ctx, all); err != nil {
			return err
		}
	}
	for _, name := range databases {
		if err := copyCoordinator(ctx, urls[name], twins[name]); err != nil {
			return fmt.Errorf("the twin of %s: %w", name, err)
		}
	}
	return nil
}

// firstCalls makes one call for each coordinator.
func firstCalls(ctx context.Context, urls map[string]string) error {
	connections, err := hare.Open(ctx, hare.Config{Connections: urls})
	if err != nil {
		return err
	}
	defer connections.Close()
	ctx = hare.WithConnections(ctx, connections)
	for n, name := range databases {
		err := transactions.Distributed(ctx, name, []string{databases[twinServer(n)]}, func(*hare.Distributed) error { return nil })
		if err != nil {
			return err
		}
	}
	return nil
}

func copyCoordinator(ctx context.Context, from, to string) error {
	var ids [3]string
	home, err := pgx.Connect(ctx, from)
	if err != nil {
		return err
	}
	defer home.Close(ctx)
	err = home.QueryRow(ctx, "SELECT id, system_identifier, database_oid FROM public.hare_distributed_coordinator").Scan(&ids[0], &ids[1], &ids[2])
	if err != nil {
		return err
	}
	twin, err := pgx.Connect(ctx, to)
	if err != nil {
		return err
	}
	defer twin.Close(ctx)
	_, err = twin.Exec(ctx, "UPDATE public.hare_distributed_coordinator SET id = $1, system_identifier = $2, database_oid = $3", ids[0], ids[1], ids[2])
	return err
}
