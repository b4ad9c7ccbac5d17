package integration

import (
	"testing"

	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/transactions"
)

// The coordinator's server dies during the first call that it ever coordinates, and with it what it has not yet flushed,
// asynchronous commits being the default there. It goes by the same id afterwards: under another one nobody would find what
// the participants have prepared.
func TestACoordinatorKeepsItsIDThroughACrash(t *testing.T) {
	t.Parallel()
	server := ownServer(t, servers.Options{Fast: true, Settings: map[string]string{"synchronous_commit": "off", "wal_writer_delay": "10s"}})
	database, err := server.CreateDatabase(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	urls := servers.Databases(t, 2)
	f := trioOf(t, database, urls[0], urls[1])
	if err := server.Exec(t.Context(), "c", "CHECKPOINT"); err != nil {
		t.Fatal(err)
	}
	f.crash(isDecision)
	if err := server.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.reconnect()
	if report := f.recover(transactions.Finish()); !report.Clean() || len(report.Entries) != len(participants) {
		t.Errorf("recovery: %+v", report)
	}
	f.wantCounts(0, 0, 0)
	f.wantNothingPrepared()
}
