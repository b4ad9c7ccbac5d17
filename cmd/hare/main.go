// Command hare looks after databases that hare writes to.
//
//	hare doctor [options]
//	hare distributed-recover --coordinator library [--finish] [options]
//	hare leases [--connection main --release nightly-report --token 41 [--finish]] [options]
//
// docs/doctor.md, docs/recover-command.md and docs/leases.md document them; "hare help COMMAND" lists the options. Exit
// status: 0 nothing is left to do, 1 something was found, failed or unreachable, 2 the command was called wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	_ "github.com/hare-go/hare/backends/clickhouse"
	_ "github.com/hare-go/hare/backends/postgres"
	_ "github.com/hare-go/hare/backends/sqlite"
	"github.com/hare-go/hare/internal/plaintext"
)

// The exit statuses.
const (
	exitOK    = 0
	exitFound = 1
	exitUsage = 2
)

// command is one of hare's commands.
type command struct {
	name, summary, usage string

	run func(ctx context.Context, args []string, out, errs io.Writer) int
}

var commands = []command{
	{"doctor", "ask each database whether it is as hare needs it", doctorUsage, runDoctor},
	{"distributed-recover", "report or finish distributed transactions that a crash left behind", recoverUsage, distributedRecover},
	{"leases", "list the leases, or end a term by force", leasesUsage, runLeases},
}

func main() {
	slog.SetLogLoggerLevel(slog.LevelWarn) // what a command has to say it says itself
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(errs, usage())
		return exitUsage
	}
	switch args[0] {
	case "help", "-h", "--help":
		return help(args[1:], out, errs)
	case "version", "-V", "--version":
		fmt.Fprintln(out, "hare", version())
		return exitOK
	}
	c := commandNamed(args[0])
	if c == nil {
		fmt.Fprintf(errs, "hare: there is no command %q\n\n%s", args[0], usage())
		return exitUsage
	}
	return c.run(ctx, args[1:], out, errs)
}

func commandNamed(name string) *command {
	for i := range commands {
		if commands[i].name == name {
			return &commands[i]
		}
	}
	return nil
}

// help prints the usage of the command that is named, or of all.
func help(args []string, out, errs io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(out, usage())
		return exitOK
	}
	c := commandNamed(args[0])
	if c == nil || len(args) > 1 {
		fmt.Fprintf(errs, "hare: there is no command %q\n\n%s", strings.Join(args, " "), usage())
		return exitUsage
	}
	fmt.Fprint(out, c.usage)
	return exitOK
}

// misused answers a call whose options could not be read, or one that only asks for help, and returns the exit status.
func misused(name, usage string, err error, out, errs io.Writer) int {
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, usage)
		return exitOK
	}
	fmt.Fprintf(errs, "hare %s: %s\n\"hare help %[1]s\" lists the options\n", name, plaintext.Line(err.Error()))
	return exitUsage
}

func usage() string {
	var b strings.Builder
	b.WriteString("usage: hare COMMAND [options]\n\ncommands:\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "  %-22s %s\n", c.name, c.summary)
	}
	b.WriteString("  version                print the version\n\n\"hare help COMMAND\" lists the options of a command.\n")
	return b.String()
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
