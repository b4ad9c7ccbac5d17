package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/transactions"
)

// slotted is a server with so many slots for prepared transactions.
func slotted(t *testing.T, slots int) *servers.Server {
	t.Helper()
	setting := fmt.Sprint(slots)
	if slots == 0 {
		setting = "" // PostgreSQL's default, which ALTER SYSTEM can change
	}
	return ownServer(t, servers.Options{Name: "slots", Fast: true, Settings: map[string]string{"max_prepared_transactions": setting}})
}

// A server without prepared transactions is refused before the function runs, whatever its place among the
// participants; as a coordinator, which prepares nothing, it is as good as any.
//
// Field case 1. W29.
func TestFieldNoPreparedTransactions(t *testing.T) {
	t.Parallel()
	urls := servers.Databases(t, 2)
	f := trioOf(t, urls[0], urls[1], database(t, slotted(t, 0), "b"))
	for _, test := range []struct {
		coordinator  string
		participants []string
		refused      bool
	}{
		{"c", []string{"b"}, true}, {"c", []string{"a", "b"}, true}, {"c", []string{"b", "a"}, true}, {"b", []string{"a", "c"}, false},
	} {
		for range 2 { // a refusal is not remembered as anything else
			ran := false
			err := transactions.Distributed(f.ctx, test.coordinator, test.participants, func(d *hare.Distributed) error {
				ran = true
				return write(d, "x", append([]string{test.coordinator}, test.participants...)...)
			}, shortPhases)
			if !test.refused {
				if err != nil {
					t.Errorf("%s coordinates: %v", test.coordinator, err)
				}
				continue
			}
			e := as[*hare.ConfigurationError](t, err)
			if diff := cmp.Diff([]string{"b", "max_prepared_transactions"}, []string{e.Alias, e.Option}); diff != "" || ran {
				t.Errorf("%s: the function ran: %v; the error %v (-want +got):\n%s", test.participants, ran, e, diff)
			}
			f.wantNothingLeft()
		}
	}
	f.wantCounts(2, 2, 2)
	f.wantNothingPrepared()
}

// All slots are taken by somebody else. The error says what to do, everything is rolled back, those others are not
// touched, and with a slot free again the same call commits.
//
// Field case 2. W22.
func TestFieldSlotsExhausted(t *testing.T) {
	t.Parallel()
	urls := servers.Databases(t, 2)
	f := trioOf(t, urls[0], urls[1], database(t, slotted(t, 2), "b"))
	foreign := []string{"somebody's", "somebody else's"}
	for _, gid := range foreign {
		f.prepareByHand("b", gid)
	}
	for range 2 {
		err := f.distributed(writeAll, transactions.Retries(1))
		e := as[*hare.ConfigurationError](t, err)
		if e.Alias != "b" || !strings.Contains(e.Error(), "distributed-recover") || !strings.Contains(e.Error(), "pg_prepared_xacts") {
			t.Errorf("the error does not say what to do: %v", e)
		}
		if cause := as[*hare.DatabaseError](t, e.Err); cause.SQLState != "53200" {
			t.Errorf("the cause is %v", cause)
		}
		wantOutcome(t, err, transactions.RolledBack)
		f.wantCounts(0, 0, 0)
		if diff := cmp.Diff([]string{"somebody else's", "somebody's"}, f.prepared("b")); diff != "" || len(f.prepared("a")) > 0 {
			t.Errorf("prepared in a: %q, in b (-want +got):\n%s", f.prepared("a"), diff)
		}
	}
	f.exec("b", "ROLLBACK PREPARED 'somebody''s'")
	if err := f.distributed(writeAll); err != nil {
		t.Errorf("with a free slot: %v", err)
	}
	f.wantCounts(1, 1, 1)
	f.exec("b", "ROLLBACK PREPARED 'somebody else''s'")
	f.wantNothingPrepared()
}

