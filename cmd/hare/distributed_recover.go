package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/transactions"
)

// maxAge is the largest --older-than: ten years in seconds.
const maxAge = 10 * 365 * 24 * 3600

// recoverOptions are the options of distributed-recover.
type recoverOptions struct {
	coordinator, config, format string
	finish                      bool
	olderThan                   age
}

// age is a whole number of seconds from 0 to maxAge.
type age time.Duration

// String is the flag's value as it would be given.
func (a *age) String() string { return strconv.Itoa(int(time.Duration(*a) / time.Second)) }

// Set reads the flag's value.
func (a *age) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxAge {
		return fmt.Errorf("it is a whole number of seconds between 0 and %d", maxAge)
	}
	*a = age(time.Duration(n) * time.Second)
	return nil
}

const recoverUsage = `usage: hare distributed-recover --coordinator ALIAS [options]

Looks in every configured PostgreSQL database for prepared transactions that a crash of ALIAS' distributed transactions
left behind, and reports what each needs. With --finish it commits what is decided and rolls back what is not.

  --coordinator ALIAS   the connection whose database holds the decisions
  --finish              finish what is found; without it nothing is written anywhere
  --older-than SECONDS  leave younger transactions to their calls (0 to 315360000, default 300; 0 is safe)
  --config FILE         the configuration (default hare.yml)
  --format FORMAT       table or json (default table)

exit status: 0 nothing is left, 1 something was found, failed or unreachable, 2 the command was called wrong
`

func distributedRecover(ctx context.Context, args []string, out, errs io.Writer) int {
	opts, err := parseRecover(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, recoverUsage)
		return exitOK
	case err != nil:
		fmt.Fprintf(errs, "hare distributed-recover: %v\n\n%s", err, recoverUsage)
		return exitUsage
	}
	connections, status := openFor(ctx, opts, errs)
	if connections == nil {
		return status
	}
	defer connections.Close()
	chosen := []transactions.RecoverOption{transactions.OlderThan(time.Duration(opts.olderThan)), transactions.RecoverLogger(slog.New(slog.DiscardHandler))}
	if opts.finish {
		chosen = append(chosen, transactions.Finish())
	}
	report, err := transactions.Recover(hare.WithConnections(ctx, connections), opts.coordinator, chosen...)
	if err != nil {
		fmt.Fprintf(errs, "hare distributed-recover: %v\n", err)
		return exitFound
	}
	write := writeTable
	if opts.format == "json" {
		write = writeJSON
	}
	if err := write(out, report, opts.finish); err != nil {
		fmt.Fprintf(errs, "hare distributed-recover: %v\n", err)
		return exitFound
	}
	if report.Clean() {
		return exitOK
	}
	return exitFound
}

// parseRecover reads the options, before anything else is looked at.
func parseRecover(args []string) (recoverOptions, error) {
	opts := recoverOptions{olderThan: age(300 * time.Second)}
	flags := flag.NewFlagSet("distributed-recover", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&opts.coordinator, "coordinator", "", "")
	flags.BoolVar(&opts.finish, "finish", false, "")
	flags.Var(&opts.olderThan, "older-than", "")
	flags.StringVar(&opts.config, "config", "hare.yml", "")
	flags.StringVar(&opts.format, "format", "table", "")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	switch {
	case flags.NArg() > 0:
		return opts, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case opts.coordinator == "":
		return opts, errors.New("--coordinator ALIAS is missing")
	case opts.format != "table" && opts.format != "json":
		return opts, fmt.Errorf("--format %q: it is table or json", opts.format)
	}
	return opts, nil
}

// openFor opens the configured connections. An alias that is not configured is a wrong call; a configuration that cannot
// be used is a failure.
func openFor(ctx context.Context, opts recoverOptions, errs io.Writer) (*hare.Connections, int) {
	config, err := hare.LoadConfig(opts.config)
	if err != nil {
		fmt.Fprintf(errs, "hare distributed-recover: %v\n", err)
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintln(errs, "hare distributed-recover: --config FILE names another file")
		}
		return nil, exitFound
	}
	connections, err := hare.Open(ctx, config)
	if err != nil {
		fmt.Fprintf(errs, "hare distributed-recover: %v\n", err)
		return nil, exitFound
	}
	if !slices.Contains(connections.Aliases(), opts.coordinator) {
		_, err := connections.Client(opts.coordinator)
		connections.Close()
		fmt.Fprintf(errs, "hare distributed-recover: --coordinator: %v\n", err)
		return nil, exitUsage
	}
	return connections, exitOK
}
