package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/internal/doctor"
	"github.com/hare-go/hare/internal/plaintext"
)

const doctorUsage = `usage: hare doctor [options]

Asks each configured database for facts, over the path that the application uses, and tells for each check whether it is
ok, what was found, why it matters, and the command that mends it. Nothing is written or created anywhere. It may run at
any time; a database that does not answer costs ten seconds.

  --config FILE         the configuration (default hare.yml)
  --alias ALIAS         examine this connection alone; several with commas, or by giving the option again
  --older-than SECONDS  take younger prepared transactions and decisions for those of living calls (0 to 315360000,
                        default 300)
  --format FORMAT       table or json (default table)

exit status: 0 everything is ok, or there are warnings, 1 a check failed, the configuration cannot be used, or it was
interrupted, 2 the command was called wrong and nothing was asked

examples:
  hare doctor                                 is everything as hare needs it?
  hare doctor --alias library,billing         only these
  hare doctor --format json                   for programs
`

// doctorOptions are the options of doctor.
type doctorOptions struct {
	config, format string
	aliases        aliasList
	olderThan      age
}

// aliasList are aliases, given with commas or one by one.
type aliasList []string

// String is the flag's value as it would be given.
func (l *aliasList) String() string { return strings.Join(*l, ",") }

// Set reads the flag's value.
func (l *aliasList) Set(text string) error {
	for alias := range strings.SplitSeq(text, ",") {
		if alias = strings.TrimSpace(alias); alias == "" {
			return errors.New("an alias is empty")
		}
		*l = append(*l, alias)
	}
	return nil
}

// parseDoctor reads the options, before anything else is looked at.
func parseDoctor(args []string) (doctorOptions, error) {
	opts := doctorOptions{olderThan: age(doctor.DefaultOlderThan)}
	flags := flag.NewFlagSet("doctor", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&opts.config, "config", defaultConfig, "")
	flags.StringVar(&opts.format, "format", "table", "")
	flags.Var(&opts.aliases, "alias", "")
	flags.Var(&opts.olderThan, "older-than", "")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	switch {
	case flags.NArg() > 0:
		return opts, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case opts.format != "table" && opts.format != "json":
		return opts, fmt.Errorf("--format %q: it is table or json", opts.format)
	}
	return opts, nil
}

func runDoctor(ctx context.Context, args []string, out, errs io.Writer) int {
	opts, err := parseDoctor(args)
	if err != nil {
		return misused("doctor", doctorUsage, err, out, errs)
	}
	complain := func(err error) { fmt.Fprintf(errs, "hare doctor: %s\n", plaintext.Line(err.Error())) }
	e := examined{opts: opts}
	e.report, e.err = examine(ctx, opts)
	if unknown := (*doctor.AliasError)(nil); errors.As(e.err, &unknown) {
		complain(fmt.Errorf("--alias: %w", e.err))
		return exitUsage
	}
	if e.err != nil {
		complain(e.err)
	}
	if err := e.write(out); err != nil {
		complain(err)
		return exitFound
	}
	return e.status()
}

// examined is what an examination came to.
type examined struct {
	opts   doctorOptions
	report doctor.Report
	err    error // why there is no report
}

func (e examined) status() int {
	if e.err != nil || e.report.State() == doctor.Failure {
		return exitFound
	}
	return exitOK
}

func (e examined) write(out io.Writer) error {
	switch {
	case e.opts.format == "json":
		return e.writeJSON(out)
	case e.err == nil:
		return e.writeTable(screenOf(out, os.Getenv))
	}
	return nil
}

// errUnexamined is what a signal leaves: half an examination tells nothing.
var errUnexamined = errors.New("interrupted before all databases had answered; nothing was changed")

// examine reads the configuration and asks the databases.
func examine(ctx context.Context, opts doctorOptions) (doctor.Report, error) {
	nothing := doctor.Report{At: time.Now()}
	config, err := hare.LoadConfig(opts.config)
	if err != nil {
		return nothing, err
	}
	report, err := doctor.Examine(ctx, config, doctor.Options{Aliases: opts.aliases, OlderThan: time.Duration(opts.olderThan)})
	if ctx.Err() != nil {
		return nothing, errUnexamined
	}
	return report, err
}

// command is a hare command of a finding, with the configuration that was read, to be copied into a shell.
func (o doctorOptions) command(args []string) string {
	if len(args) == 0 {
		return ""
	}
	words := []string{"hare", args[0]}
	if o.config != defaultConfig {
		words = append(words, "--config", o.config)
	}
	words = append(words, args[1:]...)
	return plaintext.Command(words...)
}
