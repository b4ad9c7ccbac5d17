package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"

	"github.com/hare-go/hare/internal/plaintext"
)

const leasesUsage = `usage: hare leases [--connection ALIAS] [options]
       hare leases --connection ALIAS --release LEASE --token N [--finish] [options]

Lists the leases of each configured PostgreSQL database: who holds them, since when, and how long they last unless they are
renewed. With --release and --finish it ends the term of one by force; otherwise nothing is written anywhere.

  --connection ALIAS    look at the leases of this connection alone
  --release LEASE       end the present term of this lease; without --finish it tells what that means
  --token N             with --release: the term's token, as the list shows it; a later term is left alone
  --finish              with --release: do it
  --config FILE         the configuration (default hare.yml)
  --format FORMAT       table or json (default table)

exit status: 0 listed, released, or there was nothing to release, 1 told what a release means, or something failed or was
unreachable, 2 the command was called wrong and nothing was looked at

examples:
  hare leases                                                                  who holds what?
  hare leases --connection main --release nightly-report --token 41            what would it mean to end this term?
  hare leases --connection main --release nightly-report --token 41 --finish   end it
`

// leasesOptions are the options of leases.
type leasesOptions struct {
	connection, config, format string
	release                    string
	token                      int64
	finish                     bool
}

// parseLeases reads the options, before anything else is looked at.
func parseLeases(args []string) (leasesOptions, error) {
	var opts leasesOptions
	flags := flag.NewFlagSet("leases", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&opts.connection, "connection", "", "")
	flags.StringVar(&opts.release, "release", "", "")
	flags.Var((*token)(&opts.token), "token", "")
	flags.BoolVar(&opts.finish, "finish", false, "")
	flags.StringVar(&opts.config, "config", defaultConfig, "")
	flags.StringVar(&opts.format, "format", "table", "")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	var empty string // a variable of a script that is not set must not mean everything
	flags.Visit(func(f *flag.Flag) {
		if f.Value.String() == "" {
			empty = f.Name
		}
	})
	switch {
	case empty != "":
		return opts, fmt.Errorf("--%s is empty", empty)
	case flags.NArg() > 0:
		return opts, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case opts.format != "table" && opts.format != "json":
		return opts, fmt.Errorf("--format %q: it is table or json", opts.format)
	case opts.release == "" && (opts.finish || opts.token != 0):
		return opts, errors.New("--token and --finish go with --release LEASE")
	case opts.release != "" && opts.connection == "":
		return opts, errors.New("--release goes with --connection ALIAS: the same name may be a lease of several databases")
	case opts.release != "" && opts.token == 0:
		return opts, errors.New("--release goes with --token N, so that no later term is ended: \"hare leases\" lists the tokens")
	}
	return opts, nil
}

// token is a lease's token, 1 at least.
type token int64

// String is the flag's value as it would be given.
func (t *token) String() string { return strconv.FormatInt(int64(*t), 10) }

// Set reads the flag's value.
func (t *token) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return errors.New("it is a whole number of 1 at least, as the list shows it")
	}
	*t = token(n)
	return nil
}

// command is the command with the same connection and configuration, and with the given options after them, to be copied
// into a shell.
func (o leasesOptions) command(options ...string) string {
	words := []string{"hare", "leases"}
	if o.connection != "" {
		words = append(words, "--connection", o.connection)
	}
	if o.config != defaultConfig {
		words = append(words, "--config", o.config)
	}
	words = append(words, options...)
	return plaintext.Command(words...)
}
