package leases_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

// Options that cannot work are refused by the first call, whatever it is, and the error names them.
//
// Lease field case 2.
func TestOptionsRefused(t *testing.T) {
	p := newPlace(t)
	client := p.client()
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		opts  leases.Options
		names []string
	}{
		"TTL too short":              {leases.Options{TTL: 99 * ms}, []string{"TTL"}},
		"TTL too long":               {leases.Options{TTL: 25 * time.Hour}, []string{"TTL"}},
		"TTL negative":               {leases.Options{TTL: -time.Second}, []string{"TTL"}},
		"TTL of microseconds":        {leases.Options{TTL: time.Second + time.Microsecond}, []string{"TTL"}},
		"interval is the TTL":        {leases.Options{TTL: time.Second, Interval: time.Second}, []string{"TTL", "Interval"}},
		"no time for one failure":    {leases.Options{TTL: 1000 * ms, Interval: 601 * ms}, []string{"Interval", "StallTimeout", "Margin"}},
		"margin is too long":         {leases.Options{TTL: 1000 * ms, Margin: 451 * ms}, []string{"Interval", "StallTimeout", "Margin"}},
		"stall is too long":          {leases.Options{TTL: 1000 * ms, StallTimeout: 651 * ms}, []string{"Interval", "StallTimeout", "Margin"}},
		"lock reaches the statement": {leases.Options{LockTimeout: time.Second, StatementTimeout: time.Second}, []string{"LockTimeout", "StatementTimeout"}},
		"statement reaches stall":    {leases.Options{StatementTimeout: 6 * time.Second, StallTimeout: 6 * time.Second}, []string{"StatementTimeout", "StallTimeout"}},
		"negative interval":          {leases.Options{Interval: -time.Second}, []string{"Interval"}},
		"negative poll":              {leases.Options{Poll: -time.Second}, []string{"Poll"}},
		"negative margin":            {leases.Options{Margin: -time.Second}, []string{"Margin"}},
		"idle of microseconds":       {leases.Options{IdleTimeout: time.Microsecond}, []string{"IdleTimeout"}},
		"holder of two lines":        {leases.Options{Holder: "a\nb"}, []string{"Holder"}},
		"holder is no UTF-8":         {leases.Options{Holder: "\xff"}, []string{"Holder"}},
		"holder has a zero byte":     {leases.Options{Holder: "a\x00b"}, []string{"Holder"}},
		"holder is too long":         {leases.Options{Holder: strings.Repeat("x", 201)}, []string{"Holder"}},
	} {
		wantRefused(t, name, leases.New(client, "job", test.opts), test.names...)
	}
	for _, name := range []string{"", "a\nb", "a\x00b", "\xff", strings.Repeat("x", 201), "a\x7fb"} {
		wantRefused(t, "name "+name, leases.New(client, name, leases.Options{}), "name")
		_, err := leases.ForceRelease(t.Context(), client, name, 1)
		as[*hare.QueryError](t, err)
	}
	wantRefused(t, "no client", leases.New(nil, "job", leases.Options{}), "client")

	// The limits themselves are right, and so is the default.
	for _, opts := range []leases.Options{{}, {TTL: 100 * ms}, {TTL: 24 * time.Hour}, {TTL: 1000 * ms, Interval: 600 * ms}, {TTL: 1000 * ms, Margin: 450 * ms}} {
		opts.Logger = quiet
		err := second(p.lease(client, strings.Repeat("x", 200), opts).TryAcquire(t.Context()))
		var refused *hare.QueryError
		if errors.As(err, &refused) { // anything else is about the database, which need not answer in a few milliseconds
			t.Errorf("%+v: %v", opts, err)
		}
	}
}

