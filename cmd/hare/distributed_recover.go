package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/internal/plaintext"
	"github.com/hare-go/hare/transactions"
)

func distributedRecover(ctx context.Context, args []string, out, errs io.Writer) int {
	opts, err := parseRecover(args)
	if err != nil {
		return misused("distributed-recover", recoverUsage, err, out, errs)
	}
	c := &recovering{opts: opts, out: out, errs: errs}
	connections, err := openConnections(ctx, opts.config, "--coordinator", opts.coordinator)
	if unknown := (aliasError{}); errors.As(err, &unknown) {
		c.complain(err)
		return exitUsage
	}
	if err != nil {
		return c.once(round{at: time.Now(), report: transactions.Report{Coordinator: opts.coordinator}, err: err})
	}
	defer connections.Close()
	c.ctx = hare.WithConnections(ctx, connections)
	if opts.watch > 0 {
		return c.watch()
	}
	return c.once(c.round())
}

// recovering is a run of the command.
type recovering struct {
	ctx       context.Context
	opts      recoverOptions
	out, errs io.Writer
}

// round is one recovery.
type round struct {
	at     time.Time
	report transactions.Report
	err    error // what prevented a report, or its end
}

// status is the exit status after the round.
func (r round) status() int {
	if r.err == nil && r.report.Clean() {
		return exitOK
	}
	return exitFound
}

// errInterrupted is what a signal leaves of a round.
var errInterrupted = errors.New("interrupted: what is reported as done is done, the rest is as it was; it is safe to run it again")

// round looks into the databases once, and finishes what it finds if it is to.
func (c *recovering) round() round {
	p := progressOn(screenOf(c.errs, os.Getenv))
	chosen := []transactions.RecoverOption{transactions.OlderThan(time.Duration(c.opts.olderThan)), transactions.Progress(p.step), transactions.RecoverLogger(slog.New(slog.DiscardHandler))}
	if c.opts.finish {
		chosen = append(chosen, transactions.Finish())
	}
	if c.opts.xid != "" {
		chosen = append(chosen, transactions.OnlyXID(c.opts.xid))
	}
	if c.opts.forget != "" {
		chosen = append(chosen, transactions.Forget(c.opts.forget))
	}
	r := round{at: time.Now()}
	r.report, r.err = transactions.Recover(c.ctx, c.opts.coordinator, chosen...)
	p.stop()
	if c.ctx.Err() != nil && r.status() != exitOK {
		r.err = errInterrupted
	}
	return r
}

// once shows the one round there is.
func (c *recovering) once(r round) int {
	var err error
	if c.opts.format == "json" {
		err = writeJSON(c.out, r, c.opts, "  ")
	} else if r.err == nil || len(r.report.Entries) > 0 {
		err = writeReport(screenOf(c.out, os.Getenv), r, c.opts)
	}
	if r.err != nil {
		c.complain(r.err)
	}
	if err != nil {
		c.complain(err)
		return exitFound
	}
	return r.status()
}

// complain tells an error, and what to do about it.
func (c *recovering) complain(err error) {
	fmt.Fprintf(c.errs, "hare distributed-recover: %s\n", plaintext.Line(err.Error()))
	if next := c.opts.next(err); next != "" {
		fmt.Fprintf(c.errs, "next: %s\n", next)
	}
}

// next is what to do about an error that does not tell itself.
func (o recoverOptions) next(err error) string {
	var (
		refused *hare.DatabaseError
		lost    *hare.ConnectionError
		late    *hare.TimeoutError
		unable  *features.UnsupportedError
	)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "name the configuration with --config FILE"
	case errors.As(err, &unable):
		return "name the connection to a PostgreSQL database that coordinates distributed transactions"
	case errors.As(err, &lost), errors.As(err, &late):
		return fmt.Sprintf("the decisions are in the database of %q: when it answers, run this again. Until then everything stays as it is", o.coordinator)
	case errors.As(err, &refused) && refused.SQLState == "42501":
		return fmt.Sprintf("give the role of %q SELECT on public.hare_distributed_decisions and public.hare_distributed_coordinator, for --finish also INSERT, UPDATE and DELETE on the first", o.coordinator)
	}
	return ""
}
