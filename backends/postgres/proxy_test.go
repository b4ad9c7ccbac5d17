package postgres_test

import (
	"testing"

	"github.com/hare-go/hare/integration/proxy"
)

// newProxy starts a proxy in front of the server of a URL.
func newProxy(t testing.TB, address string) *proxy.Proxy {
	t.Helper()
	p, err := proxy.Start(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// counting runs fn and returns how many round trips it took.
func counting(p *proxy.Proxy, fn func()) int {
	before := p.RoundTrips()
	fn()
	return p.RoundTrips() - before
}
