package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/transactions"
)

// The bounds of what follows the chaos, when everything is whole again.
const (
	peaceTime   = 20 * time.Second // for the workers' own recovery to finish everything
	recoverTime = 10 * time.Second // for the last recovery
)

// run is the whole of it.
func run(ctx context.Context, o options) (err error) {
	fmt.Printf("chaos for %v with %d workers: seed %d\n", o.time, o.workers, o.seed)
	cluster, err := startCluster(ctx, o)
	defer func() { err = errors.Join(err, cluster.close()) }()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "hare-chaos-")
	if err != nil {
		return err
	}
	fmt.Printf("three PostgreSQL servers (%s); logs in %s\n", cluster.way(), dir)
	events := plan(o)
	printSchedule(os.Stdout, events)

	crew, err := startCrew(cluster, dir, o)
	defer crew.close()
	if err != nil {
		return err
	}
	n := &nemesis{cluster: cluster, crew: crew, done: map[kind]int{}}
	evidence, err := play(ctx, n, o, events, dir)
	if err != nil {
		return fmt.Errorf("%w; logs in %s", err, dir)
	}
	summarize(evidence.Journal, n.done).print(os.Stdout)
	return judge(slices.Concat(crew.faults, check(evidence)), evidence, dir, o.keep)
}

// play lets chaos reign for its time, heals everything, and gathers what is left.
func play(ctx context.Context, n *nemesis, o options, events []event, dir string) (gathered *evidence, err error) {
	watching, cancel := context.WithCancel(ctx)
	supervised := make(chan error, 1)
	go func() { supervised <- n.cluster.supervise(watching) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-supervised)
	}()
	if err := errors.Join(n.reign(ctx, o.time, events), ctx.Err()); err != nil {
		return nil, err
	}
	fmt.Println("peace: everything is healed")
	n.crew.rest()
	left, err := n.cluster.awaitRecovery(ctx)
	if err != nil {
		return nil, err
	}
	n.crew.stop()
	if err := recoverAll(ctx, n.cluster, dir); err != nil {
		return nil, err
	}
	evidence, err := gather(ctx, n.cluster, dir)
	if err != nil {
		return nil, err
	}
	evidence.Unfinished = left
	return evidence, nil
}

// awaitRecovery waits until recovery has left nothing, for a time, and returns how much it has left.
func (c *cluster) awaitRecovery(ctx context.Context) (left int, err error) {
	start := time.Now()
	for ; ctx.Err() == nil; sleep(ctx, 100*time.Millisecond) {
		left, err = c.unfinished(ctx)
		took := time.Since(start)
		if err == nil && left == 0 {
			fmt.Printf("recovery has come to its end by itself, %.1fs after the last call\n", took.Seconds())
			return 0, nil
		}
		if took > peaceTime {
			break
		}
	}
	return left, errors.Join(err, ctx.Err())
}

// recoverAll runs recovery from every coordinator until each finds nothing more to do, or for a time: what it cannot finish
// will be seen.
func recoverAll(ctx context.Context, c *cluster, dir string) error {
	connections, err := hare.Open(ctx, hare.Config{Connections: c.directURLs()})
	if err != nil {
		return err
	}
	defer connections.Close()
	j, err := createJournal(filepath.Join(dir, "last.journal"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(hare.WithConnections(ctx, connections), recoverTime)
	defer cancel()
	for _, coordinator := range databases {
		for clean := false; !clean && ctx.Err() == nil; sleep(ctx, 200*time.Millisecond) {
			if clean, err = recoverOne(ctx, coordinator, j, c.failedOver); err != nil && ctx.Err() == nil {
				return fmt.Errorf("recovery of %s: %w", coordinator, err)
			}
		}
	}
	return nil
}

func recoverOne(ctx context.Context, coordinator string, j *journal, failedOver map[string]bool) (clean bool, err error) {
	began := time.Now()
	report, err := transactions.Recover(ctx, coordinator, transactions.Finish(), transactions.OlderThan(0))
	if err != nil {
		return false, err
	}
	left := slices.DeleteFunc(slices.Clone(report.Entries), func(e transactions.Entry) bool {
		return e.Action == transactions.ActionNone && failedOver[e.Alias] // nobody can know any more; the checks look
	})
	for _, e := range report.Entries {
		if err := j.write(line{Recovered: recoveredOf(e, began)}); err != nil {
			return false, err
		}
	}
	return report.Clean() || len(report.Entries) > 0 && len(left) == 0, nil
}

// judge prints the violations and keeps what shows them, or removes the logs.
func judge(found []violation, e *evidence, dir string, keep bool) error {
	if len(found) == 0 {
		fmt.Println("every check held: the sum is unchanged, every report was true, nothing is left prepared or undecided")
		if keep {
			return nil
		}
		return os.RemoveAll(dir)
	}
	const most = 50
	for i, v := range found {
		if i == most {
			fmt.Printf("... and %d more\n", len(found)-most)
			break
		}
		fmt.Println("VIOLATION:", v)
	}
	text, err := json.MarshalIndent(e.Databases, "", "\t")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "databases.json"), text, 0o600)
	}
	return errors.Join(fmt.Errorf("%w: %d violations; logs, journals and the databases' content in %s", errViolated, len(found), dir), err)
}
