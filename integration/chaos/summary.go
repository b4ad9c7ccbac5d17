package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/hare-go/hare/transactions"
)

// summary is the figures of a run.
type summary struct {
	calls     int
	outcomes  map[string]int
	latencies []time.Duration // of calls that committed, sorted
	recovered map[string]int  // by action
	done      map[kind]int    // by the nemesis
}

// killed is the outcome of a call whose process died.
const killed = "killed before it was told"

func summarize(journal []line, done map[kind]int) summary {
	s := summary{outcomes: map[string]int{}, recovered: map[string]int{}, done: done}
	finished := map[string]bool{}
	for _, l := range journal {
		switch {
		case l.Intent != nil:
			s.calls++
			s.outcomes[killed]++
		case l.Result != nil:
			s.outcomes[killed]--
			s.outcomes[l.Result.Outcome]++
			if l.Result.Outcome == transactions.Committed.String() {
				s.latencies = append(s.latencies, l.Result.Took)
			}
		case l.Recovered != nil && l.Recovered.State == string(transactions.StateDone) && !finished[l.Recovered.GID]:
			finished[l.Recovered.GID] = true // two recoveries may claim the same
			s.recovered[l.Recovered.Action]++
		}
	}
	slices.Sort(s.latencies)
	return s
}

// percentile is the latency that so many per cent of the calls do not exceed.
func (s summary) percentile(p int) time.Duration {
	if len(s.latencies) == 0 {
		return 0
	}
	return s.latencies[min(len(s.latencies)*p/100, len(s.latencies)-1)]
}

// print prints the table.
func (s summary) print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "calls\t%d\t\n", s.calls)
	for _, outcome := range order(s.outcomes) {
		fmt.Fprintf(table, "%s\t%d\t\n", outcome, s.outcomes[outcome])
	}
	for _, k := range order(s.done) {
		fmt.Fprintf(table, "%s\t%d\t\n", k, s.done[k])
	}
	for _, action := range order(s.recovered) {
		fmt.Fprintf(table, "finished by recovery: %s\t%d\t\n", action, s.recovered[action])
	}
	fmt.Fprintf(table, "latency of a commit, median\t%v\t\n", s.percentile(50).Round(time.Millisecond))
	fmt.Fprintf(table, "latency of a commit, 99 %%\t%v\t\n", s.percentile(99).Round(time.Millisecond))
	_ = table.Flush() // if it cannot be written, there is nobody to tell
}

// order gives the keys, the most frequent first.
func order[K cmp.Ordered](counts map[K]int) []K {
	return slices.SortedFunc(maps.Keys(counts), func(a, b K) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}