// wantRefused asserts that each call of a lease is refused with an error that has the words.
func wantRefused(t *testing.T, what string, l *leases.Lease, words ...string) {
	t.Helper()
	for _, err := range []error{
		second(l.TryAcquire(t.Context())), second(l.Acquire(t.Context())), l.Stop(t.Context()),
		l.Run(t.Context(), func(context.Context, *leases.Term) error { t.Errorf("%s: it ran", what); return nil }),
	} {
		refused := as[*hare.QueryError](t, err)
		for _, word := range words {
			if !strings.Contains(refused.Reason, word) {
				t.Errorf("%s: %v does not name %s", what, refused, word)
			}
		}
	}
}

// A client that is bound to a transaction is refused: the lease would begin and end with it.
func TestClientOfATransaction(t *testing.T) {
	p := newPlace(t)
	conns, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{"main": p.url, "other": newPlace(t).url}})
	if err != nil {
		t.Fatal(err)
	}
	defer conns.Close()
	err = transactions.Distributed(within(t, conns), "main", []string{"other"}, func(d *hare.Distributed) error {
		wantRefused(t, "the coordinator's client", leases.New(d.Coordinator(), "job", leases.Options{}), "transaction")
		wantRefused(t, "a client that is none", leases.New(d.Client("nobody"), "job", leases.Options{}), "transaction")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// An acquisition inside a transaction is not part of it, and does not wait for its connection, nor for any of the pool.
func TestAcquisitionInsideATransaction(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	watch := p.session()
	conns, client := p.connect(p.url + "&max_size=1&pool_acquire_timeout=20s")
	l := p.lease(client, "job", quick())
	errStop := errors.New("stop")
	var term *leases.Term
	err := transactions.Atomic(within(t, conns), func(ctx context.Context) (err error) {
		if _, err := client.Exec(ctx, "CREATE TABLE note (token bigint)"); err != nil { // the connection is in use
			return err
		}
		if term, err = l.Acquire(ctx); err != nil {
			return err
		}
		return errStop
	})
	if !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	row := p.row(watch, "job")
	p.eventually("a renewal", func() bool { return p.row(watch, "job") != row })
	if err := term.Err(); err != nil {
		t.Error(err)
	}
	// Nor is a release.
	err = transactions.Atomic(within(t, conns), func(ctx context.Context) error {
		if _, err := client.Exec(ctx, "CREATE TABLE note (token bigint)"); err != nil {
			return err
		}
		return errors.Join(term.Release(), errStop)
	})
	if !errors.Is(err, errStop) || !p.expired(watch, "job") {
		t.Errorf("released in a transaction that is rolled back: %v", err)
	}
}

// A term that is held does without a ctx what it can: it refuses to fence, and gives a ctx that has ended.
//
// Fault D12.
func TestTermWithoutContext(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.lease(p.client(), "job", quick())
	term, err := l.TryAcquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var none context.Context
	as[*hare.QueryError](t, term.Fence(none))
	ctx, cancel := term.Context(none)
	defer cancel()
	as[*hare.QueryError](t, context.Cause(ctx))
	as[*hare.QueryError](t, l.Stop(none))
	if err := term.Err(); err != nil {
		t.Errorf("the term is over: %v", err)
	}
}

// A fence outside a transaction, or in one on another database, is refused.
func TestFenceElsewhere(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	conns, err := hare.Open(t.Context(), hare.Config{Default: "main", Connections: map[string]string{"main": p.url, "other": newPlace(t).url}})
	if err != nil {
		t.Fatal(err)
	}
	defer conns.Close()
	client, err := conns.Client("main")
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t, conns)
	term := p.acquire(p.lease(client, "job", quick()))
	for what, err := range map[string]error{
		"no transaction":      term.Fence(ctx),
		"on another database": transactions.Atomic(ctx, term.Fence, transactions.Using("other")),
	} {
		refused := as[*hare.QueryError](t, err)
		if !strings.Contains(refused.Reason, "main") {
			t.Errorf("%s: %v", what, refused)
		}
	}
	if err := transactions.Atomic(ctx, term.Fence); err != nil {
		t.Error(err)
	}
	if err := term.Release(); err != nil {
		t.Fatal(err)
	}
	as[*leases.LeaseLostError](t, transactions.Atomic(ctx, term.Fence))
}
