package postgres_test

import (
	"testing"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/servers"
)

// TestWayBehindABalancer: several poolers may stand behind one address, as several processes on one port or behind a balancer.
// Two connections to two of them never meet in a server process, and are no sign that each keeps its session.
func TestWayBehindABalancer(t *testing.T) {
	address, first := pooled(t, servers.PoolerOptions{})
	second := servers.PoolerFor(t, servers.PoolerOptions{URL: address})
	third := servers.PoolerFor(t, servers.PoolerOptions{URL: address})
	balancer := newRelay(t, first.Host(), second.Host(), third.Host())
	db := open(t, through(t, address, balancer.Addr().String()))
	same(t, "statements are kept", false, keepsStatements(t, db))
	same(t, "pooler", backend.PoolingTransaction, observe(t, db).Pooler)

	first, second = servers.PoolerFor(t, servers.PoolerOptions{URL: address, Mode: servers.SessionMode}),
		servers.PoolerFor(t, servers.PoolerOptions{URL: address, Mode: servers.SessionMode})
	balancer = newRelay(t, first.Host(), second.Host())
	db = open(t, through(t, address, balancer.Addr().String()))
	same(t, "pooler in session mode", backend.PoolingSession, observe(t, db).Pooler)
}
