package integration

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/transactions"
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

// wantSettled makes sure, after whatever has happened to a distributed call that wrote a note everywhere, that no server
// process is at work on it any more; that what is prepared then is named by the call's error; that after a recovery all
// databases have the note or none has, as the error told, and nothing is prepared; and that the pools are usable and
// whole.
func (f *trio) wantSettled(text string, told error) {
	f.Helper()
	for _, alias := range everybody {
		f.eventually("no branch is at work in "+alias, func() bool { return f.count(alias, "SELECT count(*) "+inBranches) == 0 })
	}
	for _, alias := range everybody {
		for _, gid := range f.prepared(alias) {
			if !names(told, gid) {
				f.Errorf("%s is prepared, which the call does not tell: %v", gid, told)
			}
		}
	}
	if report := f.recover(transactions.Finish()); !report.Clean() {
		f.Errorf("recovery: %+v", report)
	}
	f.wantNothingPrepared()
	var has [3]int64
	for i, alias := range everybody {
		n, err := Notes.UsingAlias(alias).Filter(noteWith(text)).Count(f.ctx)
		if err != nil {
			f.Fatal(err)
		}
		has[i] = n
	}
	outcome := transactions.OutcomeOf(told)
	switch {
	case has != [3]int64{} && has != [3]int64{1, 1, 1}:
		f.Errorf("notes in c, a, b: %v, want all or none; the call told %v", has, told)
	case outcome == transactions.Ambiguous:
	case outcome == transactions.Mixed, (has[0] == 1) != (outcome != transactions.RolledBack):
		f.Errorf("told %s, and the notes in each database are %v: %v", outcome, has, told)
	}
	f.wantUsable()
	f.eventually("all connections have come back", func() bool { return f.plan.Held() == 0 })
}

// names says whether the error of a distributed call tells that a GID may be prepared.
func names(err error, gid string) bool {
	var ambiguous *transactions.CommitAmbiguousError
	if errors.As(err, &ambiguous) {
		return slices.Contains(ambiguous.GIDs, gid)
	}
	return err != nil && strings.Contains(err.Error(), gid)
}
