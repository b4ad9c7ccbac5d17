package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/internal/doctor"
	"github.com/hare-go/hare/transactions"
)

// prepare leaves a prepared transaction that locks a table of its own.
func prepare(t *testing.T, url, table, gid string) {
	t.Helper()
	execAll(t, url, "CREATE TABLE IF NOT EXISTS "+table+" (id int)", "BEGIN", "INSERT INTO "+table+" VALUES (1)", "PREPARE TRANSACTION '"+strings.ReplaceAll(gid, "'", "''")+"'")
}

// A server without slots is worth a warning as long as no database coordinates, and a failure from then on; alone, or as the
// coordinator itself, it is as good as any. More slots mend it.
func TestDoctorNoSlots(t *testing.T) {
	t.Parallel()
	none := ownServer(t, servers.Options{Name: "none", Fast: true, Settings: map[string]string{"max_prepared_transactions": "", "max_connections": "30"}})
	p := &patients{T: t, urls: map[string]string{"b": database(t, none, "b")}}
	p.want(p.examine(doctor.Options{}), "b", "prepared_slots", doctor.OK, "no slots", "one database")

	urls := unpooled(t, 2)
	p.urls["c"], p.urls["a"] = urls[0], urls[1]
	p.want(p.examine(doctor.Options{}), "b", "prepared_slots", doctor.Warning, "if there are to be")
	distribute := func(coordinator, participant string) error {
		conns, err := hare.Open(t.Context(), hare.Config{Connections: p.urls})
		if err != nil {
			t.Fatal(err)
		}
		defer conns.Close()
		return transactions.Distributed(hare.WithConnections(t.Context(), conns), coordinator, []string{participant}, func(*hare.Distributed) error { return nil })
	}
	if err := distribute("c", "a"); err != nil {
		t.Fatal(err)
	}
	report := p.examine(doctor.Options{})
	p.want(report, "a", "prepared_slots", doctor.OK, " in use")
	f := p.want(report, "b", "prepared_slots", doctor.Failure, "no slots")
	if err := distribute("c", "b"); err == nil {
		t.Error("it is a participant without slots")
	}
	p.mended(f, func() {
		if err := none.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}, "0 of 30 in use")
	if err := distribute("c", "b"); err != nil {
		t.Error(err)
	}
}

// Slots that are all in use are a failure, and scarce ones a warning.
func TestDoctorSlotsInUse(t *testing.T) {
	t.Parallel()
	server := ownServer(t, servers.Options{Name: "slots", Volatile: true, Settings: map[string]string{"max_prepared_transactions": "7"}})
	p := &patients{T: t, urls: map[string]string{"a": database(t, server, "a")}}
	elsewhere := database(t, server, "elsewhere")
	for i, test := range []struct {
		state doctor.State
		value string
	}{
		{doctor.OK, "1 of 7"}, {doctor.OK, "2 of 7"}, {doctor.OK, "3 of 7"}, {doctor.OK, "4 of 7"}, {doctor.OK, "5 of 7"},
		{doctor.Warning, "6 of 7 in use, 6 of them by other databases"}, {doctor.Failure, "7 of 7 in use"},
	} {
		prepare(t, elsewhere, "t", fmt.Sprint("theirs", i))
		p.want(p.examine(doctor.Options{}), "a", "prepared_slots", test.state, test.value)
	}
	report := p.examine(doctor.Options{})
	p.want(report, "a", "prepared_transactions", doctor.OK, "none")
	// ALTER SYSTEM would have no effect: the command line wins.
	if f := of(report, "a", "prepared_slots")[0]; len(f.SQL) > 0 || !strings.Contains(f.Mend, "the server's command line, which sets max_prepared_transactions (200 for example)") {
		t.Errorf("%+v", f)
	}
	execAll(t, elsewhere, "ROLLBACK PREPARED 'theirs0'", "ROLLBACK PREPARED 'theirs1'")
	p.want(p.examine(doctor.Options{}), "a", "prepared_slots", doctor.OK, "5 of 7")
}

