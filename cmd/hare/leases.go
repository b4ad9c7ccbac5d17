package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/internal/plaintext"
	"github.com/hare-go/hare/leases"
)

func runLeases(ctx context.Context, args []string, out, errs io.Writer) int {
	opts, err := parseLeases(args)
	if err != nil {
		return misused("leases", leasesUsage, err, out, errs)
	}
	f := &foundLeases{opts: opts, at: time.Now()}
	connections, err := openConnections(ctx, opts.config, "--connection", opts.connection)
	if err == nil {
		defer connections.Close()
		defer f.close()
		f.look(ctx, connections)
	}
	f.err = cmp.Or(f.err, err)
	if unknown := (aliasError{}); errors.As(f.err, &unknown) {
		f.complain(errs)
		return exitUsage
	}
	if opts.format == "json" {
		err = f.writeJSON(out)
	} else {
		err = f.writeTable(screenOf(out, os.Getenv))
	}
	f.complain(errs)
	if err != nil {
		fmt.Fprintf(errs, "hare leases: %s\n", plaintext.Line(err.Error()))
		return exitFound
	}
	return f.status()
}

// foundLeases is what a call of the command has found and done. What a database holds is read while it is printed.
type foundLeases struct {
	opts      leasesOptions
	at        time.Time
	databases []leasesOf
	released  bool
	err       error // what prevented the rest
}

// leasesOf are the leases of one database.
type leasesOf struct {
	alias string
	list  []leases.Info // the first portion
	err   error         // what ended the reading
	rest  func() (leases.Info, error, bool)
	stop  func()
}

// portion is how many leases are read before something is printed: the widths of the columns come from them.
const portion = 1000

// look begins to read, and reads the first portion.
func (d *leasesOf) look(all iter.Seq2[leases.Info, error]) {
	d.rest, d.stop = iter.Pull2(all)
	d.list = d.next()
}

// next reads a portion.
func (d *leasesOf) next() (list []leases.Info) {
	for len(list) < portion {
		info, err, ok := d.rest()
		if d.err = err; err != nil || !ok {
			d.rest = nil
			break
		}
		list = append(list, info)
	}
	return list
}

// portions goes over all the leases, once.
func (d *leasesOf) portions() iter.Seq[[]leases.Info] {
	return func(yield func([]leases.Info) bool) {
		if !yield(d.list) {
			return
		}
		for d.rest != nil {
			if !yield(d.next()) {
				return
			}
		}
	}
}

// close ends what is still read.
func (f *foundLeases) close() {
	for _, d := range f.databases {
		if d.stop != nil {
			d.stop()
		}
	}
}

// status is the exit status.
func (f *foundLeases) status() int {
	failed := slices.ContainsFunc(f.databases, func(d leasesOf) bool { return d.err != nil })
	if f.err != nil || failed || f.toRelease() != nil && !f.released {
		return exitFound
	}
	return exitOK
}

// look begins to list leases, and ends the term of one if it is to.
func (f *foundLeases) look(ctx context.Context, connections *hare.Connections) {
	aliases := connections.Aliases()
	if f.opts.connection != "" {
		aliases = []string{f.opts.connection}
	}
	f.list(ctx, connections, aliases)
	if f.opts.release == "" {
		return
	}
	if f.choose(); f.err != nil {
		return
	}
	if lease := f.toRelease(); lease != nil && f.opts.finish {
		f.release(ctx, connections, lease)
	}
}

// list looks into all databases at once. One that cannot have leases is left out, unless it was asked for.
func (f *foundLeases) list(ctx context.Context, connections *hare.Connections, aliases []string) {
	databases := make([]leasesOf, len(aliases))
	var all sync.WaitGroup
	for i, alias := range aliases {
		all.Go(func() {
			d := &databases[i]
			d.alias = alias
			client, err := connections.Client(alias)
			if err != nil {
				d.err = err
				return
			}
			d.look(leases.All(ctx, client))
		})
	}
	all.Wait()
	for _, d := range databases {
		var unsupported *features.UnsupportedError
		if f.opts.connection != "" || !errors.As(d.err, &unsupported) {
			f.databases = append(f.databases, d)
		} else if d.stop != nil {
			d.stop()
		}
	}
	if len(f.databases) == 0 {
		f.err = errors.New("no configured connection leads to a PostgreSQL database, where leases are")
	}
}

