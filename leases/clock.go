package leases

import "time"

// instant is a point in time by both clocks of a computer. While it is suspended the monotonic clock may stand still, and
// the wall clock may be set; of the two the one that says more time has passed is believed.
type instant struct {
	monotonic time.Duration // since the process began
	wall      time.Time
}

var processStart = time.Now()

// readClocks is the present instant.
func readClocks() instant {
	now := time.Now()
	return instant{monotonic: now.Sub(processStart), wall: now.Round(0)} // Round strips the monotonic reading
}

// since is how much time has passed at least on one of the clocks.
func (i instant) since(earlier instant) time.Duration {
	return max(i.monotonic-earlier.monotonic, i.wall.Sub(earlier.wall))
}