// A stranger's prepared transaction is told with its age, its owner and what it locks, and so is the danger of ending it;
// ended by the proposed statement it is gone.
func TestDoctorStrangersOrphan(t *testing.T) {
	t.Parallel()
	p := &patients{T: t, urls: map[string]string{"a": unpooled(t, 1)[0]}}
	prefix := strings.TrimPrefix(p.urls["a"][strings.LastIndex(p.urls["a"], "/"):], "/")
	prefix, _, _ = strings.Cut(prefix, "?")
	prepare(t, p.urls["a"], "orders", prefix+"it's")
	prepare(t, p.urls["a"], "parts", prefix+"second")
	p.want(p.examine(doctor.Options{OlderThan: time.Hour}), "a", "prepared_transactions", doctor.OK, "2, younger than 1h0m")

	f := p.want(p.examine(doctor.Options{}), "a", "prepared_transactions", doctor.Failure, "not hare's", " old, owner", prefix+"it's", "locks orders", "and 1 more")
	if !strings.Contains(f.Mend, "destroys data") || len(f.Command) > 0 {
		t.Errorf("it does not tell the danger, or has a command of hare's: %+v", f)
	}
	p.run(f)
	p.mended(p.want(p.examine(doctor.Options{}), "a", "prepared_transactions", doctor.Failure, prefix+"second"), nil, "none")

	prepare(t, p.urls["a"], "orders", "hare_dtx_"+prefix)
	f = p.want(p.examine(doctor.Options{}), "a", "prepared_transactions", doctor.Failure, "not hare's")
	if !strings.Contains(f.Mend, "hare for Python") {
		t.Errorf("it does not say whose it may be: %+v", f)
	}
	p.run(f)
}

// What a crash has left of hare's is told with the tables that it locks, and as an unresolved decision at its coordinator;
// the proposed command finishes it.
func TestDoctorOrphanOfHare(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	p := &patients{T: t, urls: f.urls}
	f.crash(isCommitPrepared)
	report := p.examine(doctor.Options{OlderThan: time.Hour})
	p.want(report, "c", "decisions", doctor.OK, "1 unresolved, younger than 1h0m")
	p.want(report, "a", "prepared_transactions", doctor.OK, "1, younger than")

	report = p.examine(doctor.Options{})
	waits := p.want(report, "c", "decisions", doctor.Failure, "1 unresolved", "hare_dtx_c:")
	orphan := p.want(report, "a", "prepared_transactions", doctor.Failure, "hare's", "locks note", f.prepared("a")[0])
	xid, _, err := transactions.ParseGID(f.prepared("a")[0])
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"distributed-recover", "--coordinator", "c", "--older-than", "0", "--xid", xid, "--finish"}; !slices.Equal(orphan.Command, want) {
		t.Errorf("%q, want %q", orphan.Command, want)
	}
	if want := []string{"distributed-recover", "--coordinator", "c", "--older-than", "0", "--finish"}; !slices.Equal(waits.Command, want) || len(orphan.SQL) > 0 {
		t.Errorf("%q, want %q, and no statement: %q", waits.Command, want, orphan.SQL)
	}

	// Without its coordinator it can only say which one that would be, or that it has to be configured.
	alone := p.want(p.examine(doctor.Options{Aliases: []string{"a"}}), "a", "prepared_transactions", doctor.Failure)
	if !strings.Contains(alone.Mend, `"c" was not looked at; if it is the coordinator with the id`) || !slices.Equal(alone.Command, orphan.Command) {
		t.Errorf("%+v", alone)
	}
	without := &patients{T: t, urls: map[string]string{"a": f.urls["a"], "c": f.urls["b"]}}
	if alone = without.want(without.examine(doctor.Options{}), "a", "prepared_transactions", doctor.Failure); !strings.Contains(alone.Mend, "its coordinator is not among these databases") {
		t.Errorf("%+v", alone)
	}

	binary := buildCommand(t)
	config := writeConfiguration(t, p.urls)
	c := &command{trio: f, binary: binary}
	told := runHare(t, binary, "doctor", "--config", config, "--older-than", "0")
	line := "hare distributed-recover --config " + config + " --coordinator c --older-than 0 --xid " + xid + " --finish"
	if told.status != 1 || !strings.Contains(told.out, line) {
		t.Errorf("status %d, without %s:\n%s", told.status, line, told.out)
	}
	c.want(c.run(config, slices.Clone(orphan.Command)[3:]...), 0)
	report = p.examine(doctor.Options{})
	p.want(report, "a", "prepared_transactions", doctor.OK, "none")
	p.want(report, "b", "prepared_transactions", doctor.OK, "none")
	p.want(report, "c", "decisions", doctor.OK, "none")
}
