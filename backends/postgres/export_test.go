package postgres

import (
	"net"
	"time"
)

// NothingIsLocal makes every address one that others can listen on, until the function that it returns is called.
func NothingIsLocal() (again func()) {
	before := isLocal
	isLocal = func(net.Addr) bool { return false }
	return func() { isLocal = before }
}

// IsLocal is isLocal.
func IsLocal(address net.Addr) bool { return isLocal(address) }

// AskEvery sets how long a pooler's answer about the guards is believed, until the function that it returns is called.
func AskEvery(d time.Duration) (again func()) {
	before := askEvery
	askEvery = d
	return func() { askEvery = before }
}
