package leases_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hare-go/hare/leases"
)

// Closing the connections ends every term, and nothing can be begun, renewed or ended through them any more.
func TestCloseConnections(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	watch := p.session()
	conns, client := p.connect(p.url)
	opts, sees := counted(fleeting(5 * time.Second))
	l := p.lease(client, "job", opts)
	term := p.acquire(l)
	conns.Close()
	<-term.Done()
	as[*leases.LeaseLostError](t, term.Err())
	row := p.row(watch, "job")
	for what, err := range map[string]error{
		"the same lease": second(l.TryAcquire(t.Context())),
		"a new lease":    second(leases.New(client, "job", quick()).TryAcquire(t.Context())),
		"Acquire":        second(leases.New(client, "other", quick()).Acquire(t.Context())),
		"ForceRelease":   second2(leases.ForceRelease(t.Context(), client, "job", term.Token())),
		"List":           second2(leases.List(t.Context(), client)),
	} {
		if err == nil {
			t.Errorf("%s worked on closed connections", what)
		}
	}
	if err := errors.Join(term.Release(), l.Stop(t.Context())); err != nil {
		t.Error(err)
	}
	sees.want(t, 1, 0, 1)
	p.lapse(watch, "job")
	if now := p.row(watch, "job"); now != row {
		t.Errorf("the row was %s and is %s", row, now)
	}
	p.eventually("no session is left", func() bool {
		return get[int](p, watch, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'") == 0
	})
}

func second2[T any](_ T, err error) error { return err }
