package integration

import (
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/faults"
	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/integration/servers"
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

// past is the same databases, past the poolers.
func (f *trio) past() *trio {
	f.Helper()
	other := *f
	other.urls, other.plan, other.pooled = map[string]string{}, &faults.Plan{}, false
	for alias, databaseURL := range f.urls {
		other.urls[alias] = servers.Direct(databaseURL)
	}
	other.conns = other.connect(other.urls)
	other.ctx = hare.WithConnections(f.Context(), other.conns)
	return &other
}

// in is the same databases and connections in a test of their own.
func (f *trio) in(t *testing.T) *trio {
	inner := *f
	inner.T = t
	inner.ctx = hare.WithConnections(t.Context(), f.conns)
	return &inner
}

// wait waits for an event.
func (f *trio) wait(what string, event <-chan struct{}) {
	f.Helper()
	select {
	case <-event:
	case <-time.After(30 * time.Second):
		f.Fatalf("not within 30 s: %s", what)
	}
}

// wantSettled makes sure of what must hold after a distributed call that wrote a note everywhere, whatever the network and
// the servers have done to it, when the last server process has left it: see [sweep.check]. It returns who looked, by
// connections of its own, so that the pools can be looked at as well.
func (f *trio) wantSettled(text string, told error) *sweep {
	f.Helper()
	looker := *f
	looker.urls = map[string]string{}
	for alias, databaseURL := range f.urls {
		looker.urls[alias] = databaseURL + "&application_name=" + looking
	}
	looker.conns = f.connect(looker.urls)
	looker.ctx = hare.WithConnections(f.Context(), looker.conns)
	s := &sweep{trio: &looker, databases: everybody, writers: everybody}
	s.await("the sessions of the call to end", func() bool { return s.sessions("application_name LIKE 'hare_dtx:%'") == 0 })
	s.check(text, text, endOf(told))
	return s
}
