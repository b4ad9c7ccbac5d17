package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/hare-go/hare/internal/plaintext"
	"github.com/hare-go/hare/transactions"
)

const recoverUsage = `usage: hare distributed-recover --coordinator ALIAS [options]

Looks in every configured PostgreSQL database for prepared transactions that a crash of ALIAS' distributed transactions
left behind, and reports what each needs and why. With --finish it commits what is decided and rolls back what is not;
without it nothing is written anywhere. It may run at any time, beside live calls, and twice at once.

  --coordinator ALIAS   the connection whose database holds the decisions; it stands in each GID, hare_dtx_ALIAS:...
  --finish              finish what is found
  --older-than SECONDS  leave younger transactions to their calls (0 to 315360000, default 300; 0 is safe)
  --xid XID             look at this transaction alone, and tell what is decided about it
  --forget XID          give up a transaction that cannot be finished; without --finish it tells what that means
  --watch INTERVAL      do it again and again, with a pause of INTERVAL (1s at least), until interrupted
  --config FILE         the configuration (default hare.yml)
  --format FORMAT       table or json (default table); with --watch each JSON object is one line

exit status: 0 nothing is left, 1 something was found, failed or unreachable, 2 the command was called wrong and nothing
was looked at; with --watch that of the last round

examples:
  hare distributed-recover --coordinator library                        what is stuck?
  hare distributed-recover --coordinator library --finish               finish it
  hare distributed-recover --coordinator library --finish --watch 10s   and go on finishing
  hare distributed-recover --coordinator library --older-than 0 --xid hare_dtx_library:...   what became of this one?
`

// recoverOptions are the options of distributed-recover.
type recoverOptions struct {
	coordinator, config, format string
	finish                      bool
	olderThan                   age
	watch                       interval
	xid, forget                 string
}

const (
	defaultConfig = "hare.yml"
	defaultAge    = age(300 * time.Second)
)

// parseRecover reads the options, before anything else is looked at.
func parseRecover(args []string) (recoverOptions, error) {
	opts := recoverOptions{olderThan: defaultAge}
	flags := flag.NewFlagSet("distributed-recover", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&opts.coordinator, "coordinator", "", "")
	flags.BoolVar(&opts.finish, "finish", false, "")
	flags.Var(&opts.olderThan, "older-than", "")
	flags.StringVar(&opts.xid, "xid", "", "")
	flags.StringVar(&opts.forget, "forget", "", "")
	flags.Var(&opts.watch, "watch", "")
	flags.StringVar(&opts.config, "config", defaultConfig, "")
	flags.StringVar(&opts.format, "format", "table", "")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	var wrong error // an empty xid, too: a variable of a script that is not set must not mean all transactions
	flags.Visit(func(f *flag.Flag) {
		if f.Name != "xid" && f.Name != "forget" {
			return
		}
		if _, err := transactions.ParseXID(f.Value.String()); err != nil {
			wrong = fmt.Errorf("--%s: %w", f.Name, err)
		}
	})
	switch {
	case wrong != nil:
		return opts, wrong
	case flags.NArg() > 0:
		return opts, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case opts.coordinator == "":
		return opts, errors.New("--coordinator ALIAS is missing")
	case opts.format != "table" && opts.format != "json":
		return opts, fmt.Errorf("--format %q: it is table or json", opts.format)
	case opts.forget != "" && opts.watch > 0:
		return opts, errors.New("--forget and --watch do not go together: a transaction is forgotten once")
	case opts.forget != "" && opts.xid != "" && opts.forget != opts.xid:
		return opts, errors.New("--forget and --xid name two transactions")
	}
	return opts, nil
}

// age is a whole number of seconds from 0 to maxAge.
type age time.Duration

// maxAge is the largest --older-than: ten years in seconds.
const maxAge = 10 * 365 * 24 * 3600

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

// interval is a time of a second at least.
type interval time.Duration

// String is the flag's value as it would be given.
func (i *interval) String() string { return time.Duration(*i).String() }

// Set reads the flag's value.
func (i *interval) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second {
		return errors.New("it is a duration of 1s at least, such as 10s or 5m")
	}
	*i = interval(d)
	return nil
}

// command is the command with the same coordinator and configuration, and with the given options after them, to be
// copied into a shell.
func (o recoverOptions) command(options ...string) string {
	words := []string{"hare", "distributed-recover", "--coordinator", o.coordinator}
	if o.config != defaultConfig {
		words = append(words, "--config", o.config)
	}
	if o.olderThan != defaultAge && o.forget == "" {
		words = append(words, "--older-than", o.olderThan.String())
	}
	words = append(words, options...)
	return plaintext.Command(words...)
}
