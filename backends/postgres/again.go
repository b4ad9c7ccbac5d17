package postgres

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/hare-go/hare/hare/backend"
)

// A guard that was in force at the first use can be gone later: a default of the role has changed, a pooler was reloaded.
// So each session of the pool is asked in its first message, ahead of what the call sends, and behind a pooler, where the
// server's session changes unnoticed, one call a minute takes the question with it in the same way. No call makes a
// round trip for it, and none waits longer than the question takes.
//
// What travels with the question cannot be called back, but what comes after it can: the statement of a call whose first
// message only prepared it, and every later one. From then on each call asks before it sends anything, until the guard is
// back. The end of a transaction is never refused, and neither are connections outside the pool: a lease is renewed and a
// decision delivered whatever has become of statement_timeout.

// askEvery is how long a pooler's answer is believed. Tests shorten it.
var askEvery = time.Minute

// guarded is what is known of the guards in the session at the other end of a wire.
type guarded struct {
	database *database
	row      []string       // of the answer that is being read
	known    bool           // it has answered
	missing  *backend.Error // what it had not when it was asked last
}

// guardMissing is a gauge, so that it tells how things are and not how often they were looked at.
var guardMissing = gauge(otel.Meter("github.com/hare-go/hare/backends/postgres").Int64Gauge("hare.guard.missing", metric.WithUnit("{guard}"),
	metric.WithDescription("1 for a setting that the URL of a database asks for and the server did not have when it was asked last, else 0.")))

// gauge is an instrument. OpenTelemetry gives one that works even where it has something to say against it.
func gauge(g metric.Int64Gauge, err error) metric.Int64Gauge {
	if err != nil {
		otel.Handle(err)
	}
	return g
}

// watch sees to it that the session of a connection that the pool has given is asked for the guards when it is time.
func (d *database) watch(ctx context.Context, c opened, w *way) error {
	line := wireOf(c.Conn().PgConn())
	switch {
	case line.missing != nil, d.missing.Load() != nil && (w.shared() || !line.known):
		return d.askNow(ctx, c)
	case !line.known, w.pooler != backend.PoolingNone && d.due():
		line.send(d.question)
	}
	return nil
}

// due reports whether it is time to ask, to one caller.
func (d *database) due() bool {
	now, last := int64(time.Since(d.opened)), d.asked.Load()
	return now-last >= int64(askEvery) && d.asked.CompareAndSwap(last, now)
}

// askNow asks in a round trip of its own, because a guard was missing, and closes the connection if it still is.
func (d *database) askNow(ctx context.Context, c opened) error {
	bounded, cancel := context.WithTimeout(ctx, d.options.connectTimeout)
	defer cancel()
	pg := c.Conn().PgConn()
	answer, err := simple(bounded, pg, d.question)
	if err == nil {
		d.heard(wireOf(pg), answer.Row)
		if missing := wireOf(pg).missing; missing != nil {
			err = missing
		}
	}
	if err != nil {
		closeAtOnce(c.Hijack())
		return notDone(err)
	}
	return nil
}

// answered is an [examiner] of the answer to the question. It keeps from pgx what pgx has not asked for.
func (w *wire) answered(kind byte, body []byte) (bool, examiner, error) {
	switch kind {
	case 'T', 'C', 'I':
		return false, w.answered, nil
	case 'D':
		var row pgproto3.DataRow
		if row.Decode(body) == nil {
			w.row = asText(row.Values)
		}
		return false, w.answered, nil
	case 'E':
		var refusal pgproto3.ErrorResponse
		ends := refusal.Decode(body) != nil || endsSession(pgconn.ErrorResponseToPgError(&refusal))
		if ends { // of the connection, which is the call's matter
			return true, nil, nil
		}
		return false, w.answered, nil
	case 'Z':
		w.database.heard(w, w.row)
		w.row = nil
		return false, nil, nil
	}
	return true, w.answered, nil // a notice, a changed setting
}

// heard takes an answer to the question. What is none leaves things as they were.
func (d *database) heard(w *wire, answer []string) {
	if len(answer) != 3+len(d.options.guards) {
		return
	}
	w.known = true
	w.missing = d.compare(guardsFound(d.options, answer[3:]), answer[1])
}

// compare tells of the guards that are not in force, by the metric and once by the log, and returns the error for the first.
func (d *database) compare(guards []backend.Guard, role string) *backend.Error {
	d.asked.Store(int64(time.Since(d.opened)))
	var missing *backend.Error
	var first *backend.Guard
	for _, g := range guards {
		n := int64(0)
		if !g.InForce() {
			n = 1
			if missing == nil {
				missing, first = notInForce(g, role), &g
			}
		}
		guardMissing.Record(context.Background(), n, metric.WithAttributes(
			attribute.String("hare.database", d.alias), attribute.String("hare.guard", g.Name)))
	}
	before := d.missing.Swap(first)
	switch {
	case first != nil && (before == nil || *before != *first):
		slog.Default().Warn("a guard of the URL is not in force: calls are refused until it is back",
			"alias", d.alias, "reason", missing.Message)
	case first == nil && before != nil:
		slog.Default().Info("the guards of the URL are in force again", "alias", d.alias)
	}
	return missing
}

// unguarded is the error for a statement in a session that has not what the URL asks for. The connection is closed, and with
// it what the transaction has done, if there is one.
func (s *session) unguarded() error {
	if s.wire.missing == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.pg.Close(ctx) // the socket is closed whatever the error
	return s.wire.missing
}
