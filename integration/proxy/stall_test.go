package proxy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/integration/proxy"
)

// What is stalled is not lost: it arrives when the network is whole again, although the client has given up. Where only answers
// are stalled the server does at once what it is told.
func TestStall(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stall  func(*proxy.Proxy)
		before int
	}{
		"everything": {(*proxy.Proxy).Stall, 0},
		"answers":    {(*proxy.Proxy).StallAnswers, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			conn := connect(t, f.URL())
			test.stall(f.Proxy)
			short := func() context.Context {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // long enough to send it
				t.Cleanup(cancel)
				return ctx
			}
			if _, err := conn.Exec(short(), insert, pgx.QueryExecModeSimpleProtocol, "late"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the client got %v", err)
			}
			if _, err := pgx.Connect(short(), f.URL()); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("connecting: %v", err)
			}
			f.wait(test.before)
			f.Heal()
			f.wait(1)
			if _, err := connect(t, f.URL()).Exec(t.Context(), insert, pgx.QueryExecModeSimpleProtocol, "in time"); err != nil {
				t.Error(err)
			}
			f.wait(2)
		})
	}
}

// A stall gives way to what breaks connections.
func TestStallBreaks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	conn := connect(t, f.URL())
	f.StallAnswers()
	done := make(chan error)
	go func() {
		_, err := conn.Exec(t.Context(), insert, pgx.QueryExecModeSimpleProtocol, "its answer is lost")
		done <- err
	}()
	f.wait(1)
	f.Refuse()
	if err := <-done; err == nil {
		t.Error("the answer came through")
	}
	f.Heal()
	if _, err := connect(t, f.URL()).Exec(t.Context(), "SELECT 1"); err != nil {
		t.Error(err)
	}
}

func TestDisarm(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Disarm(f.Arm(proxy.Fault{Statement: "INTO note", Do: proxy.Hold}))
	held := f.Arm(proxy.Fault{Statement: "INTO note", Do: proxy.Hold})
	done := make(chan error)
	conn := connect(t, f.URL())
	go func() {
		_, err := conn.Exec(t.Context(), insert, pgx.QueryExecModeSimpleProtocol, "held")
		done <- err
	}()
	<-held.Struck()
	f.Disarm(held)
	if err := <-done; err != nil {
		t.Error(err)
	}
	f.wait(1)
}
