package storm

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// kind is what is done.
type kind string

// What can be done to a candidate, to its link, to the link that all have in common who come through the pooler, and to the
// lease's row.
const (
	kill kind = "kill" // SIGKILL; another process takes its place
	stop kind = "stop" // SIGSTOP, SIGCONT

	cut          kind = "cut"           // connections are reset, and new ones refused
	swallow      kind = "swallow"       // nothing arrives; at the end what was on its way is lost
	stall        kind = "stall"         // nothing arrives; at the end it does, late
	stallAnswers kind = "stall answers" // requests arrive, answers do not; at the end they do
	loseAnswers  kind = "lose answers"  // requests arrive, answers do not; at the end they are lost

	starve     kind = "starve"      // the row is locked until it has expired, and for a while more, so that renewals wait or fail
	lateStarve kind = "late starve" // the answer to a renewal is late, and then likewise

	lie kind = "lie" // a message about the lease is answered with an error that its server never said, or its answer is lost for one

	killStandby  kind = "kill standby"  // without which nothing commits; started again
	pauseStandby kind = "pause standby" // frozen
	mislead      kind = "mislead"       // the pooler leads its clients to another database, which has the row, too

	lockRow kind = "lock row" // another transaction locks the lease's row, and leaves it as it is
	force   kind = "force"    // ForceRelease: the holder does not know
)

// The targets that are no slots.
const (
	slots   = 8
	holder  = -1 // whichever slot holds the lease
	trunk   = -2 // between the pooler and its server
	row     = -3
	standby = -4
	pooler  = -5
)

// event is one thing that is done to one target.
type event struct {
	at   time.Duration // since the beginning
	kind kind
	whom int           // a slot or another target
	last time.Duration // how long it lasts

	word  string // of a lie: what is answered
	reply int    // with what
	done  bool   // and whether it is done all the same
}

// choice is a kind with its weight, and how long it may last: 10 ms at least, and short ones are as frequent as long ones.
type choice struct {
	kind    kind
	weight  int
	longest time.Duration
}

// longest is how long anything lasts: some times the TTL.
const longest = 3 * ttl

var (
	onLinks  = []choice{{cut, 2, ttl}, {swallow, 2, longest}, {stall, 2, longest}, {stallAnswers, 2, longest}, {loseAnswers, 2, longest}}
	onSlots  = append([]choice{{kill, 5, ttl}, {stop, 5, longest}, {lie, 5, 0}}, onLinks...)
	onHolder = append([]choice{{starve, 6, ttl / 10}, {lateStarve, 3, ttl / 10}, {lie, 6, 0}}, onSlots...)
	onTrunk  = []choice{{cut, 2, ttl / 2}, {stall, 1, ttl}, {stallAnswers, 1, ttl}, {loseAnswers, 1, ttl}}
	onRow    = []choice{{lockRow, 1, ttl}, {force, 1, 0}}

	onStandby = []choice{{killStandby, 1, 2 * ttl}, {pauseStandby, 2, 2 * ttl}}
	onPooler  = []choice{{mislead, 1, longest}}
)

// plan makes the schedule, which nothing but its arguments decides. The events of one target do not overlap; those of
// different targets do, except that nobody is hit as the holder while something is done to its slot.
func plan(seed uint64, length time.Duration) []event {
	random := rand.New(rand.NewPCG(seed, 0))
	all := planOne(random, length, 1500*time.Millisecond, onHolder, holder)
	for n := range slots {
		all = append(all, planOne(random, length, 10*time.Second, onSlots, n)...)
	}
	all = append(all, planOne(random, length, 12*time.Second, onTrunk, trunk)...)
	all = append(all, planOne(random, length, 2*time.Second, onRow, row)...)
	all = append(all, planOne(random, length, 5*time.Second, onStandby, standby)...)
	all = append(all, planOne(random, length, 5*time.Second, onPooler, pooler)...)
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return all
}

func planOne(random *rand.Rand, length, rest time.Duration, choices []choice, whom int) []event {
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
		e := event{at: at, kind: choices[i].kind, whom: whom}
		if choices[i].longest > 0 {
			e.last = logarithmic(random, 10*time.Millisecond, choices[i].longest).Round(10 * time.Millisecond)
		}
		if e.kind == lie {
			e.word, e.reply, e.done = lockWords[random.IntN(len(lockWords))], random.IntN(len(replies)), random.IntN(2) == 0
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

// String is the event as the schedule prints it.
func (e event) String() string {
	return fmt.Sprintf("%7.2fs  %-13s  %-8s  %5.2fs", e.at.Seconds(), e.kind, e.target(), e.last.Seconds())
}

func (e event) target() string {
	if names := map[int]string{holder: "holder", trunk: "trunk", row: "row", standby: "standby", pooler: "pooler"}; names[e.whom] != "" {
		return names[e.whom]
	}
	return fmt.Sprintf("slot %d", e.whom)
}
