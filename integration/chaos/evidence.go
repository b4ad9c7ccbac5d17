package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// evidence is everything that the verdict rests on.
type evidence struct {
	Journal   []line
	Databases map[string]*holdings
	// Unfinished is how much was left to the final recovery after the workers' own had had its time.
	Unfinished int
	// FailedOver are the databases whose standby has taken over. No server knows afterwards whether what was prepared and is
	// gone was committed, so that its decision stays unresolved.
	FailedOver map[string]bool
	Twins      map[string]*holdings // without accounts and ledger
}

// holdings are what a database holds in the end.
type holdings struct {
	Balances  map[int64]int64
	Ledger    []row
	Prepared  []string // GIDs
	Decisions []verdict
}

// row is a row of a ledger.
type row struct {
	Call, XID string
	Account   int64
	Amount    int64
}

// verdict is a row of hare's decisions.
type verdict struct {
	XID, Outcome string
	Resolved     bool
	Participants string // aliases, separated by commas
}

// unknowable says that a decision may stay unresolved: a participant's standby has taken over since.
func (v verdict) unknowable(failedOver map[string]bool) bool {
	return slices.ContainsFunc(strings.Split(v.Participants, ","), func(alias string) bool { return failedOver[alias] })
}

// read reads what a database holds, through a connection that has nothing to do with hare.
func read(ctx context.Context, url string, what func(*holdings, context.Context, *pgx.Conn) error) (*holdings, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	h := &holdings{Balances: map[int64]int64{}}
	return h, what(h, ctx, conn)
}

func readAll(h *holdings, ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, "SELECT id, balance FROM account")
	if err != nil {
		return err
	}
	var id, balance int64
	if _, err := pgx.ForEachRow(rows, []any{&id, &balance}, func() error { h.Balances[id] = balance; return nil }); err != nil {
		return err
	}
	if h.Ledger, err = collect[row](ctx, conn, "SELECT call, xid, account, amount FROM ledger ORDER BY id"); err != nil {
		return err
	}
	return h.readHare(ctx, conn)
}

// readHare reads what is hare's own.
func (h *holdings) readHare(ctx context.Context, conn *pgx.Conn) (err error) {
	if h.Prepared, err = readPrepared(ctx, conn); err != nil {
		return err
	}
	h.Decisions, err = readDecisions(ctx, conn, "true")
	return err
}

// readPrepared reads the GIDs of what is prepared.
func readPrepared(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	return list[string](ctx, conn, "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()", pgx.RowTo)
}

// readDecisions reads hare's decisions, of which there are none before the first call.
func readDecisions(ctx context.Context, conn *pgx.Conn, where string) ([]verdict, error) {
	there, err := list[bool](ctx, conn, "SELECT to_regclass('public.hare_distributed_decisions') IS NOT NULL", pgx.RowTo)
	if err != nil || !there[0] {
		return nil, err
	}
	return collect[verdict](ctx, conn, "SELECT xid, outcome, resolved_at IS NOT NULL, participant_aliases FROM public.hare_distributed_decisions WHERE "+where+" ORDER BY created_at")
}

// unfinished counts what is prepared in a database, and the decisions that are not resolved and can be.
func unfinished(ctx context.Context, url string, failedOver map[string]bool) (int, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	prepared, err := readPrepared(ctx, conn)
	if err != nil {
		return 0, err
	}
	open, err := readDecisions(ctx, conn, "resolved_at IS NULL")
	open = slices.DeleteFunc(open, func(v verdict) bool { return v.unknowable(failedOver) })
	return len(prepared) + len(open), err
}

// collect reads rows into structs by the order of their fields.
func collect[T any](ctx context.Context, conn *pgx.Conn, sql string) ([]T, error) {
	return list(ctx, conn, sql, pgx.RowToStructByPos[T])
}

func list[T any](ctx context.Context, conn *pgx.Conn, sql string, to pgx.RowToFunc[T]) ([]T, error) {
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, to)
}

// gather reads the journals and the databases.
func gather(ctx context.Context, c *cluster, dir string) (*evidence, error) {
	e := &evidence{Databases: map[string]*holdings{}, Twins: map[string]*holdings{}, FailedOver: c.failedOver}
	var err error
	if e.Journal, err = readJournals(dir); err != nil {
		return nil, err
	}
	for n, name := range databases {
		if e.Databases[name], err = read(ctx, c.url(n), readAll); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		if e.Twins[name], err = read(ctx, c.twin(n), (*holdings).readHare); err != nil {
			return nil, fmt.Errorf("reading the twin of %s: %w", name, err)
		}
	}
	return e, nil
}
