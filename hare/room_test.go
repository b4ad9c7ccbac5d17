package hare

import "testing"

func TestRoom(t *testing.T) {
	for _, tt := range []struct {
		name  string
		gave  []int // what the statement gave before
		limit int
		want  int
	}{
		{"the first time", nil, -1, 0},
		{"the first time, limited", nil, 100, 100},
		{"the first time, with a limit that means no limit", nil, 1 << 40, 1024},
		{"as many as last time and a few more", []int{800}, -1, 900},
		{"no more than the limit", []int{800}, 850, 850},
		{"none last time", []int{0}, -1, 0},
		{"none last time, limited", []int{0}, 100, 0},
		{"about as many is no news", []int{800, 850, 500}, -1, 900},
		{"more", []int{800, 1600}, -1, 1800},
		{"far fewer", []int{800, 10}, -1, 11},
	} {
		var r rooms
		for _, rows := range tt.gave {
			r.of("SELECT 1").note(rows)
		}
		if got := r.of("SELECT 1").room(tt.limit); got != tt.want {
			t.Errorf("%s: room for %d, want %d", tt.name, got, tt.want)
		}
	}
}
