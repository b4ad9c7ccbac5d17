package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// databases are the demo's own databases on the servers it was given.
type databases struct {
	where string
	urls  map[string]string // by alias
	admin map[string]string // the server's own database, by alias, for those that were created
}

// createDatabases creates the three databases. One that exists already belongs to somebody else, and is left alone.
func createDatabases(ctx context.Context) (*databases, error) {
	d := &databases{urls: map[string]string{}, admin: map[string]string{}}
	servers := strings.FieldsFunc(os.Getenv("HARE_TEST_POSTGRES_URLS"), func(r rune) bool { return r == ',' || r == ' ' })
	if len(servers) == 0 {
		return d, errors.New("HARE_TEST_POSTGRES_URLS names no server; run: make demo")
	}
	d.where = fmt.Sprintf("%d PostgreSQL servers", min(len(servers), len(aliases)))
	for i, alias := range aliases {
		admin := servers[i%len(servers)]
		if err := exec1(ctx, admin, "CREATE DATABASE "+alias); err != nil {
			return d, fmt.Errorf("creating the database %s: %w", alias, err)
		}
		d.admin[alias] = admin
		u, err := url.Parse(admin)
		if err != nil {
			return d, errors.New("HARE_TEST_POSTGRES_URLS holds what is no URL")
		}
		u.Path = "/" + alias
		d.urls[alias] = u.String()
	}
	return d, nil
}

// drop drops what was created, with what is still prepared in it.
func (d *databases) drop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	for alias, admin := range d.admin {
		gids, err := d.gids(ctx, alias)
		errs = append(errs, err)
		for _, gid := range gids {
			errs = append(errs, exec1(ctx, d.urls[alias], "ROLLBACK PREPARED '"+strings.ReplaceAll(gid, "'", "''")+"'"))
		}
		errs = append(errs, exec1(ctx, admin, "DROP DATABASE "+alias+" WITH (FORCE)"))
	}
	return errors.Join(errs...)
}

// prepared waits a moment for the number of prepared transactions of a database to be n.
func (d *databases) prepared(ctx context.Context, alias string, n int) bool {
	for range 300 {
		if gids, err := d.gids(ctx, alias); err == nil && len(gids) == n {
			return true
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false
}

func (d *databases) gids(ctx context.Context, alias string) ([]string, error) {
	conn, err := pgx.Connect(ctx, d.urls[alias])
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func exec1(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}
