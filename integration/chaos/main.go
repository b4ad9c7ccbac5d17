// Chaos moves money among accounts in three databases from several processes, with transactions.Distributed, while
// processes, servers and the network between them are killed, paused and cut off at random; then it heals everything,
// has recovery finish what is left, and checks that nothing was lost, doubled or torn, and that every call was told
// the truth:
//
//	go run ./integration/chaos -time 60s [-seed 1] [-workers 4] [-pooler transaction] [-keep]
//
// It starts three PostgreSQL servers of its own. The seed decides what is done to whom and when; it is printed, and so is
// the schedule that follows from it. What the processes do in between depends on their timing, as in life. Exit status:
// 0 when every check held, 1 when one did not: what was found is printed, and the logs are kept.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == workerArgument {
		if err := work(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	o := options{}
	flag.DurationVar(&o.time, "time", time.Minute, "how long the chaos lasts")
	flag.Uint64Var(&o.seed, "seed", 0, "what the schedule derives from; 0 takes one at random")
	flag.IntVar(&o.workers, "workers", 4, "number of processes that move money")
	flag.StringVar(&o.pooler, "pooler", "", "mode of a PgBouncer between the network and each server: transaction or session; empty for none")
	flag.BoolVar(&o.keep, "keep", false, "keep the logs of a run without violations, too")
	flag.Parse()
	if flag.NArg() > 0 || o.time <= 0 || o.workers < 1 {
		flag.Usage()
		os.Exit(2)
	}
	for o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// options are the arguments of a run.
type options struct {
	time    time.Duration
	seed    uint64
	workers int
	pooler  string
	keep    bool
}

// errViolated says that a check did not hold; what was found is printed already.
var errViolated = errors.New("hare did not keep its promise")
