package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// choice is a kind with its weight, and how long it may last: 10 ms at least, and short ones are as frequent as long ones,
// for a fault does most harm where it begins and where it ends.
type choice struct {
	kind    kind
	weight  int
	longest time.Duration
}

var (
	onWorkers = []choice{{killWorker, 3, 1500 * time.Millisecond}, {pauseWorker, 2, 6 * time.Second}}
	onServers = []choice{{killServer, 3, 2 * time.Second}, {pauseServer, 3, 6 * time.Second}, {restartServer, 1, 500 * time.Millisecond}, {endSessions, 3, 0}}
	onLinks   = []choice{{cutLink, 2, 3 * time.Second}, {stallLink, 5, 6 * time.Second}, {loseLink, 2, 6 * time.Second}, {stallAnswer, 2, 6 * time.Second}, {loseAnswer, 3, 6 * time.Second},
		{lateMessage, 5, 6 * time.Second}, {madeUp, 5, 0}}
	onStandbys = []choice{{killStandby, 1, 6 * time.Second}, {pauseStandby, 2, 6 * time.Second}}
	onPoolers  = []choice{{misleadPooler, 1, 2 * time.Second}}
)

const (
	shortest           = 10 * time.Millisecond
	longerThanAnyPause = 2 * time.Minute // even of a call that is paused again and again
)

// The mean pauses between two events on the same target.
const (
	workersRest = 6 * time.Second
	serversRest = 6 * time.Second
	linksRest   = 2 * time.Second
	besideRest  = 4 * time.Second // standbys
	poolersRest = 8 * time.Second
)

// failoverTime is what the failovers, and calls after them, have at the end.
const failoverTime = 10 * time.Second

// plan makes the schedule, which nothing but its arguments decides. The events of one target do not overlap; those of
// different targets do. In the end each standby takes over.
func plan(o options) []event {
	random := rand.New(rand.NewPCG(o.seed, 0))
	length, workers := o.time, o.workers
	whole := length - min(failoverTime, length/3) // what is about a server itself ends then
	var all []event
	for n := range workers {
		all = append(all, planOne(random, length, workersRest, onWorkers, event{whom: fmt.Sprintf("worker %d", n), number: n, worker: everybody})...)
	}
	for n, name := range databases {
		all = append(all, planOne(random, whole, serversRest, onServers, event{whom: "server " + name, number: n, worker: everybody})...)
		if mirrored(name) {
			all = append(all, planOne(random, whole, besideRest, onStandbys, event{whom: "standby " + name, number: n, worker: everybody})...)
			last := event{kind: failOver, whom: "server " + name, number: n, worker: everybody, at: whole,
				last: logarithmic(random, shortest, 3*time.Second).Round(shortest)}
			last.word, last.when = words[random.IntN(len(words))], atWord
			all = append(all, last)
		}
	}
	for n, name := range databases {
		links := planOne(random, length, linksRest, onLinks, event{whom: "all to " + name, number: n, worker: everybody})
		for i := range links {
			if random.IntN(3) > 0 {
				links[i].worker = random.IntN(workers)
				links[i].whom = fmt.Sprintf("%d to %s", links[i].worker, name)
			}
		}
		all = append(all, links...)
	}
	if o.pooler != "" {
		for n, name := range databases {
			all = append(all, planOne(random, whole, poolersRest, onPoolers, event{whom: "pooler " + name, number: n, worker: everybody})...)
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return all
}

// planOne plans what is done to one target, which stands in like.
func planOne(random *rand.Rand, length, rest time.Duration, choices []choice, like event) []event {
	weights := 0
	for _, c := range choices {
		weights += c.weight
	}
	var events []event
	for at := pause(random, rest); at < length; at += pause(random, rest) {
		n, i := random.IntN(weights), 0
		for ; n >= choices[i].weight; i++ {
			n -= choices[i].weight
		}
		e := like
		e.at, e.kind = at, choices[i].kind
		if choices[i].longest > 0 {
			e.last = logarithmic(random, shortest, choices[i].longest).Round(shortest)
		}
		aimed := e.kind == lateMessage || e.kind == madeUp
		if random.IntN(3) > 0 || aimed {
			e.word, e.when = words[random.IntN(len(words))], []moment{beforeWord, afterAnswer, atWord}[random.IntN(3)]
			if aimed && e.when == atWord {
				e.when = beforeWord
			}
		}
		if e.kind == madeUp {
			e.reply = liars[random.IntN(len(liars))]
		}
		events = append(events, e)
		at += e.last
	}
	return events
}

// logarithmic is a random time between two others whose logarithm is evenly distributed.
func logarithmic(random *rand.Rand, from, to time.Duration) time.Duration {
	return time.Duration(float64(from) * math.Pow(float64(to)/float64(from), random.Float64()))
}

// pause is a random time around a mean, as between events that know nothing of each other.
func pause(random *rand.Rand, mean time.Duration) time.Duration {
	return min(time.Duration(random.ExpFloat64()*float64(mean)), 4*mean).Round(10 * time.Millisecond)
}

// printSchedule prints what will be done.
func printSchedule(out io.Writer, events []event) {
	for _, e := range events {
		fmt.Fprintln(out, e)
	}
}
