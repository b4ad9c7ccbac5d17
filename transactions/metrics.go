package transactions

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// meter follows the provider that the application sets, also when it sets it later.
var meter = otel.Meter(scope)

// The instruments. docs/operations.md tells what each is good for.
var (
	transactionsEnded = made(meter.Int64Counter("hare.distributed.transactions", metric.WithUnit("{transaction}"),
		metric.WithDescription("Calls of transactions.Distributed that have ended, by outcome and by how far they came.")))
	phaseDuration = made(meter.Float64Histogram("hare.distributed.phase.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of each phase of a distributed transaction."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)))
	retries = made(meter.Int64Counter("hare.distributed.retries", metric.WithUnit("{retry}"),
		metric.WithDescription("Distributed transactions that were run again because the database asked for it.")))
	deliveryFailures = made(meter.Int64Counter("hare.distributed.delivery.failures", metric.WithUnit("{failure}"),
		metric.WithDescription("Failed tries of the second phase of a distributed transaction, and of its fence.")))
	recoveryPasses = made(meter.Int64Counter("hare.recovery.passes", metric.WithUnit("{pass}"),
		metric.WithDescription("Passes of recovery over all transactions of a coordinator, by result.")))
	recoveryActions = made(meter.Int64Counter("hare.recovery.actions", metric.WithUnit("{transaction}"),
		metric.WithDescription("Prepared transactions that recovery has acted on, by action and by how far it came.")))
)

// The gauges ask for what they tell when they are read.
func init() {
	made(meter.Float64ObservableGauge("hare.recovery.last_success.time", metric.WithUnit("s"),
		metric.WithDescription("Unix time of this process's last pass of recovery that was not stopped by a failure."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			return recent.each(func(coordinator string, p *lastPass) {
				o.Observe(float64(p.success.UnixMilli())/1000, metric.WithAttributes(coordinatorKey.String(coordinator)))
			})
		})))
	gauge("hare.distributed.unresolved", "{transaction}", "Decisions to commit that some participant may not have followed yet.",
		func(p *lastPass, observe observer) { observe(int64(p.unresolved)) })
	gauge("hare.recovery.unfinished", "{transaction}", "What recovery has found and left: to be finished, failed, or mixed.",
		func(p *lastPass, observe observer) {
			for _, state := range []State{StateNeeded, StateFailed, StateMixed} {
				observe(int64(p.left[state]), stateKey.String(string(state)))
			}
		})
	gauge("hare.recovery.unreachable", "{database}", "1 for a database that recovery could not look at, else 0.",
		func(p *lastPass, observe observer) {
			for _, d := range p.report.Databases {
				observe(0, databaseKey.String(d.Alias))
			}
			for _, u := range p.report.Unreachable {
				observe(1, databaseKey.String(u.Alias))
			}
		})
	databaseGauge("hare.prepared.slots.usage", "{slot}", "Prepared transactions on the server, whoever made them.",
		func(d DatabaseState) int64 { return int64(d.SlotsUsed) })
	databaseGauge("hare.prepared.slots.limit", "{slot}", "The server's max_prepared_transactions.",
		func(d DatabaseState) int64 { return int64(d.SlotsMax) })
	databaseGauge("hare.prepared.oldest.age", "s", "Age of the server's oldest prepared transaction.",
		func(d DatabaseState) int64 { return int64(d.Oldest / time.Second) })
	databaseGauge("hare.prepared.oldest.xact_age", "{transaction}", "Transactions that the server has begun since its oldest prepared one.",
		func(d DatabaseState) int64 { return d.XactAge })
}

// made is an instrument. OpenTelemetry gives one that works even where it has something to say against it.
func made[T any](instrument T, err error) T {
	if err != nil {
		otel.Handle(err)
	}
	return instrument
}

// gaugeLife is how long the gauges tell of a pass that no other has followed: longer than the usual time between two
// readings, and not so long that what one process found hides what another one finds now.
const gaugeLife = 5 * time.Minute

// lastPass is what the last pass of recovery over all transactions of a coordinator has found.
type lastPass struct {
	success    time.Time // when it was
	until      time.Time // when it is of no more interest
	report     Report
	unresolved int // after it
	left       map[State]int
}

// passes are the last ones of each coordinator, by alias. The gauges read them.
type passes struct {
	sync.Mutex
	last map[string]*lastPass
}

var recent = &passes{last: map[string]*lastPass{}}

func (s *passes) each(observe func(coordinator string, p *lastPass)) error {
	s.Lock()
	defer s.Unlock()
	for coordinator, p := range s.last {
		observe(coordinator, p)
	}
	return nil
}

// fresh is each of those that still tell something at the time.
func (s *passes) fresh(now time.Time, observe func(coordinator string, p *lastPass)) error {
	return s.each(func(coordinator string, p *lastPass) {
		if now.Before(p.until) {
			observe(coordinator, p)
		}
	})
}

// observer takes one value of a gauge, and what it is of besides the coordinator.
type observer func(value int64, of ...attribute.KeyValue)

// gauge is one that tells of the last pass of each coordinator while it is fresh.
func gauge(name, unit, description string, tell func(p *lastPass, observe observer)) {
	made(meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			return recent.fresh(time.Now(), func(coordinator string, p *lastPass) {
				tell(p, func(value int64, of ...attribute.KeyValue) {
					o.Observe(value, metric.WithAttributes(append(of, coordinatorKey.String(coordinator))...))
				})
			})
		})))
}

// databaseGauge is one that tells of each database that was looked at.
func databaseGauge(name, unit, description string, value func(d DatabaseState) int64) {
	gauge(name, unit, description, func(p *lastPass, observe observer) {
		for _, d := range p.report.Databases {
			observe(value(d), databaseKey.String(d.Alias))
		}
	})
}
