package main

import (
	"reflect"
	"testing"
	"time"
)

func TestASeedIsASchedule(t *testing.T) {
	o := options{seed: 1, time: time.Minute, workers: 4, pooler: "transaction"}
	one, again := plan(o), plan(o)
	o.seed = 2
	other := plan(o)
	if !reflect.DeepEqual(one, again) {
		t.Error("one seed makes two schedules")
	}
	if reflect.DeepEqual(one, other) {
		t.Error("two seeds make one schedule")
	}
}

func TestAScheduleHasEverythingAndNoOverlap(t *testing.T) {
	seen := map[kind]bool{}
	end := map[target]time.Duration{}
	for _, e := range plan(options{seed: 1, time: 10 * time.Minute, workers: 4, pooler: "transaction"}) {
		seen[e.kind] = true
		if e.at < end[e.target()] {
			t.Errorf("%s: the one before lasts until %v", e, end[e.target()])
		}
		end[e.target()] = e.at + e.last
	}
	for _, choices := range [][]choice{onWorkers, onServers, onLinks, onStandbys, onPoolers, {{kind: failOver}}} {
		for _, c := range choices {
			if !seen[c.kind] {
				t.Errorf("ten minutes without %q", c.kind)
			}
		}
	}
}
