package backend

import (
	"context"
	"strings"
)

// Observer is a Database that can find out what lies between it and its server. The PostgreSQL backend is one.
type Observer interface {
	// Observe asks the server, over the very path that statements take, and does not rely on the configuration. It opens
	// a few connections of its own that go the way of the pool, so that a full pool does not stop it, and one to the
	// direct address; it is bounded by ctx and by itself, and a deadline far away gives it time to see a slow pooler. It returns what it found out also where a guard is not in force: that is for the caller to judge.
	Observe(ctx context.Context) (Path, error)
}

// Path is what lies between a database's pool and its server.
type Path struct {
	Pooler Pooling
	// Evidence is what was seen, for people: server processes and their numbers.
	Evidence string
	// Told is what the URL says of it: transaction_pooling=true or false, or nil where it says nothing.
	Told *bool
	// Direct is the address past the pooler, host:port, or empty where none is configured.
	Direct string
	// DirectElsewhere: the direct address leads to another database than the pool does.
	DirectElsewhere bool
	// Guards are the settings that the URL asks for.
	Guards []Guard
	// Transport is how the pool's connections are protected, and DirectTransport how those to the direct address are, nil
	// where there is none or it could not be reached.
	Transport       Transport
	DirectTransport *Transport
}

// Transport is what protects a connection to a server, or to the pooler before it.
type Transport struct {
	Local     bool // by a Unix socket or an address of this machine alone, where nobody stands between
	Encrypted bool
	Verified  bool // encrypted, and the server has shown a certificate of an authority that the configuration trusts
}

// Pooling is what kind of connection pooler lies between.
type Pooling string

// The kinds.
const (
	PoolingNone        Pooling = "none"        // the server itself, perhaps behind a plain TCP proxy
	PoolingSession     Pooling = "session"     // a pooler that gives a client one server process for as long as it is connected
	PoolingTransaction Pooling = "transaction" // a pooler that gives each transaction any server process
	PoolingUnknown     Pooling = "unknown"     // a pooler whose mode could not be seen in time
)

// Guard is a setting that the URL asks for, and what the server says of it.
type Guard struct {
	Name         string // as PostgreSQL has it, which is also the option's name
	Asked, Found string // in PostgreSQL's base unit, milliseconds for time-outs
}

// InForce reports whether the server has the value that was asked for.
func (g Guard) InForce() bool { return normal(g.Asked) == normal(g.Found) }

// normal makes lists of names comparable, which servers write with other spaces.
func normal(value string) string {
	parts := strings.Split(value, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return strings.Join(parts, ",")
}

// TablesOwner is a Database whose configuration names roles that may own the tables that hare keeps in it, besides those that
// have power over its role anyway. The PostgreSQL backend is one.
type TablesOwner interface {
	// TablesOwners are the roles by name.
	TablesOwners() []string
}