// Who writes nothing takes no slot. On a server with one, two participants commit if one of them only reads or does
// nothing, and all are read while somebody else holds the slot; two that write are one too many.
//
// W28.
func TestFieldOneSlot(t *testing.T) {
	t.Parallel()
	server := slotted(t, 1)
	f := trioOf(t, servers.Database(t), database(t, server, "a"), database(t, server, "b"))
	reads := func(d *hare.Distributed, aliases ...string) error {
		for _, alias := range aliases {
			if _, err := Notes.Using(d.Client(alias)).Count(d.Context()); err != nil {
				return err
			}
		}
		return nil
	}
	for _, idle := range [][]string{nil, {"b"}} {
		err := f.distributed(func(d *hare.Distributed) error { return errors.Join(write(d, "x", "c", "a"), reads(d, idle...)) })
		if err != nil {
			t.Errorf("a writes, %q are read: %v", idle, err)
		}
	}
	f.wantCounts(2, 2, 0)
	err := f.distributed(writeAll)
	wantOutcome(t, err, transactions.RolledBack)
	as[*hare.ConfigurationError](t, err)
	f.wantCounts(2, 2, 0)
	f.wantNothingPrepared()
	f.prepareByHand("a", "somebody's")
	for _, idle := range [][]string{nil, participants} {
		err := f.distributed(func(d *hare.Distributed) error { return errors.Join(write(d, "x", "c"), reads(d, idle...)) })
		if err != nil {
			t.Errorf("without a slot, %q are read: %v", idle, err)
		}
	}
	f.exec("a", "ROLLBACK PREPARED 'somebody''s'")
	f.wantCounts(4, 2, 0)
	f.wantNothingPrepared()
}

// What is remembered of a database is not more than what was asked of it: a server without prepared transactions that coordinates is
// refused as a participant all the same, before the function runs, whichever it was first, over whichever Connections, and when the
// setting has changed with a restart. Only a participant that was fit when it was met learns of the change by PREPARE, which rolls the
// call back; the next call is refused before the function runs.
//
// Fault D11.
func TestPartsAreRememberedApart(t *testing.T) {
	t.Parallel()
	server := slotted(t, 0)
	urls := servers.Databases(t, 2)
	f := trioOf(t, urls[0], urls[1], database(t, server, "b"))
	first := f.ctx
	second := hare.WithConnections(t.Context(), f.connect(f.urls))
	for i, step := range []struct {
		slots        int // the server is restarted where it has another number
		ctx          context.Context
		coordinator  string
		participants []string
		ran, refused bool
	}{
		{0, first, "b", []string{"a"}, true, false}, // first a coordinator
		{0, first, "c", []string{"b"}, false, true},
		{0, first, "c", []string{"a", "b"}, false, true},
		{0, first, "b", []string{"a"}, true, false},  // its refusal takes nothing from it
		{0, second, "c", []string{"b"}, false, true}, // first a participant
		{0, second, "b", []string{"a"}, true, false},
		{0, second, "c", []string{"b"}, false, true},
		{2, first, "c", []string{"b"}, true, false}, // known as a coordinator without slots, which it has now
		{2, first, "b", []string{"a"}, true, false},
		{0, first, "b", []string{"a"}, true, false},
		{0, first, "c", []string{"b"}, true, true}, // known as a participant with slots
		{0, first, "c", []string{"b"}, false, true},
		{0, first, "b", []string{"a"}, true, false},
		{0, first, "c", []string{"b"}, false, true},
	} {
		f.restartWith("b", server, step.slots, first, second)
		ran := false
		err := transactions.Distributed(step.ctx, step.coordinator, step.participants, func(d *hare.Distributed) error {
			ran = true
			return write(d, "x", append([]string{step.coordinator}, step.participants...)...)
		}, shortPhases)
		what := fmt.Sprintf("step %d: %s coordinates, %q take part, %d slots", i, step.coordinator, step.participants, step.slots)
		if ran != step.ran {
			t.Errorf("%s: the function ran: %v; %v", what, ran, err)
		}
		if !step.refused {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		e := as[*hare.ConfigurationError](t, err)
		if diff := cmp.Diff([]string{"b", "max_prepared_transactions"}, []string{e.Alias, e.Option}); diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
		}
		wantOutcome(t, err, transactions.RolledBack)
	}
	f.wantCounts(1, 6, 7)
	f.wantNothingPrepared()
}

// restartWith restarts an alias's server where its number of slots is another, and waits until every ctx's connections have noticed.
func (f *trio) restartWith(alias string, server *servers.Server, slots int, all ...context.Context) {
	f.Helper()
	if f.text(alias, "SHOW max_prepared_transactions") == fmt.Sprint(slots) {
		return
	}
	f.exec(alias, fmt.Sprintf("ALTER SYSTEM SET max_prepared_transactions = %d", slots))
	if err := server.Restart(f.ctx); err != nil {
		f.Fatal(err)
	}
	for _, ctx := range all {
		f.eventually("connections to the server that was restarted", func() bool {
			_, err := Notes.UsingAlias(alias).Count(ctx)
			return err == nil
		})
	}
}