// choose leaves of the list the lease that is to be released, if its term is the one.
func (f *foundLeases) choose() {
	if len(f.databases) == 0 {
		return
	}
	d := &f.databases[0]
	var chosen []leases.Info
	for list := range d.portions() {
		for _, lease := range list {
			if lease.Name == f.opts.release {
				chosen = append(chosen, lease)
			}
		}
	}
	switch d.list = chosen; {
	case d.err != nil:
	case len(d.list) == 0:
		f.err = termError{fmt.Errorf("there is no lease %q in %q", f.opts.release, d.alias)}
	case d.list[0].Token != f.opts.token:
		f.err = termError{fmt.Errorf("the token of lease %q is %d, not %d: that is another term, and is left alone", f.opts.release, d.list[0].Token, f.opts.token)}
	}
}

// termError says that the term to be ended is not there.
type termError struct{ error }

// toRelease is the lease whose term is to be ended, or nil where there is nothing to end.
func (f *foundLeases) toRelease() *leases.Info {
	if f.opts.release == "" || len(f.databases) == 0 || len(f.databases[0].list) != 1 {
		return nil
	}
	lease := &f.databases[0].list[0]
	if !lease.Held() || lease.Token != f.opts.token {
		return nil
	}
	return lease
}

// release ends the term of a lease.
func (f *foundLeases) release(ctx context.Context, connections *hare.Connections, lease *leases.Info) {
	client, err := connections.Client(f.opts.connection)
	if err == nil {
		_, err = leases.ForceRelease(ctx, client, lease.Name, lease.Token)
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted: the term may have been ended or not")
	}
	if moved := (*hare.QueryError)(nil); errors.As(err, &moved) { // between the look and the release
		err = termError{err}
	}
	f.released, f.err = err == nil, err
}

// complain tells the errors, and what to do about them.
func (f *foundLeases) complain(errs io.Writer) {
	tell := func(alias string, err error) {
		fmt.Fprintf(errs, "hare leases: %s\n", plaintext.Line(err.Error()))
		if next := f.opts.next(alias, err); next != "" {
			fmt.Fprintf(errs, "next: %s\n", next)
		}
	}
	for _, d := range f.databases {
		if d.err != nil {
			tell(d.alias, d.err)
		}
	}
	if f.err != nil {
		tell(f.opts.connection, f.err)
	}
}

// next is what to do about an error that does not tell itself.
func (o leasesOptions) next(alias string, err error) string {
	var (
		refused *hare.DatabaseError
		lost    *hare.ConnectionError
		late    *hare.TimeoutError
		blocked *leases.BlockedError
		unable  *features.UnsupportedError
		term    termError
	)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "name the configuration with --config FILE"
	case errors.As(err, &unable):
		return "name a connection to a PostgreSQL database"
	case errors.As(err, &blocked):
		return "what is written there under the lease is not finished: run this again when it is. What is prepared is finished by hare distributed-recover; " +
			"a server process that hangs is ended, and its transaction rolled back, by SELECT pg_terminate_backend(PID)"
	case errors.As(err, &lost), errors.As(err, &late):
		return fmt.Sprintf("run this again when %q answers. Until then nobody can take or renew a lease there, unless it is the pooler that does not, and leases go past it (direct_host)", alias)
	case errors.As(err, &refused) && refused.SQLState == "42501":
		return fmt.Sprintf("give the role of %q SELECT on public.hare_leases, and for --finish also UPDATE", alias)
	case errors.As(err, &term):
		return o.command() + " lists what is there"
	}
	return ""
}
