package integration

import (
	"maps"
	"strings"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/transactions"
)

// A server that speaks PostgreSQL's protocol and is something else is refused before the function runs, by name. One that
// only lacks PREPARE TRANSACTION says so when it is asked to prepare, and nothing is left anywhere.
//
// Field case 4.
func TestFieldOtherProduct(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	direct := maps.Clone(f.urls)
	for _, alias := range everybody {
		f.urls = maps.Clone(direct)
		f.through(alias)[alias].Arm(proxy.Fault{Statement: "pg_control_system", Do: proxy.Spoil})
		err := f.distributed(func(*hare.Distributed) error { t.Error("the function ran"); return nil })
		if e := as[*hare.ConfigurationError](t, err); e.Alias != alias || !strings.Contains(e.Error(), "the server calls itself \"PostgreSQL ") {
			t.Errorf("%s: %v", alias, err)
		}
		f.wantNothingLeft()
	}
	f.urls = direct
	f.through("b")["b"].Arm(proxy.Fault{Statement: "PREPARE TRANSACTION", Do: proxy.Spoil})
	err := f.distributed(writeAll)
	as[*transactions.AbortError](t, err)
	if e := as[*hare.DatabaseError](t, err); e.SQLState != "42601" || e.Alias != "b" {
		t.Errorf("got %v, want the server's syntax error", err)
	}
	f.wantNothingLeft()
	f.wantUsable()
}
