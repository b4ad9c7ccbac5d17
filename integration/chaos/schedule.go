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

// kind is what the nemesis does.
type kind string

// What can be done to a worker, to a server, and to the links to a server.
const (
	killWorker  kind = "kill worker"  // SIGKILL; another takes its place
	pauseWorker kind = "pause worker" // SIGSTOP, SIGCONT

	killServer    kind = "kill server"    // SIGKILL to all its processes; started again
	pauseServer   kind = "pause server"   // frozen
	restartServer kind = "restart server" // shut down in order, started again
	endSessions   kind = "end sessions"   // half of the sessions are terminated

	cutLink     kind = "cut link"     // connections are reset, and new ones refused
	stallLink   kind = "stall link"   // nothing arrives; at the end it does, late
	loseLink    kind = "lose link"    // nothing arrives; at the end what was on its way is lost
	stallAnswer kind = "stall answer" // requests arrive, answers do not; at the end they do
	loseAnswer  kind = "lose answer"  // requests arrive, answers do not; at the end they are lost
	lateMessage kind = "late message" // one message, or its answer, is late; other connections work
)

// event is one thing that is done to one target.
type event struct {
	at     time.Duration // since the beginning
	kind   kind
	whom   string        // the target, for people
	number int           // of the worker or the server
	worker int           // of a link: whose, or everybody
	last   time.Duration // how long it lasts
	word   string        // it waits for this word on the target's links, for aimTime at most
	when   moment
}

// elsewhere says that an event waits for its word on the way to the other servers: what may suffer from a decision that is
// delivered is the server that made it.
func (e event) elsewhere() bool { return e.class() == ofServer && e.word == delivery }

// moment is when an event happens that waits for a word.
type moment string

const (
	atWord      moment = "at"     // the word goes on meanwhile
	beforeWord  moment = "before" // the word waits
	afterAnswer moment = "after"  // the answer to the word waits
)

// The words that the messages of a commit are known by. A fault at random mostly meets a callback; one that is aimed
// meets the commit.
const (
	decision = "INSERT INTO public.hare_distributed_decisions"
	delivery = "COMMIT PREPARED"
)

var words = []string{"PREPARE TRANSACTION", decision, decision, delivery, "ROLLBACK PREPARED"}

// aimTime is how long an event waits for its word.
const aimTime = time.Second

// class is what an event is done to.
type class uint8

// target is whose events do not overlap: a worker, a server, or the links to a server.
type target struct {
	class  class
	number int
}

func (e event) target() target { return target{e.class(), e.number} }

const (
	ofWorker class = iota
	ofServer
	ofLink
)

func (e event) class() class {
	switch e.kind {
	case killWorker, pauseWorker:
		return ofWorker
	case killServer, pauseServer, restartServer, endSessions:
		return ofServer
	}
	return ofLink
}

// everybody's links are broken at once.
const everybody = -1

// String is the event as the schedule prints it.
func (e event) String() string {
	text := fmt.Sprintf("%7.2fs  %-14s  %-8s  %5.2fs", e.at.Seconds(), e.kind, e.whom, e.last.Seconds())
	if e.word != "" {
		text += fmt.Sprintf("  %s %s", e.when, e.word)
	}
	if e.elsewhere() {
		text += " elsewhere"
	}
	return text
}

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
		{lateMessage, 5, 6 * time.Second}}
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
)

// plan makes the schedule, which nothing but its arguments decides. The events of one target do not overlap; those of
// different targets do.
func plan(seed uint64, length time.Duration, workers int) []event {
	random := rand.New(rand.NewPCG(seed, 0))
	var all []event
	for n := range workers {
		all = append(all, planOne(random, length, workersRest, onWorkers, event{whom: fmt.Sprintf("worker %d", n), number: n, worker: everybody})...)
	}
	for n, name := range databases {
		all = append(all, planOne(random, length, serversRest, onServers, event{whom: "server " + name, number: n, worker: everybody})...)
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
		if random.IntN(3) > 0 || e.kind == lateMessage {
			e.word, e.when = words[random.IntN(len(words))], []moment{beforeWord, afterAnswer, atWord}[random.IntN(3)]
			if e.kind == lateMessage && e.when == atWord {
				e.when = beforeWord
			}
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
