package integration

import (
	"testing"

	"github.com/hare-go/hare/integration/proxy"
)

// newProxy starts a proxy that the test's end closes.
func newProxy(t *testing.T, databaseURL string) *proxy.Proxy {
	t.Helper()
	p, err := proxy.Start(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// through puts proxies between hare and the databases of aliases, each its own.
func (f *trio) through(aliases ...string) map[string]*proxy.Proxy {
	f.Helper()
	proxies := map[string]*proxy.Proxy{}
	for _, alias := range aliases {
		proxies[alias] = newProxy(f.T, f.urls[alias])
		f.urls[alias] = proxies[alias].URL()
	}
	f.reconnect()
	return proxies
}
