package hare

import (
	"hash/maphash"
	"sync/atomic"
)

// rooms remembers how many rows statements gave when they last ran: the same text tends to give as many again. A slice
// that has room for all rows at once costs a third of one that grows to them. Two statements that share a place only guess
// worse.
type rooms struct{ places [128]seen }

var roomSeed = maphash.MakeSeed()

func (r *rooms) of(sql string) *seen {
	return &r.places[maphash.String(roomSeed, sql)%uint64(len(r.places))]
}

// seen is how many rows there were last time, plus one; zero where there was no last time.
type seen struct{ rows atomic.Int64 }

// room is for how many rows to make room. Tables grow, so it is a little more than what there was.
func (s *seen) room(limit int) int {
	const first = 1024 // a limit that is taken at its word
	room := int(s.rows.Load()) - 1
	if room < 0 {
		return max(0, min(limit, first))
	}
	room += room / 8
	if limit >= 0 {
		room = min(room, limit)
	}
	return room
}

// note keeps the number of rows, unless it is much the same: many callers look here, and a store takes the place from
// their caches.
func (s *seen) note(rows int) {
	last := int(s.rows.Load()) - 1
	if last < 0 || rows > last+last/8 || rows < last/2 {
		s.rows.Store(int64(rows) + 1)
	}
}
