package main

import (
	"reflect"
	"testing"
	"time"
)

func TestASeedIsASchedule(t *testing.T) {
	one, again, other := plan(1, time.Minute, 4), plan(1, time.Minute, 4), plan(2, time.Minute, 4)
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
	for _, e := range plan(1, 10*time.Minute, 4) {
		seen[e.kind] = true
		if e.at < end[e.target()] {
			t.Errorf("%s: the one before lasts until %v", e, end[e.target()])
		}
		end[e.target()] = e.at + e.last
	}
	for _, choices := range [][]choice{onWorkers, onServers, onLinks} {
		for _, c := range choices {
			if !seen[c.kind] {
				t.Errorf("ten minutes without %q", c.kind)
			}
		}
	}
}
